"""Sets of images laid end to end; how they are split and decoded is held in the sets of the audit and the filter."""

from pathlib import Path

import numpy as np
from PIL import Image

from memorisk.audits.comparison.sets import is_blank, is_nearly_blank, stack_stores
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from tests.audits.synthetic.making import parts, store_of


def test_stacked_stores_keep_ids_hashes_and_pixels_together(tmp_path: Path) -> None:
    train, held, _ = parts(n_train=4, n_held=3, n_synthetic=4)
    one, other = store_of(train, tmp_path, "one"), store_of(held, tmp_path, "other")
    order = np.array([6, 0, 3])
    stacked = stack_stores([one, other], order)
    assert stacked.manifest.images.tolist() == ["other-0002", "one-0000", "one-0003"]
    np.testing.assert_array_equal(np.asarray(stacked.images), np.concatenate([train, held])[order])
    assert stacked.pixel_hashes.tolist() == [other.pixel_hashes[2], one.pixel_hashes[0], one.pixel_hashes[3]]


def test_images_whose_files_hold_more_than_is_seen_show_nothing(tmp_path: Path) -> None:
    """Copies in such files were audited as black images, and passed."""
    picture = np.random.default_rng(0).integers(0, 256, (24, 24), dtype=np.uint8)
    folder = tmp_path / "set"
    folder.mkdir()
    Image.fromarray(picture).save(folder / "0.png")
    Image.fromarray(picture.astype(np.uint16)).save(folder / "1-of-16-bits.png")
    Image.merge("LA", (Image.fromarray(picture), Image.new("L", (24, 24)))).save(folder / "2-transparent.png")
    Image.fromarray(picture.astype(np.uint16) * 257).save(folder / "3-of-16-bits-in-full.png")
    hot = picture.astype(np.uint16)
    hot[0, 0] = 65535
    Image.fromarray(hot).save(folder / "4-of-16-bits-with-a-hot-pixel.png")
    options = ImageOptions(store=tmp_path / "cache")
    store = build_store(load_manifest(folder, options), options)
    assert is_nearly_blank(store).tolist() == [False, True, True, False, True]
    assert is_blank(store, np.arange(5)).tolist() == [False, False, True, False, False]
