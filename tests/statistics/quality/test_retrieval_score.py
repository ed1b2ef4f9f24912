"""IRS against the occupancy formula in whole numbers, its interval by brute force and by simulation."""

import time
from fractions import Fraction
from functools import cache
from math import perm

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.retrieval_score import irs, irs_of, likeliest_support, occupancy
from tests.thorough import thorough


@cache
def stirling(n, k):
    """Stirling numbers of the second kind."""
    if n == k:
        return 1
    return 0 if not 0 < k < n else k * stirling(n - 1, k) + stirling(n - 1, k - 1)


def exact(k, n, s):
    """P(k | s, n) of METHODS, as a fraction."""
    return Fraction(stirling(n, k) * perm(s, k), s**n)


@pytest.mark.parametrize(("n", "s"), [(1, 1), (1, 9), (5, 3), (12, 12), (40, 25), (30, 1000), (60, 7)])
def test_occupancy_is_the_formula(n, s):
    found = occupancy(n, s, 0, min(n, s) + 2)
    np.testing.assert_allclose(found, [float(exact(k, n, s)) for k in range(min(n, s) + 3)], rtol=1e-9, atol=1e-15)


def test_occupancy_of_many_draws_has_its_known_mean_and_variance():
    n, s = 20_000, 15_000
    middle = int(s * (1 - np.exp(-n / s)))
    j = np.arange(middle - 1500, middle + 1500)
    p = occupancy(n, s, int(j[0]), int(j[-1]))
    mean = s * (1 - (1 - 1 / s) ** n)
    variance = s * (s - 1) * (1 - 2 / s) ** n + s * (1 - 1 / s) ** n - (s * (1 - 1 / s) ** n) ** 2
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (j * p).sum() == pytest.approx(mean, abs=1e-6)
    assert (np.square(j - mean) * p).sum() == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 25])
def test_support_and_limits_by_brute_force(n):
    largest = 120
    for k in range(1, n + 1):
        found = irs(k, n, largest)
        chance = {s: exact(k, n, s) for s in range(k, largest + 1)}
        assert chance[found.support] == max(chance.values())
        tail = Fraction(1, 40)
        lows = [s for s in chance if sum(exact(j, n, s) for j in range(k, n + 1)) > tail]
        highs = [s for s in chance if sum(exact(j, n, s) for j in range(1, k + 1)) > tail]
        assert found.low == (min(lows) if lows else largest) / largest
        assert found.high == max(highs) / largest
        assert found.capped == (exact(k, n, largest + 1) >= exact(k, n, largest))
        assert found.low <= found.estimate <= found.high


def test_all_distinct_has_no_upper_limit_and_is_capped():
    found = irs(100, 100, 5000)
    assert found.capped
    assert (found.support, found.estimate, found.high) == (5000, 1.0, 1.0)
    at_low = np.exp(np.log1p(-np.arange(100) / (5000 * found.low)).sum())
    assert at_low == pytest.approx(1 / 40, rel=0.01)
    assert likeliest_support(99, 100, 10**9)[0] == pytest.approx(100 * 99 / 2, rel=0.05)


@pytest.mark.parametrize("support", [thorough(60), 300, thorough(2000)])
def test_the_interval_covers(support):
    n, largest, repeats = 300, 3000, 300
    rng = np.random.default_rng(support)
    drawn = [len(np.unique(rng.integers(support, size=n))) for _ in range(repeats)]
    cover = {k: irs(k, n, largest) for k in set(drawn)}
    covered = sum(cover[k].low <= support / largest <= cover[k].high for k in drawn)
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)


def test_fifty_thousand_images_take_seconds():
    start = time.perf_counter()
    found = irs(30_000, 50_000, 200_000)
    assert time.perf_counter() - start < 20
    expected = found.support * (1 - (1 - 1 / found.support) ** 50_000)
    assert expected == pytest.approx(30_000, abs=1)
    assert 0 < found.estimate - found.low < 0.01
    assert 0 < found.high - found.estimate < 0.01


def test_what_is_refused():
    for wrong in ((0, 5, 10), (6, 5, 10), (5, 5, 4)):
        with pytest.raises(InputError, match="is not a count"):
            irs(*wrong)
    with pytest.raises(InputError, match="level is 95"):
        irs(3, 5, 10, level=95)


def weights(kind):
    """How often each training image is reached: as 1 / rank^1.5, or one of them in half of the draws."""
    p = 1 / np.arange(1, 1001) ** 1.5 if kind == "steep" else np.r_[500.0, np.ones(500)]
    return p / p.sum()


@pytest.mark.parametrize("kind", ["steep", thorough("one in half")])
def test_the_even_equivalent_of_uneven_draws_is_covered(kind):
    """Truth: the s whose even draws are expected to reach as many different ones as these draws are."""
    rng, p, n, total, repeats = np.random.default_rng(4), weights(kind), 300, 1000, 100
    expected = (1 - (1 - p) ** n).sum()
    support = np.arange(1, total + 1)
    truth = support[np.abs(support * (1 - (1 - 1 / support) ** n) - expected).argmin()] / total
    uneven = even = reached = 0
    for _ in range(repeats):
        drawn = rng.choice(len(p), n, p=p)
        found, exact = irs_of(drawn, total), irs(len(np.unique(drawn)), n, total)
        assert (found.estimate, found.low <= exact.low, exact.high <= found.high) == (exact.estimate, True, True)
        uneven += found.low <= truth <= found.high
        even += exact.low <= truth <= exact.high
        reached += found.low <= len(p) / total
    assert uneven >= stats.binom.ppf(0.001, repeats, 0.95)
    assert even < stats.binom.ppf(0.001, repeats, 0.95)  # the interval of an even draw does not cover it
    assert reached == repeats  # the lower limit is one of the number within reach


def test_the_jackknife_variance_is_that_of_leaving_out_one_draw():
    drawn = np.array([1, 1, 2, 3, 3, 3, 4, 5, 6, 6])
    left = np.array([len(np.unique(np.delete(drawn, i))) for i in range(10)])
    variance = 9 / 10 * np.square(left - left.mean()).sum()
    once = 3  # 2, 4 and 5
    assert variance == pytest.approx(9 / 10 * once * (1 - once / 10))  # irs uses n / (n - 1) of it
    found, exact = irs_of(drawn, 40), irs(6, 10, 40, once=once)
    assert found == exact
