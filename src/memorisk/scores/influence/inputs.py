"""What comes in: images batch by batch, checkpoints one at a time."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from memorisk.runs.errors import InputError, one_line

Images = np.ndarray | torch.Tensor
Checkpoint = Mapping[str, torch.Tensor] | str | Path
Prepare = Callable[[torch.Tensor], torch.Tensor]

_RANGE = {"uint8": 255.0, "uint16": 65535.0}
_FLOATS = ("float16", "float32", "float64")


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
        raise InputError("there are no images: give one or more")


def read_batch(
    images: Images, rows: slice, device: torch.device, dtype: torch.dtype, prepare: Prepare | None
) -> torch.Tensor:
    """The network's input for some rows: integers scaled to [0, 1], [b, C, H, W], prepared."""
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
            raise InputError(f"prepare must return one tensor with a row an image; got {type(x).__name__}")
    return x.clone() if x.is_inference() else x.detach()


def check_checkpoints(checkpoints: Sequence[Checkpoint], lrs: Sequence[float]) -> tuple[float, ...]:
    """Refuse, before any work, files that are not there and learning rates that do not match: the rates as floats."""
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
    """Put a checkpoint's tensors into the network, every name and shape as it has them.

    Raises:
        InputError: Names or shapes differ, or the file cannot be read.
    """
    named = f"checkpoint {number}" + ("" if isinstance(checkpoint, Mapping) else f" ({checkpoint})")
    if isinstance(checkpoint, Mapping):
        state = dict(checkpoint)
    else:
        try:
            state = load_file(checkpoint)
        except Exception as error:  # safetensors raises a type of its own for each way a file can be broken
            raise InputError(f"{named} cannot be read as safetensors: {one_line(error)}") from error
    own = model.state_dict(keep_vars=True)
    odd = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if odd:
        raise InputError(f"{named}: {odd[0]!r} is not a tensor; give the model's state_dict()")
    given = {id(own[name]) for name in state if name in own}  # a tied weight is stored under one of its names
    missing = [name for name, value in own.items() if name not in state and id(value) not in given]
    unknown = [name for name in state if name not in own]
    if missing or unknown:
        words = [f"{kind} {_some(names)}" for kind, names in (("lacks", missing), ("has besides", unknown)) if names]
        raise InputError(f"{named} is not of this network: it {' and '.join(words)}; give its own state_dict()")
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise InputError(
                f"{named}: {name!r} has shape {tuple(value.shape)}, the network's has {tuple(own[name].shape)}"
            )
    with torch.no_grad():
        for name, value in state.items():
            own[name].copy_(value)


def _some(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
