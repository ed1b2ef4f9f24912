"""``memorisk generate``, ``filter``, ``synthesize``, ``quality``: synthetic sets; arguments, handed on.

Loads nothing heavy until a command runs.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from memorisk.audits.filter.options import FilterOptions
from memorisk.audits.quality.options import QualityOptions
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.cli.settings import (
    AS_JSON,
    DRAWING_DRY_RUN,
    DRAWN_IMAGES,
    DRY_RUN,
    FLAT,
    PATHS,
    PRINT_CONFIG,
    RESUMED_FOLDER,
    REWRITTEN_FOLDER,
    TRAINED_ON,
    print_settings,
    run_command,
    settings_as_keywords,
    with_progress_bar,
)
from memorisk.report.kinds import kind_of
from memorisk.runs.errors import InputError
from memorisk.training.generators.options import GenerateOptions

_GENERATE = GenerateOptions()


def generate(
    generator: str,
    out: RESUMED_FOLDER,
    *,
    dry_run: DRAWING_DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[GenerateOptions, FLAT] = _GENERATE,
) -> int:
    """Draw a set of images from a generator; each can be drawn again alone.

    `audit synthetic` and `filter` read OUT.

    Parameters
    ----------
    generator
        Folder of `train generator`, or your own function as module:function (docs/generate.md).
    """
    if print_config:
        return print_settings({"generator": generator, "out": str(out), **asdict(options)})
    from memorisk.cli.show.generators import show_generate_plan, show_generated_set
    from memorisk.training.generators.generation import generate as run
    from memorisk.training.generators.generation import plan_generate

    settings = settings_as_keywords(options)
    if dry_run:
        show_generate_plan(plan_generate(generator, out, **settings), as_json=json)
        return 0
    show_generated_set(with_progress_bar(run, generator, out, **settings), as_json=json)
    return 0


_FILTER = FilterOptions()


def filter_set(
    train: Annotated[str, TRAINED_ON],
    synthetic: DRAWN_IMAGES,
    out: Path,
    *,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[FilterOptions, FLAT] = _FILTER,
) -> int:
    """Remove copies of training images from a synthetic set, with a guarantee.

    Parameters
    ----------
    out
        Folder for the kept set and the report: new, empty, or that of the same filter, which is written again.
    """
    kind, sources = kind_of("filter"), {"train": train, "synthetic": synthetic}
    return run_command(kind, sources, out, options, json=json, print_config=print_config, dry_run=dry_run)


_SYNTHESIZE = SynthesizeOptions()


def synthesize_set(
    train: Annotated[str | None, TRAINED_ON] = None,
    out: Path | None = None,
    *,
    table: PATHS = (),
    dry_run: DRAWING_DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[SynthesizeOptions, FLAT] = _SYNTHESIZE,
) -> int:
    """Draw images from a generator until enough pass a detector of copies.

    An image that the detector takes for a copy is rejected, and another is drawn in its place.

    Parameters
    ----------
    out
        Folder for the kept set, the ledger and the report: new, empty, or that of the same run, which is resumed.
    table
        Combine these finished runs into paper 004's table 3, instead of a new run.
    """
    if table:
        return _table(table, train, as_json=json)
    if train is None or out is None:
        raise InputError("synthesize needs TRAIN and OUT: the training images, and a folder for what is kept")
    kind, sources = kind_of("synthesize"), {"train": train}
    return run_command(kind, sources, out, options, json=json, print_config=print_config, dry_run=dry_run)


def _table(runs: tuple[Path, ...], train: str | None, *, as_json: bool) -> int:
    """Return the finished runs, put together."""
    if train is not None:
        raise InputError("table puts finished runs together: leave TRAIN and OUT out")
    from memorisk.audits.synthesize.table_three import table_three
    from memorisk.cli.show.generators import show_table_three

    show_table_three(table_three(runs), as_json=as_json)
    return 0


_QUALITY = QualityOptions()


def quality(
    train: Annotated[str, TRAINED_ON],
    synthetic: DRAWN_IMAGES,
    *,
    out: REWRITTEN_FOLDER,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[QualityOptions, FLAT] = _QUALITY,
) -> int:
    """Measure the quality of synthetic images (FID, KID, precision, ...) beside held-out real images."""
    kind, sources = kind_of("quality"), {"train": train, "synthetic": synthetic}
    return run_command(kind, sources, out, options, json=json, print_config=print_config, dry_run=dry_run)
