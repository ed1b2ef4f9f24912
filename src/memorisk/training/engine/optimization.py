"""The loss of a training, its optimiser, and the order in which it sees the images.

Losses are cross entropy for one label of several, and binary cross entropy for one logit or one per label. Each comes
for one model, and for K models together (``stacked_``), whose logits have a leading axis.

Adam is torch's own fused kernel behind the four members that a training uses, instead of `torch.optim.Adam`: building
that class imports torch's compiler, 1.4 seconds in every process, as long as a small model trains. The arithmetic and
the bytes are the same (tested).

Twins differ only in the images of their canary slots (METHODS, section 1). The batch order depends on (seed, epoch,
number of slots) alone, and everything a network draws at random in a step (dropout, augmentation) on (seed, epoch,
step), so that slot j of both twins meets the same position, the same mask and the same augmentation.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.adam import adam

from memorisk.runs.errors import InputError
from memorisk.training.engine.options import TrainOptions

Objective = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def target_tensor(targets: np.ndarray | torch.Tensor, head: str, dtype: torch.dtype) -> torch.Tensor:
    """Convert targets for the loss: int64 [N] for single and first, floats [N] for binary and [N, k] for multi.

    Raises:
        InputError: Their shape or values do not fit the head.
    """
    values = torch.as_tensor(targets)
    if head in ("single", "first"):
        if values.ndim != 1 or values.is_floating_point() or (len(values) and int(values.min()) < 0):
            raise InputError(f"targets of a {head} head are class numbers 0, 1, ... of shape [N], not {_shown(values)}")
        return values.long()
    wanted = 1 if head == "binary" else 2
    if values.ndim != wanted or not bool(((values == 0) | (values == 1)).all()):
        shape = "[N]" if wanted == 1 else "[N, labels]"
        raise InputError(f"targets of a {head} head are 0 and 1 of shape {shape}, not {_shown(values)}")
    return values.to(dtype)


def balancing_weights(targets: torch.Tensor, head: str, n_outputs: int) -> torch.Tensor:
    """Compute weights from the training targets.

    Single and first: ``n / (k n_c)`` per class, k counting the classes present; 0 for a class without images, [k].
    Binary and multi: weight of the positives, ``n_negative / n_positive`` per label, 1 where one side is empty.
    """
    if head in ("single", "first"):
        count = torch.bincount(targets, minlength=n_outputs).double()
        present = count > 0
        return torch.where(present, len(targets) / (present.sum() * count.clamp(min=1)), 0.0)
    positive = targets.reshape(len(targets), -1).double().sum(dim=0)
    negative = len(targets) - positive
    return torch.where((positive > 0) & (negative > 0), negative / positive.clamp(min=1), 1.0)


def objective(head: str, weights: torch.Tensor | None) -> Objective:
    """Build the loss [] of (logits [b, k], targets), averaged over the batch; a weighted mean for weighted classes."""
    if head in ("single", "first"):
        return lambda logits, y: F.cross_entropy(logits, y, weight=weights)
    if head == "binary":
        return lambda logits, y: F.binary_cross_entropy_with_logits(logits.squeeze(1), y, pos_weight=weights)
    return lambda logits, y: F.binary_cross_entropy_with_logits(logits, y, pos_weight=weights)


def stacked_objective(head: str, weights: torch.Tensor | None) -> Objective:
    """Build the same for K models: (logits [K, b, k], targets [K, b] or [K, b, k]) to [K]; weights are [K, k]."""
    if head in ("single", "first"):
        return lambda logits, y: _stacked_cross_entropy(logits, y, weights)
    positive = None if weights is None else weights[:, None]

    def binary(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Compute the mean binary cross-entropy of each model, [K]."""
        y = y.reshape(logits.shape)
        losses = F.binary_cross_entropy_with_logits(logits, y, pos_weight=positive, reduction="none")
        return losses.mean(dim=(1, 2))

    return binary


