"""``memorisk synthesize``: arguments, handed on. Loads nothing heavy until it runs."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings
from memorisk.runs.errors import InputError

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
    from memorisk.audits.synthesize.synthesizing import synthesize
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.synthesize import show_loop, show_loop_plan

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    with progress_bar() as progress:
        found = synthesize(train, out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(found, SynthesizePlan):
        show_loop_plan(found, as_json=json)
        return 0
    show_loop(found, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return 0 if options.fail_on == "never" or found.status == "pass" else 1


def _table(runs: tuple[Path, ...], train: str | None, *, as_json: bool) -> int:
    """Finished runs, put together."""
    if train is not None:
        raise InputError("table puts finished runs together: leave TRAIN and OUT out")
    from memorisk.audits.synthesize.table_three import table_three
    from memorisk.cli.show.synthesize import show_table_three

    show_table_three(table_three(runs), as_json=as_json)
    return 0
