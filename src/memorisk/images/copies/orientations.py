"""Images with the very pixels of another one, as it is, mirrored or turned: whoever is in it is in both."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memorisk.images.decoding.decoding import hash_pixels
from memorisk.images.store import ImageStore

ORIENTATIONS = (
    "as it is",
    "turned by 90 degrees",
    "turned by 180 degrees",
    "turned by 270 degrees",
    "mirrored",
    "mirrored, turned by 90 degrees",
    "mirrored, turned by 180 degrees",
    "mirrored, turned by 270 degrees",
)
"""Four quarter turns, counterclockwise, of an image and of its mirror image (left to right)."""
MIRRORED = ORIENTATIONS[4]


@dataclass(frozen=True, eq=False)
class SamePixels:
    """Which images have the pixels of another one."""

    row: np.ndarray
    """[n] of the first other image with the same pixels, in the first orientation that has one; -1 for none."""
    orientation: np.ndarray
    """[n] place in `ORIENTATIONS`: what is done to the image to give the other; -1 for none."""


def oriented(image: np.ndarray) -> Iterator[np.ndarray]:
    """The eight orientations of an image.

    Args:
        image: [h, w, c].

    Yields:
        [h, w, c] or [w, h, c], in the order of `ORIENTATIONS`.
    """
    for side in (image, image[:, ::-1]):
        for turns in range(4):
            yield np.rot90(side, turns)


def same_pixels(store: ImageStore, others: ImageStore) -> SamePixels:
    """Which images of a store are an image of another store, pixel by pixel, mirrored or turned or neither.

    By hashes: one of each other image, up to eight of each image. Of images that are no squares a quarter turn equals
    only others of the turned shape, and all images of a store have one shape.

    Args:
        store: [n] images.
        others: What they may be.
    """
    first = {value: row for row, value in reversed(list(enumerate(others.pixel_hashes)))}
    shape, found = others.images.shape[1:3], np.full((2, len(store.images)), -1, dtype=np.int64)
    for row, known in enumerate(store.pixel_hashes):
        if known in first:
            found[:, row] = first[known], 0
            continue
        for place, image in enumerate(oriented(np.asarray(store.images[row]))):
            if place and image.shape[:2] == shape and (other := first.get(hash_pixels(image))) is not None:
                found[:, row] = other, place
                break
    return SamePixels(*found)
