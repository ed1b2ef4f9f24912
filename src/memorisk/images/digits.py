"""The built-in images: 1,797 scans of handwritten digits, 8 x 8 pixels, made long-tailed by a fixed rule.

The recipe, fixed before anything was trained on it: digits 0, 1, 2 and 3 keep 20, 30, 45 and 60 images, in this
order; the other six classes stay whole (1,232 images in all). The scans are scikit-learn's; those kept are evenly
spaced in its order, so that they do not come from one stretch of it, where neighbours may share a writer. Who wrote
a digit is not recorded: each image is its own group.
"""

from functools import lru_cache

import numpy as np
import pandas as pd

from memorisk.images.decoding.formats import BUILTIN_DIGITS
from memorisk.images.manifest import Manifest
from memorisk.runs.errors import InputError

KEPT = {0: 20, 1: 30, 2: 45, 3: 60}


@lru_cache(maxsize=1)
def _scans() -> tuple[np.ndarray, np.ndarray]:
    """All scans as uint8 [1797, 8, 8, 1] (their 17 greys 0..16 spread over 0..255) and their digits [1797]."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)  # [1797, 64], [1797]
    greys = np.rint(np.asarray(pixels) * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    greys.flags.writeable = False
    return greys, np.asarray(digits)


def digits_rows() -> np.ndarray:
    """Indices into scikit-learn's order of the images that the recipe keeps, ascending [1232]."""
    _, digits = _scans()
    rows = []
    for digit in range(10):
        of_class = np.flatnonzero(digits == digit)
        n = KEPT.get(digit, len(of_class))
        rows.append(of_class[np.arange(n) * len(of_class) // n])
    return np.sort(np.concatenate(rows))


def digits_manifest() -> Manifest:
    """The built-in manifest: image ``digit-0000`` to ``digit-1796`` by scikit-learn's order, label ``0`` to ``9``."""
    _, digits = _scans()
    rows = digits_rows()
    names = [f"digit-{row:04d}" for row in rows]
    table = pd.DataFrame(
        {
            "image": names,
            "path": BUILTIN_DIGITS,
            "label": [str(digits[row]) for row in rows],
            "group": names,
            "dataset": "digits",
            "frame": pd.array(rows, dtype="Int64"),
        }
    )
    return Manifest(table=table, root=None, name="digits")


def read_digit(frame: int | None) -> np.ndarray:
    """One scan by its index in scikit-learn's order, uint8 [8, 8, 1].

    Raises:
        InputError: There is no scan of that index.
    """
    scans, _ = _scans()
    if frame is None or not 0 <= frame < len(scans):
        raise InputError(f"the built-in digits have frames 0 to {len(scans) - 1}, not {frame}")
    return scans[frame].copy()
