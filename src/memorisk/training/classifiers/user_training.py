"""The user's own training function: found by name, checked before use; its network gives logits afterwards.

``function(images, labels, *, val_images, val_labels, seed, device, **settings) -> torch.nn.Module``; see
docs/own-training.md.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.runs.errors import InputError, MemoriskError, one_line, unknown_name
from memorisk.runs.user_code.functions import load_named, read_named
from memorisk.training.engine.predict import predict_batch_size

CLASSES = "num_classes"


def load_function(name: str, python_path: Sequence[Path] = (), source: str = "") -> Callable[..., Any]:
    """Import the user's training function, ``module:function``.

    Args:
        name: Name of the module and of the function in it, ``module:function``.
        python_path: Folders that are searched last.
        source: Fingerprint of the text that is to run; by default the text that the file has now.

    Raises:
        InputError: The module or function does not exist, the module fails to import, or its text is another one.
    """
    return load_named(name, "--train", python_path, source=source)


def read_function(name: str, python_path: Sequence[Path] = ()) -> tuple[Callable[..., Any], str]:
    """Read the parameters and the fingerprint of the user's training function, and run nothing of its file.

    Args:
        name: Name of the module and of the function in it, ``module:function``.
        python_path: Folders that are searched last.

    Raises:
        InputError: The module or function does not exist.
    """
    return read_named(name, "--train", python_path)


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
    if _wants_dataset(function):
        return (RowDataset(images, targets, rows),), {"val_dataset": RowDataset(images, targets, val)}
    # asarray: an indexed memory map is a plain array already, although its type does not show it
    positional = (np.asarray(images[rows]), targets[rows])
    return positional, {"val_images": np.asarray(images[val]), "val_labels": targets[val]}


def _wants_dataset(function: Callable[..., Any]) -> bool:
    return next(iter(_signature(function).parameters), "") == "dataset"


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of the user's function.

    Raises:
        InputError: Its parameters cannot be read, as those of some functions written in C.
    """
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        name = one_line(getattr(function, "__name__", function), 80)
        raise InputError(f"--train: {name} is not a Python function with named parameters") from None


def takes_classes(function: Callable[..., Any]) -> bool:
    """Return whether the function names ``num_classes`` among its parameters; it is given only then."""
    return CLASSES in _signature(function).parameters


def check_call(name: str, function: Callable[..., Any], settings: Mapping[str, str]) -> None:
    """Refuse a function that does not accept the arguments of memorisk.

    Args:
        name: Name of the function, as the user typed it.
        function: Function that was found under that name.
        settings: Settings of the user.

    Raises:
        InputError: The function does not know a setting, memorisk sets it itself, or a parameter is wrong.
    """
    signature = _signature(function)
    positional = ("dataset",) if _wants_dataset(function) else ("images", "labels")
    named = (*(("val_dataset",) if len(positional) == 1 else ("val_images", "val_labels")), "seed", "device")
    if takes_classes(function):
        named += (CLASSES,)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for setting in settings:
        if setting in (*positional, *named):
            raise InputError(f"--train-settings.{setting}: memorisk gives {', '.join((*positional, *named))} itself")
        if setting not in signature.parameters and not takes_any:
            raise unknown_name(f"setting of {name}", setting, _setting_names(signature, positional, named))
    try:
        signature.bind(*positional, **dict.fromkeys(named), **settings)
    except TypeError as error:
        called = f"({', '.join(positional)}, *, {', '.join(named)})"
        raise InputError(
            f"--train {one_line(name, 80)} cannot be called with {called} and your settings: {one_line(error)}"
        ) from None


def _setting_names(signature: inspect.Signature, positional: Sequence[str], named: Sequence[str]) -> list[str]:
    """Return the names that a setting may have."""
    return [n for n in list(signature.parameters)[len(positional) :] if n not in named]


class RowDataset(torch.utils.data.Dataset):
    """Some rows of a store as (uint8 or uint16 tensor [c, h, w], label), for functions that take a ``dataset``."""

    def __init__(self, images: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> None:
        self.images, self.targets, self.rows = images, targets, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        row = self.rows[index]
        return torch.from_numpy(np.array(self.images[row].transpose(2, 0, 1), order="C")), self.targets[row]


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
