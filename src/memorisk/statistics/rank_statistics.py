"""Rank correlation, the agreement of memorization with attack success, and exact tests of signs and ranks.

**Correlation.** Rank correlation, and whether memorization agrees with attack success (METHODS section 1,
"Attacks").

M and an attack on the same model share that model's losses, so that they agree whatever was memorized: from pure
noise the M of a model predicts the success of the attack on it (paper 000, section 4, "How does M relate to
standard MIA?", says "partly tautological"). Here the M that is set against the attack on seed s is the mean over
the *other* seeds.

**Signs and ranks.** Exact tests of signs and ranks on a handful of classes or data sets, with the smallest p that
they could have given.

Paper 000, sections 4 and A.11; METHODS section 1, "Rarity". With 3 rare classes against 4 common ones no order of
the means has a one-sided p below 1/35. With such a floor a p of 0.03 is the best that could have happened, and a
p of 0.2 does not show absence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import comb

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals import Proportion, clopper_pearson
from memorisk.statistics.jackknife import JackknifeInterval, Scale, deletion_blocks, jackknife, mid_ranks, unavailable

FloatArray = NDArray[np.float64]

HIGH, LOW = 0.3, 0.1
"""Bands that the paper compares, in nats: M above HIGH against M at most LOW."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of an attack with M: does it find the images with high M?"""

    spearman: JackknifeInterval
    """Mean over seeds of Spearman's rho of M and success."""
    success_high: float
    """Share of successes at M above the high band's limit; NaN without such images."""
    success_low: float
    """Share of successes at M up to the low band's limit; NaN without such images."""
    difference: JackknifeInterval
    """Difference ``success_high - success_low``."""
    n_high: int
    """Number of image-seed pairs in the high band."""
    n_low: int
    """Number of image-seed pairs in the low band."""


