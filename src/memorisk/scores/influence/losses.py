"""Gradients of per-image losses with respect to the logits, in closed form.

A gradient with respect to weights is linear in the one with respect to logits, ``d``. So ``d`` is formed in float64,
split into a direction of length one and its length, and the network's backward pass sees the direction alone: images
that are learned to the last bit, whose ``1 - p_y`` is 0 in float32, keep their true order, and nothing underflows.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError, unknown_name

LOSSES = ("cross_entropy", "binary", "multi_label")


def check_labels(labels: ArrayLike | torch.Tensor, n: int, loss: str) -> torch.Tensor:
    """Labels as the loss wants them: int64 [N] classes, or 0 and 1 of shape [N] (binary) or [N, k] (multi_label)."""
    if loss not in LOSSES:
        raise unknown_name("loss", loss, LOSSES)
    found = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    wanted = "[N, labels] of 0 and 1" if loss == "multi_label" else "[N] " + ("classes", "of 0 and 1")[loss == "binary"]
    shape_fits = found.ndim == (2 if loss == "multi_label" else 1) and found.dtype.kind in "biuf"
    if not shape_fits or len(found) != n:
        raise InputError(
            f"labels for {n} images under loss={loss!r} must be {wanted}; got {found.dtype} of shape {found.shape}"
        )
    if loss == "cross_entropy":
        if found.dtype.kind not in "iu" or (n and int(found.min()) < 0):
            raise InputError(f"labels must be class numbers 0, 1, ... of an integer type; got {found.dtype}")
        return torch.from_numpy(found.astype(np.int64))
    if not ((found == 0) | (found == 1)).all():
        raise InputError(f"labels under loss={loss!r} must be 0 or 1; got others")
    return torch.from_numpy(found.astype(np.float64))


def check_logits(logits: object, labels: torch.Tensor, loss: str) -> torch.Tensor:
    """The network's output for labels of b images, if that loss can be taken of it: [b, k]."""
    b = len(labels)
    if not isinstance(logits, torch.Tensor) or not logits.is_floating_point():
        raise InputError(f"the network must return its logits as one tensor; got {type(logits).__name__}")
    shape = tuple(logits.shape)
    if loss == "binary" and shape in ((b,), (b, 1)):
        return logits.reshape(b, 1)
    if loss == "multi_label" and shape == tuple(labels.shape):
        return logits
    if loss == "cross_entropy" and logits.ndim == 2 and shape[0] == b:
        if int(labels.max()) >= shape[1]:
            raise InputError(f"the network gives {shape[1]} logits; label {int(labels.max())} needs a larger one")
        return logits
    wanted = {"binary": f"[{b}] or [{b}, 1]", "multi_label": str(list(labels.shape))}.get(loss, f"[{b}, classes]")
    raise InputError(f"logits of {b} images under loss={loss!r} must be {wanted}; the network gives {list(shape)}")


def direction(logits: torch.Tensor, labels: torch.Tensor, loss: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The per-image loss's gradient with respect to the logits, as a direction and a squared length.

    Cross entropy: ``d_j = p_j`` for j != y and ``d_y = -sum_{j != y} p_j``, which is p_y - 1 without its cancellation.
    Binary: ``sigmoid(z)`` for 0 and ``-sigmoid(-z)`` for 1; the mean of these losses over k labels for multi_label.

    Args:
        logits: [b, k].
        labels: [b], or [b, k] for multi_label, on the same device.
        loss: One of `LOSSES`.

    Returns:
        [b, k] in the logits' type, of length one (or zero where d is zero), and [b] float64 ``||d||^2``.
    """
    z = logits.detach().double()
    if loss == "cross_entropy":
        d = torch.softmax(z, dim=1).scatter(1, labels[:, None], 0.0)
        d = d.scatter(1, labels[:, None], -d.sum(dim=1, keepdim=True))
    else:
        y = labels.reshape(z.shape)
        d = torch.where(y == 1, -torch.sigmoid(-z), torch.sigmoid(z)) / z.shape[1]
    length = torch.linalg.vector_norm(d, dim=1, keepdim=True)
    unit = torch.where(length > 0, d / length, 0.0)
    return unit.to(logits.dtype), length[:, 0].square()
