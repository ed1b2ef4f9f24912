"""The command line: a command runs, and every failure becomes one line and an exit code.

Quick: the first page of the help is printed before cyclopts is imported, and nothing heavier is imported until a
command runs. Exit codes (DESIGN, "What a person types"): 0 passed; 1 the gate failed or could not be decided; 2 bad
input or usage, one line, nothing written; 3 the run broke; 130 after Ctrl-C, 143 after SIGTERM.
"""

import errno
import os
import re
import sys
import traceback
from pathlib import Path

from memorisk.runs.errors import FULL_DISK_CODES, RESUME_HINT, InputError, MemoriskError, UsageError, one_line
from memorisk.runs.processes import leave_current_folder, prompt_interrupt, stopped_code

STOPPED = f"stopped; {RESUME_HINT}"
_EXTRAS = {"view": "[view]", "track": "[tracking]"}
"""Commands that need more than a plain install."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and turn every failure into one line and its exit code."""
    if arguments is None:  # a program of its own, and not a call from Python
        leave_current_folder()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with prompt_interrupt(f"memorisk: {STOPPED}\n"):
            code = _run(words)
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _fail(str(error), error.exit_code)
    except MemoriskError as error:
        of_file = words[:1] == ["study"]  # it has keys and no flags
        return _fail(str(error) if of_file else _as_flags(str(error)), error.exit_code)
    except KeyboardInterrupt as stop:
        return _fail(STOPPED, stopped_code(stop))
    except SystemExit as error:  # raised by code that is not memorisk's; its 0 would be taken for a pass
        if isinstance(error.__context__, BrokenPipeError):  # by rich, as for the next error
            return _unread()
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{one_line(place.filename, 120)}:{place.lineno}"
        return _fail(f"{where} ended the program (SystemExit: {error.code}); {RESUME_HINT}", MemoriskError.exit_code)
    except BrokenPipeError:
        return _unread()
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
        extra = _EXTRAS.get(words[0] if words else "", "")
        what = "memorisk gate of a run folder" if words[:1] == ["gate"] else "this command"
        return _fail(
            f"{what} needs {one_line(error.name, 60)}, which is not installed: pip install 'memorisk{extra}', "
            "without --no-deps (with cyclopts alone, only memorisk gate of a privacy-statement.json runs)",
            InputError.exit_code,
        )
    except Exception as error:
        return _unexpected(error)


def _run(words: list[str]) -> int:
    """Show the first page of the help, or load the program and run a command of it."""
    from memorisk.cli.first_page import print_first_page

    if print_first_page(words):
        return 0
    from memorisk.cli.program import run

    return run(words)


def _unread() -> int:
    """Stop since the reader of the output has gone; Python's own last flush must not complain either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _imported_by_memorisk(error: ModuleNotFoundError) -> bool:
    """Return whether the import that failed is one of memorisk's own, of another package."""
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
    return _fail(f"{message}; please report it with what python -P -X dev -m memorisk prints", 3)


def _as_flags(message: str) -> str:
    """Name settings as flags here: ``group_column`` of a message for Python is ``--group-column``."""
    if "_" not in message:
        return message
    from memorisk.cli.help import setting_names

    names = "|".join(sorted(name for name in setting_names() if "_" in name))
    return re.sub(rf"(?<![\w./-])({names})(?![\w./-])", lambda m: "--" + m[1].replace("_", "-"), message)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"memorisk: {one_line(message, 1000)}\n")
    return code
