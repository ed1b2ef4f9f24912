"""Inputs of self-influence: images batch by batch, checkpoints one at a time, labels and the gradients of losses.

The gradients of per-image losses with respect to the logits have a closed form. A gradient with respect to weights
is linear in the one with respect to logits, ``d``. So ``d`` is formed in float64, split into a direction of length
one and its length, and the network's backward pass sees the direction alone: images that are learned to the last
bit, whose ``1 - p_y`` is 0 in float32, keep their true order, and nothing underflows.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from safetensors.torch import load_file
from torch import nn

from memorisk.runs.errors import InputError, one_line, unknown_name

Images = np.ndarray | torch.Tensor
Checkpoint = Mapping[str, torch.Tensor] | str | Path
Prepare = Callable[[torch.Tensor], torch.Tensor]

_RANGE = {"uint8": 255.0, "uint16": 65535.0}
_FLOATS = ("float16", "float32", "float64")
LOSSES = ("cross_entropy", "binary", "multi_label")


def check_images(images: Images) -> None:
    """Refuse what is not a set of images (or of rows of features) as a network takes them."""
    if isinstance(images, torch.Tensor):
        if images.ndim < 2 or images.dtype in (torch.uint8, torch.uint16):
            raise InputError(
                f"a tensor of images must be floats [N, C, H, W], as the network takes them; got {images.dtype} of "
                f"shape {tuple(images.shape)}: give integers as a NumPy array [N, H, W, C]"
            )
    elif not isinstance(images, np.ndarray):
        raise InputError(f"images must be a NumPy array or a tensor; got {type(images).__name__}")
    elif images.ndim not in (2, 4) or images.dtype.name not in (*_RANGE, *_FLOATS):
        raise InputError(
            f"an array of images must be uint8, uint16 or floats, [N, H, W, C] (or features [N, d]); "
            f"got {images.dtype} of shape {images.shape}"
        )
    if not len(images):
        raise InputError("no images: give one or more")


def read_batch(
    images: Images, rows: slice, device: torch.device, dtype: torch.dtype, prepare: Prepare | None
) -> torch.Tensor:
    """Return the network's input for some rows: integers scaled to [0, 1], [b, C, H, W], prepared."""
    if isinstance(images, torch.Tensor):
        x = images[rows].detach().to(device)
        x = x.to(dtype) if x.is_floating_point() else x
    else:
        # A copy, of the machine's byte order: of a mapped file, only these rows are read.
        pixels = np.array(images[rows], dtype=images.dtype.newbyteorder("="))
        x = torch.from_numpy(pixels).to(device).to(dtype)
        if images.dtype.name in _RANGE:
            x = x / _RANGE[images.dtype.name]
        x = x.permute(0, 3, 1, 2) if x.ndim == 4 else x
    if prepare is not None:
        x = prepare(x)
        if not isinstance(x, torch.Tensor) or len(x) != rows.stop - rows.start:
            raise InputError(f"prepare must return one tensor with one row per image; got {type(x).__name__}")
    return x.clone() if x.is_inference() else x.detach()


def check_checkpoints(checkpoints: Sequence[Checkpoint], lrs: Sequence[float]) -> tuple[float, ...]:
    """Refuse missing files and learning rates that do not match, before any work; return the rates as floats."""
    if isinstance(checkpoints, (str, Path, Mapping)) or not isinstance(checkpoints, Sequence) or not checkpoints:
        raise InputError("checkpoints must be a list of state dicts or of .safetensors files, one or more")
    for checkpoint in checkpoints:
        if isinstance(checkpoint, Mapping):
            continue
        if not isinstance(checkpoint, (str, Path)):
            raise InputError(f"a checkpoint is a state dict or a .safetensors file; got {type(checkpoint).__name__}")
        path = Path(checkpoint)
        if path.suffix != ".safetensors":
            raise InputError(
                f"{path}: a checkpoint file must be .safetensors; save it with safetensors.torch.save_file"
            )
        if not path.is_file():
            raise InputError(f"{path}: no such checkpoint file; give the path of a .safetensors file")
    rates = list(lrs) if isinstance(lrs, Iterable) else []
    if len(rates) != len(checkpoints):
        raise InputError(f"lrs must be one learning rate per checkpoint: {len(checkpoints)} wanted, {len(rates)} given")
    for rate in rates:
        if isinstance(rate, bool) or not isinstance(rate, (int, float, np.number)):
            raise InputError(f"a learning rate must be a number; got {rate!r}")
        if not math.isfinite(rate) or rate < 0:
            raise InputError(f"a learning rate must be finite and not negative; got {rate!r}")
    return tuple(float(rate) for rate in rates)


