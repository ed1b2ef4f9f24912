"""MiFID: FID divided by how far the synthetic images lie from their nearest real ones, where that is suspiciously near.

    s = mean_j min_i (1 - |cos(y_j, x_i)|),   MiFID = FID / s where s < 0.1, FID where not

The threshold comes from the competition that MiFID was made for and belongs to Inception features: in other features
0.1 means something else, and whether the penalty applies is a choice of the feature space. MiFID is a figure for a
ranking and no test of copying: a set with one copied patient among thousands has nearly the s of a set without.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.figures import (
    Codes,
    FloatArray,
    QualityFigure,
    Samples,
    by_unit,
    check_samples,
    deleted_contributions,
    figure_interval,
    unit_sums,
)
from memorisk.statistics.quality.frechet import Frechet, frechet

THRESHOLD = 0.1
"""s from which there is no penalty."""
FLOOR = 10e-15
"""Added to s, as it is published: a set of copies divides by this."""
_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class MemorizationInformed:
    """MiFID and what it is made of."""

    figure: QualityFigure
    """MiFID."""
    distance: float
    """s."""
    penalised: bool
    """Whether s is below the threshold."""


def mifid(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None = None,
    synthetic_group: ArrayLike | None = None,
    *,
    threshold: float = THRESHOLD,
    level: float = 0.95,
) -> MemorizationInformed:
    """MiFID of synthetic images against training images.

    Args:
        real: [n, d], at least two rows, none of them zero.
        synthetic: [m, d] likewise.
        real_group: [n] patient of each image; None: each its own.
        synthetic_group: [m] likewise.
        threshold: s from which there is no penalty.
        level: Coverage.

    Returns:
        The figure; no interval where s lies so near to the threshold that chance decides on the penalty, or so near to
        0, as that of copies, that chance decides on its size.

    Raises:
        InputError: As `check_samples`; or rows of zeros, which have no cosine.

    Source:
        Bai and others (2021) and their published scoring: for every *generated* image the nearest real one.
        torchmetrics 1.9 averages over the real images instead: its MiFID with the two sets exchanged is this one.
    """
    samples = check_samples(real, synthetic, real_group, synthetic_group, level=level)
    return mifid_figure(samples, frechet(samples), threshold=threshold)


def mifid_figure(samples: Samples, found: Frechet, *, threshold: float = THRESHOLD) -> MemorizationInformed:
    """MiFID of a Frechet distance that is there already."""
    near = nearest_cosines(samples)
    s = float(near.first.mean())
    penalised = s < threshold
    estimate = found.estimate / (s + FLOOR) if penalised and found.estimate > 1e-8 else found.estimate
    real, synthetic = by_unit(found.real, samples.real_unit), by_unit(found.synthetic, samples.synthetic_unit)
    s_real, s_synthetic = _contributions(samples, near)
    half = _half_width(s_real, s_synthetic, samples.level)
    why = ""
    if abs(s - threshold) <= half:
        why = f"the penalty sets in at a distance of {threshold:g}, and that of {s:.3g} is too near to it"
    elif s <= half:
        why = f"it divides by a distance of {s:.3g}, whose own limits reach 0"
    if why:
        return MemorizationInformed(samples.no_interval(estimate, why), s, penalised)
    if penalised and found.estimate > 0:
        real = estimate * (real / found.estimate - s_real / (s + FLOOR))
        synthetic = estimate * (synthetic / found.estimate - s_synthetic / (s + FLOOR))
    figure = figure_interval(samples, estimate, real, synthetic, "log", "infinitesimal jackknife over units")
    return MemorizationInformed(figure, s, penalised)


@dataclass(frozen=True, eq=False)
class NearestCosines:
    """``1 - |cos|`` of every synthetic image to the real ones."""

    first: FloatArray
    """[m] the least."""
    unit: Codes
    """[m] whose that is."""
    second: FloatArray
    """[m] the least to real images of other units; inf where there is one unit."""


def nearest_cosines(samples: Samples) -> NearestCosines:
    """The nearest real image of every synthetic one, and the nearest of another unit; a block of pairs at a time.

    Raises:
        InputError: Rows of zeros.
    """
    x, y, unit = _directions(samples.real, "real"), _directions(samples.synthetic, "synthetic"), samples.real_unit
    m = len(y)
    first, second, whose = np.empty(m), np.full(m, np.inf), np.empty(m, np.int64)
    step = max(1, _AT_ONCE // len(x))
    for start in range(0, m, step):
        some = y[start : start + step]
        rows = slice(start, start + len(some))
        cosines = np.abs(some @ x.T)
        best = cosines.argmax(axis=1)
        first[rows], whose[rows] = _apart(some, x[best]), unit[best]
        cosines[unit[None, :] == unit[best][:, None]] = -1.0
        other = cosines.argmax(axis=1)
        apart = _apart(some, x[other])
        second[rows] = np.where(cosines[np.arange(len(some)), other] >= 0, np.maximum(apart, first[rows]), np.inf)
    return NearestCosines(first, whose, second)


def _directions(values: FloatArray, what: str) -> FloatArray:
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    if n := int((lengths == 0).sum()):
        raise InputError(f"the features of {n:,} {what} images are zero, where a cosine is undefined; leave them out")
    return values / lengths


def _apart(a: FloatArray, b: FloatArray) -> FloatArray:
    """[n] ``1 - |cos|`` of unit vectors, exact near 0: half the squared distance to the nearer of b and -b."""
    return np.minimum(np.square(a - b).sum(axis=1), np.square(a + b).sum(axis=1)) / 2


def _contributions(samples: Samples, near: NearestCosines) -> tuple[FloatArray, FloatArray]:
    """Of the units of both sides to s."""
    m, (n_real, _) = len(near.first), samples.units
    synthetic = by_unit((near.first - near.first.mean()) / m, samples.synthetic_unit)
    if n_real < 2:
        return np.zeros(n_real), synthetic
    lost = unit_sums((near.second - near.first) / m, near.unit, n_real)
    return -deleted_contributions(lost), synthetic


def _half_width(real: FloatArray, synthetic: FloatArray, level: float) -> float:
    """Half the width of the interval of s."""
    error = math.sqrt(float(np.square(real).sum() + np.square(synthetic).sum()))
    return float(stats.norm.ppf((1 + level) / 2)) * error
