"""Activations of all layers: equal to separate passes, pooled by kind of network, streamed, hooks gone."""

import numpy as np
import pytest
import timm
import torch
from torch import nn

from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.probes import CLS
from memorisk.training.engine.pixels import Normalisation
from memorisk.training.features.activations import Layer, choose_layers, extract_activations, pooled
from tests.training.helpers import Digits

HOW = Normalisation((0.3,), (0.25,))


def colour(n=5, side=32):
    return np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def as_input(images, mean=0.0, std=1.0):
    return (torch.from_numpy(images).float().permute(0, 3, 1, 2) / 255 - mean) / std


def n_hooks(model):
    return sum(len(m._forward_hooks) for m in model.modules())


def test_every_layer_of_a_small_net_in_one_pass(digits: Digits, tmp_path) -> None:
    model = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=1).train()
    rows = np.array([7, 3, 900, 12, 5, 4, 3])
    calls = []
    handle = model.register_forward_hook(lambda m, i, o: calls.append(len(o)))
    found = extract_activations(model, digits.images, rows, normalisation=HOW, batch_size=3)
    handle.remove()
    assert calls == [3, 3, 1]
    assert model.training
    assert n_hooks(model) == 0
    assert list(found.layers) == ["features.0", "features.3", "hidden_layer"]
    assert "but the head" in found.chosen
    x = as_input(digits.images[rows], 0.3, 0.25)
    with torch.no_grad():
        first = model.features[0](x)
        last = model.hidden_layer(model.features(x).flatten(1))
    np.testing.assert_allclose(found.layers["features.0"], first.mean(dim=(2, 3)).numpy(), atol=1e-5)
    np.testing.assert_allclose(found.layers["hidden_layer"], last.numpy(), atol=1e-5)
    disk = extract_activations(model, digits.images, rows, normalisation=HOW, folder=tmp_path)
    for name, values in found.layers.items():
        assert isinstance(disk.layers[name], np.memmap)
        np.testing.assert_allclose(disk.layers[name], values, atol=1e-5)


def test_a_vision_transformer_has_patches_and_cls_token() -> None:
    model = timm.create_model("vit_tiny_patch16_224", num_classes=2, depth=3, img_size=32).eval()
    images = colour()
    found = extract_activations(model, images, np.arange(5), batch_size=2)
    names = [f"blocks.{i}{s}" for i in range(3) for s in ("", CLS)]
    assert list(found.layers) == names
    assert "feature_info" in found.chosen
    with torch.no_grad():
        x = as_input(images)
        tokens = model.blocks[0](model.norm_pre(model._pos_embed(model.patch_embed(x))))
    np.testing.assert_allclose(found.layers["blocks.0"], tokens[:, 1:].mean(dim=1).numpy(), atol=1e-5)
    np.testing.assert_allclose(found.layers["blocks.0" + CLS], tokens[:, 0].numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "widths"),
    [
        ("resnet10t", {}, [64, 64, 128, 256, 512]),
        ("samvit_base_patch16", {"img_size": 32, "depth": 2, "embed_dim": 48, "num_heads": 3}, [48, 48]),
        ("swin_tiny_patch4_window7_224", {"img_size": 64, "window_size": 2, "depths": (1, 1)}, [96, 192]),
    ],
)
def test_channels_are_found_wherever_they_stand(name, settings, widths) -> None:
    model = timm.create_model(name, num_classes=2, **settings)
    images = colour(3, 64 if "swin" in name else 32)
    found = extract_activations(model, images, np.arange(3))
    assert [v.shape for v in found.layers.values()] == [(3, w) for w in widths]
    assert all(np.isfinite(v).all() for v in found.layers.values())


def test_pooling_by_shape() -> None:
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    (only,) = pooled(Layer("a", 2), x)
    assert only[1].tolist() == x.mean(dim=(2, 3)).tolist()
    (only,) = pooled(Layer("a", 4), x)
    assert only[1].tolist() == x.mean(dim=(1, 2)).tolist()
    (only,) = pooled(Layer("a", None), x, channels_last=True)
    assert only[1].tolist() == x.mean(dim=(1, 2)).tolist()
    assert [n for n, _ in pooled(Layer("a", None), (None, x[0]), prefix=1)] == ["a", "a" + CLS]
    assert list(pooled(Layer("a", None), {"x": x})) == []


class Breaks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.unused = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.conv(x)
        if len(x) == 1:
            raise RuntimeError("broken")
        return x


def test_hooks_are_gone_also_after_an_error() -> None:
    model = Breaks().train()
    with pytest.raises(RuntimeError, match="broken"):
        extract_activations(model, colour(5), np.arange(5), batch_size=2)
    assert n_hooks(model) == 0
    assert model.training
    with pytest.raises(InputError, match="no layer 'nosuch'"):
        extract_activations(model, colour(4), np.arange(4), layers=[Layer("conv", 4), Layer("nosuch", None)])
    assert n_hooks(model) == 0
    found = extract_activations(model, colour(4), np.arange(4))
    assert list(found.layers) == ["conv"]  # what is not called is left out
    with pytest.raises(InputError, match="none of 1 layers"):
        extract_activations(model, colour(4), np.arange(4), layers=[Layer("unused", None)])


def test_refusals() -> None:
    with pytest.raises(InputError, match="0 images"):
        extract_activations(Breaks(), colour(), np.arange(0))
    with pytest.raises(InputError, match="no convolution"):
        choose_layers(nn.Sequential(nn.ReLU()))
