"""Slope of an outcome over levels of which most have few patients: does memorization grow with copies?

Least squares on log2 of the copies is a contrast of the levels' means,

    slope = sum_l w_l mean_l,    w_l = n_l (x_l - mean x) / sum_l n_l (x_l - mean x)^2,

so that a dozen patients at 64 copies carry it, however many hundred occur once. A variance that those few show,
with degrees of freedom counted over all, errs to one side: where 5 % are flagged, of a dozen none is half the
time. Hence each level has limits of its own, and MOVER (Zou and Donner 2008) combines them: on either side

    slope - low = sqrt(sum_l w_l^2 (distance of mean_l from the limit of its level that lowers the slope)^2).

Shares have Clopper and Pearson's limits. They add up badly where many levels lie near 0 or 1, and Price and
Bonett's interval, half a patient (2 / levels) added to either outcome of each level, badly where one level alone
decides: the interval is the wider of both on each side. By the exact distribution at 264 patients once and 12 each
at 4, 16 and 64 copies, at 60 and 8, 30 and 5, 100 and 16, and four times 20, for 650 sets of shares each, at most
3.0 % of 95 % limits lie beyond the truth on either side, and at most 3.4 % on both; with two levels of 20 3.6 and
3.9 %.

Means have Student's limits of the level's patients and one more, who has the greatest value of all patients for the
upper limit and the least for the lower: a patient who is rare among twelve need not be among them. Simulated coverage
of
normal, exponential and two-valued outcomes, with and without a trend: 96 to 100 %, each side within 3.5 %; where
all levels are normal and alike the interval is about twice as wide as least squares' own, which is the price. Not
covered are outcomes whose spread is of the highest level alone and has one long tail (exponential, six times as
wide there: 4 to 5 % on one side at 5 to 12 patients), or copies that show in 2 % of the patients of small levels
and in no other patient.
"""

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import Interval

FloatArray = NDArray[np.float64]
LimitPairs = tuple[FloatArray, FloatArray]


def share_slope(flagged: ArrayLike, copies: ArrayLike, level: float = 0.95) -> Interval:
    """Compute the slope of the share of flagged patients per doubling of the copies, with `share_slope_limits`.

    Args:
        flagged: Whether each patient has the property, [U].
        copies: Number of copies of each patient, [U], at least 1.
        level: Coverage of the interval.

    Raises:
        InputError: Shapes do not fit, copies below 1, or all patients with the same number.

    Example:
        >>> found = share_slope([False] * 90 + [True] * 10, [1] * 90 + [16] * 10)
        >>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
        (0.25, 0.172, 0.25)
    """
    values, copies = _checked(np.asarray(flagged, dtype=bool).astype(np.float64), copies, level)
    parts, weights = _levels(values, copies)
    low, high = share_slope_limits(weights, [part.sum() for part in parts], [len(part) for part in parts], level)
    return _interval(parts, weights, float(low), float(high), level, "wider of MOVER and Price-Bonett")


def mean_slope(values: ArrayLike, copies: ArrayLike, level: float = 0.95) -> Interval:
    """Compute the slope of the mean of any outcome per doubling of the copies (formulas at the head of this module).

    Args:
        values: Outcome of each patient, [U].
        copies: Number of copies of each patient, [U], at least 1.
        level: Coverage of the interval.

    Returns:
        Slope with its limits; they are NaN where all values are the same, which says nothing of others.

    Raises:
        InputError: As `share_slope`, or a value is not finite.

    Example:
        >>> found = mean_slope([0.0, 1.0, 0.0, 1.0, 4.0, 5.0, 4.0, 5.0], [1] * 4 + [4] * 4)
        >>> round(found.estimate, 2), round(found.low, 2), round(found.high, 2)
        (2.0, -0.72, 2.35)
    """
    y, copies = _checked(np.asarray(values, dtype=np.float64), copies, level)
    parts, weights = _levels(y, copies)
    ends = float(y.min()), float(y.max())
    if ends[0] == ends[1]:
        return _interval(parts, weights, float("nan"), float("nan"), level, "no value differs")
    limits = [_mean_limits(part, ends, level) for part in parts]
    low, high = _mover(weights, [np.asarray(part.mean()) for part in parts], limits)
    return _interval(parts, weights, float(low), float(high), level, "MOVER from each level's completed t")


