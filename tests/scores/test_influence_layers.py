"""Every layer with a short way, and every use of a parameter that has none: equal to autograd, and said."""

import copy
import itertools

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from memorisk.scores.influence import norms, self_influence
from tests.scores.influence_cases import by_autograd, checkpoints, data

LRS = [0.1, 0.03]


class Wrapped(nn.Module):
    """A part between two linear layers, on images of 8 px with 4 channels."""

    def __init__(self, part, channels=4):
        super().__init__()
        self.first = nn.Conv2d(channels, 4, 1)
        self.part = part
        self.head = nn.LazyLinear(3)

    def forward(self, x):
        return self.head(self.part(torch.tanh(self.first(x))).flatten(1))


def held(part, n=5, *, fallback=(), batch_size=2, side=8, fill=True):
    """Self-influence of a network around the part, equal to autograd, with exactly these parameters in the fallback."""
    torch.manual_seed(1)
    model = Wrapped(part).double()
    x, y = data(n, side=side, channels=4, classes=3)
    model.eval()(x[:1])
    states = checkpoints(model) if fill else [model.state_dict()] * 2
    found = self_influence(model, x, y, states, LRS, batch_size=batch_size)
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, LRS), rtol=1e-9)
    assert {name.removeprefix("part.") for name in found.fallback} == set(fallback), found.fallback
    return found


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
    monkeypatch.setattr(norms, "BUDGET", budget)
    for few, gram, order in itertools.product((0, 1000), (False, True), (torch.contiguous_format, torch.channels_last)):
        monkeypatch.setattr(norms, "_FEW", few)
        products = norms._products
        with monkeypatch.context() as patch:
            patch.setattr(norms, "_products", lambda x, y, _, forced=gram, call=products: call(x, y, forced))
            found = norms.convolution_weight(
                a.contiguous(memory_format=order), g.contiguous(memory_format=order), w.detach(),
                stride, padding, dilation, groups,
            )  # fmt: skip
        torch.testing.assert_close(found, torch.stack(expected), rtol=1e-10, atol=0)


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


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.conv(torch.relu(self.norm(self.conv(x)))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


class Functional(nn.Module):
    """A weight used by its module and, unseen by any hook, by a formula."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x) @ self.linear.weight.T


class Penalised(nn.Module):
    """A weight that scales by its own norm."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return self.linear(x) / (1 + self.linear.weight.norm())


class Viewed(nn.Module):
    """One view of a scale, used twice: the parameter itself enters the graph once."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x):
        view = self.scale.view(1, -1, 1, 1)
        return torch.tanh(x * view) * view.exp()


class InPlace(nn.Module):
    """A scale in place, whose input is then gone."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return (x + 0).mul_(self.scale)


class Raw(nn.Module):
    """Parameters used by formulas without a short way."""

    def __init__(self):
        super().__init__()
        self.mix, self.power = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.rand(8) + 1)

    def forward(self, x):
        return torch.sigmoid(torch.einsum("bchw,wv->bchv", x, self.mix)) ** self.power


class PositionFirst(nn.Module):
    """Tokens before images, as many tokens as a batch has images."""

    def __init__(self, tokens):
        super().__init__()
        self.tokens, self.linear = tokens, nn.Linear(8, 8)

    def forward(self, x):
        rows = x.flatten(1, 2)[:, : self.tokens].transpose(0, 1)  # [tokens, b, 8]
        return torch.tanh(self.linear(rows)).transpose(0, 1)


class RowsMixed(nn.Module):
    """Rows of all images interleaved, behind a gate that is closed at first: a check at zero would see nothing."""

    def __init__(self):
        super().__init__()
        self.linear, self.gate = nn.Linear(64, 64), nn.Parameter(torch.zeros(64))

    def forward(self, x):
        rows = torch.tanh(self.linear(x.flatten(2).transpose(0, 1).reshape(-1, 64)))  # channel by channel
        return x.flatten(2) + self.gate * rows.reshape(4, len(x), 64).transpose(0, 1)


class OwnFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.T

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.flatten(0, -2).T @ x.flatten(0, -2)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        return OwnFunction.apply(x, self.weight)


class Token(nn.Module):
    """A class token and positions, leading dimension 1, and a table without one."""

    def __init__(self, misused=False):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 64))
        self.place = nn.Parameter(torch.randn(1, 5, 64))
        self.misused = misused

    def forward(self, x):
        rows = torch.cat([self.token.expand(len(x), -1, -1), x.flatten(2)], dim=1)
        place = self.place[0].tanh() if self.misused else self.place.tanh()
        return torch.tanh(rows + place)


