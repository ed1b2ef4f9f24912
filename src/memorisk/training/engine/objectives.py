"""What is minimised: cross entropy for one label of several, binary cross entropy for one logit or one per label.

Each loss comes for one model, and for K models side by side (``stacked_``), whose logits have a leading axis.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.runs.errors import InputError

Objective = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def target_tensor(targets: np.ndarray | torch.Tensor, head: str, dtype: torch.dtype) -> torch.Tensor:
    """Targets as the loss wants them: int64 [N] for single and first, floats [N] for binary and [N, k] for multi.

    Raises:
        InputError: if their shape or values do not fit the head.
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
    """Weights from the training targets.

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
    """The loss of (logits [b, k], targets), averaged over the batch; a weighted mean when classes are weighted. []."""
    if head in ("single", "first"):
        return lambda logits, y: F.cross_entropy(logits, y, weight=weights)
    if head == "binary":
        return lambda logits, y: F.binary_cross_entropy_with_logits(logits.squeeze(1), y, pos_weight=weights)
    return lambda logits, y: F.binary_cross_entropy_with_logits(logits, y, pos_weight=weights)


def stacked_objective(head: str, weights: torch.Tensor | None) -> Objective:
    """The same for K models: (logits [K, b, k], targets [K, b] or [K, b, k]) to [K]; weights are [K, k]."""
    if head in ("single", "first"):
        return lambda logits, y: _stacked_cross_entropy(logits, y, weights)
    positive = None if weights is None else weights[:, None]

    def binary(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Mean binary cross-entropy of each model, [K]."""
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
