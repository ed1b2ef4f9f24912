"""Data sets of HDF5 files: which there are, and whether they were written as their headers declare.

HDF5 gives the fill value for what was never written, and unpacks a chunk to whatever it holds. A data set is read here
only if all of it was written into this file and no chunk unpacks to more than its shape.
"""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.formats.bounds import FREE_BYTES, check_unpacked

_DEFLATE, _SHUFFLE, _CHECKSUM = 1, 2, 3  # numbers of HDF5's filters
_DEFLATE_LIMIT = 1032
"""Most bytes that deflate makes of one (zlib's technical notes)."""


@dataclass
class Hdf5Rows:
    """A data set of which all was written; each chunk is looked at before HDF5 unpacks it."""

    path: Path
    name: str
    data: Any
    """The data set of h5py."""
    _sound: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the data set."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype:
        """Of its values."""
        return self.data.dtype

    def __getitem__(self, index: int) -> np.ndarray:
        if self.data.chunks is not None:
            self._check_row(index)
        return self.data[index]

    def read(self) -> np.ndarray:
        """The whole array.

        Raises:
            InputError: It unpacks to more than its size allows.
        """
        n_bytes = math.prod(self.shape) * max(1, self.dtype.itemsize)
        check_unpacked(self.path, f"the array {one_line(self.name)!r}", n_bytes, self.data.id.get_storage_size())
        if self.data.chunks is not None:
            for row in range(0, self.shape[0], self.data.chunks[0]):
                self._check_row(row)
        return self.data[:] if self.dtype.kind != "O" else self._texts()

    def _texts(self) -> np.ndarray:
        """Text of any length; all of it lies in the file, so that more than the file has is a lie."""
        size = self.path.stat().st_size
        at_once, total, parts = max(1, min(4096, FREE_BYTES // size)), 0, []
        for row in range(0, self.shape[0], at_once):
            part = self.data[row : row + at_once]
            total += sum(len(value) for value in part.ravel())
            if total > size:
                raise InputError(f"{one_line(self.path)}: {one_line(self.name)!r} holds more text than the file")
            parts.append(part)
        return np.concatenate(parts) if parts else np.zeros(self.shape, dtype=object)

    def _check_row(self, row: int) -> None:
        """Check the chunks in which a row lies, unless the last row lay there, too."""
        sides = self.data.chunks
        first = row // sides[0]
        if self._sound == (first,):
            return
        counts = [range(-(-n // side)) for n, side in zip(self.shape[1:], sides[1:], strict=True)]
        for rest in np.ndindex(*(len(c) for c in counts)):
            self._check_chunk(tuple(i * side for i, side in zip((first, *rest), sides, strict=True)))
        self._sound = (first,)

    def _check_chunk(self, place: tuple[int, ...]) -> None:
        """Refuse a chunk that deflate makes more of than its shape needs; small ones cannot do harm.

        Raises:
            InputError: It is so.
        """
        found = self.data.id.get_chunk_info_by_coord(place)
        if found.size * _DEFLATE_LIMIT <= FREE_BYTES or _DEFLATE not in _filters(self.data):
            return
        needed = math.prod(self.data.chunks) * self.dtype.itemsize + 4  # the checksum of one of the filters
        packed = self.data.id.read_direct_chunk(place)[1]
        stream = zlib.decompressobj()
        if len(stream.decompress(packed, needed + 1)) > needed:
            raise InputError(
                f"{one_line(self.path)}: a chunk of {one_line(self.name)!r} unpacks to more than its shape"
            )


def hdf5_arrays(path: Path) -> Iterator[tuple[str, Hdf5Rows]]:
    """Data sets of an HDF5 file by their path in it; what lies in other files is left out."""
    import h5py

    seen: set[Any] = set()

    def walk(group: Any, prefix: str) -> Iterator[tuple[str, Hdf5Rows]]:
        """Every data set below a group that lies in this file, with its path."""
        seen.add(group)
        for key in sorted(group):
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                continue
            item = group.get(key)
            if isinstance(item, h5py.Dataset):
                if item.shape is not None and item.external is None and not item.is_virtual:
                    yield prefix + key, Hdf5Rows(path, prefix + key, item)
            elif isinstance(item, h5py.Group) and item not in seen:
                yield from walk(item, f"{prefix}{key}/")

    yield from walk(h5py.File(path, "r"), "")


def check_written(rows: Hdf5Rows) -> Hdf5Rows:
    """Refuse a data set that was not written in whole, or that unpacks to far more than is stored.

    Raises:
        InputError: It is so.
    """
    path, name, data = rows.path, one_line(rows.name, 80), rows.data
    n_bytes, stored = math.prod(rows.shape) * rows.dtype.itemsize, data.id.get_storage_size()
    if not n_bytes:
        return rows
    if data.chunks is None:
        place = data.id.get_offset()  # None of a compact one, which lies in the header
        if stored < n_bytes or (place is not None and place + n_bytes > path.stat().st_size):
            raise InputError(
                f"{one_line(path)}: {name!r} declares shape {rows.shape}, {n_bytes:,} bytes, more than were written"
            )
        return rows
    needed = math.prod(-(-n // side) for n, side in zip(rows.shape, data.chunks, strict=True))
    written = data.id.get_num_chunks()
    if written < needed:
        raise InputError(
            f"{one_line(path)}: {name!r} declares shape {rows.shape}, of which {written:,} of {needed:,} chunks were "
            "written; HDF5 would make up the rest"
        )
    packing = [code for code in _filters(data) if code not in (_SHUFFLE, _CHECKSUM)]
    if len(packing) > 1:
        raise InputError(f"{one_line(path)}: {name!r} is compressed several times over; save it with one filter")
    check_unpacked(path, repr(name), n_bytes, stored)
    check_unpacked(path, f"a chunk of {name!r}", math.prod(data.chunks) * rows.dtype.itemsize, stored // needed)
    return rows


def _filters(data: Any) -> list[int]:
    """The numbers of a data set's filters."""
    created = data.id.get_create_plist()
    return [created.get_filter(i)[0] for i in range(created.get_nfilters())]
