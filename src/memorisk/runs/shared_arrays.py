"""Arrays that jobs on other machines read from storage that all share, found again by their content.

An array is a .npy file named by its fingerprint, memory-mapped by whoever reads it, and looked through once by each
process that does: what was damaged or replaced meanwhile is refused, never computed with.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.runs.errors import GOES_ON, MemoriskError, one_line
from memorisk.runs.files import read_array, write_array

PATIENCE = 60.0
"""Seconds that a shared disk may take to show a file that another machine wrote."""
_AT_ONCE = 1 << 22  # bytes


@dataclass(frozen=True)
class SharedArray:
    """An array on shared storage."""

    path: str
    fingerprint: str

    def open(self) -> np.ndarray:
        """The array, read-only and left on the disk.

        Raises:
            MemoriskError: The file is not there, or holds something else.
        """
        path = Path(self.path)
        wait_for(path)
        status = path.stat()
        if _found(self.path, status.st_size, status.st_mtime_ns) != self.fingerprint:
            raise MemoriskError(f"{one_line(path, 160)} is damaged: remove it; {GOES_ON}")
        return read_array(path, mmap=True)


def share_array(folder: Path, array: Any, places: Sequence[Path] = ()) -> SharedArray:
    """Put an array where other machines read it; one that lies there already is not written again.

    Args:
        folder: On shared storage.
        array: Any shape, no objects.
        places: Shared folders: a whole memory-mapped .npy file below one of them is read where it is.

    Raises:
        OSError: It cannot be written.
    """
    values = np.asanyarray(array)
    mark = array_fingerprint(values)
    own = whole_file(values)
    if own is not None and any(own.is_relative_to(place) for place in places):
        return SharedArray(str(own), mark)
    path = folder / f"{mark}.npy"
    if not path.is_file():
        write_array(path, values)
    return SharedArray(str(path), mark)


def whole_file(array: Any) -> Path | None:
    """The .npy file of which an array is the memory map; None for a part of one, and for anything else."""
    name = getattr(array, "filename", None)
    if not isinstance(array, np.memmap) or name is None or not array.flags.c_contiguous:
        return None
    path = Path(name).resolve()
    try:
        file = read_array(path, mmap=True)
    except (OSError, ValueError):
        return None
    same = file.shape == array.shape and file.dtype == array.dtype
    return path if same and array.offset == getattr(file, "offset", None) else None


def array_fingerprint(array: np.ndarray) -> str:
    """32 hexadecimal digits of type, shape and values, read a few megabytes at a time."""
    digest = hashlib.blake2b(f"array {array.dtype.str} {array.shape}".encode(), digest_size=16)
    rows = max(1, _AT_ONCE // max(1, array[:1].nbytes)) if array.ndim else 1
    for first in range(0, len(array) if array.ndim else 1, rows):
        part = array[first : first + rows] if array.ndim else array
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def wait_for(path: Path) -> None:
    """Wait until a shared disk shows a file.

    Raises:
        MemoriskError: It does not.
    """
    until = time.monotonic() + PATIENCE
    while not path.is_file():
        if time.monotonic() > until:
            raise MemoriskError(f"{one_line(path, 160)} is gone, or not on shared storage; {GOES_ON}")
        time.sleep(0.2)


@lru_cache(maxsize=256)
def _found(path: str, size: int, modified: int) -> str:
    """Fingerprint of a file as it was when it had this size and time; empty for what is no array."""
    try:
        return array_fingerprint(read_array(path, mmap=True))
    except (OSError, ValueError, EOFError):
        return ""
