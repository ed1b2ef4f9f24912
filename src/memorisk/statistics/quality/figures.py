"""Figure of a set's quality with its interval, common to all of them.

An interval is about *this figure at these numbers of images*: what the same generator's other images and other
patients of the same population would give on average, at as many of each. FID falls and recall rises with the number
of images, so that the interval does not cover what infinitely many images would give.

Units are whatever was drawn independently: patients on the real side, single images on the synthetic one. Each unit u
of side h has a contribution c_u to the estimate, its influence or what deleting it changes; the contributions of a
side sum to 0, and

    v = sum_h G_h / (G_h - 1) sum_u c_u^2,   limits  g^-1(g(theta) +- t sqrt(v) |g'(theta)|)

with g the logarithm, the logit, or for figures that may be negative asinh, which is the identity near 0 and the
logarithm far from it; and Satterthwaite's degrees of freedom with the sample's own kurtosis as in
`memorisk.statistics.jackknife`. Where two sets hardly differ, such variances are up to twice too large (the linear part
of a distance vanishes there), and the intervals too wide. Simulated coverage: docs/results/quality_simulation.md.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import counting_bound

FloatArray = NDArray[np.float64]
Codes = NDArray[np.int64]
FigureScale = Literal["log", "logit", "asinh"]
MIN_UNITS = 6
"""Least number of independent units on a side with which an interval is given."""
_ASINH = 1.5  # half-widths from 0 at which asinh turns from the identity to the logarithm
_SCALE_WORDS: dict[FigureScale, str] = {
    "log": "its logarithm",
    "logit": "its logit",
    "asinh": "its inverse hyperbolic sine",
}


@dataclass(frozen=True)
class QualityFigure:
    """One figure of a set of synthetic images against real ones."""

    estimate: float
    """Value of the figure; NaN where it is not defined, and ``method`` gives the reason."""
    low: float
    """Lower limit; NaN without an interval."""
    high: float
    """Upper limit; NaN without an interval."""
    df: float
    """Degrees of freedom of t; NaN where the limits do not come from t."""
    n_real: int
    """Number of real images."""
    n_synthetic: int
    """Number of synthetic images."""
    n_real_units: int
    """Number of independent units among the real images (patients)."""
    n_synthetic_units: int
    """Number of independent units among the synthetic images."""
    level: float
    """Nominal coverage of the interval."""
    method: str
    """Method of the limits, or the reason why they are missing."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Two checked sets of features with their units."""

    real: FloatArray
    """Features of the real images, [n, d]."""
    synthetic: FloatArray
    """Features of the synthetic images, [m, d]."""
    real_unit: Codes
    """Units of the real images, [n], numbered from 0."""
    synthetic_unit: Codes
    """Units of the synthetic images, [m], numbered from 0."""
    level: float
    """Coverage of intervals."""

    @property
    def units(self) -> tuple[int, int]:
        """Return the number of units on both sides."""
        return int(self.real_unit.max()) + 1, int(self.synthetic_unit.max()) + 1

    def figure(self, estimate: float, limits: tuple[float, float], df: float, method: str) -> QualityFigure:
        """Return a figure of these samples."""
        low, high = limits
        n, m = self.units
        counts = len(self.real), len(self.synthetic), n, m
        return QualityFigure(float(estimate), float(low), float(high), df, *counts, self.level, method)

    def no_interval(self, estimate: float, why: str) -> QualityFigure:
        """Return a figure without limits, with the reason."""
        return self.figure(estimate, (math.nan, math.nan), math.nan, f"no interval: {why}")


