"""``memorisk watch``: arguments, handed on. Loads nothing heavy until it runs."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.watch.options import WatchOptions
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings

SWITCH = Annotated[bool, Parameter(negative="")]
_WATCH = WatchOptions()


def watch(
    training: str,
    *,
    train: str | None = None,
    held_out: str | None = None,
    out: Path | None = None,
    follow: SWITCH = False,
    stop: SWITCH = False,
    poll: float = 5.0,
    dry_run: SWITCH = False,
    print_config: SWITCH = False,
    json: AS_JSON = False,
    options: Annotated[WatchOptions, FLAT] = _WATCH,
) -> int:
    """Look at a generator in training, or afterwards: does it begin to memorize?

    Figures, rules and what they mean are in docs/watch.md. The exit code is 1 where the rule of --stop-on says stop.

    Parameters
    ----------
    training
        A run of `train generator`, or the folder of your own training with a folder of images for each step, as
        step-1000.
    train
        The images it is trained on, as for `audit classifier`; of a run its own.
    held_out
        Images of patients whom it does not see; of a run its validation images.
    out
        Folder for looks and report: new, empty, or this watch to go on with; of a run `watch` in it.
    follow
        Go on looking until TRAINING holds a training.json.
    stop
        Write stop.json when the rule says so: into a run, which then ends at its next look, else into OUT.
    poll
        Seconds between two visits with --follow.
    dry_run
        Print what would be looked at, draw nothing.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print all looks as JSON.
    """
    given = {"train": train, "held_out": held_out, "out": out}
    if print_config:
        return print_settings({"training": training, **given, **asdict(options)})
    from memorisk.audits.watch.running import plan_watch, watch_training
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.watch import show_look, show_watch_plan, show_watched

    given |= {field.name: getattr(options, field.name) for field in fields(options)}
    if dry_run:
        with progress_bar() as progress:
            plan = plan_watch(training, follow=follow, progress=progress, **given)
        show_watch_plan(plan, as_json=json)
        return 0
    how = {"follow": follow, "stop": stop, "poll": poll, "on_look": None if json or not follow else show_look}
    with progress_bar() as progress:
        found = watch_training(training, progress=progress, **how, **given)
    show_watched(found, as_json=json)
    if options.redact:
        note_redacted(found.folder / "report.html")
    return 0 if found.stop is None else 1