@dataclass(frozen=True)
class AttackAgreement:
    """Agreement of M with attack success, from other seeds and from the same models."""

    other_seeds: Agreement
    """Agreement of M from the seeds that were not attacked: the answer."""
    circular: Agreement
    """Agreement of M from the attacked model's own pair: the paper's column; positive even when nothing is
    memorized."""


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Compute Spearman's rho with average ranks for ties, equal to SciPy's; NaN where either is constant.

    ``rho = cov(R(x), R(y)) / (sd(R(x)) sd(R(y)))``.

    Args:
        x: First column of values, [n].
        y: Second column of values, [n].

    Raises:
        InputError: Lengths differ, fewer than two values, or a NaN.

    Example:
        >>> round(spearman([1, 2, 3, 4], [1, 2, 4, 3]), 3)
        0.8
    """
    a, b = _paired(x, y)
    return _correlate(_standard_ranks(a), _standard_ranks(b))


def attack_agreement(
    gap: ArrayLike,
    sign: ArrayLike,
    success: ArrayLike,
    group: ArrayLike,
    *,
    bands: tuple[float, float] = (LOW, HIGH),
    max_groups: int = 100,
    seed: int = 0,
    level: float = 0.95,
) -> AttackAgreement:
    """Compare M with the success of an attack on each seed's model, images pooled within a seed, seeds averaged.

    For seed s, ``M_(-s)(x) = mean over t != s with sign_t(x) != 0 of sign_t(x) gap_t(x)``; the circular form takes
    ``sign_s(x) gap_s(x)``. Intervals: delete-one-group jackknife (Fisher's z for rho). A deletion changes every
    rank, so it is recomputed; above ``max_groups`` groups, that many blocks of whole groups are deleted instead.

    A difference of success between bands is also made by images that are merely hard: the M of a hard image spreads
    more, so that more of it lies in the high band by chance, and a loss-threshold attack rarely accuses it. Read it
    together with rho.

    Args:
        gap: Loss of B minus loss of A, [S, N].
        sign: Signs, [S, N]: +1 where A saw the image, -1 where B did, 0 where both or neither did.
        success: Success of the attack, [S, N]: 1 where it was right about the image in seed s, 0 where wrong (or a
            probability
            of it); NaN where it was not attacked.
        group: Group ids of the images, [N], any sortable ids.
        bands: Largest M of the low band, and the M above which the high one begins.
        max_groups: Largest number of deletions.
        seed: Seed of the blocks.
        level: Confidence level of the intervals.

    Returns:
        Both forms of the agreement. With one seed only the circular form exists; the other gives the reason.

    Raises:
        InputError: Shapes differ, a sign is not -1, 0 or +1, or a success is outside [0, 1].
    """
    gaps, signs = np.asarray(gap, dtype=np.float64), np.asarray(sign)
    outcome = np.asarray(success, dtype=np.float64)
    ids, index = np.unique(np.asarray(group), return_inverse=True)
    if gaps.ndim != 2 or gaps.shape != signs.shape or gaps.shape != outcome.shape or index.shape != gaps.shape[1:]:
        raise InputError(
            f"gap, sign and success must be [seeds, images], group [images]; "
            f"got {gaps.shape}, {signs.shape}, {outcome.shape}, {index.shape}"
        )
    _check_values(signs, outcome)
    own = np.where(signs != 0, signs * gaps, np.nan)
    scored = np.isfinite(own)
    others = scored.sum(axis=0) - scored
    total = np.where(scored, own, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = np.where(others > 0, (total.sum(axis=0) - total) / others, np.nan)
    block = deletion_blocks(index, len(ids), max_groups, seed)
    return AttackAgreement(
        other_seeds=_agreement(rest, outcome, block, level, bands),
        circular=_agreement(own, outcome, block, level, bands),
    )


def _check_values(signs: NDArray[np.generic], outcome: FloatArray) -> None:
    if not np.isin(signs, (-1, 0, 1)).all():
        raise InputError("signs must be +1 (seen by model A), -1 (seen by its twin) or 0")
    if (outcome < 0).any() or (outcome > 1).any():
        raise InputError(
            "success must lie between 0 (the attack was wrong) and 1 (it was right), NaN where not attacked"
        )


def _agreement(
    m: FloatArray, success: FloatArray, block: NDArray[np.intp], level: float, bands: tuple[float, float]
) -> Agreement:
    used = np.isfinite(m) & np.isfinite(success)
    m, success = np.where(used, m, np.nan), np.where(used, success, np.nan)
    high, low = success[m > bands[1]], success[m <= bands[0]]
    return Agreement(
        spearman=_deleted(_mean_rho, m, success, block, "fisher", level),
        success_high=float(high.mean()) if len(high) else float("nan"),
        success_low=float(low.mean()) if len(low) else float("nan"),
        difference=_deleted(partial(_band_difference, bands=bands), m, success, block, "difference", level),
        n_high=len(high),
        n_low=len(low),
    )


def _deleted(
    statistic: Callable[[FloatArray, FloatArray], float],
    m: FloatArray,
    success: FloatArray,
    block: NDArray[np.intp],
    scale: Scale,
    level: float,
) -> JackknifeInterval:
    present = np.unique(block[np.isfinite(m).any(axis=0)])
    seeds = int(np.isfinite(m).any(axis=1).sum())
    estimate = statistic(m, success)
    if np.isnan(estimate):
        return unavailable("needs M from another seed, and both successes and failures", len(present), seeds)
    values = [statistic(m[:, block != b], success[:, block != b]) for b in present]
    values = [v for v in values if not np.isnan(v)]
    if len(values) < len(present):
        return unavailable("one group carries all of a band or of the successes", len(present), seeds)
    kind = np.zeros(len(values), dtype=np.intp)
    return jackknife(estimate, values, kind, scale=scale, n_seeds=seeds, level=level)


def _mean_rho(m: FloatArray, success: FloatArray) -> float:
    """Average rho over seeds; seeds in which either is constant carry no information and are left out."""
    rhos = []
    for x, y in zip(m, success, strict=True):
        used = np.isfinite(x)
        if used.sum() >= 2:
            rhos.append(_correlate(_standard_ranks(x[used]), _standard_ranks(y[used])))
    rhos = [rho for rho in rhos if not np.isnan(rho)]
    return float(np.mean(rhos)) if rhos else float("nan")


def _band_difference(m: FloatArray, success: FloatArray, bands: tuple[float, float]) -> float:
    high, low = success[m > bands[1]], success[m <= bands[0]]
    return float(high.mean() - low.mean()) if len(high) and len(low) else float("nan")


def _paired(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or len(a) < 2:
        raise InputError(
            f"a correlation needs two equally long columns of at least 2 values; got {a.shape} and {b.shape}"
        )
    if np.isnan(a).any() or np.isnan(b).any():
        raise InputError("a correlation's columns must not hold NaN: leave those rows out first")
    return a, b


def _standard_ranks(values: FloatArray) -> FloatArray:
    """Compute average ranks with mean 0 and length 1; NaN where all are equal."""
    ranks = mid_ranks(values)
    centred = ranks - ranks.mean()
    length = np.sqrt(centred @ centred)
    return centred / length if length > 0 else np.full(len(values), np.nan)


def _correlate(a: FloatArray, b: FloatArray) -> float:
    return float(np.clip(a @ b, -1.0, 1.0)) if not np.isnan(a[0] + b[0]) else float("nan")


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
