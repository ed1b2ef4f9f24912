"""Large tables that need not stay in memory: arrays on an unnamed file, which ends with them.

The system writes their pages out when memory is short and reads them back when they are asked for, so that the memory
that a process itself must have does not grow with them.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

LARGE = 1 << 25
"""Bytes from which a table lies on the disk."""


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike, folder: Path | None = None) -> np.ndarray:
    """An array of zeros, in memory below `LARGE` bytes, else on a file without a name.

    Args:
        shape: Of the array.
        dtype: Of its values.
        folder: Of the file; None for the system's folder of temporary files. The file is unlinked at once, so that
            nothing is left of it however the process ends.

    Raises:
        OSError: The disk is full: the room is reserved here, not found missing later.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size < LARGE:
        return np.zeros(shape, kind)
    with tempfile.TemporaryFile(dir=folder, prefix=".scratch-") as file:
        _reserve(file.fileno(), size)
        return np.memmap(file, dtype=kind, mode="r+", shape=shape)  # keeps a handle of its own


def _reserve(handle: int, size: int) -> None:
    """Take the room on the disk, where the system can."""
    import os

    reserve: Any = getattr(os, "posix_fallocate", None)
    if reserve is None:
        os.ftruncate(handle, size)
        return
    reserve(handle, 0, size)
