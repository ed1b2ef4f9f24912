"""Golden values, SciPy's exact tests, ties by enumeration, and intervals that cover."""

import itertools
from math import comb

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.rank_tests import mann_whitney, sign_test
from tests.thorough import thorough


def test_golden_signs_of_the_paper():
    cells = sign_test(np.full(20, -0.3))
    assert cells.n_negative == cells.n == 20
    assert f"{cells.p_one_sided:.4e}" == "9.5367e-07"
    assert f"{cells.p_two_sided:.4e}" == "1.9073e-06"
    sets = sign_test([-0.4, -0.3, -0.2, -0.1])
    assert (sets.p_one_sided, sets.p_two_sided) == (0.0625, 0.125)
    assert (sets.smallest_one_sided, sets.smallest_two_sided) == (0.0625, 0.125)


@pytest.mark.parametrize(("negative", "positive", "zero"), [(3, 7, 0), (7, 3, 2), (5, 5, 1), (1, 0, 0)])
def test_signs_equal_scipys_binomial(negative, positive, zero):
    found = sign_test([-1.0] * negative + [2.0] * positive + [0.0] * zero)
    n = negative + positive
    assert found.n == n
    assert found.p_one_sided == pytest.approx(stats.binomtest(negative, n, alternative="greater").pvalue)
    assert found.p_two_sided == pytest.approx(stats.binomtest(negative, n).pvalue)
    exact = stats.binomtest(negative, n).proportion_ci(method="exact")
    assert (found.share.low, found.share.high) == (pytest.approx(exact.low), pytest.approx(exact.high))


def test_signs_without_units_prove_nothing():
    empty = sign_test([0.0])
    assert (empty.n, empty.p_one_sided, empty.p_two_sided, empty.smallest_one_sided) == (0, 1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="without NaN"):
        sign_test([0.1, np.nan])


def test_cells_of_one_data_set_are_not_independent_units():
    """Nothing related to frequency; five cells share their data set's luck: the test on cells rejects, ours holds."""
    rng = np.random.default_rng(0)
    cells, sets = 0, 0
    for _ in range(400):
        shared = rng.normal(size=6)
        rho = shared[:, None] + 0.2 * rng.normal(size=(6, 5))
        cells += sign_test(rho.ravel()).p_two_sided <= 0.05
        sets += sign_test(rho.mean(axis=1)).p_two_sided <= 0.05
    assert sets / 400 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)
    assert cells / 400 > 0.3


@pytest.mark.parametrize(("m", "n"), [(3, 4), (1, 6), (8, 6), (11, 3)])
def test_mann_whitney_equals_scipys_exact_test(m, n):
    rng = np.random.default_rng([m, n])
    x, y = rng.normal(0.5, 1, m), rng.normal(size=n)
    found = mann_whitney(x, y)
    for name, alternative in (("p_greater", "greater"), ("p_less", "less"), ("p_two_sided", "two-sided")):
        scipys = stats.mannwhitneyu(x, y, alternative=alternative, method="exact")
        assert getattr(found, name) == pytest.approx(scipys.pvalue, abs=1e-13)
        assert found.u == scipys.statistic
    assert found.smallest_one_sided == pytest.approx(1 / comb(m + n, m))
    assert found.smallest_two_sided == pytest.approx(min(1, 2 / comb(m + n, m)))


def test_ties_equal_enumeration():
    x, y = np.array([1.0, 2.0, 2.0, 3.0]), np.array([2.0, 3.0, 0.5, 2.0, 4.0])
    pooled = np.concatenate([x, y])

    def u(chosen):
        rest = np.delete(pooled, chosen)
        return (pooled[list(chosen)][:, None] > rest).sum() + 0.5 * (pooled[list(chosen)][:, None] == rest).sum()

    every = np.array([u(c) for c in itertools.combinations(range(9), 4)])
    found = mann_whitney(x, y)
    assert found.u == u((0, 1, 2, 3))
    assert found.p_greater == pytest.approx((every >= found.u).mean())
    assert found.p_less == pytest.approx((every <= found.u).mean())
    assert found.smallest_one_sided == pytest.approx((every == every.max()).mean())
    alike = mann_whitney([1.0, 1.0], [1.0, 1.0, 1.0])
    assert alike.p_two_sided == alike.smallest_one_sided == 1.0


def test_three_rare_of_seven_classes_cannot_be_significant():
    found = mann_whitney([5.0, 6.0, 7.0], [1.0, 2.0, 3.0, 4.0])
    assert found.p_greater == found.smallest_one_sided == pytest.approx(1 / 35)
    assert found.p_two_sided == pytest.approx(2 / 35)
    assert (found.low, found.high) == (-np.inf, np.inf)
    assert np.isfinite(mann_whitney([5.0, 6.0, 7.0], [1.0, 2.0, 3.0, 4.0], level=0.9).low)


@pytest.mark.parametrize(("m", "n"), [thorough(4, 4), (5, 9)])
def test_the_shift_is_covered_and_the_test_holds_its_level(m, n):
    rng = np.random.default_rng([m, n])
    covered = rejected = 0
    for _ in range(1000):
        x, y = 1 + rng.standard_t(3, size=m), rng.standard_t(3, size=n)
        found = mann_whitney(x, y)
        covered += found.low <= 1 <= found.high
        rejected += mann_whitney(x - 1, y).p_two_sided <= 0.05
    assert 0.95 - 2 * np.sqrt(0.0475 / 1000) <= covered / 1000 < 0.99
    assert 0.01 < rejected / 1000 <= 0.05 + 2 * np.sqrt(0.0475 / 1000)


def test_an_empty_group_and_bad_input():
    nothing = mann_whitney([], [1.0, 2.0])
    assert np.isnan(nothing.p_two_sided)
    assert (nothing.n_first, nothing.n_second) == (0, 2)
    with pytest.raises(InputError, match="leave unscored classes out"):
        mann_whitney([np.nan], [1.0])
    with pytest.raises(InputError, match="level is 2"):
        mann_whitney([1.0], [1.0], level=2)
