"""The state of a training in progress: one safetensors file, written atomically at the end of an epoch.

It holds the trained tensors, the optimiser's moments and the losses so far, of one model or of several that train
together. No random state is kept, because every draw of a training derives from (seed, epoch, step). A file that
belongs to another training is refused by its fingerprint.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from memorisk.runs.errors import InputError
from memorisk.runs.files import atomic_path
from memorisk.training.engine.optimizers import AnyOptimizer


@dataclass(frozen=True)
class Checkpoint:
    """Where the state of a training is kept, and how often it is written."""

    path: Path
    """The safetensors file."""

    identity: str
    """Fingerprint of the training; a file with another one is refused."""

    seconds: float
    """Least time between two writes."""


@dataclass(frozen=True)
class Progress:
    """Where a training stands."""

    epoch: int
    """Epochs that are done."""

    losses: np.ndarray
    """Mean training loss of each epoch done and each model, [epochs, K] float64."""

    resumed_from: int = 0
    """Epochs that came from a checkpoint."""


def save_checkpoint(
    checkpoint: Checkpoint,
    state: Mapping[str, torch.Tensor],
    optimizer: AnyOptimizer,
    progress: Progress,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Write the training's state; a reader sees the old state or the new one."""
    tensors = {f"model.{name}": _plain(value) for name, value in state.items()}
    for index, parameter in enumerate(_parameters(optimizer)):
        for name, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"optimizer.{index}.{name}"] = _plain(torch.as_tensor(value))
    tensors["losses"] = torch.from_numpy(np.ascontiguousarray(progress.losses))
    scale = scaler.state_dict() if scaler is not None else {}
    metadata = {"identity": checkpoint.identity, "epoch": str(progress.epoch), "scaler": json.dumps(scale)}
    with atomic_path(checkpoint.path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def load_checkpoint(
    checkpoint: Checkpoint,
    state: Mapping[str, torch.Tensor],
    optimizer: AnyOptimizer,
    scaler: torch.amp.GradScaler | None = None,
) -> Progress:
    """Put a training's state back, bit for bit, into the live tensors of ``state`` and the optimiser.

    Raises:
        InputError: if the file is unreadable or belongs to another training (other seed, images, options or network).
    """
    name = checkpoint.path.name
    try:
        with safe_open(checkpoint.path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"checkpoint {name} cannot be read: remove it to start this training anew") from error
    if metadata.get("identity") != checkpoint.identity:
        raise InputError(f"checkpoint {name} belongs to another training: remove it or use another folder")
    with torch.no_grad():
        for key, live in state.items():
            live.copy_(tensors[f"model.{key}"])
    for index, parameter in enumerate(_parameters(optimizer)):
        prefix = f"optimizer.{index}."
        moments = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
        if moments:
            optimizer.state[parameter] = {key: _like(parameter, value) for key, value in moments.items()}
    if scaler is not None and scaler.is_enabled():
        scaler.load_state_dict(json.loads(metadata["scaler"]))
    epoch = int(metadata["epoch"])
    return Progress(epoch, tensors["losses"].numpy(), resumed_from=epoch)


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
