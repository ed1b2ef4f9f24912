"""Volumes: stacks of slices that are one image each, grey voxels [H, W, D].

A volume takes the place of an image: one row of a manifest, one entry of a store, one image of one patient. Its third
axis is depth, where other images have one or three channels; it has at least `LEAST_VOXELS`, which tells the two apart
(`is_volume`). After the nearest standard orientation rows run from anterior to posterior, columns from the patient's
right to left, as in an axial slice that radiologists look at, and depth from the feet to the head (`from_standard`).

What compares pixels compares all voxels. What needs an image of two dimensions looks at the middle axial slice
(`middle_slice`): pictures and thumbnails of near copies. Networks embed three middle slices, one
across each axis (`middle_slices`).

A manifest names a volume in the column ``member``: ``volume`` for a file, followed by the names of its other files
for a series of DICOM (`volume_member`).
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from memorisk.images.pixel_form import LEAST_VOXELS
from memorisk.runs.errors import InputError, one_line, plural

VOLUME = "volume"
"""Member of a file, or beginning of the member of a series, that is read as a volume."""
AXES = ("front to back", "right to left", "feet to head")
"""Direction of each axis of a volume, in words."""


def is_volume(shape: Sequence[int]) -> bool:
    """Return whether pixels are voxels of a volume, and not of an image with channels.

    Args:
        shape: Shape of the pixels, [..., H, W, C] or [..., H, W, D].

    Example:
        >>> is_volume((32, 32, 3)), is_volume((100, 32, 32, 32))
        (False, True)
    """
    return shape[-1] >= LEAST_VOXELS


def volume_member(others: Sequence[str] = ()) -> str:
    """Return the ``member`` of a manifest for a volume.

    Args:
        others: Names of the files of its other slices in their order, relative to the folder of its first slice.
    """
    return f"{VOLUME}:{json.dumps(list(others))}" if others else VOLUME


def is_volume_member(member: str | None) -> bool:
    """Return whether a row of a manifest is a volume, by its ``member``."""
    return member is not None and member.partition(":")[0] == VOLUME


def volume_files(file: str | Path, member: str | None) -> list[str]:
    """Return the files of a row: the one that it names and, for a series, those of the other slices, in their order.

    Args:
        file: Path of the row's file.
        member: Member of the row.

    Raises:
        InputError: The member of a volume is damaged.
    """
    first = str(file)
    if not is_volume_member(member) or member == VOLUME:
        return [first]
    try:
        names = json.loads(str(member).partition(":")[2])
        others = [str(Path(first).parent / name) for name in names]
    except (ValueError, TypeError):
        raise InputError(f"{one_line(first)}: {one_line(member, 60)!r} does not list the files of a volume") from None
    return [first, *others]


def volumes_note(n: int, one: str, several: str) -> str:
    """Return the note of a manifest on what is read as volumes.

    Args:
        n: Number of volumes.
        one: Name of what holds one volume.
        several: Name of several of these.
    """
    count = plural(n, f"{one} is", f"{several} are")
    return f"{count} read as volumes, each as one image; near copies are searched for in the middle axial slices."


def check_volume(name: str, shape: Sequence[int]) -> None:
    """Refuse a volume of too few voxels.

    Args:
        name: Name of the file.
        shape: Number of voxels along each axis.

    Raises:
        InputError: A side has fewer than `LEAST_VOXELS` voxels.
    """
    if min(shape) < LEAST_VOXELS:
        raise InputError(
            f"{name}: has {' x '.join(map(str, shape))} voxels; a volume has at least {LEAST_VOXELS} along each side "
            "(--frames middle reads a slice)"
        )


def from_standard(values: np.ndarray) -> np.ndarray:
    """Arrange values [x, y, z] that run to the right, to the front and to the head as a volume [H, W, D]."""
    return values.swapaxes(0, 1)[::-1, ::-1]


def middle_slice(image: np.ndarray) -> np.ndarray:
    """Return the middle axial slice [H, W, 1] of a volume; an image [H, W, C] stays as it is.

    Example:
        >>> middle_slice(np.zeros((8, 9, 10), np.uint8)).shape, middle_slice(np.zeros((8, 9, 3), np.uint8)).shape
        ((8, 9, 1), (8, 9, 3))
    """
    return image[..., image.shape[2] // 2][..., None] if is_volume(image.shape) else image


def middle_slices(volume: np.ndarray) -> list[np.ndarray]:
    """Return the middle slices [S, S, 1] of a cube across its third, its first and its second axis."""
    middle = volume.shape[2] // 2
    return [cut[..., None] for cut in (volume[:, :, middle], volume[middle], volume[:, middle])]


def resize_volume(volume: np.ndarray, size: int) -> np.ndarray:
    """Bring a volume to a cube: each side to as many voxels, by the triangle filter of `memorisk.images.pixels`.

    The sides of the cube count voxels and not millimetres. Slices are resized first, then the lines across them, in
    floats of 32 bits; values are rounded once.

    Args:
        volume: Voxels [H, W, D] uint8 or uint16.
        size: Side of the cube in voxels.

    Returns:
        Voxels [size, size, size] of the same type.
    """
    if volume.shape == (size, size, size):
        return volume
    slices = [_resized(np.moveaxis(volume, 2, 0)[k], (size, size)) for k in range(volume.shape[2])]
    rows = np.stack(slices, axis=-1)  # [size, size, D]
    cube = np.stack([_resized(row, (size, size)) for row in rows])
    return np.clip(np.rint(cube), 0, np.iinfo(volume.dtype).max).astype(volume.dtype)


def _resized(plane: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Bring numbers [h, w] to another height and width, antialiased, float32."""
    floats = Image.fromarray(np.ascontiguousarray(plane, dtype=np.float32))
    return np.asarray(floats.resize((shape[1], shape[0]), Image.Resampling.BILINEAR))
