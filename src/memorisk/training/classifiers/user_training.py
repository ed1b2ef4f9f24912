"""The user's own training of a classifier: its arguments, and logits by the network that it returns.

``function(images, labels, *, val_images, val_labels, seed, device, **settings) -> torch.nn.Module``; see
docs/own-training.md.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.runs.errors import MemoriskError
from memorisk.training.engine.predict import predict_batch_size
from memorisk.training.engine.user_training import channels_first, names_parameter, refuse_misfit, wants_dataset

CLASSES = "num_classes"


def function_arguments(
    function: Callable[..., Any], images: np.ndarray, targets: np.ndarray, rows: np.ndarray, val: np.ndarray
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Make the arguments of the user's function, by position and by name: copies that it may change.

    Args:
        function: The user's function; where its first parameter is named ``dataset``, it receives datasets, not arrays.
        images: Images of the store, [N, H, W, C].
        targets: Targets of all images.
        rows: Rows to train on.
        val: Rows of the validation part.
    """
    if wants_dataset(function):
        return (RowDataset(images, targets, rows),), {"val_dataset": RowDataset(images, targets, val)}
    # asarray: an indexed memory map is a plain array already, although its type does not show it
    positional = (np.asarray(images[rows]), targets[rows])
    return positional, {"val_images": np.asarray(images[val]), "val_labels": targets[val]}


def takes_classes(function: Callable[..., Any]) -> bool:
    """Return whether the function names ``num_classes`` among its parameters; it is given only then."""
    return names_parameter(function, CLASSES)


def check_call(name: str, function: Callable[..., Any], settings: Mapping[str, str]) -> None:
    """Refuse a function that does not accept the arguments of memorisk.

    Args:
        name: Name of the function, as the user typed it.
        function: Function that was found under that name.
        settings: Settings of the user.

    Raises:
        InputError: The function does not know a setting, memorisk sets it itself, or a parameter is wrong.
    """
    positional = ("dataset",) if wants_dataset(function) else ("images", "labels")
    named = (*(("val_dataset",) if len(positional) == 1 else ("val_images", "val_labels")), "seed", "device")
    if takes_classes(function):
        named += (CLASSES,)
    refuse_misfit(name, function, settings, positional, named)


class RowDataset(torch.utils.data.Dataset):
    """Some rows of a store as (uint8 or uint16 tensor [c, h, w], label), for functions that take a ``dataset``."""

    def __init__(self, images: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> None:
        self.images, self.targets, self.rows = images, targets, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        row = self.rows[index]
        return channels_first(self.images[row]), self.targets[row]


def user_model_logits(model: nn.Module, images: np.ndarray, device: str) -> np.ndarray:
    """Compute the logits of a user's module as ``module(x)`` with x float32 [n, c, h, w] in [0, 1], evaluation mode.

    Raises:
        MemoriskError: The module does not return a tensor.
    """
    top = float(np.iinfo(images.dtype).max)
    size = predict_batch_size(images)
    model.to(device).eval()
    parts = []
    with torch.inference_mode():
        for start in range(0, len(images), size):
            batch = torch.from_numpy(images[start : start + size].astype(np.float32) / top).permute(0, 3, 1, 2)
            logits = model(batch.to(device))
            if not isinstance(logits, torch.Tensor):
                raise MemoriskError(f"the module gives {type(logits).__name__} in place of a tensor of logits")
            parts.append(logits.float().cpu().numpy())
    return np.concatenate(parts)
