"""Headers of files: height, width and depth of an image, and the number of frames, pages or slices, without pixels.

`uncovered_frames` counts the frames, pages and slices of a manifest's files that have no row.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.readers.arrays import array_shapes, image_axes
from memorisk.images.readers.dicom import pydicom_module
from memorisk.images.readers.nifti import PLANES, canonical_shape, open_volume
from memorisk.images.readers.nifti import count_frames as count_slices
from memorisk.images.readers.registry import SHARDS, count_frames, file_format
from memorisk.images.readers.suffixes import KIND_BY_SUFFIX, suffix
from memorisk.images.volumes import VOLUME, is_volume_member
from memorisk.runs.errors import InputError

_DEEP = ("I", "F")
"""Prefixes of Pillow's modes of more than 8 bits."""
_STACKS = frozenset(("TIFF", "GIF", "WEBP", "PNG", "DICOM", "NIfTI", "NIfTI, gzipped"))


@dataclass(frozen=True)
class Header:
    """Header of an image, as its file stores it."""

    height: int
    """Height in pixels; the height of a slice of a volume may be exchanged with its width."""
    width: int
    """Width in pixels."""
    deep: bool
    """Whether a channel has more than 8 bits."""


def image_header(path: str | Path, member: str | None = None) -> Header | None:
    """Return the header of an image; None for files whose header lacks it (records, idx), or that cannot be read.

    Args:
        path: Path of the file.
        member: Array in the file, or plane of a volume, as in a manifest.
    """
    try:
        file_type = file_format(path)
        if file_type is None or file_type.name.startswith("idx"):
            return None
        return _READERS[file_type.kind](Path(path), member or "")
    except Exception:  # the image's pixels were read: a library's error on an odd header must not stop the run
        return None


def _raster(path: Path, member: str) -> Header:
    with warnings.catch_warnings(action="ignore"), Image.open(path) as image:
        return Header(image.height, image.width, image.mode.startswith(_DEEP))


def _dicom(path: Path, member: str) -> Header:
    tags = ["Rows", "Columns", "BitsStored", "BitsAllocated"]
    with warnings.catch_warnings(action="ignore"):
        data = pydicom_module().dcmread(path, force=True, stop_before_pixels=True, specific_tags=tags)
        bits = data.get("BitsStored") or data["BitsAllocated"].value
        return Header(int(data["Rows"].value), int(data["Columns"].value), int(bits) > 8)


def _nifti(path: Path, member: str) -> Header:
    plane = "axial" if is_volume_member(member) else member.partition("@")[0] or "axial"
    with open_volume(path) as image:
        sides = [n for axis, n in enumerate(canonical_shape(image, path)) if axis != PLANES[plane]]
        kind = image.get_data_dtype()
    return Header(sides[0], sides[1], kind.fields is None and kind.itemsize > 1)  # fields: RGB


def _arrays(path: Path, member: str) -> Header:
    shapes = array_shapes(path)
    shape, kind = shapes[member] if member in shapes or len(shapes) > 1 else next(iter(shapes.values()))
    nothing: Any = np.broadcast_to(np.zeros((), kind), shape)  # of no size in memory
    first = image_axes(nothing, path)
    height, width = shape[2:4] if first else shape[1:3]
    return Header(int(height), int(width), kind.itemsize > 1)


_READERS: Mapping[str, Callable[[Path, str], Header]] = {
    "raster": _raster, "dicom": _dicom, "nifti": _nifti, "arrays": _arrays
}  # fmt: skip


def is_volume(root: Path, path: str) -> bool:
    """Return whether a file is a NIfTI volume: by its suffix, or by its content where the suffix decides nothing."""
    if suffix(path) in KIND_BY_SUFFIX or path.startswith(BUILTIN):
        return KIND_BY_SUFFIX.get(suffix(path)) == "nifti"
    file_type = file_format(root / path)
    return file_type is not None and file_type.kind == "nifti"


def is_stack(path: Path, *, volume: bool) -> bool:
    """Return whether a file is of a kind that may hold several images, or is a JPEG with several."""
    file_type = file_format(path)
    if volume or file_type is None:
        return volume
    return file_type.name in _STACKS or (
        file_type.name == "JPEG" and (frame_count(path, volume=False, plane="") or 1) > 1
    )


def frame_count(path: Path, *, volume: bool, plane: str) -> int | None:
    """Return the number of frames, pages or, of a volume, slices in a plane; None if it cannot be read that far.

    The store counts such a file, with the reason.
    """
    try:
        return count_slices(path, plane) if volume else count_frames(path)
    except Exception:  # decoders raise anything on broken files
        return None


def uncovered_frames(manifest: Manifest, plane: str) -> dict[str, int]:
    """Count the unchecked frames, pages and slices of a manifest's files, those without a row, by path.

    Of files that are read as volumes the function counts further volumes, as of a series in time.

    Args:
        manifest: Manifest of single images, or of some frames of each file; arrays have no such frames.
        plane: Plane of the slices of volumes.
    """
    if manifest.root is None:
        return {}
    paths = manifest.table["path"].astype(str)
    rows = paths.value_counts(sort=False)
    members = manifest.table["member"].tolist() if "member" in manifest.table else []
    whole = {path for path, member in zip(paths, members, strict=False) if is_volume_member(member)}
    n_uncovered = _uncovered_in_rows(manifest, plane)
    for path, n in rows.items():
        file = manifest.root / str(path)
        try:
            volume = is_volume(manifest.root, str(path))
            stack = is_stack(file, volume=volume) and (volume or path not in whole)
        except (OSError, ValueError):
            continue
        counted = VOLUME if path in whole else plane
        if stack and (more := (frame_count(file, volume=volume, plane=counted) or 0) - int(n)) > 0:
            n_uncovered[str(path)] = more
    return n_uncovered


def _uncovered_in_rows(manifest: Manifest, plane: str) -> dict[str, int]:
    """Count the frames, pages and slices behind the one that is read of images in rows of Parquet and Arrow, by path.

    Args:
        manifest: Manifest of the images.
        plane: Plane of the slices of volumes.
    """
    table, n_uncovered = manifest.table, Counter[str]()
    if manifest.root is None or "member" not in table or "frame" not in table:
        return {}
    from memorisk.images.readers.shards import row_file  # pyarrow is needed for such files alone

    in_rows = cache(lambda path: (kind := file_format(path)) is not None and kind.module == SHARDS)
    for path, column, row in zip(table["path"].astype(str), table["member"], table["frame"], strict=True):
        file = manifest.root / path
        try:
            if not in_rows(file):
                continue
            with row_file(file, str(column), int(row)) as image:
                kind = file_format(image)
                volume = kind is not None and kind.kind == "nifti"
                stack = is_stack(image, volume=volume)
                n_uncovered[path] += max(0, (frame_count(image, volume=volume, plane=plane) or 1) - 1) if stack else 0
        except (InputError, OSError, ValueError, TypeError):  # the store counts such an image, with the reason
            continue
    return dict(+n_uncovered)
