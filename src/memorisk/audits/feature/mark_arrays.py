"""A mark and its controls as plain arrays, for a model that cannot be moved: only NumPy is needed to burn them in.

Whoever has the model burns each into the probes, asks the model, and saves its answers (docs/feature.md); the file of
answers is then audited like a model.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memorisk.images.marks.marks import Mark
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path


def check_arrays_file(path: Path) -> None:
    """Refuse a file that cannot be written, before any work.

    Raises:
        InputError: Another suffix, there already, or no such folder.
    """
    if path.suffix.lower() != ".npz":
        raise InputError(f"--arrays {one_line(path)}: name an .npz file")
    if path.exists():
        raise InputError(f"--arrays {one_line(path)} is there already: name a new file")
    if not path.parent.is_dir():
        raise InputError(f"--arrays {one_line(path)}: there is no folder {one_line(path.parent)}")


def write_mark_arrays(path: Path, marks: Sequence[Mark], height: int, width: int) -> None:
    """Write marks as one block, all in the rectangle that holds them all.

    ``values`` [1 + C, h, w] (with colours [1 + C, h, w, 3]) and ``alpha`` [1 + C, h, w], float32 in [0, 1], the mark
    first; ``corner`` [2], row and column of the rectangle; ``size`` [2]. On probes x in [0, 1] before normalisation:
    ``x[:, top:top + h, left:left + w] = (1 - alpha) x + alpha values``.

    Args:
        path: A new ``.npz``.
        marks: The mark, then its controls.
        height: Of the images.
        width: Likewise.

    Raises:
        InputError: A mark does not fit, or the file cannot be written to.
    """
    check_arrays_file(path)
    corners = np.array([mark.corner(height, width) for mark in marks])
    ends = corners + np.array([mark.shape for mark in marks])
    (top, left), (bottom, right) = corners.min(axis=0), ends.max(axis=0)
    colours = any(mark.values.ndim == 3 for mark in marks)
    block = (len(marks), int(bottom - top), int(right - left))
    values, alpha = np.zeros((*block, 3) if colours else block, np.float32), np.zeros(block, np.float32)
    for i, (mark, (row, column)) in enumerate(zip(marks, corners - (top, left), strict=True)):
        own = np.s_[i, row : row + mark.shape[0], column : column + mark.shape[1]]
        values[own] = mark.values[..., None] if colours and mark.values.ndim == 2 else mark.values
        alpha[own] = mark.alpha
    found = {"values": values, "alpha": alpha, "corner": np.array([top, left]), "size": np.array([height, width])}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **found)  # pyright: ignore[reportArgumentType] (a file, though its stub says a name)
