"""Features on a GPU are those of the CPU; skipped where there is none."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.training.features.matrix import load_features


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_features_are_the_cpus(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for number in range(12):  # the last two have the pixels of the first
        pixels = np.random.default_rng(number if number < 10 else 0).integers(0, 256, (16, 16), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "set" / f"{number:02}.png")
    options = ImageOptions(store=tmp_path / "cache")
    store = build_store(load_manifest(tmp_path / "set", options), options, processes=1)
    here = load_features(store, "resnet10t@none", size=64, device="cpu").values
    exact = load_features(store, "resnet10t@none", size=64, device="cuda", precision="fp32")
    mixed = load_features(store, "resnet10t@none", size=64, device="cuda", batch=4)
    np.testing.assert_allclose(exact.values, here, atol=1e-3 * np.abs(here).max())
    np.testing.assert_allclose(mixed.values, here, atol=0.05 * np.abs(here).max())
    assert (exact.described.precision, mixed.computed) == ("fp32", 10)
    np.testing.assert_array_equal(mixed.values[[10, 11]], mixed.values[[0, 0]])
