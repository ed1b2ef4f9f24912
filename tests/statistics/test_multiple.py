"""Lists against statsmodels, and the shortest list against a search through all lists there could be."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from memorisk.runs.errors import InputError
from memorisk.statistics.multiple_testing.lists import (
    benjamini_hochberg,
    benjamini_yekutieli,
    smallest_list,
    smallest_list_of,
)


@pytest.mark.parametrize(("ours", "theirs"), [(benjamini_hochberg, "fdr_bh"), (benjamini_yekutieli, "fdr_by")])
@pytest.mark.parametrize("q", [0.05, 0.1, 0.3])
def test_lists_are_those_of_statsmodels(ours, theirs, q):
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 50, 400):
        p = np.where(rng.random(m) < 0.3, rng.random(m) * 0.01, rng.random(m))
        found = ours(p, q)
        rejected, adjusted, _, _ = multipletests(p, q, theirs)
        np.testing.assert_array_equal(found.rejected, rejected)
        np.testing.assert_allclose(found.adjusted, adjusted, rtol=1e-12)
        assert (found.m, found.n_rejected) == (m, rejected.sum())


@pytest.mark.parametrize("call", [benjamini_hochberg, benjamini_yekutieli])
def test_missing_p_values_take_no_part(call):
    p = np.array([0.001, np.nan, 0.02, 0.9, np.nan, 0.03])
    kept = ~np.isnan(p)
    there, alone = call(p), call(p[kept])
    np.testing.assert_array_equal(there.rejected[kept], alone.rejected)
    np.testing.assert_array_equal(there.adjusted[kept], alone.adjusted)
    assert not there.rejected[~kept].any()
    assert np.isnan(there.adjusted[~kept]).all()
    assert there.m == 4
    nothing = call([np.nan, np.nan])
    assert (nothing.m, nothing.n_rejected) == (0, 0)
    assert call([]).m == 0


def test_a_p_value_on_the_boundary_is_listed_whatever_the_rounding():
    """All p = a / d equal to q k / m in exact arithmetic, which their binary numbers need not be."""
    for q in (Fraction(1, 10), Fraction(1, 20), Fraction(3, 10)):
        for m in range(1, 60):
            for k in range(1, m + 1):
                boundary = q * k / m
                for multiple in (1, 3, 7):
                    d = boundary.denominator * multiple
                    at = boundary.numerator * multiple / d
                    p = np.ones(m)
                    p[:k] = at
                    assert benjamini_hochberg(p, float(q)).n_rejected == k
                    p[:k] = at * (1 + 1e-9)
                    assert benjamini_hochberg(p, float(q)).n_rejected == 0
                if boundary.numerator == 1:
                    # The floor 1 / d is at the boundary of a list of k: that is the shortest list.
                    assert smallest_list(m, float(q), boundary.denominator - 1, 1) == k
                    assert smallest_list_of(np.full(m, 1 / boundary.denominator), float(q)) == k


@pytest.mark.parametrize("denominator", [2, 3, 5, 8, 12])
@pytest.mark.parametrize("q", [0.1, 0.25, 0.5])
def test_no_list_can_be_shorter(denominator, q):
    """Every list of m attainable p-values (multiples of 1/denominator), and the shortest that is ever returned."""
    for m in range(1, 6):
        lengths = set()
        for counts in combinations_with_replacement(range(1, denominator + 1), m):
            lengths.add(benjamini_hochberg(np.array(counts) / denominator, q).n_rejected)
        possible = lengths - {0}
        stated = smallest_list(m, q, n_test=denominator - 1, n_flips=1)
        assert stated == (min(possible) if possible else stated)
        assert bool(possible) == (stated <= m)


def test_no_list_can_be_shorter_with_floors_of_their_own():
    rng = np.random.default_rng(1)
    for _ in range(200):
        m = int(rng.integers(1, 7))
        floors = 1 / rng.integers(1, 40, m)
        q = float(rng.choice([0.1, 0.2, 0.4]))
        # BH returns k or more only if some k p-values are at most q k / m; at their floors is the best they can do.
        lengths = []
        for size in range(1, m + 1):
            p = np.ones(m)
            smallest = np.argsort(floors)[:size]
            p[smallest] = floors[smallest]
            lengths.append(benjamini_hochberg(p, q).n_rejected)
        possible = [n for n in lengths if n]
        assert smallest_list_of(floors, q) == (min(possible) if possible else m + 1)


def test_equal_floors_give_the_formula():
    for m in (1, 5, 40, 300):
        for n_test, n_flips in ((0, 4), (3, 16), (9, 16), (9, 256), (50, 16)):
            stated = smallest_list(m, 0.1, n_test, n_flips)
            floors = np.full(m, 1 / ((n_test + 1) * n_flips))
            assert smallest_list_of(floors) == (stated if stated <= m else m + 1)
    assert smallest_list(40, 0.1, 9, 16) == int(np.ceil(40 / 16))
    # 0.1 * 10 * 3 is not 3 in binary; the list of 3 = 9 / 3 must not become 4.
    assert smallest_list(9, 0.1, 9, 3) == 3
    assert smallest_list_of([np.nan, 1 / 100, np.nan]) == 1
    assert smallest_list_of([np.nan]) == 1  # more than the 0 groups with a p-value: cannot be tested
    assert smallest_list(0, 0.1, 9, 16) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: benjamini_hochberg([0.1], 0),
        lambda: benjamini_hochberg([0.1], 1.0),
        lambda: benjamini_hochberg([1.2]),
        lambda: benjamini_yekutieli([-0.1]),
        lambda: benjamini_hochberg([[0.1]]),
        lambda: smallest_list(5, 10, 3, 4),
        lambda: smallest_list(-1, 0.1, 3, 4),
        lambda: smallest_list(5, 0.1, 3, 0),
        lambda: smallest_list_of([2.0]),
    ],
)
def test_misfits_are_refused_in_one_line(call):
    with pytest.raises(InputError) as refused:
        call()
    assert "\n" not in str(refused.value)