def check_samples(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None = None,
    synthetic_group: ArrayLike | None = None,
    *,
    level: float = 0.95,
    fewest: int = 2,
) -> Samples:
    """Check two sets of features, and return them in float64.

    Args:
        real: Features of the real images, [n, d].
        synthetic: Features of the synthetic images, [m, d].
        real_group: Patient of each real image, [n]; None: each image its own.
        synthetic_group: Patient of each synthetic image, [m], where real images replace synthetic ones; None: each its
            own.
        level: Coverage of intervals.
        fewest: Number of images that a figure needs in each set.

    Raises:
        InputError: Shapes do not fit, too few images, NaN or infinite features, real images that are all the same,
            or level outside (0, 1).
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    x, y = (np.asarray(values, dtype=np.float64) for values in (real, synthetic))
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or not x.shape[1]:
        raise InputError(
            f"features {x.shape} of real and {y.shape} of synthetic images do not compare: give [n, d] each"
        )
    for what, values in (("real", x), ("synthetic", y)):
        if len(values) < fewest:
            raise InputError(f"{len(values):,} {what} images are too few: this figure needs at least {fewest}")
        if n := int((~np.isfinite(values).all(axis=1)).sum()):
            raise InputError(f"{n:,} of the {what} images have features that are not finite; leave them out")
    if (x == x[0]).all():
        raise InputError("the features of all real images are the same: they carry no information")
    units = (_units("real", x, real_group), _units("synthetic", y, synthetic_group))
    return Samples(x, y, *units, level)


def _units(what: str, values: FloatArray, group: ArrayLike | None) -> Codes:
    if group is None:
        return np.arange(len(values))
    names = np.asarray(group)
    if names.shape != (len(values),):
        raise InputError(f"{len(values):,} {what} images have groups of shape {names.shape}; give one group an image")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def figure_interval(
    samples: Samples, estimate: float, real: FloatArray, synthetic: FloatArray, scale: FigureScale, method: str
) -> QualityFigure:
    """Compute a figure with its interval from contributions (formula at the head of this module).

    Args:
        samples: Samples whose figure it is.
        estimate: Estimate theta.
        real: Contributions of the real side, one of each unit or group of units, summing to 0.
        synthetic: Contributions of the synthetic side, summing to 0.
        scale: Scale on which the interval is symmetric.
        method: Origin of the contributions, in words.
    """
    return variance_interval(samples, estimate, *_variance([real, synthetic]), scale, method)


def variance_interval(
    samples: Samples, estimate: float, variance: float, df: float, scale: FigureScale, method: str
) -> QualityFigure:
    """Compute a figure with its interval from a variance.

    Args:
        samples: Samples whose figure it is.
        estimate: Estimate theta.
        variance: Variance of theta.
        df: Degrees of freedom of the variance.
        scale: Scale on which the interval is symmetric.
        method: Origin of the variance, in words.
    """
    if min(samples.units) < MIN_UNITS:
        return samples.no_interval(estimate, f"it needs {MIN_UNITS} independent units in each set")
    if scale == "logit" and (variance == 0 or not 0 < estimate < 1):
        n = min(samples.units)
        limits = counting_bound(min(max(estimate, 0.0), 1.0), n, samples.level)
        return samples.figure(estimate, limits, math.nan, f"Clopper-Pearson as of {n:,} independent units")
    if variance == 0 or (scale == "log" and estimate <= 0):
        return samples.no_interval(estimate, "no unit changes this figure")
    half = float(scipy.stats.t.ppf((1 + samples.level) / 2, df)) * math.sqrt(variance)
    return samples.figure(estimate, _limits(estimate, half, scale), df, f"{method}, t on {_SCALE_WORDS[scale]}")


def _variance(sides: list[FloatArray]) -> tuple[float, float]:
    """Compute the variance of the head of this module, and its degrees of freedom."""
    variance, spread = 0.0, 0.0
    for contributions in sides:
        n = len(contributions)
        squares = np.square(contributions) * n / (n - 1)
        part = float(squares.sum())
        if part == 0:
            continue
        kurtosis = n * float(np.square(squares).sum()) / part**2
        variance += part
        spread += part**2 * max(1.0, (kurtosis - 1) / 2) / (n - 1)
    return variance, variance**2 / spread if spread else 1.0


def _limits(estimate: float, half: float, scale: FigureScale) -> tuple[float, float]:
    if scale == "log":
        width = half / estimate
        return estimate * math.exp(-width), estimate * math.exp(min(width, 700.0))
    if scale == "logit":
        centre, width = math.log(estimate / (1 - estimate)), half / (estimate * (1 - estimate))
        return float(scipy.special.expit(centre - width)), float(scipy.special.expit(centre + width))
    unit = _ASINH * half
    centre, width = math.asinh(estimate / unit), 1 / (_ASINH * math.hypot(1.0, estimate / unit))
    return unit * math.sinh(centre - width), unit * math.sinh(centre + width)


def deleted_contributions(deleted: FloatArray) -> FloatArray:
    """Compute contributions from the figure with each unit or group left out, [G]: ``(G - 1)/G (theta_(-g) - mean)``.

    With them v is the jackknife variance ``(G - 1)/G sum (theta_(-g) - mean)^2``.
    """
    n = len(deleted)
    return (deleted - deleted.mean()) * (n - 1) / n


def by_unit(values: FloatArray, unit: Codes) -> FloatArray:
    """Sum over the images of each unit, [G], less the mean of the sums."""
    sums = unit_sums(values, unit)
    return sums - sums.mean()


def unit_sums(values: FloatArray, unit: Codes, n_units: int = 0) -> FloatArray:
    """Sum over the images of each unit, [G]."""
    return np.asarray(np.bincount(unit, values, minlength=n_units), dtype=np.float64)
