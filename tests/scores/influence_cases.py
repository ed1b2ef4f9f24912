"""Networks, checkpoints and the definition of self-influence, for its tests."""

import copy

import numpy as np
import timm
import torch
import torch.nn.functional as F
from captum.influence import TracInCP
from torch import nn
from torch.utils.data import TensorDataset

from memorisk.scores.influence import self_influence

SIDE = 32
LRS = [0.1, 0.03]


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, 64), nn.ReLU(inplace=True), nn.Linear(64, 10))


def cnn2():
    """CNN-2 of paper 002, A.3."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * (SIDE // 4) ** 2, 1024), nn.ReLU(), nn.Linear(1024, 10),
    )  # fmt: skip


def resnet():
    return timm.create_model("resnet10t", num_classes=10)


def vit():
    return timm.create_model(
        "vit_tiny_patch16_224", img_size=SIDE, patch_size=8, depth=2, num_classes=10, init_values=0.1
    )


NETWORKS = {"mlp": mlp, "cnn2": cnn2, "resnet": resnet, "vit": vit}


def built(make, seed=0):
    """A float64 network in training mode, from a seed."""
    torch.manual_seed(seed)
    return make().double()


def data(n=5, side=SIDE, channels=3, classes=10, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.random((n, channels, side, side))), torch.from_numpy(rng.integers(0, classes, n))


def checkpoints(model, count=2):
    """State dicts near the model's; running variances stay positive."""
    found = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        state = {}
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                noise = 0.05 * torch.randn(value.shape, generator=generator).to(value.dtype)
                value = value + (noise.abs() if name.endswith("running_var") else noise)
            state[name] = value.clone()
        found.append(state)
    return found


def by_autograd(model, x, y, states, lrs, loss=F.cross_entropy):
    """The definition: a backward pass per image and checkpoint."""
    own, total = copy.deepcopy(model).eval(), np.zeros(len(x))
    for state, lr in zip(states, lrs, strict=True):
        own.load_state_dict(state)
        chosen = [p for p in own.parameters() if p.requires_grad]
        for i in range(len(x)):
            gradients = torch.autograd.grad(loss(own(x[i : i + 1]), y[i : i + 1]), chosen, allow_unused=True)
            total[i] += lr * sum(float(g.square().sum()) for g in gradients if g is not None)
    return total


def by_captum(model, x, y, states, lrs):
    """captum's TracInCP over all layers."""
    own = copy.deepcopy(model).eval()

    def load(network, name):
        network.load_state_dict(states[int(name)])
        return lrs[int(name)]

    names = [str(i) for i in range(len(states))]
    peer = TracInCP(own, TensorDataset(x, y), names, load, loss_fn=nn.CrossEntropyLoss(reduction="none"), batch_size=2)
    return peer.self_influence().numpy()


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
