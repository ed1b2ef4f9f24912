"""``memorisk audit synthetic``: arguments, handed on. Loads nothing heavy until it runs."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings

_SYNTHETIC = SyntheticOptions()


def synthetic(
    train: str,
    synthetic: str,
    *,
    out: Path,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[SyntheticOptions, FLAT] = _SYNTHETIC,
) -> int:
    """Audit whether synthetic images copy the patients that their generator was trained on.

    Parameters
    ----------
    train
        The images that the generator was trained on: as for `audit classifier`.
    synthetic
        The images that it made, all that are to be released.
    out
        Run folder: new, empty, or this audit to write again.
    dry_run
        Print what would be compared and could be said, compute no features.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the verdict as JSON.
    """
    if print_config:
        return print_settings({"train": train, "synthetic": synthetic, "out": str(out), **asdict(options)})
    from memorisk.audits.synthetic.audit import audit_synthetic
    from memorisk.audits.synthetic.plan import SyntheticPlan
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.synthetic import show_synthetic, show_synthetic_plan

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    with progress_bar() as progress:
        found = audit_synthetic(train, synthetic, out=out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(found, SyntheticPlan):
        show_synthetic_plan(found, as_json=json)
        return 0
    show_synthetic(found, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return 0 if options.fail_on == "never" or found.status == "pass" else 1
