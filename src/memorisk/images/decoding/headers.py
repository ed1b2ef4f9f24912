"""What the header of a file says of its images, without their pixels: height, width, and whether they are deep."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from memorisk.images.decoding.formats import file_format
from memorisk.images.readers.arrays import array_shapes, image_axes
from memorisk.images.readers.dicom import pydicom_module
from memorisk.images.readers.nifti import PLANES, canonical_shape, open_volume

_DEEP = ("I", "F")
"""Pillow's modes of more than 8 bits begin so."""


@dataclass(frozen=True)
class Header:
    """Of an image, as its file stores it."""

    height: int
    """In pixels; of a slice of a volume, either way round."""
    width: int
    """In pixels."""
    deep: bool
    """Whether a channel has more than 8 bits."""


def image_header(path: str | Path, member: str | None = None) -> Header | None:
    """The header of an image; None of files that have none that says it (records, idx), or cannot be read.

    Args:
        path: Of the file.
        member: Array in it, or plane of a volume, as in a manifest.
    """
    try:
        found = file_format(path)
        if found is None or found.name.startswith("idx"):
            return None
        return _READERS[found.kind](Path(path), member or "")
    except Exception:  # its pixels were read: what a library says of an odd header stops nothing
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
    plane = member.partition("@")[0] or "axial"
    with open_volume(path) as image:
        sides = [n for axis, n in enumerate(canonical_shape(image)) if axis != PLANES[plane]]
        kind = image.get_data_dtype()
    return Header(sides[0], sides[1], kind.fields is None and kind.itemsize > 1)  # fields: RGB


def _arrays(path: Path, member: str) -> Header:
    known = array_shapes(path)
    shape, kind = known[member] if member in known or len(known) > 1 else next(iter(known.values()))
    nothing: Any = np.broadcast_to(np.zeros((), kind), shape)  # of no size in memory
    first = image_axes(nothing, path)
    height, width = shape[2:4] if first else shape[1:3]
    return Header(int(height), int(width), kind.itemsize > 1)


_READERS: Mapping[str, Callable[[Path, str], Header]] = {
    "raster": _raster, "dicom": _dicom, "nifti": _nifti, "arrays": _arrays
}  # fmt: skip
