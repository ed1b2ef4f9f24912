"""``memorisk quality``: arguments, handed on. Loads nothing heavy until it runs."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.quality.options import QualityOptions
from memorisk.cli.settings import AS_JSON, FLAT, print_settings

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
    from memorisk.audits.quality.quality import QualityPlan, assess_quality
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.quality import show_quality, show_quality_plan

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    with progress_bar() as progress:
        found = assess_quality(train, synthetic, out=out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(found, QualityPlan):
        show_quality_plan(found, as_json=json)
        return 0
    show_quality(found, as_json=json)
    return 0
