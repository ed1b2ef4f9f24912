"""Settings on the command line: the parts that its commands share. Loads nothing heavy."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from memorisk.report.kinds import RunKind, load_part
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line
from memorisk.runs.settings import setting_names

SWITCH = Annotated[bool, Parameter(negative="")]
AS_JSON = Annotated[bool, Parameter(name="--json", negative="", help="Print the result as JSON.")]
PRINT_CONFIG = Annotated[bool, Parameter(negative="", help="Print the settings as YAML for --config, and run nothing.")]
DRY_RUN = Annotated[bool, Parameter(negative="", help="Print the plan and its cost, and run nothing.")]
DRAWING_DRY_RUN = Annotated[
    bool, Parameter(negative="", help="Draw one batch, print the plan and its cost, and write nothing.")
]
TABLES_ONLY = Annotated[bool, Parameter(negative="", help="Lay out the finished results, and run nothing.")]
RESUMED_FOLDER = Annotated[
    Path, Parameter(help="Run folder: new, empty, or that of a run of the same command, which is resumed.")
]
REWRITTEN_FOLDER = Annotated[
    Path, Parameter(help="Run folder: new, empty, or that of a run of the same command, which is written again.")
]
_SOURCE = 'Folder of class folders, CSV or Parquet manifest, npz, npy, HDF5, DICOM tree, or "digits" (built in).'
IMAGES = Annotated[str, Parameter(help=_SOURCE)]
UNLABELLED_IMAGES = Annotated[str, Parameter(help=f"{_SOURCE} Labels are not needed.")]
TRAINED_ON = Parameter(help="Images that the generator was trained on, of any kind that `audit classifier` reads.")
DRAWN_IMAGES = Annotated[str, Parameter(help="Images that the generator drew: a folder, a table, .npy or .npz.")]
PATHS = Annotated[tuple[Path, ...], Parameter(negative="", consume_multiple=True)]
EXECUTOR = Annotated[
    Literal["local", "dask"] | None,
    Parameter(help="Run the trainings there, instead of where the file says (docs/cluster.md)."),
]
CLUSTER = Annotated[str | None, Parameter(help="Address of the cluster, as in tcp://HOST:8786.")]
FLAT = Parameter(name="*")
ResultT = TypeVar("ResultT")


def settings_as_keywords(options: Any) -> dict[str, Any]:
    """Return a dataclass of settings as keywords; `dataclasses.asdict` would take apart nested dataclasses."""
    return {name: getattr(options, name) for name in setting_names(options)}


def with_progress_bar(run: Callable[..., ResultT], *given: Any, **settings: Any) -> ResultT:
    """Return what a function with ``progress`` gives, a bar shown meanwhile."""
    from memorisk.cli.show.common import progress_bar

    with progress_bar() as progress:
        return run(*given, progress=progress, **settings)


def with_executor(config: dict[str, Any], executor: EXECUTOR, cluster: str | None) -> dict[str, Any]:
    """Return a study's file with another place for its jobs, where one is given."""
    changes = {name: value for name, value in (("executor", executor), ("cluster", cluster)) if value is not None}
    settings = config.get("settings") or {}
    return {**config, "settings": {**settings, **changes}} if changes and isinstance(settings, dict) else config


def run_command(
    kind: RunKind, given: Mapping[str, Any], out: Path, options: Any, *, json: bool, print_config: bool, **dry: bool
) -> int:
    """Run the audit of a kind, show what it gives, and return the exit code.

    Args:
        kind: Kind of the audit.
        given: Arguments before the settings, by name.
        out: The run folder.
        options: Settings.
        json: Print JSON.
        print_config: Print the settings, and run nothing.
        **dry: ``dry_run``, where the audit has one.
    """
    if print_config:
        return print_settings({**given, "out": str(out), **asdict(options)})
    from memorisk.cli.show.runs import show_outcome, show_plan

    settings = settings_as_keywords(options)
    outcome = with_progress_bar(load_part(kind.function), *given.values(), out=out, **dry, **settings)
    if dry.get("dry_run"):
        show_plan(outcome, as_json=json)
        return 0
    show_outcome(outcome, kind.name, out, as_json=json)
    status = getattr(outcome, "status", None)
    if status is None:
        return 0
    return audit_exit_code(status, out / "report.html", fail_on=options.fail_on, redact=options.redact)


def audit_exit_code(status: str, report: Path, *, fail_on: str, redact: bool) -> int:
    """Return the exit code of a finished audit: 0 if it passed, or if nothing fails it; a redacted report is named.

    Args:
        status: pass, fail or undecided.
        report: Report of the audit.
        fail_on: Name of what fails the audit; nothing does with ``never``.
        redact: Whether the report is redacted.
    """
    if redact:
        note_redacted(report)
    return 0 if fail_on == "never" or status == "pass" else 1


def note_redacted(report: Path) -> None:
    """Say on standard error which file leaves out ids and images, and that its folder does not."""
    what = "leaves out ids and images: pass on that file alone, the run folder still holds them"
    sys.stderr.write(f"Only {one_line(report)} {what}\n")


def set_function_folder(settings: dict[str, Any], name: str, file: Path) -> None:
    """Set where the user's own functions are found, if the settings do not say: in the folder of their file.

    Args:
        settings: Settings, changed in place.
        name: ``python-path``, as it is written in them.
        file: File that holds the settings.
    """
    settings.setdefault(name, [str(file.absolute().parent)])


def read_yaml(path: Path, *, flags: bool = True) -> dict[str, Any]:
    """Return the settings in a file, by the names of their flags, or as they are written.

    Raises:
        InputError: It cannot be read, is not YAML, or holds no settings.
    """
    import json

    import yaml

    from memorisk.runs.yaml_files import parse_yaml, read_yaml_text

    try:
        settings = parse_yaml(read_yaml_text(path))
    except InputError as error:
        raise InputError(f"--config {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--config {one_line(path)} cannot be read: {one_line(error, 120)}") from None
    except (yaml.YAMLError, *CONTENT_ERRORS) as error:  # also dates that do not exist, and lists a thousand deep
        reason = one_line(" ".join(str(error).split()), 200)
        raise InputError(f"--config {one_line(path)} is not YAML: {reason}") from None
    if not isinstance(settings, dict):
        raise InputError(f"--config {one_line(path)} holds no settings: it needs lines like 'models: 16'")
    try:
        json.dumps(settings, default=str)
    except (ValueError, RecursionError):
        raise InputError(f"--config {one_line(path)} holds a number without end") from None
    settings.pop("run", None)  # the identity that a run folder's own config.yaml also holds
    return {str(k).replace("_", "-") if flags else str(k): v for k, v in settings.items() if v is not None}


def print_settings(settings: dict[str, Any]) -> int:
    """Write settings as YAML that ``--config`` reads."""
    from memorisk.runs.files import json_value
    from memorisk.runs.yaml_files import dump_yaml

    sys.stdout.write(dump_yaml(json_value(settings)))
    return 0
