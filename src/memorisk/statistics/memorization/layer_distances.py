"""Distances of layers: how far apart two twins' activations are, for images with high and with low M.

Paper 000, A.9 and figure 2: the cosine distance between candidate and independent model, layer by layer, in two
bands.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, jackknife_variance, unavailable

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Bands:
    """Mean distance of the images above and below their class median of M."""

    high: JackknifeInterval
    """Mean over the images above, interval over groups."""
    low: JackknifeInterval
    """Mean over the others."""
    difference: JackknifeInterval
    """High less low; groups with images in both count once. Bands that overlap may still differ: read this."""
    n_high: int
    """Number of images above."""
    n_low: int
    """Number of images below."""


def paired_cosine_distance(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """`1 - cos(a_i, b_i)` of each row, `[n]` in [0, 2]; NaN where a row is zero (a layer that is off for the image).

    Args:
        a: `[n, d]` activations of one model.
        b: `[n, d]` of the other.

    Raises:
        InputError: Shapes differ.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 2:
        raise InputError(f"activations have shapes {first.shape} and {second.shape}; give [images, width] twice")
    length = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    dots = np.einsum("nd,nd->n", first, second)
    cosine = np.divide(dots, length, out=np.full(len(dots), np.nan), where=length > 0)
    return np.clip(1 - cosine, 0.0, 2.0)


def band_distances(distance: ArrayLike, high: ArrayLike, group: ArrayLike, *, level: float = 0.95) -> Bands:
    """Mean distance in the two bands and their difference, each with a delete-one-group jackknife interval.

    Null of the difference: distance does not depend on whether M is high; it is then 0.

    Args:
        distance: `[n]`; NaN is left out.
        high: `[n]` M above its class median.
        group: `[n]` patient.
        level: Confidence level of the intervals.

    Raises:
        InputError: Lengths differ.
    """
    d, y = np.asarray(distance, dtype=np.float64), np.asarray(high, dtype=bool)
    groups = np.asarray(group)
    if not d.shape == y.shape == groups.shape or d.ndim != 1:
        raise InputError(f"distance, high and group have shapes {d.shape}, {y.shape}, {groups.shape}; one per image")
    used = np.isfinite(d)
    d, y = d[used], y[used]
    ids, index = np.unique(groups[used], return_inverse=True)
    sums = np.stack([np.bincount(index, weights=d * side, minlength=len(ids)) for side in (y, ~y)])
    counts = np.stack([np.bincount(index, weights=side, minlength=len(ids)) for side in (y, ~y)])
    total, n = sums.sum(axis=1), counts.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, deleted = total / n, (total[:, None] - sums) / (n[:, None] - counts)
    intervals = [
        _interval(mean[i], deleted[i][counts[i] > 0], np.zeros(int((counts[i] > 0).sum())), level) for i in (0, 1)
    ]
    kind = np.where(counts[1] > 0, np.where(counts[0] > 0, 2, 0), 1)
    difference = _interval(mean[0] - mean[1], deleted[0] - deleted[1], kind, level)
    return Bands(intervals[0], intervals[1], difference, int(n[0]), int(n[1]))


def _interval(estimate: float, deleted: FloatArray, kind: NDArray, level: float) -> JackknifeInterval:
    n_groups = len(deleted)
    if not np.isfinite(estimate) or not np.isfinite(deleted).all() or n_groups < 2:
        return unavailable("fewer than two groups in a band", n_groups)
    variance, df = jackknife_variance(deleted, kind.astype(np.intp))
    half = float(scipy.stats.t.ppf((1 + level) / 2, df)) * np.sqrt(variance)
    method = "jackknife over groups, t"
    return JackknifeInterval(float(estimate), estimate - half, estimate + half, df, n_groups, 1, method)
