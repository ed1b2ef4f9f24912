"""TracInCP self-influence of every image, streamed over batches and checkpoints.

`self_influence` gives a `SelfInfluence`. `evenly_spaced_checkpoints` chooses the epochs whose checkpoints are
taken: those in which the training still learned.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.influence.inputs import (
    Checkpoint,
    Images,
    Prepare,
    check_checkpoints,
    check_images,
    check_labels,
    load_checkpoint,
    read_batch,
)
from memorisk.scores.influence.passes import batch_squares, make_plan

_CHECKED = 3
"""Images of the self-check, spread over all: an odd number that distinguishes a batch axis from most others."""


@dataclass(frozen=True)
class SelfInfluence:
    """Self-influence of N images over S checkpoints; higher = the training changed the image's own loss more."""

    values: NDArray[np.float64]
    """Self-influence of each image, [N], the sum over checkpoints of ``by_checkpoint``."""
    by_checkpoint: NDArray[np.float64]
    """Terms of the sum, [S, N], ``lr_s * ||grad_w l(w_s, x)||^2``."""
    lrs: tuple[float, ...]
    """Learning rates of the S checkpoints."""
    weights: int
    """Count of the numbers in the parameters that require a gradient."""
    fallback: Mapping[str, str]
    """Parameters whose gradients were taken one image at a time, and why; empty where every norm had a short way."""
    fallback_method: str
    """Method of these gradients: "vmap" (torch.func, many images at once), "loop" (one after another) or "none"."""
    disagreement: float
    """Largest relative difference from autograd, per image and all weights, in the self-check before the pass."""

    def top(self, k: int) -> NDArray[np.int64]:
        """Return the rows of the k images with the highest self-influence, highest first, ties by row.

        Args:
            k: Number of images, 1 to N.

        Raises:
            InputError: k is not a number of images.
        """
        return self._order(-self.values, k)

    def bottom(self, k: int) -> NDArray[np.int64]:
        """Return the rows of the k images with the lowest self-influence, lowest first, ties by row.

        Args:
            k: Number of images, 1 to N.

        Raises:
            InputError: k is not a number of images.
        """
        return self._order(self.values, k)

    def _order(self, keys: NDArray[np.float64], k: int) -> NDArray[np.int64]:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= len(keys):
            raise InputError(f"k must be a whole number of images from 1 to {len(keys)}; got {k!r}")
        return np.argsort(keys, kind="stable")[:k].astype(np.int64)


