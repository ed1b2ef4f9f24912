"""Arrays in idx files, the form of MNIST, gzipped or not.

An idx file has two zeros, a number type, the number of dimensions, the dimensions, and the values. It must hold exactly
what its header declares. A gzipped one is never decompressed beyond that: once, one piece at a time, when it is opened,
which also checks its checksum, and then as a stream. A plain one is mapped. `ArrayStream` reads an array in a
compressed file as a stream: in order, it costs one decompression and the memory of an image.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.size_limits import check_unpacked

_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_PIECE = 1 << 20
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
_DOWNLOAD_AGAIN = "it is cut off or no idx file; get it anew"


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
