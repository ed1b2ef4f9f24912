"""Exact tests of signs and ranks of few classes or data sets, with the smallest p that they could have given.

Paper 000, sections 4 and A.11; METHODS section 1, "Rarity". With 3 rare classes against 4 common ones no order of
the means has a one-sided p below 1/35. With such a floor a p of 0.03 is the best that could have happened, and a
p of 0.2 does not show absence.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class SignTest:
    """Sign test: the number of negative values against a fair coin."""

    n_negative: int
    """Number of values below 0."""
    n: int
    """Number of values other than 0: the units that count."""
    p_one_sided: float
    """One-sided p-value ``P(Bin(n, 1/2) >= n_negative)``."""
    p_two_sided: float
    """Two-sided p-value: twice the smaller tail, at most 1."""
    smallest_one_sided: float
    """Smallest one-sided p-value of n units, ``2^-n``."""
    smallest_two_sided: float
    """Smallest two-sided p-value of n units, ``2^(1 - n)``, at most 1."""
    share: Proportion
    """Share of negatives, exact interval over the units."""


def sign_test(values: ArrayLike) -> SignTest:
    """Test "as often negative as positive" by signs; zeros are left out.

    The cells of one data set share its images, and architectures share their ancestry, so that twenty cells of four
    data sets are four independent units. Read the test on data-set means together with the one on cells, whose p only
    the
    paper prints (and calls conservative; dependence makes it the opposite).

    Args:
        values: Value of each independent unit, [n]; NaN is not allowed.

    Returns:
        Counts, p-values, their floors; p = 1 without units.

    Raises:
        InputError: A NaN, or not one-dimensional.

    Source:
        Paper 000, table 1 and A.11.

    Example:
        >>> test = sign_test([-0.3] * 20)
        >>> f"{test.p_one_sided:.4e} {test.p_two_sided:.4e}"
        '9.5367e-07 1.9073e-06'
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or np.isnan(x).any():
        raise InputError("a sign test needs one number per unit without NaN: leave out units that were not measured")
    negative, n = int((x < 0).sum()), int((x != 0).sum())
    upper = float(scipy.stats.binom.sf(negative - 1, n, 0.5)) if n else 1.0
    lower = float(scipy.stats.binom.cdf(negative, n, 0.5)) if n else 1.0
    return SignTest(
        n_negative=negative,
        n=n,
        p_one_sided=upper,
        p_two_sided=min(1.0, 2 * min(upper, lower)),
        smallest_one_sided=0.5**n,
        smallest_two_sided=min(1.0, 2 * 0.5**n),
        share=clopper_pearson(negative, n),
    )


@dataclass(frozen=True)
class MannWhitney:
    """Exact comparison of two small groups of classes."""

    u: float
    """Number of pairs in which the first group's value is larger, ties half."""
    n_first: int
    """Number of units in the first group."""
    n_second: int
    """Number of units in the second group."""
    p_greater: float
    """p-value of "the first group is larger": share of allocations with at least this U."""
    p_less: float
    """p-value of "the first group is smaller": share of allocations with at most this U."""
    p_two_sided: float
    """Two-sided p-value: twice the smaller, at most 1, as SciPy's."""
    smallest_one_sided: float
    """Smallest ``p_greater`` that an allocation of these values can have; 1 / C(n, n_first) without ties."""
    smallest_two_sided: float
    """Smallest two-sided p of any allocation of these values."""
    shift: float
    """Hodges-Lehmann shift: median over pairs of first less second."""
    low: float
    """Lower limit of the shift, by inverting the test; -inf where the test has no such level."""
    high: float
    """Upper limit of the shift; inf where the test has no such level."""


def mann_whitney(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> MannWhitney:
    """Test two independent groups by Mann-Whitney, exactly with and without ties.

    ``U = sum over pairs of [x > y] + [x = y]/2``. The null counts all C(m + n, m) allocations of the pooled midranks,
    by adding one value after another (as many operations as a table of rank sums has cells, not as there are
    allocations). The shift's limits are the k-th smallest and largest of the m n differences, with k the largest that
    leaves ``2 P(U < k) <= 1 - level`` without ties (conservative with them).

    Args:
        first: Values of the first group, say means of M of the rare classes, [m].
        second: Values of the second group, say of the common ones, [n].
        level: Coverage of the interval of the shift.

    Returns:
        Test of the two groups; NaN throughout where a group is empty.

    Raises:
        InputError: NaN, or level outside (0, 1).

    Source:
        Paper 000, A.11 "Mann-Whitney U"; Hollander, Wolfe and Chicken, chapter 4.

    Example:
        >>> round(mann_whitney([3.0, 4.0, 5.0], [0.0, 1.0, 2.0]).p_two_sided, 3)
        0.1
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.ndim != 1 or y.ndim != 1 or np.isnan(x).any() or np.isnan(y).any():
        raise InputError("Mann-Whitney needs two columns of numbers without NaN: leave unscored classes out")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    m, n = len(x), len(y)
    if not m or not n:
        nan = float("nan")
        return MannWhitney(nan, m, n, nan, nan, nan, nan, nan, nan, nan, nan)
    doubled = np.rint(2 * scipy.stats.rankdata(np.concatenate([x, y]))).astype(np.int64)  # midranks as whole numbers
    counts = _rank_sums(doubled, m)
    total, rank_sum = comb(m + n, m), int(doubled[:m].sum())
    greater, less = float(counts[rank_sum:].sum() / total), float(counts[: rank_sum + 1].sum() / total)
    possible = np.flatnonzero(counts)
    top, bottom = float(counts[possible[-1]] / total), float(counts[possible[0]] / total)
    differences = np.sort(np.subtract.outer(x, y).ravel())
    k = _order_statistic(m, n, 1 - level)
    return MannWhitney(
        u=rank_sum / 2 - m * (m + 1) / 2,
        n_first=m,
        n_second=n,
        p_greater=greater,
        p_less=less,
        p_two_sided=min(1.0, 2 * min(greater, less)),
        smallest_one_sided=top,
        smallest_two_sided=min(1.0, 2 * min(top, bottom)),
        shift=float(np.median(differences)),
        low=float(differences[k - 1]) if k else -float("inf"),
        high=float(differences[-k]) if k else float("inf"),
    )


def _rank_sums(ranks: NDArray[np.int64], m: int) -> FloatArray:
    """Count the choices of m of these whole numbers that have each sum, [largest sum + 1]."""
    largest = int(np.sort(ranks)[-m:].sum())
    table = np.zeros((m + 1, largest + 1))
    table[0, 0] = 1
    for r in ranks:
        if r <= largest:
            for size in range(m, 0, -1):
                table[size, r:] += table[size - 1, : largest + 1 - r]
    return table[m]


def _order_statistic(m: int, n: int, alpha: float) -> int:
    """Return the largest k with ``2 P(U < k) <= alpha``, U without ties; 0 where none exists."""
    doubled = 2 * np.arange(1, m + n + 1)
    counts = _rank_sums(doubled, m)[m * (m + 1) :: 2]  # by U
    below = np.cumsum(counts) / comb(m + n, m)
    return int((2 * below <= alpha).sum())