def self_influence(
    model: nn.Module,
    images: Images,
    labels: ArrayLike | torch.Tensor,
    checkpoints: Sequence[Checkpoint],
    lrs: Sequence[float],
    *,
    loss: str = "cross_entropy",
    prepare: Prepare | None = None,
    batch_size: int = 32,
    device: str | torch.device = "cpu",
) -> SelfInfluence:
    """Compute the self-influence of every image: ``sum_s lr_s ||grad_w l(w_s, x)||^2`` over checkpoints s (TracInCP).

    Source: paper 002, A.5, equation 2; Garima et al. 2020, "Estimating Training Data Influence by Tracing Gradient
    Descent". The gradient covers all weights that require one, in evaluation mode, of the loss of one image.

    One forward and one backward pass per batch give every layer's input a and output gradient g, and most layers'
    squared
    gradient norm of one image follows from these: ``||sum_t g_t a_t^T||^2`` (`gradient_norms`). The program reads off
    autograd's graph, batch by batch (`parameter_uses`), which parameters have such a short way, and checks them on
    three
    images against autograd before the pass (`passes`). The others (used more than once, tied, in operations not known)
    get
    one gradient per image, and the result names them. The norms' sums are float64; the network computes in its own
    precision, with TF32 off.

    The model is copied; the one given is not touched. Hooks on it are part of it and run in the copy. Except for the
    result, memory does not grow with N.

    Args:
        model: The network, [b, C, H, W] to logits, float32 or float64; its parameters with ``requires_grad`` count.
        images: NumPy [N, H, W, C]: uint8 and uint16 are scaled to [0, 1], floats (also [N, d]) taken as they are; a
            mapped file stays on the disk. Or a tensor [N, ...] as the network takes it.
        labels: [N] classes for "cross_entropy", [N] 0 and 1 for "binary", [N, k] of these for "multi_label".
        checkpoints: S state dicts of the model or paths of .safetensors files; loaded one at a time.
        lrs: S learning rates, one per checkpoint.
        loss: "cross_entropy"; "binary", sigmoid and one logit; "multi_label", its mean over k labels.
        prepare: Function applied to each batch, floats [b, C, H, W], before the network: a normalisation. None:
            nothing.
        batch_size: Number of images per pass.
        device: Device that computes the gradients.

    Returns:
        `SelfInfluence` with float64 [N] and [S, N].

    Raises:
        InputError: Images, labels, checkpoints, rates or options that do not fit together; a network that mixes images,
            that has no trainable weights or other types than float32 and float64; a gradient that is not finite.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
        raise InputError(f"batch_size must be a whole number, 1 or more; got {batch_size!r}")
    where = check_device(device)
    check_images(images)
    targets = check_labels(labels, len(images), loss).to(where)
    rates = check_checkpoints(checkpoints, lrs)
    with _plain_computation(where):
        return _measured(
            _own_copy(model, where), _Set(images, targets, prepare, where), checkpoints, rates, loss, batch_size
        )


@dataclass(frozen=True)
class _Set:
    """Images and labels, read where they are needed."""

    images: Images
    targets: torch.Tensor
    prepare: Prepare | None
    device: torch.device

    def batch(self, rows: slice, dtype: torch.dtype) -> torch.Tensor:
        return read_batch(self.images, rows, self.device, dtype, self.prepare)


def _measured(
    own: nn.Module,
    inputs: _Set,
    checkpoints: Sequence[Checkpoint],
    rates: tuple[float, ...],
    loss: str,
    batch_size: int,
) -> SelfInfluence:
    """Plan, and pass over all batches at every checkpoint, with a network that may be changed."""
    n = len(inputs.images)
    parameters = {name: p for name, p in own.named_parameters() if p.requires_grad}
    dtype = _check_parameters(parameters)
    load_checkpoint(own, checkpoints[0], 0)
    few = sorted({round(i) for i in np.linspace(0, n - 1, min(_CHECKED, n))})
    checked = torch.cat([inputs.batch(slice(row, row + 1), dtype) for row in few])
    plan = make_plan(own, parameters, checked, inputs.targets[few], loss)
    by_checkpoint, changed = np.empty((len(rates), n)), {}
    for s, (checkpoint, rate) in enumerate(zip(checkpoints, rates, strict=True)):
        load_checkpoint(own, checkpoint, s)
        for start in range(0, n, batch_size):
            rows = slice(start, min(start + batch_size, n))
            x = inputs.batch(rows, dtype)
            norms = batch_squares(own, parameters, x, inputs.targets[rows], loss, plan, changed)
            by_checkpoint[s, rows] = rate * norms.numpy()
        _check_finite(by_checkpoint[s], s)
    return SelfInfluence(
        values=by_checkpoint.sum(axis=0),
        by_checkpoint=by_checkpoint,
        lrs=rates,
        weights=sum(p.numel() for p in parameters.values()),
        fallback={**plan.fallback, **changed},
        fallback_method="loop" if changed else plan.method,
        disagreement=plan.disagreement,
    )


def _own_copy(model: nn.Module, device: torch.device) -> nn.Module:
    """Return a copy in evaluation mode, on the device, in the memory order that convolutions prefer."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module; got {type(model).__name__}")
    try:
        own = copy.deepcopy(model)
    except Exception as error:  # a module may hold anything
        raise InputError(
            f"the network cannot be copied (copy.deepcopy), and is not changed in place: {one_line(error)}"
        ) from error
    own.zero_grad(set_to_none=True)
    own.to(device)
    own.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] (torch's stub lacks this form)
    return own.eval()


def _check_parameters(parameters: dict[str, nn.Parameter]) -> torch.dtype:
    if not parameters:
        raise InputError("no parameter of the network requires a gradient: unfreeze some with requires_grad_(True)")
    for name, p in parameters.items():
        if p.dtype not in (torch.float32, torch.float64):
            raise InputError(f"{name!r} is {p.dtype}; gradient norms need float32 or float64: call model.float()")
    return next(iter(parameters.values())).dtype


@contextmanager
def _plain_computation(device: torch.device) -> Iterator[None]:
    """Turn gradients on, mixed precision and TF32 off, and restore the caller's settings on leaving."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        if device.type == "cuda":
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, allow_tf32=False))
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision("highest")
        yield


def _check_finite(values: np.ndarray, s: int) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InputError(
            f"the gradient of image {bad[0]} is not finite at checkpoint {s} (of {len(bad)} images): "
            f"check the checkpoint's weights and the image"
        )


def evenly_spaced_checkpoints(losses: ArrayLike, n: int = 10, share: float = 0.95) -> NDArray[np.int64]:
    """Choose n epochs evenly spaced over those that cover a share of the loss reduction (paper 002, A.5).

    With ``L_e`` the training loss after epoch e, the covered epochs are 0 to E, where E is the first epoch with
    ``L_0 - L_E >= share * (L_0 - min_e L_e)``. Chosen are ``round(i E / (n - 1))`` for i = 0 ... n - 1 (halves up), so
    that the first and the last covered epoch are among them; E alone for n = 1.

    Args:
        losses: [epochs], training loss of each epoch whose checkpoint is kept, in order.
        n: Number of checkpoints to choose.
        share: Share of the reduction that the covered epochs reach, above 0 and at most 1.

    Returns:
        [n] int64, positions in ``losses``, ascending and all different.

    Raises:
        InputError: Losses that are not finite or never fall, options out of range, or fewer than n covered epochs.
    """
    values = np.asarray(losses, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise InputError(f"losses must be finite, one per epoch, of two epochs or more; got shape {values.shape}")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise InputError(f"n must be a whole number of checkpoints, 1 or more; got {n!r}")
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1; got {share!r}")
    reduction = values[0] - values
    if reduction.max() <= 0:
        raise InputError("the losses never fall below that of the first epoch: give the training loss, in epoch order")
    last = int(np.flatnonzero(reduction >= share * reduction.max())[0])
    if last + 1 < n:
        raise InputError(
            f"only {last + 1} epochs cover {share:.0%} of the loss reduction, {n} checkpoints were requested: "
            f"request {last + 1} or fewer, or keep checkpoints more often"
        )
    if n == 1:
        return np.array([last], dtype=np.int64)
    return np.floor(np.linspace(0, last, n) + 0.5).astype(np.int64)
