"""The errors that a user sees: one line with the thing, the allowed values and the remedy.

The command line turns each into its exit code (DESIGN, "What a person types"): 2 for bad input, 3 for a run that
broke. `read_guard` turns any error from a damaged file of a run into one such line.
"""

import difflib
import errno
import os
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FULL_DISK_CODES = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))  # the system's words for a full disk
RESUME_HINT = "what is done is kept, the same command resumes"
ARRAY_ERRORS = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError, RuntimeError),
    *(SyntaxError, tokenize.TokenError),  # a .npy's header is read as Python's literals
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
"""Errors that NumPy, zipfile and PyTorch raise on a damaged file of arrays."""
CONTENT_ERRORS = (
    *(TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError, AssertionError),
    OSError,  # Arrow's error for a broken file
)
"""Errors that follow where valid JSON or Parquet has other contents than were written, or where it is not valid."""


class MemoriskError(Exception):
    """Error of a run that broke; finished work is kept. Exit code 3."""

    exit_code = 3


class UserCodeError(MemoriskError):
    """Error of the user's own function: a second call of it fails in the same way."""


class InputError(MemoriskError):
    """Error of bad input or usage; nothing was written. Exit code 2."""

    exit_code = 2


class UsageError(InputError):
    """Error of a command line whose words belong to no command."""


class DamagedError(InputError, ValueError):
    """Error of a run's file that differs from what was written; also a ValueError, for callers that know the file."""


class MissingExtraError(InputError):
    """Error of a missing library that belongs to an optional extra."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {library}, which is not installed: pip install 'memorisk[{extra}]'")


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> InputError:
    """Return an error for a name that is not among the allowed ones, with the nearest of these.

    Args:
        kind: Kind of the named thing, as in "model" or "design".
        name: Name that was given.
        allowed: Names that exist.
    """
    names = [str(a) for a in allowed]
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    more = f", ... ({len(names)} in all)" if len(names) > 12 else ""
    listing = ", ".join(one_line(n, 60) for n in names[:12]) + more
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown {kind} {str(name)!r}.{hint} Known: {listing}")


def full_disk(error: BaseException, path: object) -> OSError | None:
    """Return the error of a full disk, with the file that did not fit; None for any other error.

    Libraries (safetensors) report the system's error in their own words, ``... (os error 28)``.

    Args:
        error: Error that was raised.
        path: Path that was written; used where the error names none.
    """
    quoted = re.search(r"\(os error (\d+)\)", str(error))
    number = error.errno if isinstance(error, OSError) else int(quoted[1]) if quoted else None
    if number not in FULL_DISK_CODES:
        return None
    filename = error.filename if isinstance(error, OSError) else None
    return OSError(number, os.strerror(number), str(filename or path))


def plural(n: int, one: str, more: str) -> str:
    """Return a number with the words that agree with it, as in "1 patient is" and "1,200 patients are"."""
    return f"{n:,} {one if n == 1 else more}"


def one_line(text: object, limit: int = 300) -> str:
    """Return any text on one printable line: control and direction marks are shown as escapes, long text is cut."""
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))
    return printable if len(printable) <= limit else printable[: limit - 3] + "..."


def listed(values: "Sequence[object] | np.ndarray", shown: int = 5) -> str:
    """Return the first few of many values on one printable line: ``a, b, c and 12 more``."""
    head = ", ".join(one_line(v, 120) for v in values[:shown])
    return head if len(values) <= shown else f"{head} and {len(values) - shown:,} more"


def file_and_image(path: str, image: str, limit: int = 100) -> str:
    """Name an image's file, and also its id where that differs from the file's name, as for many images in one file."""
    file = one_line(path, limit)
    return file if image in (path, PurePath(path).name, PurePath(path).stem) else f"{file}, image {one_line(image, 60)}"


@contextmanager
def read_guard(folder: str | Path) -> Iterator[None]:
    """Guard a block in which a finished run is read and laid out.

    Valid JSON or Parquet may still have other contents than were written, and no list of checks foresees them
    all. The original error is kept as the cause.

    Raises:
        InputError: The files caused an error.
    """
    try:
        yield
    except DamagedError:
        raise
    except KeyError as error:
        raise InputError(
            f"{one_line(folder)} lacks {one_line(error, 60)}: an earlier version of memorisk wrote it; issue the run's "
            "command again"
        ) from error
    except CONTENT_ERRORS as error:
        what = f"{type(error).__name__} {one_line(error, 80)}".strip()
        raise InputError(
            f"{one_line(folder)} cannot be read back ({what}): its files are damaged, or of another version of "
            "memorisk; issue the run's command again"
        ) from error
