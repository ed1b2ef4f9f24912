"""The operations whose weight gradients have a known per-image norm: what is kept of a call, and the norm from it.

An operation is recognised by the function of PyTorch that is called with the parameter, whatever module calls it:
timm's norms with activations, padding modes and a user's own layers need no case of theirs. Each function here has the
arguments of the operation and returns None for a form it does not know. That is no error: nothing is kept of the call,
and `uses` then finds its parameters unaccounted for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from memorisk.scores.influence import norms

Tensor = torch.Tensor
Norm = Callable[[Tensor, int], Tensor]
"""From the gradient of the operation's output and the number of images b to [b]."""


@dataclass(frozen=True)
class Call:
    """One call of a known operation."""

    kind: str
    """The operation's name."""
    weights: tuple[tuple[Tensor, Norm], ...]
    """Each tensor that plays the part of a weight (it need not be a parameter) and the norm of its gradient."""
    reads: tuple[Tensor, ...]
    """What the norms read: it must not change in place before they are taken."""
    folds: bool = True
    """Whether several blocks of rows may belong to one image."""


def _call(kind: str, reads: Sequence[Tensor], *weights: tuple[Tensor | None, Norm], folds: bool = True) -> Call:
    present = tuple((tensor, norm) for tensor, norm in weights if tensor is not None)
    return Call(kind, present, tuple(reads), folds)


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Call | None:
    if input.ndim < 2 or weight.ndim != 2:
        return None
    return _call(
        "linear",
        [input],
        (weight, lambda g, b: norms.linear_weight(input.detach(), g, b)),
        (bias, lambda g, b: norms.linear_bias(g, b)),
    )


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Call | None:
    axes = weight.ndim - 2
    if input.ndim != weight.ndim:
        return None
    steps, spread = _per_axis(stride, axes), _per_axis(dilation, axes)
    if padding == "same":
        totals = [d * (size - 1) for d, size in zip(spread, weight.shape[2:], strict=True)]
        before, after = [t // 2 for t in totals], [t - t // 2 for t in totals]
    else:
        before = after = [0] * axes if padding == "valid" else list(_per_axis(padding, axes))

    def weight_norm(g: Tensor, b: int) -> Tensor:
        """Squared gradient norms of the kernels, a 1-D one as a row of pixels."""
        a, even = input.detach(), before
        if before != after:  # an even kernel under "same": one more at the end
            a, even = F.pad(a, [p for pair in zip(before[::-1], after[::-1], strict=True) for p in pair]), [0] * axes
        shape_of = weight.detach()
        if axes == 1:  # one row of pixels
            a, g, shape_of = a[:, :, None], g[:, :, None], shape_of[:, :, None]
        lead = (1,) * (2 - axes)
        padded = (0,) * (2 - axes) + tuple(even)
        return norms.convolution_weight(a, g, shape_of, (*lead, *steps), padded, (*lead, *spread), groups)

    return _call(
        f"conv{axes}d", [input], (weight, weight_norm), (bias, lambda g, b: norms.channel_sums(g, b)), folds=False
    )


def _per_axis(value: Any, axes: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values * axes if len(values) == 1 else values


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Call | None:
    if training or running_mean is None or running_var is None:
        return None  # statistics of the batch: no gradient is one image's
    mean, variance = running_mean, running_var

    def weight_norm(g: Tensor, b: int) -> Tensor:
        """Squared gradient norms of the weights on normalised channels."""
        return norms.channel_sums(g * F.batch_norm(input.detach(), mean, variance, None, None, False, 0.0, eps), b)

    return _call(
        "batch_norm", [input, mean, variance], (weight, weight_norm), (bias, lambda g, b: norms.channel_sums(g, b))
    )


def _layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Call | None:
    shape = tuple(normalized_shape)
    if input.ndim <= len(shape):
        return None
    return _call(
        "layer_norm",
        [input],
        (weight, lambda g, b: norms.trailing_sums(g * F.layer_norm(input.detach(), shape, None, None, eps), b, shape)),
        (bias, lambda g, b: norms.trailing_sums(g, b, shape)),
    )


def _group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Call | None:
    return _call(
        "group_norm",
        [input],
        (weight, lambda g, b: norms.channel_sums(g * F.group_norm(input.detach(), num_groups, None, None, eps), b)),
        (bias, lambda g, b: norms.channel_sums(g, b)),
    )


def _embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Call | None:
    if max_norm is not None or scale_grad_by_freq or input.ndim < 1:
        return None  # rewrites its weight, or counts over the whole batch
    padding = padding_idx if padding_idx is None or padding_idx >= 0 else len(weight) + padding_idx
    return _call("embedding", [input], (weight, lambda g, b: norms.embedding_weight(input, g, b, padding)))


def _product(input: Any, other: Any) -> Call | None:
    """A layer scale: activations times broadcast weights, on either side."""
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return None

    def norm(weight: Tensor, activations: Tensor) -> Norm:
        """Squared gradient norms of a weight that scales these activations."""
        return lambda g, b: norms.broadcast_sums(g * activations.detach(), b, tuple(weight.shape))

    sides = [(w, norm(w, x)) for w, x in ((input, other), (other, input)) if _broadcasts(w, x)]
    return _call("product", [input, other], *sides)


def _sum(input: Any, other: Any) -> Call | None:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return None

    def norm(weight: Tensor) -> Norm:
        """Squared gradient norms of a weight that is added."""
        return lambda g, b: norms.broadcast_sums(g, b, tuple(weight.shape))

    return _call("sum", [], *[(w, norm(w)) for w, x in ((input, other), (other, input)) if _broadcasts(w, x)])


def _broadcasts(weight: Tensor, activations: Tensor) -> bool:
    """Whether the weight is the same for every row of the activations, which keep their shape."""
    shape, own = activations.shape, (1,) * (activations.ndim - weight.ndim) + tuple(weight.shape)
    return (
        len(shape) > 0
        and len(own) == len(shape)
        and own[0] == 1
        and all(n in (1, m) for n, m in zip(own, shape, strict=True))
    )


def _known() -> dict[Any, Callable[..., Call | None]]:
    """The functions by which the operations are called."""
    found: dict[Any, Callable[..., Call | None]] = {
        F.linear: _linear,
        F.conv1d: _convolution,
        F.conv2d: _convolution,
        F.batch_norm: _batch_norm,
        F.layer_norm: _layer_norm,
        F.group_norm: _group_norm,
        F.embedding: _embedding,
    }
    for function in (torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__):
        found[function] = _product
    for function in (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__):
        found[function] = _sum
    return found


KNOWN = _known()
VIEWS = frozenset((Tensor.view, Tensor.reshape, torch.reshape, Tensor.unsqueeze, torch.unsqueeze, Tensor.squeeze))
"""Functions that only rearrange a weight's shape, number by number: a gradient's norm is the same before and after."""
