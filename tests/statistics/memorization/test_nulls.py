"""p-values without flips against their definition written as loops."""

from itertools import combinations
from math import ceil

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.nulls import candidate_p_values, comparison_sizes, unit_p_values


def naive_matched(score, unit, test_score, test_unit):
    """The definition for unequal sizes: every subset of a test unit's images, by enumeration."""
    out = {}
    tests = {t: test_score[test_unit == t] for t in np.unique(test_unit)}
    for u in np.unique(unit):
        own = score[unit == u]
        k = len(own)
        options = [k, *sorted({len(t) for t in tests.values() if len(t) < k}, reverse=True)]
        floors = [ceil(k / c) / (1 + sum(len(t) >= c for t in tests.values())) for c in options]
        size = options[int(np.argmin(floors))]
        compared = [t for t in tests.values() if len(t) >= size]
        hits = 1 + sum(np.mean([max(part) >= own.max() for part in combinations(t, size)]) for t in compared)
        out[u] = min(1.0, ceil(k / size) * hits / (len(compared) + 1))
    return out


@pytest.mark.parametrize("seed", range(4))
def test_unequal_sizes_equal_the_definitions(seed):
    rng = np.random.default_rng(20 + seed)
    unit, test_unit = (np.repeat(np.arange(n), rng.integers(1, most, n)) for n, most in ((9, 7), (6, 6)))
    score, test = rng.normal(size=len(unit)).round(1), rng.normal(size=len(test_unit)).round(1)
    found = unit_p_values(score, unit, test, test_unit)
    naive = naive_matched(score, unit, test, test_unit)
    np.testing.assert_allclose(found.p_value, [naive[u] for u in found.unit], rtol=1e-12)
    np.testing.assert_array_equal(found.statistic, [score[unit == u].max() for u in found.unit])
    best = np.array([test[test_unit == t].max() for t in np.unique(test_unit)])
    plain = [(1 + np.sum(best >= score[unit == u].max())) / (len(best) + 1) for u in found.unit]
    np.testing.assert_array_equal(unit_p_values(score, unit, test, test_unit, sizes="any").p_value, plain)


def test_the_smallest_p_value_is_the_floor():
    unit, test_unit = np.repeat(np.arange(4), [1, 2, 5, 1]), np.repeat(np.arange(4), [1, 1, 2, 3])
    found = unit_p_values(np.full(len(unit), 9.0), unit, np.zeros(len(test_unit)), test_unit)
    np.testing.assert_allclose(found.p_value, found.floor, rtol=1e-12)
    k = comparison_sizes(found.n_images, [1, 1, 2, 3])
    np.testing.assert_array_equal(found.n_compared, [sum(t >= c for t in (1, 1, 2, 3)) for c in k])


def test_comparison_sizes():
    # All of one size: compared whole. No test unit as large: in parts, if that lowers the floor.
    assert comparison_sizes([3, 3], [3, 3, 3]).tolist() == [3, 3]
    assert comparison_sizes([1], [4, 2]).tolist() == [1]
    # 60 images against 200 test units of one: 60 / 201 is below 1 (itself alone).
    assert comparison_sizes([60], [1] * 200).tolist() == [1]
    # Against 19 of one: 60 / 20 is not.
    assert comparison_sizes([60], [1] * 19).tolist() == [60]
    assert comparison_sizes([4], []).tolist() == [4]
    # 2 images against 50 single and 50 double: 1/51 (two at a time) beats 2/101 only just.
    assert comparison_sizes([2], [1] * 50 + [2] * 50).tolist() == [2]
    assert comparison_sizes([2], [1] * 50 + [2] * 49).tolist() == [2]  # a tie goes to the fewer parts
    assert comparison_sizes([2], [1] * 50 + [2] * 48).tolist() == [1]


def test_candidate_p_values_are_the_loop():
    rng = np.random.default_rng(39)
    m, test = rng.normal(size=20).round(1), rng.normal(size=15).round(1)
    m[3] = np.nan
    naive = [(1 + sum(t >= x for t in test)) / 16 if x == x else np.nan for x in m]
    np.testing.assert_array_equal(candidate_p_values(m, test), naive)
    # The same by units of one image, where every unit is scored.
    scored = ~np.isnan(m)
    found = unit_p_values(m[scored], np.arange(19), test, np.arange(15))
    np.testing.assert_array_equal(found.p_value, candidate_p_values(m[scored], test))
    assert (found.n_flips, found.n_test, found.exact) == (1, 15, True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: unit_p_values([1.0], ["a"], [1.0], ["t"], sizes="none"), "unknown way"),
        (lambda: unit_p_values([np.nan], ["a"], [1.0], ["t"]), "canary image is not finite"),
        (lambda: candidate_p_values([1.0], [np.nan]), "not finite"),
        (lambda: candidate_p_values([[1.0]], [1.0]), "one-dimensional"),
    ],
)
def test_misfits_are_refused_in_one_line(call, words):
    with pytest.raises(InputError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
