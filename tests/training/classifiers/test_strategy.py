"""The number of networks in one stack follows the stated rule."""

import pytest
import torch
from torch import nn

from memorisk.models.classifiers.zoo import create_model
from memorisk.training.classifiers.stacked import _count_activations, stack_size
from memorisk.training.engine.options import TrainOptions
from tests.training.helpers import NoisyNet

OPTIONS = TrainOptions()


def choose(model: nn.Module, n_models: int, free: int = 10**12, options: TrainOptions = OPTIONS) -> int:
    how = {"n_models": n_models, "image_shape": (8, 8, 1), "device": "cuda", "free_bytes": free}
    return stack_size(model, options, **how)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0)


def test_small_nets_stack_and_others_queue(net: nn.Module) -> None:
    assert choose(net, 16) == 16
    assert choose(net, 1) == 1
    assert choose(NoisyNet(), 16) == 1  # running statistics
    assert choose(net, 16, options=TrainOptions(augment="crop")) == 1
    assert choose(nn.Sequential(nn.Flatten(), nn.Linear(64, 40_000, device="meta")), 16) == 1  # 2,600,000 parameters


def test_the_stack_is_what_half_the_free_memory_holds(net: nn.Module) -> None:
    n_parameters = sum(p.numel() for p in net.parameters())
    one = 4 * (4 * n_parameters + 2 * _count_activations(net, 64, (8, 8, 1)))
    assert choose(net, 16, free=2 * 5 * one) == 5
    assert choose(net, 16, free=2 * 5 * one - 2) == 4
    assert choose(net, 16, free=2 * one) == 1


def test_activations_are_counted_without_computing() -> None:
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 6 * 7, 4))
    assert _count_activations(model, 2, (8, 9, 3)) == 2 * (5 * 6 * 7 * 3 + 4)
    assert next(model.parameters()).device == torch.device("cpu")
