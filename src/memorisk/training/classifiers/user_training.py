"""The user's own training of a classifier: its arguments, and logits by the network that it returns.

``function(images, labels, *, val_images, val_labels, seed, device, **settings) -> torch.nn.Module``; see
docs/own-training.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.runs.errors import MemoriskError
from memorisk.training.engine.predict import predict_batch_size
from memorisk.training.engine.user_training import CallForm, RowDataset, wants_dataset

CLASSES = "num_classes"
CALL_FORM = CallForm(
    arrays=("images", "labels"),
    named=("val_images", "val_labels", "seed", "device"),
    dataset_named=("val_dataset", "seed", "device"),
    optional=CLASSES,
)
"""Arguments of a function that trains a classifier."""


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
        return (RowDataset(images, rows, targets),), {"val_dataset": RowDataset(images, val, targets)}
    # asarray: an indexed memory map is a plain array already, although its type does not show it
    positional = (np.asarray(images[rows]), targets[rows])
    return positional, {"val_images": np.asarray(images[val]), "val_labels": targets[val]}


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
