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
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, ArgumentCollection, CycloptsError, Group, Parameter

from memorisk import __version__
from memorisk.cli.help import HelpFormatter, print_help
from memorisk.cli.settings import read_yaml, set_function_folder
from memorisk.runs.errors import FULL_DISK_CODES, RESUME_HINT, InputError, MemoriskError, one_line
from memorisk.runs.processes import INTERRUPTED, leave_current_folder, prompt_interrupt

STOPPED = f"stopped; {RESUME_HINT}"
COMMANDS = {
    "audit classifier": (
        "classifiers:classifier",
        "Train twin models on your images and report which patients they expose.",
    ),
    "audit losses": (
        "classifiers:losses",
        "Audit models trained elsewhere, in any framework, from their per-image losses.",
    ),
    "audit feature": (
        "audits:feature",
        "Audit whether a model remembers a mark, such as a name, that it may have seen once.",
    ),
    "audit synthetic": (
        "audits:synthetic",
        "Audit whether synthetic images copy patients of their generator's training data.",
    ),
    "train": ("training:train_app", "Train a model and report its privacy guarantee."),
    "study": ("training:study_app", "Repeat a paper's study: its tables and figures, with corrected ones beside them."),
    "bench": ("benchmarks:bench_app", "Compare detectors on your images, by published protocols."),
    "images check": (
        "classifiers:check",
        "List unreadable, empty, duplicated and leaking images; count classes and groups.",
    ),
    "images mark": ("audits:mark", "Burn a mark into an image and show it beside its controls."),
    "explain": ("audits:explain", "Examine a finished classifier audit: are memorized images atypical, and which "
                "layers encode the memorization?"),
    "filter": ("synthetic_sets:filter_set", "Remove copies of training images from a synthetic set, with a guarantee."),
    "quality": ("synthetic_sets:quality", "Measure the quality of synthetic images (FID, KID, precision, ...) beside "
                "held-out real images."),
    "generate": ("synthetic_sets:generate", "Draw a set of images from a generator; each can be drawn again alone."),
    "synthesize": ("synthetic_sets:synthesize_set", "Draw images from a generator until enough pass a detector of "
                   "copies."),
    "watch": ("audits:watch", "Evaluate a generator during or after training: does it begin to memorize?"),
    "plan": ("benchmarks:plan_app", "Estimate the cost of a search over sets of any size, without reading images."),
    "statement": ("release:statement", "Write a privacy statement and a section for a model card, from finished runs."),
    "gate": ("release:gate", "Allow a release only if its statement passes and covers the released files."),
    "release": ("release:release", "Write a clean copy of images, or of a safetensors file: pixels, labels or tensors, "
                "and nothing else."),
    "track": ("release:track", "Log finished runs to MLflow, TensorBoard or Weights & Biases (offline), without ids."),
    "compare": ("classifiers:compare", "Compare two runs, before and after a defence or a removal, with intervals."),
    "report": ("classifiers:report", "Render the report of a finished run again."),
}  # fmt: skip
"""Where each command is, imported when it is called, and its line in ``memorisk --help``."""

app = App(
    name="memorisk",
    version=__version__,
    help="What does an image model remember of the people in its training data?",
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative_iterable=""),
    help_formatter=HelpFormatter(),
)
_GROUPS = {
    "audit": App(name="audit", help="Audit a model or a set of synthetic images: which patients does it expose?"),
    "images": App(name="images", help="Check images before training on them."),
}
for _group in _GROUPS.values():
    app.command(_group)
for _name, (_place, _line) in COMMANDS.items():
    _first, _, _last = _name.rpartition(" ")
    _GROUPS.get(_first, app).command(f"memorisk.cli.{_place}", name=_last, help=_line)
app.meta.group_parameters = Group("Everywhere", sort_key=0)
app.meta.suppress_keyboard_interrupt = False


@app.meta.default
def _with_config(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)], config: Path | None = None
) -> Any:
    """Read settings from a file; flags override it.

    Parameters
    ----------
    config
        YAML file with settings by their flag's name (--print-config writes one). Flags override it; --no-FLAG switches
        off what the file switches on.
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
        from memorisk.cli.urls import local_arguments

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
        from cyclopts.config import Dict

        Dict(nested, source=str(self.path), use_commands_as_keys=True)(command, names, arguments)


def _refuse_fractions(command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse a fraction where a whole number belongs; cyclopts would round it."""
    for argument in arguments:
        if int in (argument.hint, *get_args(argument.hint)):
            for token in argument.tokens:
                if "." in token.value:
                    raise InputError(f"{argument.name} is {one_line(token.value, 60)}; it must be a whole number")


def _shows_help(words: list[str]) -> bool:
    """Show a command's help where it is asked for: its essential options, or with ``--help-all`` every one."""
    asked = next((place for place, word in enumerate(words) if word in ("--help", "-h", "--help-all")), None)
    path = [] if asked is None else app.parse_commands(words[:asked])[1]
    if len(path) < 2 or path[-1].default_command is None:
        words[:] = ["--help" if word == "--help-all" else word for word in words]
        return False
    command = app.parse_commands(words[:asked])[0]
    path[-1].help = None  # the whole text of its function, not the line that stands for it in lists
    everything = "--help-all" in words
    hidden = print_help(app, command, path[-1].assemble_argument_collection(), everything=everything)
    if hidden:
        sys.stdout.write(f"{hidden} more options: memorisk {' '.join(command)} --help-all\n")
    return True


def main(arguments: list[str] | None = None) -> int:
    """Run a command and turn every failure into one line and its exit code."""
    if arguments is None:  # a program of its own, and not a call from Python
        leave_current_folder()
    try:
        with prompt_interrupt(f"memorisk: {STOPPED}\n"):
            words = list(sys.argv[1:] if arguments is None else arguments)
            code = 0 if _shows_help(words) else app.meta(words, exit_on_error=False, print_error=False)
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
    from memorisk.cli.help import setting_names

    names = "|".join(sorted(name for name in setting_names() if "_" in name))
    return re.sub(rf"(?<![\w./-])({names})(?![\w./-])", lambda m: "--" + m[1].replace("_", "-"), message)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"memorisk: {one_line(message, 1000)}\n")
    return code
