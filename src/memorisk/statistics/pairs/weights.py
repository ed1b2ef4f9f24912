"""Scores of unequal weight in order: the weight below each, and the quantile that follows."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ROUNDING = 1e-9
"""Amount by which a share of weight may be missed for the rounding of its sum."""


def weight_below(score: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return different scores, rising, and the share of weight below each, both [V]; [P] weights are above 0.

    Example:
        >>> score, share = weight_below(np.array([2.0, 1.0]), np.array([1.0, 3.0]))
        >>> score.tolist(), share.tolist()
        ([1.0, 2.0], [0.0, 0.75])
    """
    distinct, index = np.unique(score, return_inverse=True)
    mass = np.bincount(index, weight)
    return distinct, (np.cumsum(mass) - mass) / mass.sum()


def lower_weighted_quantile(score: FloatArray, weight: FloatArray, share: float) -> float:
    """Find the largest score with at most this share of the weight below it.

    ``max{t among the scores: sum of weights of scores < t <= share * sum of weights}``

    Args:
        score: Scores, [P], at least one.
        weight: Weights of the scores, [P], above 0.
        share: Share of the weight, 0 (the lowest score) to 1.

    Example:
        >>> lower_weighted_quantile(np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4), 0.5)
        3.0
    """
    distinct, below = weight_below(score, weight)
    return float(distinct[np.flatnonzero(below <= share + ROUNDING)[-1]])
