"""Built-in set ``digits``: scans of handwritten digits (``readers.digits``), made long-tailed by a fixed rule.

The rule was fixed before any training: digits 0, 1, 2 and 3 keep 20, 30, 45 and 60 images, in this order; the other six
classes stay whole (1,232 images in all). The images that are kept are evenly spaced in scikit-learn's order, because
neighbours in one stretch of it may share a writer. The writer of a digit is not recorded: each image is its own group.
"""

import numpy as np
import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.readers.digits import digit_scans
from memorisk.images.readers.registry import BUILTIN_DIGITS

IMAGES_PER_DIGIT = {0: 20, 1: 30, 2: 45, 3: 60}


def digits_rows() -> np.ndarray:
    """Return the indices in scikit-learn's order of the images that the recipe keeps, ascending, [1232]."""
    _, digits = digit_scans()
    rows = []
    for digit in range(10):
        of_class = np.flatnonzero(digits == digit)
        n = IMAGES_PER_DIGIT.get(digit, len(of_class))
        rows.append(of_class[np.arange(n) * len(of_class) // n])
    return np.sort(np.concatenate(rows))


def digits_manifest() -> Manifest:
    """Return the built-in manifest: ``digit-0000`` to ``digit-1796`` by scikit-learn's order, labels ``0`` to ``9``."""
    _, digits = digit_scans()
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
