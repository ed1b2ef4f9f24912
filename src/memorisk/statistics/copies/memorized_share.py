"""Share of training patients that a synthetic set is nearer to than it is to new ones (METHODS section 5).

W of a patient is the smallest distance of one of their images to the set. Of n held-out patients the k-th smallest
distance, k = floor(nominal (n + 1)), is the bar, and

    share = #{training patients: W < bar} / m

is what `reversed_queries` would flag at ``p <= nominal`` without correction for many patients. A set that knows
neither part gives ``k / (n + 1)`` on average, the nominal rate where n is large. The share describes the set as a
whole; the list of `reversed_queries` names the patients who are exposed.

Its interval is about new patients of both kinds, ``P(W_train < nominal quantile of W_held)``: the bar is itself a
draw. Each limit takes the held-out order statistic that lies on the safe side of that quantile in all but a quarter
of the error allowed, and Clopper and Pearson's limit of the share beyond it for another quarter: exact for any
distributions, and wide where held-out patients are few. The p-value needs less, whether the parts differ
at all: of a random order of all patients, the number of training patients before the k-th held-out one is negative
hypergeometric.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, one_line, plural
from memorisk.statistics.copies.calibration import check_distances, group_values
from memorisk.statistics.intervals.shares import clopper_pearson

FloatArray = NDArray[np.float64]
_MOST_HELD_OUT = 1000
"""Largest number of held-out patients that is tried: a nominal rate of 0.5 % needs 875."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class MemorizedShare:
    """Share of training patients that a set is nearer to than its nominal rate allows of new ones."""

    estimate: float
    """Share of the training patients before the bar; NaN where there are too few held-out patients for one."""
    low: float
    """Lower limit; 0 where held-out patients are too few for any."""
    high: float
    """Upper limit; 1 where they are too few for any."""
    nominal: float
    """Nominal rate that the caller wants."""
    attained: float
    """Rate k / (n + 1): the average of a set that knows neither part."""
    p_value: float
    """p-value of at least so many in a random order of all patients, exact; 1 without a bar."""
    n_train: int
    """Number of training patients: the independent units."""
    n_held: int
    """Number of held-out patients: independent units, too."""
    level: float
    """Nominal coverage; the actual one is not below it."""
    flagged: NDArray
    """Sorted ids of the training patients before the bar."""

    @property
    def above(self) -> bool:
        """Return whether the whole interval lies above the nominal rate."""
        return self.low > self.nominal

    @property
    def words(self) -> str:
        """Describe the share in a sentence."""
        if math.isnan(self.estimate):
            needed = math.ceil(1 / self.nominal - _ROUNDING) - 1
            return f"{self.n_held} held-out patients are too few to say; at least {needed} are needed"
        return (
            f"{self.estimate:.1%} ({self.low:.1%} to {self.high:.1%}) of {self.n_train:,} training patients are nearer "
            f"to the set than all but {self.nominal:g} of new patients are, judged by {self.n_held:,} of them"
        )


