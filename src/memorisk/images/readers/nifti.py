"""NIfTI volumes (``.nii``, ``.nii.gz``) through nibabel: one slice of a plane as a grey or RGB image, or all voxels.

Rules: the volume is turned to the nearest standard orientation (right, anterior, superior) by exchanging and
flipping axes, never by resampling; the plane is ``member`` (axial, coronal, sagittal; axial if not given), the
slice is ``frame`` (the middle one, n // 2, if not given). A manifest may declare the greys of its rows as part of
``member`` (``axial@-1000:1000``, :func:`declared_plane`). Slices are shown as radiologists see them: the patient's
right at the left of axial and coronal slices, anterior (axial) or superior at the top. The member ``volume`` is all
voxels, [h, w, d] as `memorisk.images.volumes` arranges them. The first volume of a series
is taken. Greys, over the whole volume so that its slices compare: the row's range or the header's
cal_min..cal_max if they declare one, else percentiles; minimum to maximum with ``window`` full. A volume with voxels
that are NaN or infinite is refused.
"""

import logging
import math
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from memorisk.images.readers.greys import percentile_range, stretch, to_depth
from memorisk.images.readers.limits import SLICES, check_size
from memorisk.images.readers.registry import ReadOptions
from memorisk.images.volumes import VOLUME, check_volume, from_standard, is_volume_member
from memorisk.runs.errors import InputError, MissingExtraError, one_line, unknown_name
from memorisk.runs.size_limits import GzipStream

PLANES = {"sagittal": 0, "coronal": 1, "axial": 2}
_PIECE = 1 << 20  # bytes read at a time


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Read one slice, ``[h, w, c]``, or all voxels, ``[h, w, d]``, uint8 or uint16.

    Raises:
        InputError: The file has no such plane or slice, is too large, or is not a volume.
        MissingExtraError: nibabel is not installed.
    """
    if is_volume_member(how.member):
        return _read_voxels(path, how)
    plane, declared = _plane(path, how.member or "axial")
    if plane not in PLANES:
        raise unknown_name("plane", plane, PLANES)
    volume = _volume(path, how.max_pixels)
    axis = PLANES[plane]
    n = volume.values.shape[axis]
    index = n // 2 if how.frame is None else how.frame
    if not 0 <= index < n:
        raise InputError(f"{one_line(path)}: has {plane} slices 0 to {n - 1}, not {index}")
    _refuse_not_finite(path, volume)
    cut = volume.slice(axis, index).swapaxes(0, 1)[::-1]
    greys = cut if plane == "sagittal" else cut[:, ::-1]
    if greys.ndim == 3:
        return to_depth(np.ascontiguousarray(greys), how.depth)
    check_size(path, greys.shape[1], greys.shape[0], how.max_pixels)
    low, high = volume.limits(how.window, declared)
    return stretch(greys, low, high, how.depth)[..., None]


def _read_voxels(path: Path, how: ReadOptions) -> np.ndarray:
    """Read all voxels ``[h, w, d]`` of the first volume.

    Raises:
        InputError: The file is too large, has coloured voxels, or too few of them.
    """
    volume = _volume(path, how.max_pixels)
    if volume.values.ndim > 3:
        raise InputError(f"{one_line(path)}: has coloured voxels, and volumes are grey (--frames middle reads a slice)")
    check_volume(one_line(path), volume.values.shape)
    _refuse_not_finite(path, volume)
    low, high = volume.limits(how.window, None)
    greys = [stretch(volume.slice(2, z), low, high, how.depth) for z in range(volume.values.shape[2])]
    return np.ascontiguousarray(from_standard(np.stack(greys, axis=-1)))


def _refuse_not_finite(path: Path, volume: "_Volume") -> None:
    if volume.n_not_finite:
        raise InputError(
            f"{one_line(path)}: {volume.n_not_finite:,} voxels are NaN or infinite; replace them before the audit"
        )


def count_frames(path: Path, plane: str = "axial") -> int:
    """Count the slices of a plane, or with ``volume`` the volumes of a file."""
    with open_volume(path) as image:
        if plane == VOLUME:
            return math.prod(int(n) for n in image.shape[3:])
        return canonical_shape(image, path)[PLANES[plane]]


def declared_plane(plane: str, low: float, high: float) -> str:
    """Return a manifest's ``member`` for slices of a plane whose greys range from ``low`` to ``high``."""
    return f"{plane}@{low:g}:{high:g}"


