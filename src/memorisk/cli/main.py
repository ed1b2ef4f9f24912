"""The command line: arguments to the same functions that Python calls.

Thin and quick: nothing heavier than cyclopts is imported until a command runs. Exit codes (DESIGN, "What a person
types"): 0 passed; 1 the gate failed or could not be decided; 2 bad input or usage, one line, nothing written; 3 the
run broke.
"""

import errno
import os
import re
import sys
import traceback
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, ArgumentCollection, CycloptsError, Group, Parameter
from cyclopts.config import Dict

from memorisk import __version__
from memorisk.audits.classifier.options import WORKER_MODULES, ClassifierOptions, LossesOptions
from memorisk.audits.feature.options import FeatureOptions
from memorisk.audits.filter.options import FilterOptions
from memorisk.audits.quality.options import QualityOptions
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.watch.options import WatchOptions
from memorisk.cli.audits import explain, feature, mark, synthetic, watch
from memorisk.cli.benchmarks import bench_app, plan_app
from memorisk.cli.release import gate, release, statement, track
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings, read_yaml, set_function_folder
from memorisk.cli.synthetic_sets import filter_set, generate, quality, synthesize_set
from memorisk.cli.training import study_app, train_app
from memorisk.cli.urls import local_arguments
from memorisk.images.options import ImageOptions
from memorisk.runs.errors import FULL_DISK_CODES, RESUME_HINT, InputError, MemoriskError, one_line
from memorisk.runs.processes import INTERRUPTED, leave_current_folder, prompt_interrupt
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.pairs.options import BenchCopiesOptions, BenchReidOptions
from memorisk.training.engine.options import TrainClassifierOptions
from memorisk.training.generators.options import GenerateOptions

STOPPED = f"stopped; {RESUME_HINT}"

