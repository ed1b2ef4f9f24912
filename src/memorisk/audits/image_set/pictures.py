"""Pictures of sets of copies: the images of a set, and after each near copy its difference, bright enough to see."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.comparison.pictures import amplified
from memorisk.audits.image_set.tables import NEAR
from memorisk.images.copies.near_copies import orientations
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import PixelRule
from memorisk.images.store import manifest_sources
from memorisk.images.volumes import middle_slice

MOST_SETS = 60
MOST_IMAGES = 6
"""Number of images of a set that are shown."""


@dataclass(frozen=True, eq=False)
class CopyPicture:
    """An image of a set of copies."""

    pixels: np.ndarray
    """Pixels as they were read, [h, w, C]."""
    difference: np.ndarray | None = None
    """Difference to the first image of the set, [h, w, C] uint8; None for the first, equal pixels and other shapes."""
    factor: int = 1
    """Factor by which the difference is shown brighter than it is."""
    moved: bool = False
    """Whether the first image was mirrored or turned for the difference."""


def set_pictures(sets: pd.DataFrame, manifest: Manifest, options: ImageOptions) -> Mapping[str, CopyPicture]:
    """Read the images of the first sets again.

    Args:
        sets: Table of `tables.copy_sets`.
        manifest: Images that were checked.
        options: Options by which the images are read.

    Returns:
        Pictures by image id; at most `MOST_IMAGES` of each of the first `MOST_SETS` sets.
    """
    sources, reader = manifest_sources(manifest), PixelRule.of(options)
    place = {image: row for row, image in enumerate(manifest.images.tolist())}
    pictures: dict[str, CopyPicture] = {}
    for _, rows in sets.loc[sets["set"] <= MOST_SETS].groupby("set", sort=True):
        images = rows["image"].tolist()[:MOST_IMAGES]
        pixels = [middle_slice(np.asarray(reader.read(sources[place[image]]))) for image in images]
        pictures[images[0]] = CopyPicture(pixels[0])
        near = rows["kind"].iloc[0] == NEAR
        pictures |= {
            image: _beside(pixels[0], own) if near else CopyPicture(own)
            for image, own in zip(images[1:], pixels[1:], strict=True)
        }
    return pictures


def _beside(first: np.ndarray, own: np.ndarray) -> CopyPicture:
    """Compare an image with the first of its set, in the position in which they differ least."""
    laid = [each for each in orientations(first) if each.shape == own.shape]
    if not laid:
        return CopyPicture(own)
    top = 255.0 if own.dtype == np.uint8 else float(max(first.max(), own.max(), 1))
    apart = [np.abs(each.astype(np.float64) - own) * (255 / top) for each in laid]
    best = int(np.argmin([each.mean() for each in apart]))
    difference, factor = amplified(apart[best])
    moved = best > 0 and not np.array_equal(laid[best], laid[0])
    return CopyPicture(own, np.rint(difference).astype(np.uint8), factor, moved)
