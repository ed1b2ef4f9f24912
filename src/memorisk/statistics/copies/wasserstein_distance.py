"""Wasserstein-1 distance of two samples of distances, with its interval (paper 003, figure 3).

    W1 = integral |F(t) - G(t)| dt,        shift = mean of F - mean of G,        |shift| <= W1.

F and G weigh units (patients, synthetic images) alike, whatever number of distances each has. W1 of two samples is
above 0 even where they come from one law, so ``chance`` is given with it: its mean when units are dealt to the two
sides at random. The plain bootstrap of W1 fails there (at equal laws and near them 70 to 83 % of its 95 % intervals
held the truth in simulations). But with Fn, Gn of the samples

    |W1(Fn, Gn) - W1(F, G)| <= D = integral |(Fn - F) - (Gn - G)| dt

always, and D is a norm of the empirical process, which the bootstrap over units repeats: the interval is W1 with
D's quantile to either side, cut at 0. It is exact in the limit at equal laws and wider than need be elsewhere. The
shift is a difference of two means of units, with Welch's interval.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import check_distances

FloatArray = NDArray[np.float64]
_DRAWS = 500
_AT_ONCE = 1 << 21  # numbers


@dataclass(frozen=True)
class WassersteinDistance:
    """W1 of two samples, and the direction in which they are apart."""

    estimate: float
    """W1, in the unit of the distances."""
    low: float
    """Lower limit, at least 0."""
    high: float
    """Upper limit of W1."""
    chance: float
    """Mean W1 of units dealt at random: what two samples of one law of these sizes show."""
    shift: float
    """Mean of the first less mean of the second."""
    shift_low: float
    """Lower limit of the shift."""
    shift_high: float
    """Upper limit of the shift."""
    n_first: int
    """Number of units of the first sample."""
    n_second: int
    """Number of units of the second sample."""
    level: float
    """Nominal coverage of both intervals."""


def wasserstein_distance(
    first: ArrayLike,
    second: ArrayLike,
    first_group: ArrayLike | None = None,
    second_group: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = _DRAWS,
    seed: int = 0,
) -> WassersteinDistance:
    """Compute W1 of two samples of distances.

    Args:
        first: Distances of the first sample, [n].
        second: Distances of the second sample, [m].
        first_group: Unit of each distance of the first sample, [n]; None: each distance its own.
        second_group: Unit of each distance of the second sample, [m].
        level: Coverage of the intervals.
        draws: Number of draws of the bootstrap and of the dealing.
        seed: Seed of the bootstrap and of the dealing.

    Raises:
        InputError: Lengths differ, a distance is not finite, fewer than two units on a side, or level outside (0, 1).

    Source:
        Paper 003, figure 3; METHODS section 3, "Generators characterised".
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    one, other = _units(first, first_group), _units(second, second_group)
    if min(one.n, other.n) < 2:
        raise InputError(f"samples have {one.n} and {other.n} units; two on each side are needed")
    values = np.concatenate([one.values, other.values])
    order = np.argsort(values, kind="stable")
    unit = np.concatenate([one.unit, one.n + other.unit])[order]
    share = np.concatenate([1 / one.count[one.unit], 1 / other.count[other.unit]])[order]
    steps = np.diff(values[order])

    block = max(1, _AT_ONCE // len(order))

    def integrals(weight: FloatArray) -> FloatArray:
        """Compute ``integral |sum of weights up to t| dt`` of [k, units] weights, [k], some at a time."""
        parts = (weight[begin : begin + block] for begin in range(0, len(weight), block))
        return np.concatenate([np.abs(np.cumsum(w[:, unit] * share, axis=1)[:, :-1]) @ steps for w in parts])

    plain = _signed(np.ones((1, one.n)), np.ones((1, other.n)))
    rng = np.random.default_rng(seed)
    estimate = float(integrals(plain)[0])
    apart = integrals(_signed(_counts(one.n, draws, rng), _counts(other.n, draws, rng)) - plain)
    dealt = integrals(rng.permuted(np.repeat(plain, draws, axis=0), axis=1))
    reach = float(np.quantile(apart, level))
    a, b = one.means, other.means
    welch = (
        scipy.stats.ttest_ind(a, b, equal_var=False).confidence_interval(level)
        if np.ptp(np.r_[a, b]) > 0
        else (0.0, 0.0)
    )
    return WassersteinDistance(
        estimate, max(estimate - reach, 0.0), estimate + reach, float(np.mean(dealt)),
        float(a.mean() - b.mean()), float(welch[0]), float(welch[1]), one.n, other.n, level,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Units:
    """Distances and the unit of each."""

    values: FloatArray
    unit: NDArray[np.intp]
    count: NDArray[np.intp]

    @property
    def n(self) -> int:
        return len(self.count)

    @property
    def means(self) -> FloatArray:
        return np.bincount(self.unit, self.values) / self.count


def _units(distance: ArrayLike, group: ArrayLike | None) -> _Units:
    values = check_distances(distance)
    groups = np.arange(len(values)) if group is None else np.asarray(group)
    if groups.shape != values.shape:
        raise InputError(f"{values.shape} distances and {groups.shape} units do not fit; give one unit a distance")
    _, unit, count = np.unique(groups, return_inverse=True, return_counts=True)
    return _Units(values, unit, count)


def _signed(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return weights of all units, [k, units], negative for the second side, over each side's number of units."""
    return np.concatenate([first / first.shape[1], -second / second.shape[1]], axis=1)


def _counts(n: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """Count how often each of n units is drawn in n draws with replacement, [draws, n]."""
    return rng.multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64)
