"""``memorisk filter``: arguments, handed on. Loads nothing heavy until it runs."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.filter.options import FilterOptions
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings

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
    from memorisk.audits.filter.filtering import filter_synthetic
    from memorisk.audits.filter.plan import FilterPlan
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.filter import show_filter, show_filter_plan

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
