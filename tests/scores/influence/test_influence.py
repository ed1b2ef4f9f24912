"""Self-influence equals captum's TracInCP and autograd image by image, leaves the model alone and streams."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from memorisk.scores.influence import self_influence
from tests.scores.influence_cases import (
    LRS,
    NETWORKS,
    built,
    by_autograd,
    by_captum,
    checkpoints,
    cnn2,
    data,
    mlp,
    resnet,
    vit,
)
from tests.thorough import thorough


@pytest.mark.parametrize("name", [thorough(name) if name == "resnet" else name for name in NETWORKS])
def test_equals_captum_and_autograd(name):
    model = built(NETWORKS[name])
    x, y = data()
    states = checkpoints(model)
    found = self_influence(model, x, y, states, LRS, batch_size=3)
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, LRS), rtol=1e-9)
    np.testing.assert_allclose(found.values, by_captum(model, x, y, states, LRS), rtol=1e-9)
    assert not found.fallback
    assert found.fallback_method == "none"
    assert found.disagreement < 1e-9
    np.testing.assert_allclose(found.by_checkpoint[0], by_autograd(model, x, y, states[:1], LRS[:1]), rtol=1e-9)
    np.testing.assert_array_equal(found.values, found.by_checkpoint.sum(axis=0))
    assert found.weights == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("make", [cnn2, resnet, vit])
def test_float32_is_within_1e_5_of_float64(make):
    model = built(make)
    x, y = data()
    states = checkpoints(model, 1)
    found = self_influence(copy.deepcopy(model).float(), x, y, states, [1.0])
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, [1.0]), rtol=1e-5)


def test_the_self_check_is_relative_to_the_gradient():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 30), nn.Tanh(), nn.Linear(30, 3))
    images = 1e3 * np.random.default_rng(0).normal(size=(4, 2, 2, 3)).astype(np.float32)
    found = self_influence(model, images, [0, 1, 2, 0], [model.state_dict()], [1.0])
    assert 0 < found.disagreement < 1e-4


def test_images_learned_to_the_last_bit_keep_their_order():
    """In float32 1 - p_y is 0 beyond a margin of 17, and the squares of a gradient underflow beyond 50."""
    model = built(mlp)
    x, y = data(4)
    with torch.no_grad():
        model[3].weight.zero_()
        model[3].bias.zero_()
        model[3].bias[0] = 1.0
    y = torch.zeros_like(y)
    states = []
    for margin in (10.0, 40.0, 80.0, 300.0):
        states.append({k: v * (margin if k == "3.bias" else 1) for k, v in model.state_dict().items()})
    found = self_influence(model.float(), x, y, states, [1.0] * 4)
    others = np.exp(-np.array([10.0, 40, 80, 300])) / (1 + 9 * np.exp(-np.array([10.0, 40, 80, 300])))
    with torch.no_grad():
        hidden = F.relu(F.linear(x.flatten(1), model[1].weight.double(), model[1].bias.double()))
    squares = (9 + 81) * others**2  # nine logits with p, the true one with -9 p
    expected = squares[:, None] * (1 + hidden.square().sum(1).numpy())
    np.testing.assert_allclose(found.by_checkpoint, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", ["flat", "column"])
def test_binary_loss(shape):
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 1))
    model = (model if shape == "column" else nn.Sequential(model, nn.Flatten(0))).double()
    x, _ = data(4, side=2)
    y = torch.tensor([0, 1, 1, 0])
    states = checkpoints(model)

    def loss(z, t):
        return F.binary_cross_entropy_with_logits(z.reshape(-1), t.double())

    found = self_influence(model, x, y.numpy(), states, LRS, loss="binary")
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, LRS, loss), rtol=1e-9)


def test_multi_label_loss():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x, _ = data(4, side=2)
    y = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (4, 3)))
    states = checkpoints(model)

    def loss(z, t):
        return F.binary_cross_entropy_with_logits(z, t.double())

    found = self_influence(model, x, y, states, LRS, loss="multi_label")
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, LRS, loss), rtol=1e-9)


def test_frozen_weights_do_not_count():
    model = built(cnn2)
    for layer in (model[0], model[5]):
        layer.requires_grad_(False)
    model[11].weight.requires_grad_(False)
    x, y = data(3)
    states = checkpoints(model)
    found = self_influence(model, x, y, states, LRS)
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, LRS), rtol=1e-9)
    assert not found.fallback


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_the_model_comes_back_unchanged(context):
    model = built(resnet).train()
    model.fc.weight.requires_grad_(False)
    model.bn1.eval()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    x, y = data(3)
    states = checkpoints(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    objects = [id(p) for p in model.parameters()]
    modes = [m.training for m in model.modules()]
    needs = [p.requires_grad for p in model.parameters()]
    hooks = len(model._forward_hooks)
    strides = [p.stride() for p in model.parameters()]
    with context():
        self_influence(model, x, y, states, LRS)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert objects == [id(p) for p in model.parameters()]
    assert modes == [m.training for m in model.modules()]
    assert needs == [p.requires_grad for p in model.parameters()]
    assert strides == [p.stride() for p in model.parameters()]
    assert hooks == len(model._forward_hooks)
    assert all(p.grad is None for p in model.parameters())
    model(x)


def test_streams_over_a_mapped_file_and_any_batch_size(tmp_path):
    model = built(mlp)
    pixels = np.random.default_rng(0).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    labels = np.arange(7) % 10
    states = checkpoints(model)
    for i, state in enumerate(states):
        save_file(state, tmp_path / f"{i}.safetensors")
    files = [tmp_path / "0.safetensors", str(tmp_path / "1.safetensors")]
    whole = self_influence(model, pixels, labels, states, LRS, batch_size=7)
    for size in (1, 3, 100):
        found = self_influence(model, mapped, labels, files, LRS, batch_size=size)
        np.testing.assert_allclose(found.values, whole.values, rtol=1e-12)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).double() / 255
    np.testing.assert_allclose(whole.values, by_autograd(model, x, torch.from_numpy(labels), states, LRS), rtol=1e-9)


@pytest.mark.parametrize(("dtype", "top"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1), (np.dtype(">f4"), 1)])
def test_arrays_of_every_kind_and_prepare(dtype, top):
    model = built(mlp)
    values = np.random.default_rng(0).random((3, 32, 32, 3))
    images = (values * top).astype(dtype)
    seen = []

    def prepare(x):
        seen.append((tuple(x.shape), x.dtype, float(x.max()) <= 1))
        return (x - 0.5) / 0.25

    labels = torch.tensor([1, 2, 3])
    states = checkpoints(model)
    found = self_influence(model, images, labels, states, LRS, prepare=prepare, batch_size=2)
    x = torch.from_numpy(images.astype(np.float64)).permute(0, 3, 1, 2) / top
    np.testing.assert_allclose(found.values, by_autograd(model, (x - 0.5) / 0.25, labels, states, LRS), rtol=1e-9)
    assert set(seen) == {((size, 3, 32, 32), torch.float64, True) for size in (1, 2)}


def test_top_and_bottom():
    model = built(mlp)
    x, y = data(6)
    found = self_influence(model, x, y, checkpoints(model), LRS)
    order = np.argsort(-found.values, kind="stable")
    np.testing.assert_array_equal(found.top(2), order[:2])
    np.testing.assert_array_equal(found.bottom(3), order[::-1][:3])
    assert len(found.top(6)) == 6
