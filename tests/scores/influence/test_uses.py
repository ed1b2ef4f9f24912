"""Every use of a parameter that has no short way: right by the long one, and said; and whole networks."""

import copy

import numpy as np
import pytest
import timm
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from memorisk.scores.influence import self_influence
from tests.scores.influence_cases import LRS, by_autograd, checkpoints, data, held


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


class Strict(nn.Module):
    """Refuses a token of another shape with an error of its own."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 64))

    def forward(self, x):
        if len(self.token) != 1:
            raise TypeError("one token for all images")
        return x.flatten(2) + self.token.tanh()


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


def test_a_network_that_refuses_a_token_an_image_goes_the_long_way():
    held(Strict(), fallback={"token"})


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
