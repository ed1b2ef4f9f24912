"""MiFID: FID divided by how far the synthetic images lie from their nearest real ones.

    s = mean_j min_i (1 - |cos(y_j, x_i)|),   MiFID = FID / s where s < 0.1, FID where not

The threshold comes from the competition that MiFID was made for and belongs to Inception features: in other
features 0.1 means something else, and whether the penalty applies is a choice of the feature space. MiFID is a
figure for a ranking and not a test of copying: a set with one copied patient among thousands has nearly the s of a set
without.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.figures import (
    Codes,
    FloatArray,
    QualityFigure,
    Samples,
    by_unit,
    deleted_contributions,
    figure_interval,
    unit_sums,
)
from memorisk.statistics.quality.frechet import Frechet

THRESHOLD = 0.1
"""Distance s from which MiFID has no penalty."""
FLOOR = 10e-15
"""Number added to s, as it is published: a set of copies divides by this."""
_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class MemorizationInformed:
    """MiFID with the distance and the penalty behind it."""

    figure: QualityFigure
    """MiFID with its interval."""
    distance: float
    """Mean distance s of the synthetic images to their nearest real ones."""
    penalised: bool
    """Whether s is below the threshold."""


def mifid_figure(samples: Samples, distance: Frechet, *, threshold: float = THRESHOLD) -> MemorizationInformed:
    """Compute MiFID of synthetic images against training images from their Frechet distance.

    Args:
        samples: Features of both sets, none of them zero.
        distance: Frechet distance of the two.
        threshold: Distance s from which MiFID has no penalty.

    Returns:
        Figure; no interval where s lies so near to the threshold that chance decides on the penalty, or so near to
        0, as that of copies, that chance decides on its size.

    Raises:
        InputError: Rows of zeros, which have no cosine.

    Source:
        Bai and others (2021) and their published scoring: for every *generated* image the nearest real one.
        torchmetrics 1.9 averages over the real images instead: its MiFID with the two sets exchanged is this one.
    """
    near = nearest_cosines(samples)
    s = float(near.first.mean())
    penalised = s < threshold
    estimate = distance.estimate / (s + FLOOR) if penalised and distance.estimate > 1e-8 else distance.estimate
    real, synthetic = by_unit(distance.real, samples.real_unit), by_unit(distance.synthetic, samples.synthetic_unit)
    s_real, s_synthetic = _contributions(samples, near)
    half = _half_width(s_real, s_synthetic, samples.level)
    why = ""
    if abs(s - threshold) <= half:
        why = f"the penalty sets in at a distance of {threshold:g}, and that of {s:.3g} is too near to it"
    elif s <= half:
        why = f"it divides by a distance of {s:.3g}, whose own limits reach 0"
    if why:
        return MemorizationInformed(samples.no_interval(estimate, why), s, penalised)
    if penalised and distance.estimate > 0:
        real = estimate * (real / distance.estimate - s_real / (s + FLOOR))
        synthetic = estimate * (synthetic / distance.estimate - s_synthetic / (s + FLOOR))
    figure = figure_interval(samples, estimate, real, synthetic, "log", "infinitesimal jackknife over units")
    return MemorizationInformed(figure, s, penalised)


@dataclass(frozen=True, eq=False)
class NearestCosines:
    """Distances ``1 - |cos|`` of every synthetic image to the real ones."""

    first: FloatArray
    """Least distance of each synthetic image, [m]."""
    unit: Codes
    """Unit of the real image at that distance, [m]."""
    second: FloatArray
    """Least distance to real images of other units, [m]; inf with a single unit."""


def nearest_cosines(samples: Samples) -> NearestCosines:
    """Find the nearest real image of every synthetic one, and the nearest of another unit; a block of pairs at a time.

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
    """Compute ``1 - |cos|`` of unit vectors, [n], exact near 0: half the squared distance to the nearer of b and -b."""
    return np.minimum(np.square(a - b).sum(axis=1), np.square(a + b).sum(axis=1)) / 2


def _contributions(samples: Samples, near: NearestCosines) -> tuple[FloatArray, FloatArray]:
    """Return the contributions of the units of both sides to s."""
    m, (n_real, _) = len(near.first), samples.units
    synthetic = by_unit((near.first - near.first.mean()) / m, samples.synthetic_unit)
    if n_real < 2:
        return np.zeros(n_real), synthetic
    lost = unit_sums((near.second - near.first) / m, near.unit, n_real)
    return -deleted_contributions(lost), synthetic


def _half_width(real: FloatArray, synthetic: FloatArray, level: float) -> float:
    """Compute half the width of the interval of s."""
    error = math.sqrt(float(np.square(real).sum() + np.square(synthetic).sum()))
    return float(scipy.stats.norm.ppf((1 + level) / 2)) * error
