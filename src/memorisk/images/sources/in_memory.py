"""Arrays ``(X, y, groups)`` in a program's memory, as items like those of any data set in Python (``datasets``)."""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError


class Arrays:
    """Arrays as items by number, each an ``image`` or ``(image, label)``."""

    def __init__(self, images: Any, labels: Any = None) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> Any:
        return self.images[row] if self.labels is None else (self.images[row], self.labels[row])


def is_array(value: Any) -> bool:
    """Return whether a value is an array or tensor with the dimensions of several images."""
    return type(value).__module__.partition(".")[0] in ("numpy", "torch") and getattr(value, "ndim", 0) in (3, 4)


def are_arrays(value: Any) -> bool:
    """Return whether a value is an array of images, or ``(X, y, groups)`` without the last one or two.

    Args:
        value: Value of any type.
    """
    return is_array(value) or (isinstance(value, tuple) and 1 <= len(value) <= 3 and is_array(value[0]))


def array_items(value: Any) -> tuple[Arrays, Any]:
    """Return the items of arrays, and the group of each, or None.

    Args:
        value: Arrays in a form that `are_arrays` accepts.

    Raises:
        InputError: The number of labels or groups differs from that of images.
    """
    images: Any
    labels: Any
    groups: Any
    images, labels, groups = (*value, None, None)[:3] if isinstance(value, tuple) else (value, None, None)
    for what, values in (("labels", labels), ("groups", groups)):
        if values is not None and (not hasattr(values, "__len__") or len(values) != len(images)):
            n = f"{len(values):,}" if hasattr(values, "__len__") else "no"
            raise InputError(f"arrays (X, y, groups): X has {len(images):,} images, and there are {n} {what}")
    labels = list(labels) if isinstance(labels, pd.Series | pd.Index) else labels
    groups = list(groups) if isinstance(groups, pd.Series | pd.Index) else groups
    if hasattr(groups, "detach"):
        groups = np.asarray(groups.detach().cpu())
    return Arrays(images, labels), groups
