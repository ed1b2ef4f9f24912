"""SVHN's cropped digits: MATLAB files (version 5) with ``X`` ``[32, 32, 3, n]`` and ``y`` ``[n, 1]``, through SciPy.

The matrix is packed as a whole, so a process that decodes holds it: 225 MB of the training part. What a file declares
is looked at before it is unpacked. Nothing in such a file is code.
"""

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from memorisk.images.readers.greys import to_depth
from memorisk.images.readers.registry import ReadOptions, check_size
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.size_limits import check_unpacked

SIDE = 32
_MAX_IMAGES = 1_000_000  # the largest part has 531,131


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """One image, ``[32, 32, 3]`` uint8 or uint16.

    Raises:
        InputError: The file is none of SVHN's, or has no such image.
    """
    check_size(path, SIDE, SIDE, how.max_pixels)
    images = matrix(path, "X")
    n = images.shape[3]
    if how.frame is None or not 0 <= how.frame < n:
        raise InputError(f"{one_line(path)}: has images 0 to {n - 1}, not {how.frame}")
    return to_depth(np.ascontiguousarray(images[..., how.frame]), how.depth)


def count_frames(path: Path) -> int:
    """Number of images."""
    return declared_images(path)


def declared_images(path: Path) -> int:
    """Number of images that a file declares.

    Raises:
        InputError: It has no such matrices as SVHN's.
    """
    from scipy.io import whosmat

    found = {name: (shape, kind) for name, shape, kind in whosmat(str(path), appendmat=False)}
    shape, kind = found.get("X", ((), ""))
    n = shape[3] if len(shape) == 4 else 0
    of_labels = found.get("y", ((), ""))[0]
    if shape[:3] != (SIDE, SIDE, 3) or kind != "uint8" or of_labels != (n, 1) or not 0 < n <= _MAX_IMAGES:
        raise InputError(
            f"{one_line(path)}: holds {one_line(found, 120)}, not X of 32 x 32 x 3 x n 8-bit values and y of n x 1; it "
            "is none of SVHN's cropped digits, or cut off"
        )
    check_unpacked(path, f"X of {n:,} images", 3 * SIDE * SIDE * n, path.stat().st_size)
    return n


def matrix(path: Path, name: str) -> np.ndarray:
    """``X`` or ``y`` of a file; the last one is kept.

    Raises:
        InputError: As `declared_images`.
    """
    status = path.stat()
    return _loaded(path, name, status.st_size, status.st_mtime_ns, os.getpid())


@lru_cache(maxsize=1)
def _loaded(path: Path, name: str, size: int, modified: int, process: int) -> np.ndarray:
    from scipy.io import loadmat

    declared_images(path)
    return loadmat(str(path), appendmat=False, variable_names=[name])[name]
