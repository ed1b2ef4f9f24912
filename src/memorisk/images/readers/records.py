"""Arrays in plain binary files: idx files (MNIST), records (CIFAR-10, CIFAR-100, STL-10) and SVHN's matrices.

An idx file, gzipped or not, has two zeros, a number type, the number of dimensions, the dimensions, and the values.
It must hold exactly what its header declares. A gzipped one is never decompressed beyond that: once, one piece at a
time, when it is opened, which also checks its checksum, and then as a stream. A plain one is mapped.
`ArrayStream` reads an array in a compressed file as a stream: in order, it costs one decompression and the memory
of an image.

Records have one length and no header. A record of CIFAR has one label byte (CIFAR-100: two, coarse and fine), then
the 32 x 32 reds, greens and blues, row by row; one of STL-10 has no label, and the 96 x 96 values of each colour
column by column. Such a file has no first bytes of its own; the row's ``member`` names its kind (``MEMBER_FORMATS``
of the registry), and its ``frame`` the record. `read` and `count_frames` are for records and SVHN's matrices; the
module ``arrays`` reads idx files.

SVHN's cropped digits are MATLAB files (version 5) with ``X`` ``[32, 32, 3, n]`` and ``y`` ``[n, 1]``, read with SciPy.
The matrix is packed as a whole, so a process that decodes holds it: 225 MB for the training part. The declarations of a
file are checked before it is unpacked. Such a file never contains code that runs.
"""

import gzip
import os
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

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


@dataclass
class ArrayStream:
    """Array in a compressed file; a step back restarts the decompression, a step forward continues it."""

    stream: IO[bytes]
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def __getitem__(self, index: int) -> np.ndarray:
        return self._values(self.start + index * self._bytes(), self.shape[1:])

    def read(self) -> np.ndarray:
        """Read the whole array.

        Raises:
            InputError: The file ends before the array does.
        """
        return self._values(self.start, self.shape)

    def _bytes(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def _values(self, place: int, shape: tuple[int, ...]) -> np.ndarray:
        n_bytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize
        self.stream.seek(place)
        data = self.stream.read(n_bytes)
        if len(data) != n_bytes:
            raise InputError(f"{one_line(getattr(self.stream, 'name', 'array'))}: the file ends within the array")
        return np.frombuffer(data, dtype=self.dtype).reshape(shape)


_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_PIECE = 1 << 20
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
_DOWNLOAD_AGAIN = "it is cut off or no idx file; get it anew"


@dataclass(frozen=True)
class IdxHeader:
    """Declarations of an idx file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    gzipped: bool

    @property
    def start(self) -> int:
        """Return where the values begin."""
        return 4 + 4 * len(self.shape)

    @property
    def n_bytes(self) -> int:
        """Return the size of all values."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


def idx_header(path: Path) -> IdxHeader:
    """Read the header of an idx file.

    Raises:
        InputError: The file has none, or declares more than gzip may unpack to.
    """
    with path.open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    try:
        with _opened(path, gzipped) as stream:
            head = stream.read(4)
            n_dimensions = head[3] if len(head) == 4 else 0
            dimensions = stream.read(4 * n_dimensions)
    except _BROKEN_GZIP as error:
        raise _broken_gzip(path, error) from None
    is_idx = head[:2] == b"\0\0" and head[2:3] and head[2] in _TYPES
    if not is_idx or not n_dimensions or len(dimensions) != 4 * n_dimensions:
        raise InputError(f"{one_line(path)}: does not begin as an idx file does ({head.hex(' ')}); {_DOWNLOAD_AGAIN}")
    shape = tuple(int(n) for n in np.frombuffer(dimensions, dtype=">u4"))
    header = IdxHeader(np.dtype(_TYPES[head[2]]), shape, gzipped)
    if gzipped:
        check_unpacked(path, f"an array of shape {shape}", header.n_bytes, path.stat().st_size)
    return header


def open_idx(path: Path) -> np.ndarray | ArrayStream:
    """Open the array of an idx file, mapped or as a stream.

    Raises:
        InputError: The file is not an idx file, or holds less or more than it declares.
    """
    header = idx_header(path)
    held = _unpacked_bytes(path, header) if header.gzipped else path.stat().st_size - header.start
    if held != header.n_bytes:
        what = "the file ends within the array" if held < header.n_bytes else "the file continues after the array"
        available = f"{held:,}" if held < header.n_bytes else "more"
        raise InputError(
            f"{one_line(path)}: {what} (its header declares {_sizes(header.shape)}, {header.n_bytes:,} bytes, and "
            f"{available} are there); {_DOWNLOAD_AGAIN}"
        )
    if header.gzipped:
        return ArrayStream(_opened(path, gzipped=True), header.start, header.shape, header.dtype)
    if not header.n_bytes:
        return np.zeros(header.shape, header.dtype)
    return np.memmap(path, dtype=header.dtype, mode="r", offset=header.start, shape=header.shape)


def _unpacked_bytes(path: Path, header: IdxHeader) -> int:
    """Count the bytes of values in a gzipped file, up to one more than its header declares."""
    held = -header.start
    try:
        with _opened(path, gzipped=True) as stream:
            while held <= header.n_bytes:
                piece = stream.read(min(_PIECE, header.n_bytes + 1 - held))
                if not piece:
                    break
                held += len(piece)
    except _BROKEN_GZIP as error:
        raise _broken_gzip(path, error) from None
    return held


def _opened(path: Path, gzipped: bool) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if gzipped else path.open("rb")


def _broken_gzip(path: Path, error: Exception) -> InputError:
    return InputError(f"{one_line(path)}: a broken gzip file ({one_line(error, 100)}); {_DOWNLOAD_AGAIN}")


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{n:,}" for n in shape)


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


SVHN_SIDE = 32
_SVHN_MAX_IMAGES = 1_000_000  # the largest part has 531,131


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