def load_checkpoint(model: nn.Module, checkpoint: Checkpoint, number: int) -> None:
    """Put a checkpoint's tensors into the network; every name and shape must be the network's.

    Raises:
        InputError: Names or shapes differ, or the file cannot be read.
    """
    title = f"checkpoint {number}" + ("" if isinstance(checkpoint, Mapping) else f" ({checkpoint})")
    if isinstance(checkpoint, Mapping):
        state = dict(checkpoint)
    else:
        try:
            state = load_file(checkpoint)
        except Exception as error:  # safetensors raises a type of its own for each way a file can be broken
            raise InputError(f"{title} cannot be read as safetensors: {one_line(error)}") from error
    own = model.state_dict(keep_vars=True)
    odd = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if odd:
        raise InputError(f"{title}: {odd[0]!r} is not a tensor; give the model's state_dict()")
    loaded = {id(own[name]) for name in state if name in own}  # a tied weight is stored under one of its names
    missing = [name for name, value in own.items() if name not in state and id(value) not in loaded]
    unknown = [name for name in state if name not in own]
    if missing or unknown:
        words = [f"{kind} {_some(names)}" for kind, names in (("lacks", missing), ("has besides", unknown)) if names]
        raise InputError(f"{title} is not of this network: it {' and '.join(words)}; give its own state_dict()")
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise InputError(
                f"{title}: {name!r} has shape {tuple(value.shape)}, the network's has {tuple(own[name].shape)}"
            )
    with torch.no_grad():
        for name, value in state.items():
            own[name].copy_(value)


def _some(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def check_labels(labels: ArrayLike | torch.Tensor, n: int, loss: str) -> torch.Tensor:
    """Return labels as the loss takes them.

    They are int64 [N] classes, or 0 and 1 of shape [N] (binary) or [N, k] (multi_label).
    """
    if loss not in LOSSES:
        raise unknown_name("loss", loss, LOSSES)
    array = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    expectation = (
        "[N, labels] of 0 and 1" if loss == "multi_label" else "[N] " + ("classes", "of 0 and 1")[loss == "binary"]
    )
    shape_fits = array.ndim == (2 if loss == "multi_label" else 1) and array.dtype.kind in "biuf"
    if not shape_fits or len(array) != n:
        raise InputError(
            f"labels for {n} images under loss={loss!r} must be {expectation}; got {array.dtype} of shape {array.shape}"
        )
    if loss == "cross_entropy":
        if array.dtype.kind not in "iu" or (n and int(array.min()) < 0):
            raise InputError(f"labels must be class numbers 0, 1, ... of an integer type; got {array.dtype}")
        return torch.from_numpy(array.astype(np.int64))
    if not ((array == 0) | (array == 1)).all():
        raise InputError(f"labels under loss={loss!r} must be 0 or 1; got others")
    return torch.from_numpy(array.astype(np.float64))


def check_logits(logits: object, labels: torch.Tensor, loss: str) -> torch.Tensor:
    """Return the network's output for labels of b images as [b, k], if the loss can be computed from it."""
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
    expectation = {"binary": f"[{b}] or [{b}, 1]", "multi_label": str(list(labels.shape))}.get(loss, f"[{b}, classes]")
    raise InputError(f"logits of {b} images under loss={loss!r} must be {expectation}; the network gives {list(shape)}")


def direction(logits: torch.Tensor, labels: torch.Tensor, loss: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the per-image loss's gradient with respect to the logits, as a direction and a squared length.

    Cross entropy: ``d_j = p_j`` for j != y and ``d_y = -sum_{j != y} p_j``, which is p_y - 1 without its cancellation.
    Binary: ``sigmoid(z)`` for 0 and ``-sigmoid(-z)`` for 1; the mean of these losses over k labels for multi_label.

    Args:
        logits: Outputs of the network, [b, k].
        labels: Labels of the images, [b], or [b, k] for multi_label, on the same device.
        loss: One of `LOSSES`.

    Returns:
        Direction [b, k] in the logits' type, of length one (or zero where d is zero), and [b] float64 ``||d||^2``.
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
