"""Images in arrays: .npy, .npz, HDF5 and the idx files of MNIST (gzipped or not).

Rules: ``member`` names the array (optional where the file has one), ``frame`` the image in it. Shapes ``[n, h, w]``,
``[n, h, w, c]`` or, where only that fits, ``[n, c, h, w]``, c in {1, 3, 4}; a fourth channel is alpha, composited
over black, and refused where it holds a picture, as a further modality does. uint8 is kept. For other types the greys
are those of the *whole* array, so that images compare: floats within [0, 1] are multiplied by the largest value, whole
numbers and floats within [0, 255] are kept as 8 bits,
larger unsigned numbers are scaled by the bits that the largest of them needs; anything else is stretched from the
array's minimum to its maximum (its percentiles with the window ``percentile``). Nothing is unpickled. One image is read
at a time: uncompressed arrays by memory map, compressed ones as a stream that runs forward, so reading in order costs
one decompression and no more memory than an image. An image with a value that is NaN or infinite is refused.

HDF5 gives the fill value for what was never written, and unpacks a chunk to whatever it holds. A data set is read
only if all of it was written into this file and no chunk unpacks to more than its shape.
"""

import math
import os
import threading
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np

from memorisk.images.readers.greys import (
    opacity_is_picture,
    over_black,
    percentile_range,
    refuse_not_finite,
    stretch,
    to_depth,
)
from memorisk.images.readers.idx import ArrayStream, open_idx
from memorisk.images.readers.limits import check_count, check_size
from memorisk.images.readers.registry import ReadOptions, file_head, sniff
from memorisk.runs.errors import InputError, listed, one_line, unknown_name
from memorisk.runs.size_limits import FREE_BYTES, check_archive, check_unpacked

_DEFLATE, _SHUFFLE, _CHECKSUM = 1, 2, 3  # numbers of HDF5's filters
_DEFLATE_LIMIT = 1032
"""Largest number of bytes that deflate makes of one (zlib's technical notes)."""

NO_ARRAYS = "an archive without arrays; unpack the images in it and give their folder"
"""Description of a ZIP archive that is not an npz, with the remedy."""
_LOCK = threading.RLock()  # a stream has one position
_CHANNELS = (1, 3, 4)
_ROUNDING = 1e-3  # a resized float image may leave its range by rounding


@dataclass
class Hdf5Rows:
    """Data set that was written in whole; each chunk is checked before HDF5 unpacks it."""

    path: Path
    name: str
    data: Any
    """Data set object of h5py."""
    _sound: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the data set."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the data set's values."""
        return self.data.dtype

    def __getitem__(self, index: int) -> np.ndarray:
        if self.data.chunks is not None:
            self._check_row(index)
        return self.data[index]

    def read(self) -> np.ndarray:
        """Read the whole array.

        Raises:
            InputError: The array unpacks to more than its size allows.
        """
        n_bytes = math.prod(self.shape) * max(1, self.dtype.itemsize)
        check_unpacked(self.path, f"the array {one_line(self.name)!r}", n_bytes, self.data.id.get_storage_size())
        if self.data.chunks is not None:
            for row in range(0, self.shape[0], self.data.chunks[0]):
                self._check_row(row)
        return self.data[:] if self.dtype.kind != "O" else self._texts()

    def _texts(self) -> np.ndarray:
        """Read text of any length; all of it lies in the file, so a longer text than the file is false."""
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
        """Refuse a chunk that deflate unpacks to more than its shape needs; small chunks can do no harm.

        Raises:
            InputError: The chunk unpacks to more.
        """
        chunk = self.data.id.get_chunk_info_by_coord(place)
        if chunk.size * _DEFLATE_LIMIT <= FREE_BYTES or _DEFLATE not in _filters(self.data):
            return
        needed = math.prod(self.data.chunks) * self.dtype.itemsize + 4  # the checksum of one of the filters
        packed = self.data.id.read_direct_chunk(place)[1]
        stream = zlib.decompressobj()
        if len(stream.decompress(packed, needed + 1)) > needed:
            raise InputError(
                f"{one_line(self.path)}: a chunk of {one_line(self.name)!r} unpacks to more than its shape"
            )


def hdf5_arrays(path: Path) -> Iterator[tuple[str, Hdf5Rows]]:
    """Yield the data sets of an HDF5 file by their path in it, without those that lie in other files."""
    import h5py

    visited: set[Any] = set()

    def walk(group: Any, prefix: str) -> Iterator[tuple[str, Hdf5Rows]]:
        """Yield every data set below a group that lies in this file, with its path."""
        visited.add(group)
        for key in sorted(group):
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                continue
            item = group.get(key)
            if isinstance(item, h5py.Dataset):
                if item.shape is not None and item.external is None and not item.is_virtual:
                    yield prefix + key, Hdf5Rows(path, prefix + key, item)
            elif isinstance(item, h5py.Group) and item not in visited:
                yield from walk(item, f"{prefix}{key}/")

    yield from walk(h5py.File(path, "r"), "")