def memorized_share(
    train_distance: ArrayLike,
    held_distance: ArrayLike,
    train_group: ArrayLike | None = None,
    held_group: ArrayLike | None = None,
    *,
    nominal: float = 0.05,
    level: float = 0.95,
) -> MemorizedShare:
    """Compute the share and its interval.

    Args:
        train_distance: Distance of each training image to its nearest synthetic image, [N].
        held_distance: Distance of each held-out image to the same set, [M].
        train_group: Patients of the training images, [N]; None: each image its own.
        held_group: Patients of the held-out images, [M], none of them a training patient, a random part of the same
            people.
        nominal: Share of new patients that count as near.
        level: Coverage of the interval.

    Raises:
        InputError: Lengths differ, a distance is not finite, a patient is on both sides, or a rate outside (0, 1).

    Source:
        METHODS section 5, "Null"; the order statistics are those of a tolerance limit (Wilks, 1941).

    Example:
        >>> found = memorized_share([0.1] * 50 + [50.0] * 50, range(1, 100))
        >>> found.estimate, round(found.low, 2), round(found.high, 2), found.attained
        (0.5, 0.38, 0.62, 0.05)
    """
    for name, value in (("nominal", nominal), ("level", level)):
        if not 0 < value < 1:
            raise InputError(f"{name} is {value}; give a share between 0 and 1, such as 0.05 and 0.95")
    train, units = _smallest(train_distance, train_group)
    held, others = _smallest(held_distance, held_group)
    if train_group is not None and held_group is not None:
        both = np.intersect1d(units, others)
        if len(both):
            who = plural(len(both), "patient is", "patients are")
            raise InputError(f"{who} in training and held out, such as {one_line(both[0])}; split by patient")
    m, n = len(train), len(held)
    bars = np.sort(held)
    k = math.floor(nominal * (n + 1) + _ROUNDING)
    if not k:
        return MemorizedShare(math.nan, 0.0, 1.0, nominal, 0.0, 1.0, m, n, level, units[:0])
    near = train < bars[k - 1]
    low, high = _limits(train, bars, nominal, (1 - level) / 4)
    share, count = float(near.mean()), int(near.sum())
    # rounding of the limits' own order statistics cannot exclude what was seen
    limits = min(low, share), max(high, share)
    p = float(scipy.stats.nhypergeom(m + n, m, k).sf(count - 1)) if count else 1.0
    return MemorizedShare(share, *limits, nominal, k / (n + 1), min(p, 1.0), m, n, level, units[near])


def can_show_memorization(n_train: int, n_held: int, *, nominal: float = 0.05, level: float = 0.95) -> bool:
    """Return whether the share's interval lies above the average without memory if all training patients are memorized.

    Args:
        n_train: Number of training patients.
        n_held: Number of held-out patients.
        nominal: Nominal rate, as in `memorized_share`.
        level: Coverage, as in `memorized_share`.

    Example:
        >>> can_show_memorization(100, 85), can_show_memorization(100, 86)
        (False, True)
    """
    if n_train < 1 or n_held < 1:
        return False
    low, _ = _limits(np.zeros(n_train), np.ones(n_held), nominal, (1 - level) / 4)
    return low > math.floor(nominal * (n_held + 1) + _ROUNDING) / (n_held + 1)


def fewest_held_out(n_train: int, *, nominal: float = 0.05, level: float = 0.95) -> int | None:
    """Return the smallest number of held-out patients with which memory can be shown; None where no number helps.

    Args:
        n_train: Number of training patients.
        nominal: Nominal rate, as in `memorized_share`.
        level: Coverage, as in `memorized_share`.

    Example:
        >>> fewest_held_out(100), fewest_held_out(1)
        (86, None)
    """
    numbers = range(1, _MOST_HELD_OUT + 1)
    return next((n for n in numbers if can_show_memorization(n_train, n, nominal=nominal, level=level)), None)


def _limits(train: FloatArray, bars: FloatArray, nominal: float, error: float) -> tuple[float, float]:
    """Compute limits of ``P(W_train < q)``, q the nominal quantile of held-out distances; each fails in 2 ``error``.

    ``F(bars[j - 1])`` of n is Beta(j, n + 1 - j), so that bar j lies at or below q with probability
    ``P(Bin(n, nominal) >= j)`` at least, and at or above it with ``P(Bin(n, nominal) < j)``.
    """
    m, n = len(train), len(bars)
    counts = np.arange(1, n + 1)
    at_least = scipy.stats.binom.sf(counts - 1, n, nominal)  # P(Bin >= j), falling
    below, above = counts[at_least >= 1 - error], counts[at_least <= error]
    low, high = 0.0, 1.0
    if len(below):
        inside = int((train < bars[below[-1] - 1]).sum())
        low = clopper_pearson(inside, m, 1 - 2 * error).low
    if len(above):
        inside = int((train <= bars[above[0] - 1]).sum())
        high = clopper_pearson(inside, m, 1 - 2 * error).high
    return low, high


def _smallest(distance: ArrayLike, group: ArrayLike | None) -> tuple[FloatArray, NDArray]:
    """Return the smallest distance of each patient, and the patients, sorted."""
    values = check_distances(distance)
    if group is None:
        return values, np.arange(len(values))
    groups = np.asarray(group)
    if groups.shape != values.shape:
        raise InputError(f"{values.shape} distances and {groups.shape} patients do not fit")
    return group_values(values, groups), np.unique(groups)
