"""``memorisk generate``, ``filter``, ``synthesize``, ``quality``: synthetic sets; arguments, handed on.

Loads nothing heavy until a command runs.
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.filter.options import FilterOptions
from memorisk.audits.quality.options import QualityOptions
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings
from memorisk.runs.errors import InputError
from memorisk.training.generators.options import GenerateOptions

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
    from memorisk.cli.show.synthetic_sets import show_generate_plan, show_generated_set
    from memorisk.training.generators.generation import generate as run
    from memorisk.training.generators.generation import plan_generate

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    if dry_run:
        show_generate_plan(plan_generate(generator, out, **settings), as_json=json)
        return 0
    with progress_bar() as progress:
        made = run(generator, out, progress=progress, **settings)
    show_generated_set(made, as_json=json)
    return 0


_FILTER = FilterOptions()


def filter_set(
    train: str,
    synthetic: str,
    out: Path,
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[FilterOptions, FLAT] = _FILTER,
) -> int:
    """Write a synthetic set without the images that a detector takes for copies, with a guarantee or not at all.

    Parameters
    ----------
    train
        The images that the generator was trained on: as for `audit classifier`.
    synthetic
        The images that it made: a folder, a table, .npy or .npz.
    out
        Folder for the kept set and the report: new, empty, or this filter to write again.
    dry_run
        Print what would be compared and could be promised, compute no features.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the verdict as JSON.
    """
    if print_config:
        return print_settings({"train": train, "synthetic": synthetic, "out": str(out), **asdict(options)})
    from memorisk.audits.filter.run import FilterPlan, filter_synthetic
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.synthetic_sets import show_filter, show_filter_plan

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    with progress_bar() as progress:
        found = filter_synthetic(train, synthetic, out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(found, FilterPlan):
        show_filter_plan(found, as_json=json)
        return 0
    show_filter(found, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return 0 if options.fail_on == "never" or found.status == "pass" else 1


_SYNTHESIZE = SynthesizeOptions()


def synthesize_set(
    train: str | None = None,
    out: Path | None = None,
    *,
    table: Annotated[tuple[Path, ...], Parameter(negative="", consume_multiple=True)] = (),
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[SynthesizeOptions, FLAT] = _SYNTHESIZE,
) -> int:
    """Draw images from a generator until enough pass: what a detector takes for a copy is rejected and drawn again.

    Parameters
    ----------
    train
        The images that the generator was trained on: as for `audit classifier`.
    out
        Folder for the kept set, the ledger and the report: new, empty, or this run to go on with.
    table
        Instead of a run: put these finished runs together as paper 004's table 3.
    dry_run
        Draw one batch; print what could be promised, and how long it would take. Nothing is written.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the verdict as JSON.
    """
    if table:
        return _table(table, train, as_json=json)
    if train is None or out is None:
        raise InputError("synthesize needs TRAIN and OUT: the training images, and a folder for what is kept")
    if print_config:
        return print_settings({"train": train, "out": str(out), **asdict(options)})
    from memorisk.audits.synthesize.plan import SynthesizePlan
    from memorisk.audits.synthesize.run import synthesize
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.synthetic_sets import show_synthesis, show_synthesis_plan

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    with progress_bar() as progress:
        found = synthesize(train, out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(found, SynthesizePlan):
        show_synthesis_plan(found, as_json=json)
        return 0
    show_synthesis(found, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return 0 if options.fail_on == "never" or found.status == "pass" else 1


def _table(runs: tuple[Path, ...], train: str | None, *, as_json: bool) -> int:
    """Finished runs, put together."""
    if train is not None:
        raise InputError("table puts finished runs together: leave TRAIN and OUT out")
    from memorisk.audits.synthesize.table_three import table_three
    from memorisk.cli.show.synthetic_sets import show_table_three

    show_table_three(table_three(runs), as_json=as_json)
    return 0


_QUALITY = QualityOptions()


def quality(
    train: str,
    synthetic: str,
    *,
    out: Path,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[QualityOptions, FLAT] = _QUALITY,
) -> int:
    """Measure how good synthetic images are (FID, KID, precision, ...), beside held-out real images.

    Parameters
    ----------
    train
        The images that the generator was trained on: as for `audit classifier`.
    synthetic
        The images that it made.
    out
        Run folder: new, empty, or this command's to write again.
    dry_run
        Print what would be measured, compute no features.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the figures as JSON.
    """
    if print_config:
        return print_settings({"train": train, "synthetic": synthetic, "out": str(out), **asdict(options)})
    from memorisk.audits.quality.run import QualityPlan, assess_quality
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.synthetic_sets import show_quality, show_quality_plan

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    with progress_bar() as progress:
        found = assess_quality(train, synthetic, out=out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(found, QualityPlan):
        show_quality_plan(found, as_json=json)
        return 0
    show_quality(found, as_json=json)
    return 0
