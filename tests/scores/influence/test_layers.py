"""Every layer with a short way: equal to autograd, and not in the fallback."""

import copy
import itertools

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn

from memorisk.scores.influence import gradient_norms, self_influence
from tests.scores.influence_cases import LRS, by_autograd, checkpoints, data, held

CONVOLUTIONS = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1, "groups": 2},
    {"kernel_size": 3, "padding": 1, "groups": 4, "bias": False},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (0, 1)},
    {"kernel_size": 3, "stride": 3, "padding": 2, "dilation": 2},
    {"kernel_size": 4, "padding": "same"},
    {"kernel_size": (2, 3), "padding": "same", "dilation": (3, 2), "groups": 2},
    {"kernel_size": 3, "padding": "valid"},
    {"kernel_size": 3, "padding": 2, "padding_mode": "reflect"},
    {"kernel_size": 3, "padding": 1, "padding_mode": "circular", "stride": 2},
    {"kernel_size": 3, "padding": "same", "padding_mode": "replicate"},
    {"kernel_size": 1},
    {"kernel_size": 1, "stride": 2, "groups": 2},
    {"kernel_size": 8},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=lambda o: "-".join(f"{k}{v}" for k, v in o.items()))
def test_convolutions(options):
    held(nn.Conv2d(4, 8, **options))


@pytest.mark.parametrize(
    ("groups", "stride", "padding", "dilation", "kernel"),
    [(1, (1, 1), (1, 1), (1, 1), 3), (2, (2, 1), (0, 2), (2, 1), 3), (1, (1, 1), (0, 0), (1, 1), 1)],
)
@pytest.mark.parametrize("budget", [1, 1 << 22])
def test_every_way_through_a_convolution_is_the_same(monkeypatch, groups, stride, padding, dilation, kernel, budget):
    """Gram matrices, copied patches and the library's call, in one piece or many, in both memory orders."""
    torch.manual_seed(0)
    a, w = torch.randn(3, 8, 9, 8, dtype=torch.float64), torch.randn(6, 8 // groups, kernel, kernel).double()
    w.requires_grad_()
    outs = F.conv2d(a, w, None, stride, padding, dilation, groups)
    g = torch.randn_like(outs)
    expected = [torch.autograd.grad(outs[i], w, g[i], retain_graph=True)[0].square().sum() for i in range(3)]
    monkeypatch.setattr(gradient_norms, "BUDGET", budget)
    for few, gram, order in itertools.product((0, 1000), (False, True), (torch.contiguous_format, torch.channels_last)):
        monkeypatch.setattr(gradient_norms, "_FEW", few)
        products = gradient_norms._products
        with monkeypatch.context() as patch:
            patch.setattr(gradient_norms, "_products", lambda x, y, _, forced=gram, call=products: call(x, y, forced))
            found = gradient_norms.convolution_weight(
                a.contiguous(memory_format=order), g.contiguous(memory_format=order), w.detach(),
                stride, padding, dilation, groups,
            )  # fmt: skip
        torch.testing.assert_close(found, torch.stack(expected), rtol=1e-10, atol=0)


def test_rows_of_one_number_are_summed_before_they_are_squared():
    rng = np.random.default_rng(0)
    a, g = rng.normal(size=(3, 5, 1)), rng.normal(size=(3, 5, 4))
    expected = np.square(np.einsum("btd,btm->bmd", a, g)).sum(axis=(1, 2))
    np.testing.assert_allclose(
        gradient_norms.linear_weight(torch.from_numpy(a), torch.from_numpy(g), 3), expected, rtol=1e-12
    )


class Scaled(nn.Module):
    """A scale and a shift by bare parameters, on the left."""

    def __init__(self, shape):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(shape)), nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return torch.tanh(self.shift + self.scale * x)


@pytest.mark.parametrize(
    "part",
    [
        nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 6, 5, stride=2, padding=3, dilation=2, groups=2)),
        nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 6, 4, padding="same", padding_mode="circular")),
        nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 6, 4, padding="same")),
        nn.Sequential(nn.Flatten(2), nn.Linear(64, 5, bias=False)),
        nn.Sequential(nn.Flatten(2), nn.Unflatten(1, (2, 2)), nn.Linear(64, 2)),
        nn.Sequential(nn.Flatten(2), nn.Linear(64, 40), nn.LayerNorm(40), nn.GELU()),
        nn.LayerNorm((8, 8)),
        nn.LayerNorm((4, 8, 8), bias=False),
        nn.BatchNorm2d(4),
        nn.Sequential(nn.Flatten(2), nn.BatchNorm1d(4)),
        nn.Sequential(nn.Flatten(), nn.BatchNorm1d(256)),
        nn.GroupNorm(2, 4),
        nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 1)),
        timm.layers.BatchNormAct2d(4),
        timm.layers.GroupNormAct(4, num_groups=2),
        timm.layers.LayerNorm2d(4),
        timm.layers.GroupNorm1(4),
        nn.Sequential(nn.Flatten(2), timm.layers.LayerNorm(64), timm.models.vision_transformer.LayerScale(64)),
        timm.models.convnext.ConvNeXtBlock(4, 4, ls_init_value=0.1),
        nn.Identity(),
        Scaled(()),
        Scaled((4, 1, 8)),
    ],
    ids=lambda part: "+".join(type(p).__name__ for p in (part if isinstance(part, nn.Sequential) else [part])),
)  # fmt: skip
def test_layers_with_a_short_way(part):
    held(copy.deepcopy(part))


class Tokens(nn.Module):
    """Images as words: their pixels index a table."""

    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(10, 6, **options)
        self.head = nn.Linear(6, 3)

    def forward(self, words):
        return self.head(torch.tanh(self.table(words)).mean(dim=(1, 2)))


@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"padding_idx": -1}])
def test_embedding(options):
    model = Tokens(**options).double()
    words = torch.from_numpy(np.random.default_rng(0).integers(0, 10, (6, 3, 4)))
    _, y = data(6, classes=3)
    states = checkpoints(model)
    found = self_influence(model, words, y, states, LRS, batch_size=4)
    np.testing.assert_allclose(found.values, by_autograd(model, words, y, states, LRS), rtol=1e-9)
    assert not found.fallback


def test_embedding_counted_over_the_batch_goes_the_long_way():
    model = Tokens(scale_grad_by_freq=True).double()
    words = torch.from_numpy(np.random.default_rng(0).integers(0, 10, (6, 3, 4)))
    _, y = data(6, classes=3)
    states = checkpoints(model)
    found = self_influence(model, words, y, states, LRS, batch_size=4)
    np.testing.assert_allclose(found.values, by_autograd(model, words, y, states, LRS), rtol=1e-9)
    assert set(found.fallback) == {"table.weight"}
