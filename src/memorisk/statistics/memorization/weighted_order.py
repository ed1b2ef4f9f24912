"""Scores of unequal weight in order: how much weight lies below each, and the quantile that this makes."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ROUNDING = 1e-9
"""By how much a share of weight may be missed for the rounding of its sum."""


def weight_below(score: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Different scores, rising, and the share of weight below each; both [V], of [P] scores and weights above 0."""
    found, index = np.unique(score, return_inverse=True)
    mass = np.bincount(index, weight)
    return found, (np.cumsum(mass) - mass) / mass.sum()


def largest_missing(score: FloatArray, weight: FloatArray, share: float) -> float:
    """The largest score with at most this share of the weight below it.

    ``max{t among the scores: sum of weights of scores < t <= share * sum of weights}``

    Args:
        score: [P], at least one.
        weight: [P] above 0.
        share: 0 (the lowest score) to 1.
    """
    found, below = weight_below(score, weight)
    return float(found[np.flatnonzero(below <= share + ROUNDING)[-1]])
