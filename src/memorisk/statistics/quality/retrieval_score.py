"""IRS, the image-retrieval score: the part of the training set that generated images reach (METHODS section 4).

Each of n synthetic images has a nearest training image; k of these are distinct. If the n are drawn evenly from s
training images within reach,

    P(k | s, n) = S2(n, k) s! / ((s - k)! s^n),

and IRS = s / N at the likeliest s. Its interval inverts the exact distribution of k. S2, the Stirling number of the
second kind, is the same for all s: the distribution is computed once, at the likeliest s, by the urn's own recursion,
and carried to every other s by the ratio of the two factors that depend on s.

Training images are not reached evenly. What s estimates is then *the even equivalent at n*: the s from which an even
draw of n is expected to reach as many different ones, E K, as the generator does. It does not estimate the number
within reach, which is larger, and of which no number of images gives an upper limit; the lower limit of s is a lower
limit of that number, too, since of all draws from s images the even one reaches most. It grows with n: compare with the
score of as many held-out real images.

The exact interval is that of an even draw. Where some images are drawn often and others seldom, K varies more than in
an even draw with the same mean. So the limits are widened to those of ``k +- z sqrt(F1 (1 - F1 / n))``, F1 the number
of training images reached once: the jackknife variance of K, leaving out one draw at a time, which is not below the
true one on average (Efron and Stein 1981). Simulated coverage of the even equivalent: 0.95 to 1, and 0.11 to 0.98
without (`tests/statistics/quality/test_retrieval_score.py`); of the number within reach the interval covers next to
nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]
Tail = Callable[[int], float]
_STEP = 64


@dataclass(frozen=True)
class RetrievalScore:
    """IRS and the interval of the even equivalent; the units are the n synthetic images, independent draws."""

    estimate: float
    """Image-retrieval score s / N."""
    low: float
    """Lower limit of the score."""
    high: float
    """Upper limit of the score; 1 where no s up to N can be excluded."""
    support: int
    """Likeliest number s of training images within reach, at most N."""
    capped: bool
    """Whether more than N would be no less likely, infinitely many where k = n: what is known is the lower limit."""
    n_distinct: int
    """Number k of distinct nearest training images."""
    n_synthetic: int
    """Number n of synthetic images."""
    n_training: int
    """Number N of training images."""
    level: float
    """Nominal coverage of the even equivalent."""


def irs_of(nearest: ArrayLike, n_training: int, *, level: float = 0.95) -> RetrievalScore:
    """Compute the image-retrieval score of synthetic images, from the nearest training image of each.

    Args:
        nearest: Row of the nearest training image of each synthetic image, [n].
        n_training: Number N of training images.
        level: Coverage of the interval.

    Raises:
        InputError: As ``irs``.

    Example:
        >>> irs_of([3, 3, 3, 8, 9], 100).n_distinct
        3
    """
    reached = np.unique(np.asarray(nearest), return_counts=True)[1]
    once = int((reached == 1).sum())
    return irs(len(reached), int(reached.sum()), n_training, once=once, level=level)


def irs(
    n_distinct: int, n_synthetic: int, n_training: int, *, once: int | None = None, level: float = 0.95
) -> RetrievalScore:
    """Compute the image-retrieval score of n synthetic images whose nearest training images are k different ones.

    Limits: the smallest s with ``P(K >= k | s, n) > (1 - level) / 2`` and the largest with ``P(K <= k | s, n)`` above
    it, each over N. With k = n every s fits better than the one before: s is capped at N, ``capped`` is True, and only
    the
    lower limit is known.

    Args:
        n_distinct: Number k of distinct nearest training images.
        n_synthetic: Number n of synthetic images.
        n_training: Number N of training images.
        once: Number F1 of training images that are the nearest of exactly one; None: the draw is known to be even.
        level: Coverage of the interval.

    Returns:
        Score with its interval. Up to n = 50,000 in about a second.

    Raises:
        InputError: Not ``1 <= k <= min(n, N)``, or level outside (0, 1).

    Source:
        Paper 004, section 4 and its reference [14]; METHODS section 4, "IRS".

    Example:
        >>> found = irs(60, 100, 1000)
        >>> found.support, found.estimate, found.low, found.high
        (88, 0.088, 0.073, 0.114)
    """
    k, n = n_distinct, n_synthetic
    if not 1 <= k <= min(n, n_training):
        raise InputError(
            f"{k} distinct nearest images of {n} synthetic ones among {n_training} training images is not a count; "
            "give 1 <= distinct <= both"
        )
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    support, capped = likeliest_support(k, n, n_training)
    tail = (1 - level) / 2
    at_least, at_most = _tails(k, n)
    low = _first(lambda s: at_least(s) > tail, k, support)
    high = _first(lambda s: at_most(s + 1) <= tail, support, n_training)
    if once is not None:
        half = float(scipy.stats.norm.ppf(1 - tail)) * math.sqrt(once * (1 - once / n))
        low = min(low, _first(lambda s: _mean(n, s) >= k - half, 1, support))
        high = max(high, _first(lambda s: _mean(n, s + 1) > k + half, support, n_training))
    score = (support / n_training, low / n_training, high / n_training)
    return RetrievalScore(*score, support, capped, k, n, n_training, level)


def likeliest_support(k: int, n: int, largest: int) -> tuple[int, bool]:
    """Find the s in [k, largest] of the greatest likelihood, and whether a larger one would be no less likely.

    ``L(s) / L(s - 1) = s / (s - k) (1 - 1/s)^n`` is above 1 up to the likeliest s and below 1 from there on; for k = n
    it is above 1 for every s.

    Args:
        k: Number of distinct images.
        n: Number of draws.
        largest: Largest number N.
    """

    def falls(s: int) -> bool:
        """Return whether s + 1 is less likely than s."""
        return math.log1p(k / (s + 1 - k)) + n * math.log1p(-1 / (s + 1)) < 0

    if k == n or not falls(largest):
        return largest, True
    return _first(falls, k, largest), False


def occupancy(n: int, s: int, low: int, high: int) -> FloatArray:
    """Compute ``P(K = j | s, n)``, [high - low + 1]: j distinct values among n even draws of s, for j from low to high.

    ``P_t(j) = P_{t-1}(j) j / s + P_{t-1}(j - 1) (1 - (j - 1) / s)``, in a band about the mean so wide that what lies
    outside is below 1e-14 of all.

    Args:
        n: Number of draws.
        s: Number of values.
        low: Smallest j, at least 0.
        high: Largest j, at least ``low``.
    """
    reach = 2 * _width(n, s)
    places = np.arange(2 * reach + _STEP + 1)
    held, stay, offset = np.zeros(len(places)), np.zeros(len(places)), 0  # held[i] = P(j = offset + i)
    held[0] = 1.0
    share = places / s
    for t in range(1, n + 1):
        np.multiply(held, share, out=stay)
        held -= stay
        stay[1:] += held[:-1]
        held, stay = stay, held
        if _mean(t, s) - reach >= offset + _STEP:
            held[:-_STEP], held[-_STEP:] = held[_STEP:].copy(), 0.0
            offset += _STEP
            share = (places + offset) / s
    positions = np.arange(low, high + 1) - offset
    inside = (positions >= 0) & (positions < len(held))
    return np.where(inside, held[np.clip(positions, 0, len(held) - 1)], 0.0)


def _tails(k: int, n: int) -> tuple[Tail, Tail]:
    """Return ``P(K >= k | s, n)`` up to the likeliest s, and ``P(K <= k | s, n)`` from there on, as functions of s."""
    if k == n:
        return lambda s: math.exp(float(np.log1p(-np.arange(n) / s).sum())), lambda s: 1.0
    base, _ = likeliest_support(k, n, n * n)
    width = _width(n, base)
    low, high = max(k - width, 1), min(k + width, n, base)
    j = np.arange(low, high + 1)
    with np.errstate(divide="ignore"):
        log_base = np.log(occupancy(n, base, low, high))
    falling = np.cumsum(np.log1p(-np.arange(high) / base))

    def probability(s: int) -> FloatArray:
        """Compute P(K = j | s, n) for j from low to at most high and s, by the factors in s over the base's."""
        top = min(high, s)
        moved = (np.cumsum(np.log1p(-np.arange(top) / s)) - falling[:top])[low - 1 :]
        count = top - low + 1
        return np.exp(log_base[:count] + moved + (j[:count] - n) * math.log(s / base))

    return lambda s: float(probability(s)[k - low :].sum()), lambda s: float(probability(s)[: k - low + 1].sum())


def _mean(t: int, s: int) -> float:
    """Compute the distinct values expected of t draws, ``s (1 - (1 - 1/s)^t)``."""
    return -s * math.expm1(t * math.log1p(-1 / s)) if s > 1 else 1.0


def _width(n: int, s: int) -> int:
    """Return eight standard deviations of the number of distinct values and 40.

    The variance is ``s e^-2c (e^c - 1 - c)`` with c = n / s.
    """
    c = n / s
    return math.ceil(8 * math.sqrt(s * (math.exp(-c) * -math.expm1(-c) - c * math.exp(-2 * c)))) + 40


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Find the smallest number from low to high from which on something holds; high where it never does before."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