def _stacked_cross_entropy(logits: torch.Tensor, y: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    losses = -F.log_softmax(logits, dim=2).gather(2, y[:, :, None]).squeeze(2)  # [K, b]
    if weights is None:
        return losses.mean(dim=1)
    weight = weights.gather(1, y)
    return (weight * losses).sum(dim=1) / weight.sum(dim=1)


def check_outputs(n_outputs: int, targets: torch.Tensor, head: str) -> None:
    """Refuse a network whose number of logits cannot hold the targets."""
    exact = {"binary": 1, "multi": targets.shape[-1]}.get(head)
    if exact is None:
        needed = int(targets.max()) + 1
        if n_outputs < needed:
            raise InputError(f"the network gives {n_outputs} logits; classes up to {needed - 1} need {needed}")
    elif n_outputs != exact:
        raise InputError(f"the network gives {n_outputs} logits; a {head} head over these targets needs {exact}")


def _shown(values: torch.Tensor) -> str:
    return f"{values.dtype} of shape {tuple(values.shape)}"


_BETAS = (0.9, 0.999)
_EPS = 1e-8
_MOMENTUM = 0.9


class FusedAdam:
    """Adam (Kingma and Ba 2015) with torch's eps, 1e-8.

    Args:
        parameters: Leaves to train, on a CPU or a CUDA device.
        lr: Learning rate; change it in ``param_groups[0]["lr"]``.
        weight_decay: Factor of the weight decay; the parameter times it is added to the gradient.
        betas: Decay of the two moments; by default torch's, 0.9 and 0.999.
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        *,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = _BETAS,
    ) -> None:
        self.betas = betas
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": lr, "weight_decay": weight_decay}]
        self.state: dict[torch.Tensor, dict[str, torch.Tensor]] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients."""
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Make one update of every parameter that has a gradient."""
        group = self.param_groups[0]
        moved = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self.state.get(parameter) or self._begin(parameter) for parameter in moved]
        adam(
            moved,
            [parameter.grad for parameter in moved],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            foreach=False,
            capturable=False,
            differentiable=False,
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=_EPS,
            maximize=False,
        )

    def _begin(self, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
        state = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        self.state[parameter] = state
        return state


AnyOptimizer = FusedAdam | torch.optim.Optimizer


def build_optimizer(parameters: Sequence[torch.Tensor], options: TrainOptions) -> AnyOptimizer:
    """Build the optimiser that the options name, over the given parameters.

    Raises:
        InputError: No parameter is given.
    """
    if not parameters:
        raise InputError("no parameter of the network requires a gradient: there is nothing to train")
    lr, decay = options.lr or 0.0, options.weight_decay
    if options.optimizer == "adam":
        return FusedAdam(parameters, lr=lr, weight_decay=decay)
    if options.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay, fused=True)
    nesterov = options.optimizer == "nesterov"
    return torch.optim.SGD(parameters, lr=lr, momentum=_MOMENTUM, nesterov=nesterov, weight_decay=decay, fused=True)


_ORDER, _STEPS = 0, 1
_DECAY = 0.99


def _sequence(seed: int, *key: int) -> np.random.SeedSequence:
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    return np.random.SeedSequence(seed, spawn_key=key)


def batch_order(seed: int, epoch: int, n: int, slots: int | None = None) -> torch.Tensor:
    """Draw the permutation of slots in an epoch: a function of (seed, epoch, slots) and nothing else. [slots] int64.

    A twin whose partners are smaller has fewer images than slots; the last ones are empty. Each holds one of the twin's
    own images in their place, drawn anew in each epoch, so that both twins have as many steps of as many images, all
    other slots stay in place, and no image is trained on more than another.

    Args:
        seed: Random seed of the training.
        epoch: Number of the epoch, 0, 1, ...
        n: Number of images.
        slots: Number of slots, where it exceeds that of images.
    """
    rng = np.random.default_rng(_sequence(seed, _ORDER, epoch))
    order = rng.permutation(n if slots is None else slots)
    empty = np.flatnonzero(order >= n)
    if len(empty):
        order[empty] = rng.integers(n, size=len(empty))
    return torch.from_numpy(order)


def step_seeds(seed: int, epoch: int, n_steps: int) -> list[int]:
    """Derive one seed per step for the draws of network and augmentation: a function of (seed, epoch, step)."""
    state = _sequence(seed, _STEPS, epoch).generate_state(n_steps, np.uint64)
    return (state >> np.uint64(1)).tolist()  # 63 bits, since torch takes signed seeds


def batch_bounds(n: int, batch_size: int) -> list[tuple[int, int]]:
    """Return start and stop of each batch; the smaller last one is kept, but a single last slot joins the one before.

    Batch normalisation is undefined over one value, and a slot that is dropped would be trained on less than others.

    Raises:
        InputError: The slots are fewer than two.
    """
    if n < 2:
        raise InputError(f"training needs at least 2 images, there are {n}")
    edges = [*range(0, n, batch_size), n]
    if len(edges) > 2 and edges[-1] - edges[-2] == 1:
        del edges[-2]
    return list(itertools.pairwise(edges))


def learning_rate(schedule: str, lr: float, epoch: int, epochs: int) -> float:
    """Compute the learning rate in an epoch.

    Cosine is ``lr (1 + cos(pi epoch / epochs)) / 2``, that is `torch.optim.lr_scheduler.CosineAnnealingLR` with
    ``T_max = epochs``, stepped once per epoch. Step is the recipe of Huang et al. (2018, section 4.2) for CIFAR: lr,
    lr / 10 from 50 % of the epochs, lr / 100 from 75 %. Exponential is ``lr 0.99^epoch`` (paper 003, section 3.2.3).

    Args:
        schedule: Name of the schedule: cosine, constant, step or exponential.
        lr: Learning rate at the start.
        epoch: Number of the epoch, 0, 1, ...
        epochs: Number of epochs of the whole training.
    """
    if schedule == "constant":
        return lr
    if schedule == "step":
        return lr / 10 ** ((2 * epoch >= epochs) + (4 * epoch >= 3 * epochs))
    if schedule == "exponential":
        return lr * _DECAY**epoch
    return 0.5 * lr * (1 + math.cos(math.pi * epoch / epochs))
