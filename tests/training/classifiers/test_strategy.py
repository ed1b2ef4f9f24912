"""The way of training follows the stated rule."""

import pytest
import torch
from torch import nn

from memorisk.models.classifiers.zoo import create_model
from memorisk.training.classifiers.stacked import Strategy, _count_activations, choose_strategy
from memorisk.training.engine.options import TrainOptions
from tests.training.helpers import NoisyNet

OPTIONS = TrainOptions()


def choose(
    model: nn.Module, n_models: int, device: str, free: int = 10**12, options: TrainOptions = OPTIONS
) -> Strategy:
    return choose_strategy(model, options, n_models=n_models, image_shape=(8, 8, 1), device=device, free_bytes=free)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0)


def test_on_a_cpu_processes(net: nn.Module) -> None:
    assert choose(net, 16, "cpu").kind == "processes"
    assert choose(net, 1, "cpu").kind == "sequential"


def test_on_a_gpu_small_nets_stack_and_others_queue(net: nn.Module) -> None:
    assert choose(net, 16, "cuda") == Strategy("stacked", 16, "16 at once on the device, as one stack")
    assert choose(net, 1, "cuda").kind == "sequential"
    assert "running statistics" in choose(NoisyNet(), 16, "cuda").why
    assert "augmented" in choose(net, 16, "cuda", options=TrainOptions(augment="crop")).why
    big = nn.Sequential(nn.Flatten(), nn.Linear(64, 40_000, device="meta"))
    assert "2,600,000 parameters" in choose(big, 16, "cuda").why


def test_the_stack_is_what_half_the_free_memory_holds(net: nn.Module) -> None:
    n_parameters = sum(p.numel() for p in net.parameters())
    one = 4 * (4 * n_parameters + 2 * _count_activations(net, 64, (8, 8, 1)))
    assert choose(net, 16, "cuda", free=2 * 5 * one).at_once == 5
    assert choose(net, 16, "cuda", free=2 * 5 * one - 2).at_once == 4
    assert choose(net, 16, "cuda", free=2 * one).kind == "sequential"


def test_activations_are_counted_without_computing() -> None:
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 6 * 7, 4))
    assert _count_activations(model, 2, (8, 9, 3)) == 2 * (5 * 6 * 7 * 3 + 4)
    assert next(model.parameters()).device == torch.device("cpu")