def _plane(path: Path, member: str) -> tuple[str, tuple[float, float] | None]:
    """Return the plane and the declared greys of a member.

    Raises:
        InputError: The greys are not two numbers, the first below the second.
    """
    plane, at, greys = member.partition("@")
    if not at:
        return plane, None
    try:
        low, high = (float(value) for value in greys.split(":"))
    except ValueError:
        low = high = 0.0
    if not low < high:
        raise InputError(f"{one_line(path)}: {one_line(member, 60)!r} is not PLANE@LOW:HIGH, as axial@-1000:1000")
    return plane, (low, high)


@contextmanager
def open_volume(path: Path) -> Iterator[Any]:
    """Open a volume's header (a nibabel image whose values are not read).

    Raises:
        InputError: The header declares more than the file can hold.
        MissingExtraError: nibabel is not installed.
    """
    with _quiet(), closing(_stream(path)) as stream:
        yield _image(stream)


@dataclass(frozen=True)
class _Volume:
    """Stored values ``[x, y, z]`` (or ``[x, y, z, 3]``) in standard orientation; a grey is ``stored * slope + inter``.

    Only slices are scaled: all voxels as floats of 64 bits would take four times the memory of the file's 16.
    """

    values: np.ndarray
    slope: float
    inter: float
    declared: tuple[float, float] | None
    n_not_finite: int
    """Number of stored values that are NaN or infinite."""

    def slice(self, axis: int, index: int) -> np.ndarray:
        """Return the greys of a slice."""
        return self._scaled(np.take(self.values, index, axis=axis))

    def _scaled(self, values: Any) -> np.ndarray:
        return _nibabel().volumeutils.apply_read_scaling(np.asarray(values), self.slope, self.inter)

    def _ends(self, ends: tuple[float, float]) -> tuple[float, float]:
        """Return the stored ends of a range as greys, the lower one first: a slope may be negative."""
        low, high = (float(v) for v in self._scaled(np.array(ends)))
        return min(low, high), max(low, high)

    @cached_property
    def percentiles(self) -> tuple[float, float]:
        """Return the percentiles over all values, computed only on need: a chest scan takes a second or more."""
        return self._ends(percentile_range(self.values))

    def limits(self, window: str, declared: tuple[float, float] | None) -> tuple[float, float]:
        """Return the range of greys shown; ``declared`` by a row takes precedence over the header's own."""
        declared = declared or self.declared
        if window == "declared" and declared is not None:
            return declared
        if window == "full":
            return self._ends((float(self.values.min()), float(self.values.max())))
        return self.percentiles


def _volume(path: Path, max_pixels: int) -> _Volume:
    """Decode a volume; the last one is kept, so that its slices need one decoding."""
    status = path.stat()
    return _loaded(path, status.st_size, status.st_mtime_ns, max_pixels)


@lru_cache(maxsize=1)
def _loaded(path: Path, size: int, modified: int, max_pixels: int) -> _Volume:
    with _quiet(), closing(_stream(path)) as stream:
        image = _image(stream)
        header, shape = image.header, tuple(int(n) for n in image.shape)
        if len(shape) < 2 or min(shape) < 1:
            raise InputError(f"{one_line(path)}: a NIfTI file of shape {shape} holds no volume")
        if math.prod(shape[:3]) > SLICES * max_pixels:
            raise InputError(
                f"{one_line(path)}: declares {' x '.join(map(str, shape))} voxels, more than {SLICES} times the "
                f"{max_pixels:,} pixels allowed in a frame; raise max_pixels if it is right"
            )
        values = _first_volume(stream, image, shape[:3])
        if isinstance(stream, GzipStream) and len(shape) <= 3:
            stream.limit += 1
            stream.read(1)  # at its end gzip compares the checksum
    if values.dtype.names:  # RGB or RGBA voxels
        values = np.stack([values[c] for c in values.dtype.names[:3]], axis=-1)
    elif values.dtype.kind not in "iuf":
        raise InputError(f"{one_line(path)}: voxels of type {values.dtype} are no greys")
    while values.ndim < 3:
        values = values[..., None]
    n_not_finite = 0
    if values.dtype.kind == "f":
        n_not_finite = sum(part.size - int(np.count_nonzero(np.isfinite(part))) for part in values.T)
    values = _nibabel().apply_orientation(values, _axes(image, path))
    low, high = float(header["cal_min"]), float(header["cal_max"])
    declared = (low, high) if np.isfinite([low, high]).all() and high > low else None
    return _Volume(values, image.dataobj.slope, image.dataobj.inter, declared, n_not_finite)


