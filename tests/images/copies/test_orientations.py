"""Same pixels in any of the eight orientations, held to a comparison of every pair."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.images.copies.near_copies import ORIENTATIONS, orientations, same_pixels
from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore


def store_of(images: np.ndarray) -> ImageStore:
    """Images [n, h, w, c] as a store."""
    names = [str(row) for row in range(len(images))]
    table = pd.DataFrame({"image": names, "path": "", "label": "", "group": names}, dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    return ImageStore(images, Manifest(table, None, "images"), "images", Path(), nothing, hashes)


def by_definition(image: np.ndarray, others: np.ndarray) -> tuple[int, int]:
    """First orientation with an equal image, and the first of these; -1 and -1 for none."""
    turned = [image, *(np.rot90(image, k) for k in (1, 2, 3))]
    flat = np.flip(image, axis=1)
    for place, each in enumerate([*turned, flat, *(np.rot90(flat, k) for k in (1, 2, 3))]):
        for row, other in enumerate(others):
            if np.array_equal(each, other):
                return row, place
    return -1, -1


@pytest.mark.parametrize(("height", "width", "channels"), [(3, 3, 1), (3, 4, 1), (3, 3, 3)])
def test_every_orientation_is_found_as_by_comparing_every_pair(height: int, width: int, channels: int) -> None:
    rng = np.random.default_rng(0)
    train = rng.integers(0, 255, (12, height, width, channels), dtype=np.uint8)
    train[3], train[4] = train[3, :, ::-1] // 2 + train[3] // 2, 7  # one like its mirror image, one of one value
    train[5] = train[6]
    made = [each for row in (0, 5, 8, 3, 4) for each in orientations(train[row]) if each.shape == train[row].shape]
    images = np.stack([*made, rng.integers(0, 255, train[0].shape, dtype=np.uint8)])
    found = same_pixels(store_of(images), store_of(train))
    expected = [by_definition(image, train) for image in images]
    assert list(zip(found.row.tolist(), found.orientation.tolist(), strict=True)) == expected
    assert (found.row[:-1] >= 0).all()
    assert found.row[-1] == -1
    assert set(found.orientation[:-1]) == (set(range(8)) if height == width else {0, 2, 4, 6})


def test_a_turned_oblong_is_found_where_the_others_have_its_shape() -> None:
    train = np.random.default_rng(1).integers(0, 255, (4, 3, 5, 1), dtype=np.uint8)
    turned = np.stack([np.rot90(image) for image in train])
    found = same_pixels(store_of(turned), store_of(train))
    assert found.row.tolist() == [0, 1, 2, 3]
    assert {ORIENTATIONS[place] for place in found.orientation} == {"turned by 270 degrees"}  # back again
    other = store_of(turned)
    changed = replace(other, images=turned + 1, pixel_hashes=np.array([hash_pixels(i + 1) for i in turned], object))
    assert same_pixels(changed, store_of(train)).row.tolist() == [-1] * 4