@pytest.mark.parametrize(
    ("part", "fallback", "words"),
    [
        (Twice(), {"conv.weight", "conv.bias", "norm.weight", "norm.bias"}, "used 2 times"),
        (Tied(), {"one.weight"}, "used 2 times"),
        (Functional(), {"linear.weight"}, "used 2 times"),
        (Penalised(), {"linear.weight"}, "used 2 times"),
        (Viewed(), {"scale"}, "view"),
        (InPlace(), {"scale"}, "no short form"),
        (Raw(), {"mix", "power"}, "no short form"),
        (PositionFirst(2), {"linear.weight", "linear.bias"}, "first axis"),
        (PositionFirst(3), {"linear.weight", "linear.bias"}, "disagrees"),
        (weight_norm(nn.Conv2d(4, 4, 3)), {f"parametrizations.weight.original{i}" for i in (0, 1)}, "no short form"),
        (nn.ConvTranspose2d(4, 3, 2), {"weight", "bias"}, "no short form"),
        (Token(misused=True), {"place"}, "no short form"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)  # fmt: skip
@pytest.mark.parametrize("batch_size", [1, 3])
def test_what_has_no_short_way_goes_the_long_one_and_says_so(part, fallback, words, batch_size):
    found = held(copy.deepcopy(part), 6, fallback=fallback, batch_size=batch_size)
    assert all(words in reason for reason in found.fallback.values()), found.fallback
    assert found.fallback_method == "vmap"


def test_a_closed_gate_does_not_blind_the_check():
    found = held(RowsMixed(), 6, fallback={"linear.weight", "linear.bias"}, batch_size=3, fill=False)
    assert all("disagrees" in reason for reason in found.fallback.values())


def test_an_autograd_function_of_ones_own_goes_the_long_way():
    assert held(Own(), fallback={"weight"}).fallback_method == "loop"


def test_recomputed_activations_are_exact_without_the_long_way():
    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3)

        def forward(self, x):
            return checkpoint(self.conv, x, use_reentrant=False)

    held(Recomputed())


def test_tokens_and_positions_are_exact_without_the_long_way():
    held(Token())


class Recurrent(nn.Module):
    """torch.func has no rule for this one, or a slow one."""

    def __init__(self):
        super().__init__()
        self.rows = nn.GRU(16, 5, batch_first=True)

    def forward(self, x):
        if float(x.detach().sum()) > 1e9:  # a branch on values: torch.func refuses it
            return x
        return self.rows(x.flatten(2).unflatten(2, (4, 16)).flatten(1, 2))[0]


def test_a_loop_where_torch_func_fails():
    names = {f"rows.{kind}_{part}_l0" for kind in ("weight", "bias") for part in ("ih", "hh")}
    assert held(Recurrent(), 4, fallback=names).fallback_method == "loop"


class Sometimes(nn.Module):
    """Uses its layer twice where an image of the batch is bright."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        twice = self.linear(torch.tanh(self.linear(x)))
        bright = (x[:, 0, 0, 0] > 0.9).reshape(-1, 1, 1, 1)
        return torch.where(bright, twice, self.linear(x)) if bool(bright.any()) else self.linear(x)


def test_a_use_that_differs_between_batches_is_right_and_said():
    model = nn.Sequential(Sometimes(), nn.Flatten(), nn.Linear(256, 3)).double()
    x, y = data(8, side=8, channels=4, classes=3)
    x[:, 0, 0, 0] = 0.5
    x[5, 0, 0, 0] = 1.0
    states = checkpoints(model)
    found = self_influence(model, x, y, states, LRS, batch_size=2)
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, LRS), rtol=1e-9)
    assert set(found.fallback) == {"0.linear.weight", "0.linear.bias"}
    assert "some batches" in found.fallback["0.linear.weight"]


def test_a_layer_whose_output_is_not_used_counts_nothing():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.dead, self.never = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            self.dead(x)
            return x

    held(Unused())


@pytest.mark.parametrize(
    ("name", "options", "fallback"),
    [
        ("swin_tiny_patch4_window7_224", {"img_size": 32, "window_size": 4, "depths": (1, 1), "num_heads": (3, 6)}, 2),
        ("convnext_atto", {}, 0),
        ("vit_small_patch14_dinov2", {"img_size": 28, "depth": 1, "reg_tokens": 2}, 0),
    ],
)
def test_networks_of_timm(name, options, fallback):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, **options).double()
    x, y = data(4, side=options.get("img_size", 32))
    states = checkpoints(model, 1)
    found = self_influence(model, x, y, states, [1.0])
    np.testing.assert_allclose(found.values, by_autograd(model, x, y, states, [1.0]), rtol=1e-9)
    assert len(found.fallback) == fallback, found.fallback