def _first_volume(stream: IO[bytes] | GzipStream, image: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the stored values of the first volume; memory fills as they are read, and reading ends with them."""
    values = np.empty(shape, dtype=image.get_data_dtype().newbyteorder(image.header.endianness), order="F")
    content = values.reshape(-1, order="F").view(np.uint8)
    stream.seek(image.dataobj.offset)
    for place in range(0, len(content), _PIECE):
        piece = stream.read(min(_PIECE, len(content) - place))
        content[place : place + len(piece)] = np.frombuffer(piece, np.uint8)
        if len(piece) < min(_PIECE, len(content) - place):
            raise EOFError(f"it ends {place + len(piece):,} bytes into the {len(content):,} of its voxels")
    return values


def _nibabel() -> Any:
    """Return the library nibabel, imported when the first volume is met.

    Raises:
        MissingExtraError: The library is not installed.
    """
    try:
        import nibabel
    except ImportError:
        raise MissingExtraError("nibabel", "medical", "reading NIfTI") from None
    logger = logging.getLogger("nibabel.global")
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())  # without a handler Python would print a second line to our own
    return nibabel


def _quiet() -> Any:
    """Return a context in which nibabel does not print its remarks on odd headers."""
    return _nibabel().imageglobals.LoggingOutputSuppressor()


def _stream(path: Path) -> IO[bytes] | GzipStream:
    """Open the file's content, unpacked if it is gzip, whatever its name is."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return GzipStream(path) if packed else path.open("rb")


def _image(stream: IO[bytes] | GzipStream) -> Any:
    """Return the header and a lazy view of the values; gzip is unpacked no further than the header declares.

    Raises:
        InputError: The header declares voxels beyond the end of the file, or beyond what gzip may unpack to.
    """
    nibabel = _nibabel()
    second = stream.read(8)[4:8] == b"n+2\0"
    stream.seek(0)
    image = (nibabel.Nifti2Image if second else nibabel.Nifti1Image).from_stream(stream)
    shape, kind = image.shape[:3], image.get_data_dtype()
    needed = int(image.dataobj.offset) + math.prod(int(n) for n in shape) * kind.itemsize
    if isinstance(stream, GzipStream):
        stream.check(needed)
        stream.limit = int(image.dataobj.offset) + math.prod(int(n) for n in image.shape) * kind.itemsize
    elif needed > os.fstat(stream.fileno()).st_size:
        raise InputError(
            f"{one_line(stream.name)}: declares {' x '.join(map(str, shape))} voxels of {kind.itemsize * 8} bits, more "
            "than the file holds"
        )
    return image


def _axes(image: Any, path: Path) -> np.ndarray:
    """Return the standard axis and direction of each stored axis, ``[3, 2]``, by nibabel's nearest orientation.

    The sform counts where its code is set, else the qform, else the stored order. Where a sform gives no axes (zeros,
    NaN), a qform whose code is set is used instead.

    Raises:
        InputError: The header gives no axes.
    """
    affines = [image.affine]
    if int(image.header["qform_code"]) > 0:
        affines.append(image.header.get_qform())
    for affine in affines:
        if np.isfinite(affine).all() and np.linalg.matrix_rank(affine[:3, :3]) == 3:
            return _nibabel().io_orientation(affine)
    raise InputError(
        f"{one_line(path)}: its header does not say how the volume lies (sform "
        "and qform hold zeros or NaN); save it anew with an orientation"
    )


def canonical_shape(image: Any, path: Path) -> tuple[int, ...]:
    """Return the number of voxels along x, y and z of the standard orientation."""
    shape = [1, 1, 1]
    axes = _axes(image, path)[:, 0].astype(int)
    for axis, size in zip(axes, (*image.shape, 1, 1)[:3], strict=True):
        shape[axis] = int(size)
    return tuple(shape)