def check_written(rows: Hdf5Rows) -> Hdf5Rows:
    """Refuse a data set that was not written in whole, or that unpacks to far more than its stored size.

    Raises:
        InputError: The data set is such a one.
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
    """Return the numbers of a data set's filters."""
    created = data.id.get_create_plist()
    return [created.get_filter(i)[0] for i in range(created.get_nfilters())]


class Rows(Protocol):
    """Array whose first axis is read one index at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the array's values."""
        ...

    def __getitem__(self, index: int) -> np.ndarray:
        """Read one image, all its axes."""
        ...


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Read one image of an array, ``[h, w, c]`` uint8 or uint16; the module's docstring explains the values."""
    with _LOCK:
        rows = open_rows(path, how.member)
        first = image_axes(rows, path)
        if how.frame is None or not 0 <= how.frame < rows.shape[0]:
            raise InputError(f"{one_line(path)}: has images 0 to {rows.shape[0] - 1}, not {how.frame}")
        height, width = rows.shape[2:4] if first else rows.shape[1:3]
        check_size(path, width, height, how.max_pixels)
        image = np.asarray(rows[how.frame])
        image = image if image.ndim == 3 else image[..., None]
        image = np.moveaxis(image, 0, -1) if first else image
        refuse_not_finite(image, f"{one_line(path)}: image {how.frame}")
        if image.dtype != np.uint8:
            image = _mapped(image, _greys(path, how.member, *_version(path)), how)
    if image.shape[2] == 4:
        if not how.opaque and opacity_is_picture(image[..., 3]):
            raise InputError(
                f"{one_line(path)}: the fourth channel of image {how.frame} holds a picture, and would be taken for "
                "transparency; give an array of three channels, or one of a single channel for each"
            )
        colour = np.ascontiguousarray(image[..., :3])
        image = colour if how.opaque else over_black(colour, image[..., 3])
    return to_depth(np.ascontiguousarray(image), how.depth)


def count_frames(path: Path) -> int:
    """Return the number of images of a file with one array."""
    with _LOCK:
        return int(open_rows(path, None).shape[0])


def image_axes(rows: Rows, path: Path) -> bool:
    """Return whether the channels come before height and width.

    Raises:
        InputError: The shape is not that of images.
    """
    shape = tuple(int(n) for n in rows.shape)
    if np.dtype(rows.dtype).kind not in "buif":
        raise InputError(f"{one_line(path)}: values of type {rows.dtype} are no pixels")
    if 0 in shape[1:]:  # they take no bytes, so a header could declare any number
        raise InputError(f"{one_line(path)}: an array of shape {shape} holds images without a pixel")
    check_count(path, shape[0], "images")
    if len(shape) == 3 or (len(shape) == 4 and shape[3] in _CHANNELS):
        return False
    if len(shape) == 4 and shape[1] in _CHANNELS:
        return True
    raise InputError(
        f"{one_line(path)}: an array of shape {shape} holds no images; expected [n, h, w], [n, h, w, c] or "
        "[n, c, h, w] with 1, 3 or 4 channels"
    )


