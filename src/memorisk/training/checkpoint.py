"""The state of a training in progress: one safetensors file, written atomically at the end of an epoch.

It holds the network, the optimiser's moments and the losses so far. No random state is kept, because every draw of a
training derives from (seed, epoch, step). A file that belongs to another training is refused by its fingerprint.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from memorisk.runs.errors import InputError
from memorisk.runs.files import atomic_path
from memorisk.training.optimizers import AnyOptimizer


@dataclass(frozen=True)
class Progress:
    """Where a training stands."""

    epoch: int
    """Epochs that are done."""

    losses: tuple[float, ...]
    """Mean training loss of each epoch done."""


def save_checkpoint(
    path: Path,
    model: torch.nn.Module,
    optimizer: AnyOptimizer,
    *,
    progress: Progress,
    identity: str,
    scaler: dict[str, float] | None = None,
) -> None:
    """Write the training's state; a reader sees the old state or the new one."""
    tensors = {f"model.{name}": _plain(value) for name, value in model.state_dict().items()}
    for index, parameter in enumerate(_parameters(optimizer)):
        for name, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"optimizer.{index}.{name}"] = _plain(torch.as_tensor(value))
    metadata = {
        "identity": identity,
        "epoch": str(progress.epoch),
        "losses": json.dumps([float(loss).hex() for loss in progress.losses]),
        "scaler": json.dumps(scaler or {}),
    }
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def load_checkpoint(
    path: Path,
    model: torch.nn.Module,
    optimizer: AnyOptimizer,
    *,
    identity: str,
    scaler: torch.amp.GradScaler | None = None,
) -> Progress:
    """Put a training's state back, bit for bit.

    Raises:
        InputError: if the file is unreadable or belongs to another training (other seed, images, options or network).
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"checkpoint {path.name} cannot be read: remove it to start this training anew") from error
    if metadata.get("identity") != identity:
        raise InputError(f"checkpoint {path.name} belongs to another training: remove it or use another folder")
    model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
    for index, parameter in enumerate(_parameters(optimizer)):
        prefix = f"optimizer.{index}."
        state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        optimizer.state[parameter] = {name: _like(parameter, value) for name, value in state.items()}
    if scaler is not None:
        scaler.load_state_dict(json.loads(metadata["scaler"]))
    losses = tuple(float.fromhex(loss) for loss in json.loads(metadata["losses"]))
    return Progress(int(metadata["epoch"]), losses)


def _parameters(optimizer: AnyOptimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _plain(value: torch.Tensor) -> torch.Tensor:
    """A contiguous copy on the CPU: safetensors keeps neither strides nor sharing."""
    return value.detach().cpu().contiguous().clone()


def _like(parameter: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The value on the parameter's device; a moment also in its strides, which the fused optimiser relies on."""
    if value.shape != parameter.shape:
        return value.to(parameter.device)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
