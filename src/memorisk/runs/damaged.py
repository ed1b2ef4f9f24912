"""Files of a run that are read back: whatever damaged ones lead to is one line."""

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memorisk.runs.errors import InputError, one_line

NO_ARRAYS = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError, RuntimeError),
    *(SyntaxError, tokenize.TokenError),  # a .npy's header is read as Python's literals
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
"""What NumPy, zipfile and PyTorch raise on a damaged file of arrays."""
ASTRAY = (
    *(TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError, AssertionError),
    OSError,  # what Arrow calls a broken file
)
"""What it leads to that sound JSON or Parquet holds other things than were written, or that it is none."""


@contextmanager
def reading_run(folder: str | Path) -> Iterator[None]:
    """While it is open, a finished run is read and laid out.

    What is valid JSON or Parquet may still hold other things than were written, and no list of checks foresees them
    all. The error that they led to is kept as the cause.

    Raises:
        InputError: The files led to an error.
    """
    try:
        yield
    except KeyError as error:
        raise InputError(
            f"{one_line(folder)} lacks {one_line(error, 60)}: an earlier version of memorisk wrote it; issue the run's "
            "command again"
        ) from error
    except ASTRAY as error:
        what = f"{type(error).__name__} {one_line(error, 80)}".strip()
        raise InputError(
            f"{one_line(folder)} cannot be read back ({what}): its files are damaged, or of another version of "
            "memorisk; issue the run's command again"
        ) from error
