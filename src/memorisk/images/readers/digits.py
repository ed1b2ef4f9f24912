"""Scans of handwritten digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, built in as ``digits``."""

from functools import lru_cache

import numpy as np

from memorisk.runs.errors import InputError


@lru_cache(maxsize=1)
def digit_scans() -> tuple[np.ndarray, np.ndarray]:
    """Return all scans as uint8 [1797, 8, 8, 1] (17 greys 0..16 spread over 0..255) and their digits [1797]."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)  # [1797, 64], [1797]
    greys = np.rint(np.asarray(pixels) * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    greys.flags.writeable = False
    return greys, np.asarray(digits)


def read_digit(frame: int | None) -> np.ndarray:
    """Return one scan by its index in scikit-learn's order, uint8 [8, 8, 1].

    Raises:
        InputError: No scan has that index.
    """
    scans, _ = digit_scans()
    if frame is None or not 0 <= frame < len(scans):
        raise InputError(f"the built-in digits have frames 0 to {len(scans) - 1}, not {frame}")
    return scans[frame].copy()
