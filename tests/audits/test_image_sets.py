"""Sets of images laid end to end; how they are split and decoded is held in the sets of the audit and the filter."""

from pathlib import Path

import numpy as np

from memorisk.audits.image_sets import stack_stores
from tests.audits.synthetic_set.making import parts, store_of


def test_stacked_stores_keep_ids_hashes_and_pixels_together(tmp_path: Path) -> None:
    train, held, _ = parts(n_train=4, n_held=3, n_synthetic=4)
    one, other = store_of(train, tmp_path, "one"), store_of(held, tmp_path, "other")
    order = np.array([6, 0, 3])
    stacked = stack_stores([one, other], order)
    assert stacked.manifest.images.tolist() == ["other-0002", "one-0000", "one-0003"]
    np.testing.assert_array_equal(np.asarray(stacked.images), np.concatenate([train, held])[order])
    assert stacked.pixel_hashes.tolist() == [other.pixel_hashes[2], one.pixel_hashes[0], one.pixel_hashes[3]]
