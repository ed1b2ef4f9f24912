"""The idx files of MNIST, gzipped or not: two zeros, a number type, the number of dimensions, the dimensions, values.

A file must hold exactly what its header declares. Of a gzipped one no more than that is ever decompressed: once, a
piece at a time, when it is opened, which also checks its checksum, and then as a stream. A plain one is mapped.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np

from memorisk.images.readers.array_streams import ArrayStream
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.formats.bounds import check_unpacked

_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_PIECE = 1 << 20
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
_ANEW = "it is cut off or no idx file; get it anew"


@dataclass(frozen=True)
class IdxHeader:
    """What an idx file declares."""

    dtype: np.dtype
    shape: tuple[int, ...]
    gzipped: bool

    @property
    def start(self) -> int:
        """Where the values begin."""
        return 4 + 4 * len(self.shape)

    @property
    def n_bytes(self) -> int:
        """Bytes of all values."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


def idx_header(path: Path) -> IdxHeader:
    """The header of an idx file.

    Raises:
        InputError: It has none, or declares more than gzip may unpack to.
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
    known = head[:2] == b"\0\0" and head[2:3] and head[2] in _TYPES
    if not known or not n_dimensions or len(dimensions) != 4 * n_dimensions:
        raise InputError(f"{one_line(path)}: does not begin as an idx file does ({head.hex(' ')}); {_ANEW}")
    shape = tuple(int(n) for n in np.frombuffer(dimensions, dtype=">u4"))
    header = IdxHeader(np.dtype(_TYPES[head[2]]), shape, gzipped)
    if gzipped:
        check_unpacked(path, f"an array of shape {shape}", header.n_bytes, path.stat().st_size)
    return header


def open_idx(path: Path) -> np.ndarray | ArrayStream:
    """The array of an idx file, mapped or as a stream.

    Raises:
        InputError: It is no idx file, or holds less or more than it declares.
    """
    header = idx_header(path)
    held = _unpacked_bytes(path, header) if header.gzipped else path.stat().st_size - header.start
    if held != header.n_bytes:
        what = "the file ends within the array" if held < header.n_bytes else "the file goes on after the array"
        there = f"{held:,}" if held < header.n_bytes else "more"
        raise InputError(
            f"{one_line(path)}: {what} (its header declares {_sizes(header.shape)}, {header.n_bytes:,} bytes, and "
            f"{there} are there); {_ANEW}"
        )
    if header.gzipped:
        return ArrayStream(_opened(path, gzipped=True), header.start, header.shape, header.dtype)
    if not header.n_bytes:
        return np.zeros(header.shape, header.dtype)
    return np.memmap(path, dtype=header.dtype, mode="r", offset=header.start, shape=header.shape)


def _unpacked_bytes(path: Path, header: IdxHeader) -> int:
    """How many bytes of values a gzipped file holds, up to one more than its header declares."""
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
    return InputError(f"{one_line(path)}: a broken gzip file ({one_line(error, 100)}); {_ANEW}")


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{n:,}" for n in shape)
