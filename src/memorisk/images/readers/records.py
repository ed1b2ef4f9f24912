"""Records of plain binary files (CIFAR-10, CIFAR-100, STL-10), and SVHN's matrices.

Records have one length and no header. A record of CIFAR has one label byte (CIFAR-100: two, coarse and fine), then
the 32 x 32 reds, greens and blues, row by row; one of STL-10 has no label, and the 96 x 96 values of each colour
column by column. Such a file has no first bytes of its own; the row's ``member`` names its kind (``MEMBER_FORMATS``
of the registry), and its ``frame`` the record.

SVHN's cropped digits are MATLAB files (version 5) with ``X`` ``[32, 32, 3, n]`` and ``y`` ``[n, 1]``, read with SciPy.
The matrix is packed as a whole, so a process that decodes holds it: 225 MB for the training part. The declarations of a
file are checked before it is unpacked. Such a file never contains code that runs.
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from memorisk.images.readers.greys import to_depth
from memorisk.images.readers.limits import check_size
from memorisk.images.readers.registry import (
    CIFAR10_RECORDS,
    CIFAR100_RECORDS,
    STL10_RECORDS,
    SVHN_MATRIX,
    ReadOptions,
)
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.size_limits import check_unpacked

SVHN_SIDE = 32
_SVHN_MAX_IMAGES = 1_000_000  # the largest part has 531,131


@dataclass(frozen=True)
class Record:
    """Layout of a data set's record."""

    name: str
    """Name of the data set."""
    side: int
    """Side of an image in pixels."""
    labels: int
    """Number of bytes before the pixels, one per label."""
    by_column: bool
    """Whether the values of a colour run down the columns."""
    archive: str
    """Name of the archive that contains the files."""

    @property
    def n_bytes(self) -> int:
        """Return the size of a record."""
        return self.labels + 3 * self.side * self.side


RECORDS = {
    CIFAR10_RECORDS: Record("CIFAR-10", 32, 1, False, "cifar-10-binary.tar.gz"),
    CIFAR100_RECORDS: Record("CIFAR-100", 32, 2, False, "cifar-100-binary.tar.gz"),
    STL10_RECORDS: Record("STL-10", 96, 0, True, "stl10_binary.tar.gz"),
}


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Read one image, ``[h, w, 3]`` uint8 or uint16.

    Raises:
        InputError: The file is not a whole number of records, or has no such record.
    """
    kind = how.member or CIFAR10_RECORDS
    if kind == SVHN_MATRIX:
        return _read_svhn(path, how)
    record = RECORDS[kind]
    n = count_frames(path, kind)
    if how.frame is None or not 0 <= how.frame < n:
        raise InputError(f"{one_line(path)}: has images 0 to {n - 1}, not {how.frame}")
    check_size(path, record.side, record.side, how.max_pixels)
    with path.open("rb") as file:
        file.seek(how.frame * record.n_bytes + record.labels)
        values = np.frombuffer(file.read(record.n_bytes - record.labels), dtype=np.uint8)
    image = np.moveaxis(values.reshape(3, record.side, record.side), 0, -1)
    image = image.swapaxes(0, 1) if record.by_column else image
    return to_depth(np.ascontiguousarray(image), how.depth)


def count_frames(path: Path, kind: str = CIFAR10_RECORDS) -> int:
    """Count the records.

    Raises:
        InputError: The file's length is zero or not a multiple of a record's.
    """
    size, record = path.stat().st_size, RECORDS[kind]
    if not size or size % record.n_bytes:
        labels = {0: "", 1: "a label and ", 2: "two labels and "}[record.labels]
        raise InputError(
            f"{one_line(path)}: has {size:,} bytes, no multiple of the {record.n_bytes:,} of a record of {record.name} "
            f"({labels}3 x {record.side} x {record.side} values); it is cut off or another file, unpack "
            f"{record.archive} anew"
        )
    return size // record.n_bytes


def record_labels(path: Path, kind: str = CIFAR10_RECORDS, place: int = 0) -> np.ndarray:
    """Return a label of each record, uint8 [n]; ``place`` is the index of its byte.

    Raises:
        InputError: The same errors as :func:`count_frames`.
    """
    n = count_frames(path, kind)
    records = np.memmap(path, dtype=np.uint8, mode="r", shape=(n, RECORDS[kind].n_bytes))
    return np.array(records[:, place])


def _read_svhn(path: Path, how: ReadOptions) -> np.ndarray:
    check_size(path, SVHN_SIDE, SVHN_SIDE, how.max_pixels)
    images = svhn_matrix(path, "X")
    n = images.shape[3]
    if how.frame is None or not 0 <= how.frame < n:
        raise InputError(f"{one_line(path)}: has images 0 to {n - 1}, not {how.frame}")
    return to_depth(np.ascontiguousarray(images[..., how.frame]), how.depth)


def count_svhn(path: Path) -> int:
    """Return the number of images that a file of SVHN declares.

    Raises:
        InputError: The file has no matrices like SVHN's.
    """
    from scipy.io import whosmat

    matrices = {name: (shape, kind) for name, shape, kind in whosmat(str(path), appendmat=False)}
    shape, kind = matrices.get("X", ((), ""))
    n = shape[3] if len(shape) == 4 else 0
    of_labels = matrices.get("y", ((), ""))[0]
    side = SVHN_SIDE
    if shape[:3] != (side, side, 3) or kind != "uint8" or of_labels != (n, 1) or not 0 < n <= _SVHN_MAX_IMAGES:
        raise InputError(
            f"{one_line(path)}: holds {one_line(matrices, 120)}, not X of 32 x 32 x 3 x n 8-bit values and y of n x 1; "
            "it is none of SVHN's cropped digits, or cut off"
        )
    check_unpacked(path, f"X of {n:,} images", 3 * side * side * n, path.stat().st_size)
    return n


def svhn_matrix(path: Path, name: str) -> np.ndarray:
    """Return ``X`` or ``y`` of a file of SVHN; the last one is kept.

    Raises:
        InputError: The same errors as `count_svhn`.
    """
    status = path.stat()
    return _loaded_svhn(path, name, status.st_size, status.st_mtime_ns, os.getpid())


@lru_cache(maxsize=1)
def _loaded_svhn(path: Path, name: str, size: int, modified: int, process: int) -> np.ndarray:
    from scipy.io import loadmat

    count_svhn(path)
    return loadmat(str(path), appendmat=False, variable_names=[name])[name]
