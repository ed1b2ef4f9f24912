"""Large arrays on the disk: shared between machines, scratch space, and arrays that are still being written.

* A shared array is a .npy file on storage that all machines share, named by its fingerprint. Each reader maps it
  into memory, and each process verifies it once: damaged or replaced content is refused, never computed with.
* A scratch array lies on an unnamed file, which ends with the process. The system writes its pages out when memory
  is short and reads them back on demand, so that the memory that a process must have does not grow with the table.
* An unfinished array (image stores, features) is built in a hidden folder next to the finished ones and found again
  by its content. A journal in that folder lists the finished parts of the array, so that a killed build is resumed. The
  space of the array is reserved first, so that a full disk is found before work is done.
"""

import hashlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from memorisk.runs.errors import FULL_DISK_CODES, RESUME_HINT, InputError, MemoriskError, one_line
from memorisk.runs.files import read_array, write_array
from memorisk.runs.locks import folder_lock

WAIT_SECONDS = 60.0
"""Seconds that a shared disk may take to show a file that another machine wrote."""
_BLOCK_BYTES = 1 << 22  # bytes
SCRATCH_BYTES = 1 << 25
"""Least number of bytes at which a table lies on the disk."""
JOURNAL = "journal.jsonl"
ABANDONED_SECONDS = 7 * 86400.0
"""Seconds after which an unfinished build is removed when something else is built."""


@dataclass(frozen=True)
class SharedArray:
    """Array on shared storage, with its fingerprint."""

    path: str
    fingerprint: str

    def open(self) -> np.ndarray:
        """Return the array, read-only and left on the disk.

        Raises:
            MemoriskError: The file does not exist, or holds something else.
        """
        path = Path(self.path)
        wait_for_file(path)
        status = path.stat()
        if _verified_fingerprint(self.path, status.st_size, status.st_mtime_ns) != self.fingerprint:
            raise MemoriskError(f"{one_line(path, 160)} is damaged: remove it; {RESUME_HINT}")
        return read_array(path, mmap=True)


def share_array(folder: Path, array: Any, places: Sequence[Path] = ()) -> SharedArray:
    """Put an array on storage where other machines read it; an existing one is not written again.

    Args:
        folder: Folder on shared storage.
        array: Array of any shape, without objects.
        places: Shared folders: a whole memory-mapped .npy file below one of them is read where it is.

    Raises:
        OSError: The array cannot be written.
    """
    values = np.asanyarray(array)
    mark = array_fingerprint(values)
    own = npy_file_of(values)
    if own is not None and any(own.is_relative_to(place) for place in places):
        return SharedArray(str(own), mark)
    path = folder / f"{mark}.npy"
    if not path.is_file():
        write_array(path, values)
    return SharedArray(str(path), mark)


def npy_file_of(array: Any) -> Path | None:
    """Return the .npy file of which an array is the memory map; None for a part of one, and for anything else."""
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
    """Hash type, shape and values to 32 hexadecimal digits, read a few megabytes at a time."""
    digest = hashlib.blake2b(f"array {array.dtype.str} {array.shape}".encode(), digest_size=16)
    rows = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes)) if array.ndim else 1
    for first in range(0, len(array) if array.ndim else 1, rows):
        part = array[first : first + rows] if array.ndim else array
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def wait_for_file(path: Path) -> None:
    """Wait until a shared disk shows a file.

    Raises:
        MemoriskError: The file does not appear.
    """
    until = time.monotonic() + WAIT_SECONDS
    while not path.is_file():
        if time.monotonic() > until:
            raise MemoriskError(f"{one_line(path, 160)} is gone, or not on shared storage; {RESUME_HINT}")
        time.sleep(0.2)


@lru_cache(maxsize=256)
def _verified_fingerprint(path: str, size: int, modified: int) -> str:
    """Return the fingerprint of a file of this size and time; empty where the file is not an array."""
    try:
        return array_fingerprint(read_array(path, mmap=True))
    except (OSError, ValueError, EOFError):
        return ""


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike, folder: Path | None = None) -> np.ndarray:
    """Return an array of zeros, in memory below `SCRATCH_BYTES` bytes, else on a file without a name.

    Args:
        shape: Shape of the array.
        dtype: Type of its values.
        folder: Folder of the file; None for the system's folder of temporary files. The file is unlinked at once, so
            that nothing is left of it however the process ends.

    Raises:
        OSError: The disk is full: the space is reserved here, so that it is not found missing later.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size < SCRATCH_BYTES:
        return np.zeros(shape, kind)
    with tempfile.TemporaryFile(dir=folder, prefix=".scratch-") as file:
        _reserve(file.fileno(), size)
        return np.memmap(file, dtype=kind, mode="r+", shape=shape)  # the memory map keeps its own handle


def _reserve(handle: int, size: int) -> None:
    """Reserve the space on the disk, where the system can."""
    import os

    reserve: Any = getattr(os, "posix_fallocate", None)
    if reserve is None:
        os.ftruncate(handle, size)
        return
    reserve(handle, 0, size)


def remove_abandoned(root: Path) -> None:
    """Remove unfinished folders, ``.KEY.building``, whose journal was not written to for a week.

    Clocks can be changed, so age alone is not enough: a folder whose lock another process holds is being built now.
    """
    for folder in root.glob(".*.building"):
        try:
            if time.time() - (folder / JOURNAL).stat().st_mtime > ABANDONED_SECONDS:
                with folder_lock(root, name=f"{folder.name[1:].removesuffix('.building')}.lock"):
                    shutil.rmtree(folder, ignore_errors=True)
        except (OSError, InputError):
            continue


def array_header(shape: tuple[int, ...], dtype: DTypeLike) -> bytes:
    """Return the first bytes of a .npy file; the values follow in C order."""
    stream = io.BytesIO()
    form = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, form)
    return stream.getvalue()


def reserve_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> None:
    """Write an empty .npy file, readable by its owner alone, and reserve its space.

    Raises:
        OSError: The file cannot be written, or the disk has no space.
    """
    header = array_header(shape, dtype)
    size = len(header) + int(np.prod(shape)) * np.dtype(dtype).itemsize
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(handle, header)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        else:
            os.ftruncate(handle, size)
    finally:
        os.close(handle)


@contextmanager
def write_guard(folder: Path, what: str, *, needed: int | None = None, otherwise: str = "") -> Iterator[None]:
    """Turn the system's refusals to write into one line.

    Args:
        folder: Folder that is written to.
        what: Name of the content, as in "features".
        needed: Number of bytes it takes, if known.
        otherwise: Further remedy where the folder cannot be written.

    Raises:
        MemoriskError: No space is left.
        InputError: The folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        where, size = one_line(folder), "" if needed is None else f" of {needed / 1e9:.2g} GB"
        if error.errno in FULL_DISK_CODES:
            raise MemoriskError(
                f"no space for {what}{size} in {where}: free some, or name another folder with --store; "
                "what is done is kept"
            ) from None
        reason = one_line(error.strerror or error, 120)
        way_out = f"name another folder with --store{otherwise}"
        raise InputError(f"{what} cannot be written to {where} ({reason}): {way_out}") from None
