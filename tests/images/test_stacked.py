"""Stacked images are the array that they stand for, and an encoder cannot tell them from it."""

import numpy as np
import pytest
import torch

from memorisk.images.stacked_images import StackedImages
from memorisk.runs.errors import InputError
from memorisk.training.engine.pixels import PixelSource
from memorisk.training.features.extraction import feature_batches


def parts() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (n, 6, 5, 3), dtype=np.uint8) for n in (7, 1, 4)]


def test_rows_slices_and_takes_are_those_of_the_whole_array():
    order = np.random.default_rng(1).permutation(12)[:10]
    whole = np.concatenate(parts())[order]
    stacked = StackedImages(parts(), order)
    assert (len(stacked), stacked.shape, stacked.dtype, stacked.ndim) == (10, whole.shape, whole.dtype, 4)
    assert stacked.nbytes == whole.nbytes
    np.testing.assert_array_equal(np.asarray(stacked), whole)
    np.testing.assert_array_equal(stacked[3], whole[3])
    np.testing.assert_array_equal(stacked[-1], whole[-1])
    np.testing.assert_array_equal(stacked[2:7:2], whole[2:7:2])
    rows = np.array([9, 0, 0, 4])
    np.testing.assert_array_equal(stacked[rows], whole[rows])
    np.testing.assert_array_equal(stacked[whole.sum((1, 2, 3)) > 11000], whole[whole.sum((1, 2, 3)) > 11000])
    np.testing.assert_array_equal(np.take(stacked, rows, axis=0), whole[rows])  # pyright: ignore
    np.testing.assert_array_equal(StackedImages(parts())[:], np.concatenate(parts()))


def test_batches_and_features_are_those_of_the_whole_array():
    order = np.random.default_rng(1).permutation(12)
    whole, stacked = np.concatenate(parts())[order], StackedImages(parts(), order)
    device = torch.device("cpu")
    slots = [torch.tensor([3, 1]), torch.tensor([0])]
    made = [
        list(PixelSource(x, np.arange(12), device=device, dtype=torch.float32, normalisation=None).batches(slots))
        for x in (whole, stacked)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))
    flat = torch.nn.Flatten()
    one, other = (
        np.concatenate(list(feature_batches(flat, x, np.arange(12), None, device=device, batch=5)))
        for x in (whole, stacked)
    )
    np.testing.assert_array_equal(one, other)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="2 shapes or types"):
        StackedImages([parts()[0], parts()[1].astype(np.uint16)])
    with pytest.raises(InputError, match="beyond their number"):
        StackedImages(parts(), np.array([12]))
    with pytest.raises(InputError, match="along their first axis"):
        StackedImages(parts()).take(np.array([0]), axis=1)
