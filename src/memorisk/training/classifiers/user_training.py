"""The user's own training function: found by name, checked before it is needed, asked for logits afterwards.

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
from memorisk.runs.user_functions import load_named, read_named
from memorisk.training.engine.predict import predict_batch_size

CLASSES = "num_classes"


def load_function(name: str, python_path: Sequence[Path] = (), source: str = "") -> Callable[..., Any]:
    """Import the user's training function, ``module:function``.

    Args:
        name: The module and the function in it.
        python_path: Folders that are searched last.
        source: Fingerprint of the text that is to run; by default the text that the file has now.

    Raises:
        InputError: There is no such module or function, the module fails to import, or its text is another one.
    """
    return load_named(name, "--train", python_path, source=source)


def read_function(name: str, python_path: Sequence[Path] = ()) -> tuple[Callable[..., Any], str]:
    """Read the parameters and the fingerprint of the user's training function, and run nothing of its file.

    Args:
        name: The module and the function in it.
        python_path: Folders that are searched last.

    Raises:
        InputError: There is no such module or function.
    """
    return read_named(name, "--train", python_path)


def function_arguments(
    function: Callable[..., Any], images: np.ndarray, targets: np.ndarray, rows: np.ndarray, val: np.ndarray
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Make the arguments of the user's function, by position and by name: copies that it may change.

    Args:
        function: A first parameter named ``dataset`` asks for datasets in place of arrays.
        images: [N, H, W, C] of the store.
        targets: Of all images.
        rows: Rows to train on.
        val: Rows of the validation part.
    """
    if _wants_dataset(function):
        return (RowDataset(images, targets, rows),), {"val_dataset": RowDataset(images, targets, val)}
    # asarray: what is taken out of a memory map is a plain array already, though it does not say so
    given = (np.asarray(images[rows]), targets[rows])
    return given, {"val_images": np.asarray(images[val]), "val_labels": targets[val]}


def _wants_dataset(function: Callable[..., Any]) -> bool:
    return next(iter(_signature(function).parameters), "") == "dataset"


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of the user's function.

    Raises:
        InputError: It cannot be asked for them, as some functions written in C.
    """
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        name = one_line(getattr(function, "__name__", function), 80)
        raise InputError(f"--train: {name} is no Python function with named parameters") from None


def takes_classes(function: Callable[..., Any]) -> bool:
    """Return whether the function names ``num_classes`` among its parameters; it is given only then."""
    return CLASSES in _signature(function).parameters


def check_call(name: str, function: Callable[..., Any], settings: Mapping[str, str]) -> None:
    """Refuse a function that does not take what it will be given.

    Args:
        name: How the user named it.
        function: What was found under that name.
        settings: The user's settings.

    Raises:
        InputError: A setting that it does not know or that memorisk gives itself, or a parameter amiss.
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
    """Names that a setting may have."""
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
    """Logits of a user's module, asked as ``module(x)`` with x float32 [n, c, h, w] in [0, 1], evaluation mode.

    Raises:
        MemoriskError: It returns no tensor.
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
