"""The file that a training of the study leaves: named arrays, written once, never pickled."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.files import atomic_path

Arrays = dict[str, np.ndarray]


def write_result(path: Path, arrays: Arrays) -> None:
    """Write arrays atomically; the same arrays give the same bytes."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **{name: np.asarray(value, order="C") for name, value in sorted(arrays.items())})  # pyright: ignore


def read_result(path: Path) -> Arrays:
    """Read them back.

    Raises:
        MemoriskError: The file is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise MemoriskError(f"{one_line(path.name)} is damaged: remove it and run the study again") from error