app = App(
    name="memorisk",
    version=__version__,
    help="What does an image model remember of the people in its training data?",
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
audit_app = App(name="audit", help="Audit a model or a set of synthetic images: which patients does it expose?")
images_app = App(name="images", help="Look at images before any GPU hour is spent.")
app.command(audit_app)
app.command(train_app)
app.command(study_app)
app.command(bench_app)
app.command(images_app)
app.command(explain)
app.command(filter_set, name="filter")
app.command(quality)
app.command(generate)
app.command(synthesize_set, name="synthesize")
app.command(watch)
app.command(plan_app)
app.command(statement)
app.command(gate)
app.command(release)
app.command(track)
audit_app.command(feature)
audit_app.command(synthetic)
images_app.command(mark)
app.meta.group_parameters = Group("Everywhere", sort_key=0)
app.meta.suppress_keyboard_interrupt = False

_CLASSIFIER, _LOSSES, _IMAGES = ClassifierOptions(), LossesOptions(), ImageOptions()


@audit_app.command(name="classifier")
def classifier(
    images: str,
    *,
    out: Path,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[ClassifierOptions, FLAT] = _CLASSIFIER,
) -> int:
    """Train twin models on your images and say which patients they expose.

    Parameters
    ----------
    images
        Folder of class folders, CSV or Parquet manifest, npz, npy, HDF5, DICOM tree, or "digits" (built in).
    out
        Run folder: new, empty, or a run of the same audit to go on with.
    dry_run
        Print the plan and its cost, train nothing.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the verdict as JSON.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    if options.processes != 1 and not dry_run:
        from memorisk.runs.executors.pool import prepare_workers

        prepare_workers(*WORKER_MODULES)  # they import PyTorch while this process does
    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    if len(options.arms) > 1 or _holds_regimes(out):
        return _regimes(images, out, settings, dry_run=dry_run, as_json=json)
    from memorisk.audits.classifier.dry_run import DryRun
    from memorisk.audits.classifier.run import audit_classifier
    from memorisk.cli.show.common import progress_bar, show_dry_run, show_result

    with progress_bar() as progress:
        result = audit_classifier(images, out=out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(result, DryRun):
        show_dry_run(result, as_json=json)
        return 0
    show_result(result, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return _exit_code(result.verdict)


def _holds_regimes(out: Path) -> bool:
    """Whether regimes lie side by side there: one more joins them."""
    try:
        return (out / "defence.json").is_file()
    except OSError:  # no name for a folder: the audit says so
        return False


def _regimes(images: str, out: Path, settings: dict[str, Any], *, dry_run: bool, as_json: bool) -> int:
    """Audit several regimes side by side; 0 only where each of them passed."""
    from memorisk.audits.classifier.retraining.defences import audit_defences, plan_defences
    from memorisk.cli.show.common import progress_bar, show_dry_run
    from memorisk.cli.show.training import show_defences

    if dry_run:
        with progress_bar() as progress:
            plans = plan_defences(images, out=out, progress=progress, **settings)
        for plan in plans.values():
            show_dry_run(plan, as_json=as_json)
        return 0
    with progress_bar() as progress:
        found = audit_defences(images, out=out, progress=progress, **settings)
    show_defences(found, out, as_json=as_json)
    return 0 if settings["fail_on"] == "never" or found.passed else 1


@audit_app.command(name="losses")
def losses(
    file: Path,
    *,
    out: Path,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[LossesOptions, FLAT] = _LOSSES,
) -> int:
    """Audit models trained elsewhere, in any framework, from their per-image losses.

    Parameters
    ----------
    file
        Parquet or CSV table, a row per image and model (docs/losses.md).
    out
        Run folder: new or empty.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the verdict as JSON.
    """
    if print_config:
        return print_settings({"file": str(file), "out": str(out), **asdict(options)})
    from memorisk.audits.classifier.losses import audit_losses
    from memorisk.cli.show.common import show_result

    result = audit_losses(file, out=out, **{f.name: getattr(options, f.name) for f in fields(options)})
    show_result(result, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return _exit_code(result.verdict)


@images_app.command(name="check")
def check(
    images: str,
    *,
    json: AS_JSON = False,
    options: Annotated[ImageOptions, FLAT] = _IMAGES,
) -> int:
    """List what is unreadable, empty, duplicated, leaking between splits or groups, and count classes and groups.

    The exit code is 1 when something was found that would spoil an audit.

    Parameters
    ----------
    images
        As for `audit classifier`.
    json
        Print everything as JSON.
    """
    from memorisk.cli.show.common import show_check
    from memorisk.images.set_check import check_images

    found = check_images(images, options)
    show_check(found, as_json=json)
    return 0 if found.ok else 1


@app.command(name="compare")
def compare(first: Path, second: Path, *, out: Path | None = None, json: AS_JSON = False) -> int:
    """Compare two runs, before and after a defence or a removal: differences with intervals.

    Parameters
    ----------
    first
        Run folder before.
    second
        Run folder after.
    out
        Folder for the tables (per class and per patient).
    json
        Print the classes as JSON.
    """
    from memorisk.audits.classifier.comparison import check_folder
    from memorisk.audits.classifier.comparison import compare as run
    from memorisk.cli.show.common import show_comparison

    if out is not None:
        check_folder(out)
    found = run(first, second)
    if out is not None:
        found.save(out)
    show_comparison(found, out, as_json=json)
    return 0


@app.command(name="report")
def report(run: Path, *, redact: Annotated[bool, Parameter(negative="")] = False, out: Path | None = None) -> int:
    """Render the report of a finished run again.

    Parameters
    ----------
    run
        Run folder.
    redact
        Leave out images and ids.
    out
        File to write; the run's own report.html if not given.
    """
    from memorisk.audits.rendering import render_again

    written = render_again(run, redact=redact, out=out)
    print(written)  # noqa: T201 (the command's answer)
    if redact:
        note_redacted(written)
    return 0


@app.meta.default
def _with_config(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)], config: Path | None = None
) -> Any:
    """Read settings from a file; flags override it.

    Parameters
    ----------
    config
        YAML file with settings by their flag's name (--print-config writes one).
    """
    if config is not None and tokens[:1] == ("study",):  # a study's file is its input and no list of flags
        tokens, config = (*tokens, "--config", str(config)), None
    settings = [] if config is None else [_Settings(config)]
    if settings and tokens[:2] == ("audit", "feature"):  # models stand without a flag, so that a file cannot name them
        models = settings[0].values.pop("models", None) or []
        if len(tokens) == 2 or tokens[2].startswith("-"):
            tokens = (*tokens[:2], *map(str, models), *tokens[2:])
    app.config = [*settings, _refuse_fractions]
    try:
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        with local_arguments(command, bound.arguments) as arguments:
            bound.arguments.update(arguments)
            return command(*bound.args, **bound.kwargs)
    finally:
        app.config = None


class _Settings:
    """Settings of a file, for the command that runs."""

    def __init__(self, path: Path) -> None:
        self.path, self.values = path, read_yaml(path)

    def __call__(self, command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill in what the command line left open; the user's own functions may lie beside the file."""
        if any("--python-path" in argument.names for argument in arguments):
            set_function_folder(self.values, "python-path", self.path)
        truth = {name for argument in arguments if argument.hint is bool for name in argument.names}
        for key, value in self.values.items():
            if f"--{key}" in truth and not isinstance(value, bool):
                raise InputError(f"--config {self.path}: {key} is {value!r}; give true or false, without quotes")
        nested: dict[str, Any] = self.values
        for name in reversed(names):  # a key may be named like another command (images): these belong to this one
            nested = {name: nested}
        Dict(nested, source=str(self.path), use_commands_as_keys=True)(command, names, arguments)


def _refuse_fractions(command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse a fraction where a whole number belongs; cyclopts would round it."""
    for argument in arguments:
        if int in (argument.hint, *get_args(argument.hint)):
            for token in argument.tokens:
                if "." in token.value:
                    raise InputError(f"{argument.name} is {one_line(token.value, 60)}; it must be a whole number")


def _exit_code(verdict: dict[str, Any]) -> int:
    return 0 if verdict.get("gate") == "never" or verdict.get("status") == "pass" else 1


def main(arguments: list[str] | None = None) -> int:
    """Run a command and turn every failure into one line and its exit code."""
    if arguments is None:  # a program of its own, and not a call from Python
        leave_current_folder()
    try:
        with prompt_interrupt(f"memorisk: {STOPPED}\n"):
            code = app.meta(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return int(code or 0)
    except CycloptsError as error:
        return _fail(_usage(error), InputError.exit_code)
    except MemoriskError as error:
        of_file = (sys.argv[1:] if arguments is None else arguments)[:1] == ["study"]  # it has keys and no flags
        return _fail(str(error) if of_file else _as_flags(str(error)), error.exit_code)
    except KeyboardInterrupt:
        return _fail(STOPPED, INTERRUPTED)
    except BrokenPipeError:  # whoever read the output has gone; Python's own last flush must not complain either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = f" ({one_line(error.filename, 120)})" if error.filename else ""
        if error.errno == errno.EROFS:  # the same command would meet it again
            return _fail(f"{error.strerror}{where}: name a place that may be written to", InputError.exit_code)
        cure = "free some, then " if error.errno in FULL_DISK_CODES else ""
        return _fail(f"{error.strerror or one_line(error)}{where}; {cure}{RESUME_HINT}", MemoriskError.exit_code)
    except MemoryError:
        return _fail("out of memory: fewer --processes or a smaller --size need less; what is done is kept", 3)
    except ModuleNotFoundError as error:
        if not _imported_by_memorisk(error):
            return _unexpected(error)
        return _fail(
            f"this command needs {one_line(error.name, 60)}, which is not installed: install memorisk without "
            "--no-deps (with cyclopts alone, only memorisk gate runs)",
            InputError.exit_code,
        )
    except Exception as error:
        return _unexpected(error)


def _imported_by_memorisk(error: ModuleNotFoundError) -> bool:
    """Whether the import that failed is one of memorisk's own, of another package."""
    importing = [frame.filename for frame in traceback.extract_tb(error.__traceback__) if frame.filename[:1] != "<"]
    inside = Path(importing[-1]).is_relative_to(Path(__file__).parents[1])
    return inside and (error.name or "").partition(".")[0] != "memorisk"


def _unexpected(error: Exception) -> int:
    """Report a defect of memorisk: one line, with the place to report.

    Raises:
        Exception: The defect itself in Python's development mode.
    """
    if sys.flags.dev_mode:
        raise error
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    message = f"unexpected {type(error).__name__} at {where}: {one_line(error)}; what is done is kept"
    return _fail(f"{message}; please report it with what python -P -X dev -m memorisk.cli prints", 3)


def _usage(error: CycloptsError) -> str:
    """Cyclopts' message on one line, and where help is."""
    return f"{one_line(' '.join(str(error).split()))} (memorisk --help)"


def _as_flags(message: str) -> str:
    """Settings by the names that they have here: ``group_column`` of a message for Python is ``--group-column``."""
    kinds = (ClassifierOptions, TrainClassifierOptions, FeatureOptions, SyntheticOptions, BenchDetectorsOptions)
    more = (FilterOptions, QualityOptions, WatchOptions)
    every = {
        f.name
        for kind in (*kinds, *more, BenchReidOptions, BenchCopiesOptions, GenerateOptions, SynthesizeOptions)
        for f in fields(kind)
    }
    names = "|".join(sorted(name for name in every if "_" in name))
    return re.sub(rf"(?<![\w./-])({names})(?![\w./-])", lambda m: "--" + m[1].replace("_", "-"), message)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"memorisk: {one_line(message, 1000)}\n")
    return code
