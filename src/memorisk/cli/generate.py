"""``memorisk generate``: arguments, handed on. Loads nothing heavy until it runs."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.cli.settings import AS_JSON, FLAT, print_settings
from memorisk.training.generators.drawing.options import GenerateOptions

_GENERATE = GenerateOptions()


def generate(
    generator: str,
    out: Path,
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[GenerateOptions, FLAT] = _GENERATE,
) -> int:
    """Draw a set of images from a generator, each of which can be made again alone.

    Parameters
    ----------
    generator
        A folder of `train generator`, or your own function as module:function (docs/generate.md).
    out
        Run folder: new, empty, or a run of the same command to go on with. `audit synthetic` and `filter` read it.
    dry_run
        Draw one batch; print how many images of each class, seconds and bytes it would take. Nothing is written.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print what was drawn as JSON.
    """
    if print_config:
        return print_settings({"generator": generator, "out": str(out), **asdict(options)})
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.generate import show_generate_plan, show_generated
    from memorisk.training.generators.drawing.generating import generate as run
    from memorisk.training.generators.drawing.generating import plan_generate

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    if dry_run:
        show_generate_plan(plan_generate(generator, out, **settings), as_json=json)
        return 0
    with progress_bar() as progress:
        made = run(generator, out, progress=progress, **settings)
    show_generated(made, as_json=json)
    return 0