def array_shapes(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Return the shape and type of each array in a file by its name; the name of a single nameless array is ""."""
    name = _format_name(path)
    if name == "npz":
        with _zip(path) as archive:
            members = [m for m in archive.namelist() if m.endswith(".npy")]
            shapes = {}
            for member in members:
                with archive.open(member) as stream:
                    shape, dtype, _ = _npy_header(stream, path, member)
                shapes[member.removesuffix(".npy")] = (shape, dtype)
            return shapes
    if name == "HDF5":
        return {key: (tuple(rows.shape), rows.dtype) for key, rows in hdf5_arrays(path)}
    rows = open_rows(path, None)
    return {"": (tuple(rows.shape), np.dtype(rows.dtype))}


def whole_array(path: Path, member: str | None) -> np.ndarray:
    """Read one array into memory, for labels and groups."""
    with _LOCK:
        rows = open_rows(path, member)
        if len(rows.shape) == 0:
            raise InputError(f"{one_line(path)}: {one_line(member)} is a single value, not an array")
        if not rows.dtype.itemsize and 0 not in rows.shape:
            raise InputError(f"{one_line(path)}: {one_line(member)} is an array of values without a byte")
        return np.asarray(rows.read() if isinstance(rows, ArrayStream | Hdf5Rows) else rows[:])  # type: ignore[call-overload]


def open_rows(path: Path, member: str | None) -> Rows:
    """Open an array of a file; the last few are kept open."""
    return _opened(path, member, *_version(path))


def _version(path: Path) -> tuple[int, int, int]:
    """Return the size and time of a file, and this process: a forked process must not share an open stream."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, os.getpid()


@lru_cache(maxsize=4)
def _opened(path: Path, member: str | None, size: int, modified: int, process: int) -> Rows:
    name = _format_name(path)
    if name == "npz":
        return _npz_rows(path, member)
    if name == "HDF5":
        data_sets = dict(hdf5_arrays(path))
        return check_written(data_sets[_chosen(member, list(data_sets), path)])
    if member:
        raise InputError(f"{one_line(path)}: holds one array without a name, not {one_line(member)!r}")
    if name == "npy":
        with path.open("rb") as file:
            _npy_header(file, path, "")
        return cast(Rows, np.load(path, mmap_mode="r", allow_pickle=False))
    return cast(Rows, open_idx(path))


def _format_name(path: Path) -> str:
    file_type = sniff(file_head(path))
    return file_type.name if file_type else "?"


def _chosen(member: str | None, known: list[str], path: Path) -> str:
    """Choose the array to read.

    Raises:
        InputError: The array does not exist, or the file has several and the user names none.
    """
    if not known:
        raise InputError(f"{one_line(path)}: {NO_ARRAYS}")
    if member is None and len(known) == 1:
        return known[0]
    if member is None:
        raise InputError(f"{one_line(path)}: holds {len(known)} arrays ({listed(known, 8)}); name one")
    if member not in known:
        raise unknown_name(f"array in {one_line(path)}:", member, [one_line(name, 60) for name in known])
    return member


def _npy_header(stream: IO[bytes], path: Path, member: str) -> tuple[tuple[int, ...], np.dtype, bool]:
    """Read the shape, the type and whether the order is Fortran's; the stream is then at the values.

    Raises:
        InputError: The array holds Python objects, which only unpickling could read.
    """
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(stream)
    if dtype.hasobject:
        raise InputError(
            f"{one_line(path)}: the array {one_line(member)!r} holds pickled Python objects, which are never loaded; "
            "save it as numbers or text (np.asarray(values, dtype=str))"
        )
    return shape, dtype, fortran


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        check_archive(path)
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"{one_line(path)}: a broken npz ({one_line(error, 80)})") from None


def _npz_rows(path: Path, member: str | None) -> Rows:
    archive = _zip(path)
    names = [m.removesuffix(".npy") for m in archive.namelist() if m.endswith(".npy")]
    chosen = _chosen(member, names, path)
    stream = archive.open(f"{chosen}.npy")
    shape, dtype, fortran = _npy_header(stream, path, chosen)
    packed = archive.getinfo(f"{chosen}.npy")
    n_bytes = math.prod(shape) * dtype.itemsize
    if packed.file_size < stream.tell() + n_bytes:
        raise InputError(f"{one_line(path)}: {one_line(chosen)} declares shape {shape}, more than the file holds")
    check_unpacked(path, f"the array {one_line(chosen)!r}", n_bytes, packed.compress_size)
    if fortran and len(shape) > 1:  # its images are not contiguous: nothing to stream
        stream.close()
        with np.load(path, allow_pickle=False) as arrays:
            return cast(Rows, arrays[chosen])
    return ArrayStream(stream, stream.tell(), shape, dtype)


@dataclass(frozen=True)
class _Greys:
    """Range of the values of a whole array."""

    low: float
    high: float
    percentiles: tuple[float, float]


@lru_cache(maxsize=8)
def _greys(path: Path, member: str | None, size: int, modified: int, process: int) -> _Greys:
    """Return the minimum and maximum over an array; percentiles over up to 1,000 of its images, 4,096 values each."""
    rows = open_rows(path, member)
    n = int(rows.shape[0])
    low, high, sampled = np.inf, -np.inf, []
    for i in range(n):
        values = np.asarray(rows[i])
        values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
        if i % max(1, n // 1000) == 0:
            sampled.append(values.ravel()[:: max(1, values.size // 4096)])
    if low > high:
        low = high = 0.0
    return _Greys(low, high, percentile_range(np.concatenate(sampled).astype(np.float64)))


def _mapped(image: np.ndarray, greys: _Greys, how: ReadOptions) -> np.ndarray:
    """Map values that are not uint8, by the range of their array."""
    kind, low, high = image.dtype.kind, greys.low, greys.high
    if kind == "b":
        return image.astype(np.uint8) * np.uint8(255)
    clean = image.astype(np.float64)
    if how.window == "percentile":
        return stretch(clean, *greys.percentiles, how.depth)
    if kind == "f" and low >= -_ROUNDING and high <= 1 + _ROUNDING:
        return stretch(clean, 0.0, 1.0, how.depth)
    if low >= -_ROUNDING and high <= 255 + _ROUNDING:
        return stretch(clean, 0.0, 255.0, how.depth)
    if kind == "u":
        bits = 8 * image.dtype.itemsize if how.window == "full" else int(high).bit_length()
        return stretch(clean, 0.0, float((1 << bits) - 1), how.depth)
    return stretch(clean, low, high, how.depth)
