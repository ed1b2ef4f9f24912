"""Which slices of a volume show what a mask marks: one slice for each marked instance, and as many without any.

Paper 004, appendix A: "for each finding instance" one representative slice, and "a single slice without any labeled
findings for each abnormal slice". The paper does not say which; here the instance's axial slice with the most marked
voxels (the lowest of several), and slices without a mark spread evenly over those there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.readers.nifti import open_volume
from memorisk.runs.errors import InputError, one_line


@dataclass(frozen=True)
class Marked:
    """The slices of one volume that are taken, as ``images.readers.nifti`` counts axial ones (from the feet up)."""

    slices: list[int]
    """Slice of each image, those with marks first, both in order."""
    findings: list[list[int]]
    """For each image the findings (first axis of the mask) that it shows; empty for slices without a mark."""
    instances: int
    """Instances over all findings; several of one slice share an image."""


def choose_slices(areas: np.ndarray, owners: np.ndarray) -> Marked:
    """The slices to take.

    Args:
        areas: [instances, slices] marked voxels of each instance on each slice.
        owners: [instances] which finding each is one of.
    """
    n = areas.shape[1]
    best = sorted({int(row.argmax()) for row in areas})
    shown = [sorted({int(owner) for owner in owners[areas[:, at] > 0]}) for at in best]
    free = np.flatnonzero(~(areas > 0).any(axis=0)) if len(areas) else np.arange(n)
    wanted = min(len(best), len(free))
    others = [int(free[int((k + 0.5) * len(free) / wanted)]) for k in range(wanted)]
    return Marked(best + others, shown + [[] for _ in others], len(areas))


@dataclass(frozen=True)
class AxialPlace:
    """How a volume's stored voxels lie to its axial slices."""

    shape: tuple[int, int, int]
    axis: int
    """Stored axis that runs from the feet to the head, or back."""
    downwards: bool
    """Whether it runs from the head to the feet."""


def axial_place(volume: Path) -> AxialPlace:
    """Where a volume's axial slices are, from its header.

    Raises:
        InputError: It is no volume.
        MissingExtraError: nibabel is not installed.
    """
    with open_volume(volume) as image:
        from nibabel.orientations import io_orientation

        shape, places = [int(n) for n in image.shape], io_orientation(image.affine)
    axes = np.flatnonzero(places[:, 0] == 2)
    if len(shape) < 3 or len(axes) != 1:
        raise InputError(f"{one_line(volume)}: is no volume with three axes of space")
    return AxialPlace((shape[0], shape[1], shape[2]), int(axes[0]), bool(places[axes[0], 1] < 0))


def read_marked(mask: Path, place: AxialPlace) -> Marked:
    """The slices of a volume that a mask ``[findings, x, y, z]`` (or of one finding ``[x, y, z]``) chooses.

    Every value above zero is an instance of its finding. The mask has the volume's voxels, one by one; what its own
    header says of orientation is not used, since its first axis is none of space.

    Raises:
        InputError: Mask and volume differ in shape, or the mask holds other values than whole numbers.
    """
    with open_volume(mask) as marks:
        found = tuple(int(n) for n in marks.shape)
        if found[-3:] != place.shape or len(found) > 4:
            raise InputError(
                f"{one_line(mask)}: a mask of shape {' x '.join(map(str, found))} does not fit the volume's "
                f"{' x '.join(map(str, place.shape))}; get both of the same release"
            )
        areas, owners = _areas(_layers(marks, found, mask), place)
    return choose_slices(areas[:, ::-1] if place.downwards else areas, owners)


def _layers(marks: Any, shape: tuple[int, ...], mask: Path) -> Iterator[np.ndarray]:
    """The mask ``[findings, x, y]`` at each z, in order, so that a packed file is run through once.

    Raises:
        InputError: It holds other values than whole numbers of at least zero.
    """
    for z in range(shape[-1]):
        layer = np.asarray(marks.dataobj[..., z]).reshape(-1, *shape[-3:-1])
        if layer.dtype.kind != "u" and not ((layer >= 0) & (layer == np.floor(layer))).all():
            raise InputError(f"{one_line(mask)}: holds other values than the whole numbers of instances")
        yield layer


def _areas(layers: Iterator[np.ndarray], place: AxialPlace) -> tuple[np.ndarray, np.ndarray]:
    """Marked voxels of each instance on each slice of the axial axis, and the finding of each instance."""
    found: dict[tuple[int, int], np.ndarray] = {}
    n = place.shape[place.axis]
    for z, layer in enumerate(layers):
        findings, x, y = np.nonzero(layer)
        at = (x, y, np.full_like(x, z))[place.axis]
        values = layer[findings, x, y].astype(np.int64)
        codes, which = np.unique(findings << 32 | values, return_inverse=True)
        for k, code in enumerate(codes.tolist()):
            area = found.setdefault((code >> 32, code & 0xFFFFFFFF), np.zeros(n, np.int64))
            area += np.bincount(at[which == k], minlength=n)
    keys = sorted(found)
    areas = np.array([found[key] for key in keys]).reshape(len(keys), n)
    return areas, np.array([finding for finding, _ in keys], dtype=np.int64)