def share_slope_limits(
    weights: ArrayLike, successes: Sequence[ArrayLike], patients: Sequence[int], level: float = 0.95
) -> LimitPairs:
    """Compute the limits of `share_slope` of any counts.

    Args:
        weights: Weights of the levels' shares, [L].
        successes: L counts, or arrays of counts that broadcast.
        patients: Number of patients of each level, L numbers.
        level: Coverage of the limits.

    Source:
        Zou and Donner, Statistics in Medicine 27 (2008); Price and Bonett, Computational Statistics and Data Analysis
        45 (2004), with Welch and Satterthwaite's t in place of the normal quantile.
    """
    w, tail = np.asarray(weights, dtype=np.float64), (1 - level) / 2
    counts = [np.asarray(k, dtype=np.float64) for k in successes]
    shares = [k / n for k, n in zip(counts, patients, strict=True)]
    limits = [_share_limits(k, n, tail) for k, n in zip(counts, patients, strict=True)]
    low, high = _mover(w, shares, limits)
    added = 2 / len(w)
    middle, variance, spread = np.zeros(()), np.zeros(()), np.zeros(())
    for weight, k, n in zip(w, counts, patients, strict=True):
        share = (k + added) / (n + 2 * added)
        part = weight**2 * share * (1 - share) / (n + 2 * added)
        middle, variance, spread = middle + weight * share, variance + part, spread + part**2 / max(n - 1, 1)
    half = scipy.special.stdtrit(variance**2 / spread, 1 - tail) * np.sqrt(variance)
    least, most = np.minimum(w, 0).sum(), np.maximum(w, 0).sum()
    return np.maximum(np.minimum(low, middle - half), least), np.minimum(np.maximum(high, middle + half), most)


def slope_weights(x: ArrayLike, patients: ArrayLike) -> FloatArray:
    """Compute the weight of each level's mean in a least-squares slope, [L].

    Args:
        x: Places of the levels, [L].
        patients: Number of patients of each level, [L].
    """
    n, place = np.asarray(patients, dtype=np.float64), np.asarray(x, dtype=np.float64)
    centred = place - (n @ place) / n.sum()
    return n * centred / (n @ centred**2)


def _mover(weights: FloatArray, means: Sequence[FloatArray], limits: Sequence[LimitPairs]) -> LimitPairs:
    """Compute the limits of a contrast from each part's own."""
    slope, below, above = np.zeros(()), np.zeros(()), np.zeros(())
    for weight, mean, ends in zip(weights, means, limits, strict=True):
        low, high = ends if weight > 0 else ends[::-1]  # what lowers the slope first
        slope = slope + weight * mean
        below, above = below + (weight * (mean - low)) ** 2, above + (weight * (high - mean)) ** 2
    return slope - np.sqrt(below), slope + np.sqrt(above)


def _share_limits(successes: FloatArray, patients: int, tail: float) -> LimitPairs:
    """Compute Clopper and Pearson's limits of many counts."""
    k, rest = successes, patients - successes
    low = scipy.special.betaincinv(np.maximum(k, 1), rest + 1, tail)
    high = scipy.special.betaincinv(k + 1, np.maximum(rest, 1), 1 - tail)
    return np.where(k > 0, low, 0.0), np.where(rest > 0, high, 1.0)


def _mean_limits(values: FloatArray, ends: tuple[float, float], level: float) -> LimitPairs:
    """Compute Student's limits of the values and one more at either end, within the ends."""
    quantile = float(scipy.special.stdtrit(max(len(values) - 1, 1), (1 + level) / 2))
    limits = []
    for end, sign in zip(ends, (-1, 1), strict=True):
        with_end = np.append(values, end)
        limits.append(with_end.mean() + sign * quantile * with_end.std(ddof=1) / np.sqrt(len(with_end)))
    return np.maximum(limits[0], ends[0]), np.minimum(limits[1], ends[1])


def _levels(values: FloatArray, copies: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the values of each level, ascending, and its weight."""
    different, sizes = np.unique(copies, return_counts=True)
    return [values[copies == one] for one in different], slope_weights(np.log2(different), sizes)


def _checked(values: FloatArray, copies: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
    n = np.asarray(copies, dtype=np.float64)
    if values.ndim != 1 or n.shape != values.shape or not (n >= 1).all():
        raise InputError(f"values {values.shape} and copies {n.shape} do not fit; give one of each a patient, from 1")
    if len(np.unique(n)) < 2:
        raise InputError("a slope needs patients with at least 2 different numbers of copies")
    if not np.isfinite(values).all():
        raise InputError("a value is not finite; give one number per patient")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    return values, n


def _interval(
    parts: Sequence[FloatArray], weights: FloatArray, low: float, high: float, level: float, method: str
) -> Interval:
    slope = float(weights @ np.array([part.mean() for part in parts]))
    return Interval(
        estimate=slope,
        low=min(low, slope),
        high=max(high, slope),
        df=float("nan"),
        n_groups=sum(map(len, parts)),
        n_seeds=1,
        level=level,
        conditional=True,
        method=f"least squares on log2 copies, {method}",
    )
