"""Which image stands where in which batch, and at what learning rate.

Twins differ only in the images of their canary slots (METHODS, section 1): the batch order depends on (seed, epoch,
number of slots) alone, and whatever a network draws at random in a step (dropout, augmentation) on (seed, epoch,
step), so that slot j of both twins meets the same position, the same mask and the same augmentation.
"""

import itertools
import math

import numpy as np
import torch

from memorisk.runs.errors import InputError

_ORDER, _STEPS = 0, 1
_DECAY = 0.99


def _sequence(seed: int, *key: int) -> np.random.SeedSequence:
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    return np.random.SeedSequence(seed, spawn_key=key)


def batch_order(seed: int, epoch: int, n: int, slots: int | None = None) -> torch.Tensor:
    """The permutation of slots in an epoch: a function of (seed, epoch, slots) and nothing else. [slots] int64.

    A twin whose partners are smaller has fewer images than slots; the last ones are empty. Each holds one of the twin's
    own images in their place, drawn anew in each epoch, so that both twins have as many steps of as many images, all
    else stays where it is, and no image is trained on more than another.

    Args:
        seed: Of the training.
        epoch: 0, 1, ...
        n: Images.
        slots: Slots, where there are more of them.
    """
    rng = np.random.default_rng(_sequence(seed, _ORDER, epoch))
    order = rng.permutation(n if slots is None else slots)
    empty = np.flatnonzero(order >= n)
    if len(empty):
        order[empty] = rng.integers(n, size=len(empty))
    return torch.from_numpy(order)


def step_seeds(seed: int, epoch: int, n_steps: int) -> list[int]:
    """One seed per step for what the network and the augmentation draw: a function of (seed, epoch, step)."""
    state = _sequence(seed, _STEPS, epoch).generate_state(n_steps, np.uint64)
    return (state >> np.uint64(1)).tolist()  # 63 bits, since torch takes signed seeds


def batch_bounds(n: int, batch_size: int) -> list[tuple[int, int]]:
    """Start and stop of each batch; the smaller last one is kept, but a single left-over slot joins the batch before.

    Batch normalisation is undefined over one value, and a slot that is dropped would be trained on less than others.

    Raises:
        InputError: if there are fewer than two slots.
    """
    if n < 2:
        raise InputError(f"training needs at least 2 images, there are {n}")
    edges = [*range(0, n, batch_size), n]
    if len(edges) > 2 and edges[-1] - edges[-2] == 1:
        del edges[-2]
    return list(itertools.pairwise(edges))


def learning_rate(schedule: str, lr: float, epoch: int, epochs: int) -> float:
    """Learning rate in an epoch.

    Cosine is ``lr (1 + cos(pi epoch / epochs)) / 2``, that is `torch.optim.lr_scheduler.CosineAnnealingLR` with
    ``T_max = epochs``, stepped once per epoch. Step is the recipe of Huang et al. (2018, section 4.2) for CIFAR: lr,
    lr / 10 from 50 % of the epochs, lr / 100 from 75 %. Exponential is ``lr 0.99^epoch`` (paper 003, section 3.2.3).

    Args:
        schedule: cosine, constant, step or exponential.
        lr: Learning rate at the start.
        epoch: 0, 1, ...
        epochs: Of the whole training.
    """
    if schedule == "constant":
        return lr
    if schedule == "step":
        return lr / 10 ** ((2 * epoch >= epochs) + (4 * epoch >= 3 * epochs))
    if schedule == "exponential":
        return lr * _DECAY**epoch
    return 0.5 * lr * (1 + math.cos(math.pi * epoch / epochs))
