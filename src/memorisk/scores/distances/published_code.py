"""The nearest references as the published code of paper 003 finds them, its defects included.

The code calls ``scipy.spatial.distance.cdist(queries, references, metric)`` with nothing fitted beforehand, and then

* takes the *largest* cosine and correlation distance for the most similar reference, with the 95th percentile of the
  baseline as threshold: a copy counts as found where it is far from some other image;
* lets SciPy fit covariance (Mahalanobis) and variances (standardised Euclidean) to queries and references together, so
  that the same pair is at another distance in every call, and tau, made in one call, is applied to others;
* gives SciPy signed numbers where Bray-Curtis, Canberra, Dice and matching are not defined for them: of real numbers
  matching is the share of columns that are not equal to the last bit, and Dice has no meaning;
* takes |x|, divided by its sum, for Jensen-Shannon; Minkowski with SciPy's p = 2, which is Euclidean again.

This module shows what those rules do, for comparison with `memorisk.scores.distances`, which judges.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances import find_measure, fit_measure, nearest

FloatArray = NDArray[np.float64]

MAXIMISED = ("cosine", "correlation")
"""Distances of which the published code takes the largest."""
_BY_SCIPY = (*MAXIMISED, "dice", "matching")
_SIGNED = ("braycurtis", "canberra", "jensenshannon")
_PAIRS = 1 << 22  # distances that SciPy gives at once
_NUMBERS = 1 << 24  # of a table in float64 at once, 128 MiB


@dataclass(frozen=True, eq=False)
class PublishedNeighbours:
    """Most similar reference of each query, by the published code."""

    scores: FloatArray
    """Scores, [n]: the smaller, the sooner flagged: the smallest distance, or minus the largest where it is
    maximised."""
    indices: NDArray[np.int64]
    """Row of that reference, [n]."""


def published_neighbours(
    name: str, queries: FloatArray, references: FloatArray, *, threads: int | None = None, device: str = "cpu"
) -> PublishedNeighbours:
    """Find the most similar reference of each query by the published rules.

    Of maximised distances tau is the 95th percentile, and distances above it are flagged: with negated scores the 5th
    percentile, and scores below it, as for all others.

    Args:
        name: One of ``distances.MEASURES``.
        queries: Vectors of the queries, [n, d].
        references: Vectors of the references, [m, d].
        threads: Number of threads, where the computation is not SciPy's own.
        device: Device, as for `distances.nearest`, where the computation is not SciPy's own.

    Returns:
        Scores and rows; equal to SciPy's distances up to rounding.

    Raises:
        InputError: An unknown measure, or SciPy's form is not defined for these numbers: fewer images than columns for
            the covariance, columns without variance, zero or constant rows.

    Source:
        ``compute_distances_and_plot`` in the published code's ``privacy_benchmark.py``; METHODS section 3, "Traps".
    """
    find_measure(name)
    x, y = np.asarray(queries), np.asarray(references)  # as they are: blocks of them become float64
    if name in _BY_SCIPY:
        return _by_scipy(name, x, y)
    if name in _SIGNED:
        measure = fit_measure(name, y, domain="signed")
    elif name == "minkowski":
        measure = fit_measure(name, y, p=2.0)
    elif name in ("mahalanobis", "seuclidean"):
        many = len(x) + len(y)
        if name == "mahalanobis" and many <= x.shape[1]:
            raise _undefined(name, f"{many:,} images give no inverse of a {x.shape[1]:,}-column covariance")
        measure = fit_measure(name, np.concatenate([x, y]))
        if measure.shrinkage:
            raise _undefined(name, "the covariance of these images is singular")
        if measure.constant_columns:
            raise _undefined(name, f"columns without variance to divide by: {measure.constant_columns:,}")
    else:
        measure = fit_measure(name, y)
    neighbours = nearest(x, y, measure, threads=threads, device=device)
    return PublishedNeighbours(neighbours.distances[:, 0], neighbours.indices[:, 0])


def _by_scipy(name: Any, x: FloatArray, y: FloatArray) -> PublishedNeighbours:
    """Compute SciPy's own distances, some queries and references at a time.

    Take the largest of `MAXIMISED`, the smallest of others.

    Of equal distances the first reference counts, as in SciPy's whole matrix.
    """
    sign = -1.0 if name in MAXIMISED else 1.0
    scores, indices = np.full(len(x), np.inf), np.zeros(len(x), dtype=np.int64)
    width = max(1, _NUMBERS // y.shape[1])
    height = max(1, min(width, _PAIRS // min(width, len(y))))
    for first in range(0, len(y), width):
        references = np.asarray(y[first : first + width], dtype=np.float64)
        for start in range(0, len(x), height):
            part = np.arange(start, min(start + height, len(x)))
            with np.errstate(invalid="ignore", divide="ignore"):
                block = sign * scipy.spatial.distance.cdist(
                    np.asarray(x[part], dtype=np.float64), references, metric=name
                )
            if not np.isfinite(block).all():
                raise _undefined(name, "SciPy gives no number for zero or constant rows")
            nearer = block.min(axis=1) < scores[part]
            indices[part[nearer]] = first + block[nearer].argmin(axis=1)
            scores[part[nearer]] = block[nearer].min(axis=1)
    return PublishedNeighbours(scores, indices)


def _undefined(name: str, why: str) -> InputError:
    return InputError(f"{name} as published is not defined here: {why}")
