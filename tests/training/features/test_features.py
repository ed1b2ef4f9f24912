"""Features of frozen networks: the network's own pre-head output, channels, sizes, refusals."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from memorisk.models.classifiers.specs import IMAGENET_MEAN, IMAGENET_STD
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.network_parts import trunk_output
from memorisk.models.weight_files import save_weights
from memorisk.runs.errors import InputError
from memorisk.training.engine.pixels import Normalisation
from memorisk.training.engine.predict import MAX_BATCH
from memorisk.training.features.extraction import extract_features, feature_network
from tests.training.helpers import Digits


def test_a_network_given_as_such_gets_the_images_as_they_are(digits: Digits) -> None:
    model = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=3).train()
    how = Normalisation((0.3,), (0.25,))
    seen = []
    found = extract_features(model, digits.images, normalisation=how, progress=lambda done, n: seen.append((done, n)))
    x = torch.from_numpy(digits.images).float().permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        expected = trunk_output(model.eval(), (x - 0.3) / 0.25).numpy()
    assert found.dtype == np.float32
    assert len(digits.images) > 2 * MAX_BATCH
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert seen[-1] == (len(digits.images), len(digits.images))
    assert len(seen) == -(-len(digits.images) // MAX_BATCH)
    model.train()
    for mode in (True, False):
        model.train(mode)
        extract_features(model, digits.images[:4])
        assert {part.training for part in model.modules()} == {mode}


def test_a_named_network_gets_colours_its_size_and_its_normalisation(digits: Digits, tmp_path) -> None:
    model, spec, side = feature_network("resnet10t", "none", size=32, stored_size=8)
    assert (side, spec.mean) == (32, IMAGENET_MEAN)
    save_weights(tmp_path / "w.safetensors", model)
    found = extract_features("resnet10t", digits.images[:5], weights=tmp_path / "w.safetensors", size=32)
    x = torch.from_numpy(digits.images[:5]).float().permute(0, 3, 1, 2).expand(-1, 3, -1, -1) / 255
    x = F.interpolate(x, (32, 32), mode="bilinear", antialias=True)
    x = (x - torch.tensor(IMAGENET_MEAN)[:, None, None]) / torch.tensor(IMAGENET_STD)[:, None, None]
    with torch.no_grad():
        expected = model.eval().forward_head(model.forward_features(x), pre_logits=True).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_size_of_a_named_network() -> None:
    assert feature_network("resnet10t", "none", stored_size=64)[2] == 176  # what timm records for it
    assert feature_network("small_resnet", "none", stored_size=40)[2] == 40
    model, _, side = feature_network("vit_tiny_patch16_224", "none", stored_size=28)
    assert side == 224
    assert trunk_output(model.eval(), torch.zeros(1, 3, 224, 224)).shape == (1, 192)


def test_sixteen_bits_and_memory_maps(tmp_path) -> None:
    rng = np.random.default_rng(0)
    eight = rng.integers(0, 256, (6, 12, 12, 3), dtype=np.uint8)
    np.save(tmp_path / "images.npy", eight.astype(np.uint16) * 257)
    deep = np.load(tmp_path / "images.npy", mmap_mode="r")
    model = create_model("small_resnet", num_classes=2, in_chans=3, image_size=12, seed=0)
    np.testing.assert_allclose(extract_features(model, deep), extract_features(model, eight), atol=1e-5)


def test_refusals(digits: Digits) -> None:
    with pytest.raises(InputError, match="'none' for random ones"):
        extract_features("resnet10t", digits.images)
    with pytest.raises(InputError, match="Did you mean 'resnet10t'"):
        extract_features("resnet10tt", digits.images, weights="none")
    with pytest.raises(InputError, match="--feature-size is -3"):
        extract_features("resnet10t", digits.images, weights="none", size=-3)
    with pytest.raises(InputError, match="gives no features of images"):
        extract_features(torch.nn.Linear(3, 2), digits.images)
    with pytest.raises(InputError, match="features need pixels"):
        extract_features("resnet10t", digits.features.astype(np.float32), weights="none")
