"""Networks by name: memorisk's own small nets and everything in timm."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from memorisk.models.small import SmallCNN
from memorisk.runs.errors import InputError

_OWN: dict[str, Callable[[int, int, int], nn.Module]] = {"small_cnn": SmallCNN}


def create_model(
    name: str,
    *,
    num_classes: int,
    in_chans: int = 3,
    image_size: int = 224,
    weights: str | Path | None = None,
    seed: int,
) -> nn.Module:
    """A network by name, randomly initialised from ``seed``."""
    with seeded(seed):
        return _OWN[name](num_classes, in_chans, image_size)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random draws inside come from ``seed``; the state outside is as if nothing had been drawn."""
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
