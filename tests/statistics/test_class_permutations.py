"""Arrangements of tied frequencies, and p-values with the smallest that they could have been."""

import itertools

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.randomization.class_permutations import arrangements, n_arrangements, permutation_test


@pytest.mark.parametrize("keys", [[3, 1, 2], [1, 1, 2, 2, 2], [5], [2, 2, 2], [0.1, 0.4, 0.1, 0.2, 0.2, 0.3]])
def test_all_arrangements_are_the_different_permutations(keys):
    found, exact = arrangements(keys)
    naive = {tuple(p) for p in itertools.permutations(keys)}
    seen = [tuple(np.array(keys)[row]) for row in found]
    assert exact
    assert len(seen) == len(set(seen)) == len(naive) == n_arrangements(keys)
    assert set(seen) == naive


def test_eight_classes_are_exact_and_nine_are_drawn():
    assert arrangements(np.arange(8))[0].shape == (40_320, 8)
    found, exact = arrangements(np.arange(9), draws=50, seed=3)
    assert not exact
    assert found.shape == (51, 9)
    np.testing.assert_array_equal(found[0], np.arange(9))
    np.testing.assert_array_equal(found, arrangements(np.arange(9), draws=50, seed=3)[0])
    assert (found != arrangements(np.arange(9), draws=50, seed=4)[0]).any()


def test_p_values_and_floors_by_hand():
    test = permutation_test(-2.0, [-2.0, -3.0, 2.0, 1.0, 0.5, 3.0], exact=True)
    assert test.p_two_sided == pytest.approx(4 / 6)
    assert test.p_negative == pytest.approx(2 / 6)
    assert (test.smallest_two_sided, test.smallest_negative) == (pytest.approx(2 / 6), pytest.approx(1 / 6))
    unknown = permutation_test(float("nan"), [1.0, 2.0], exact=False)
    assert np.isnan(unknown.p_two_sided)
    assert np.isnan(unknown.smallest_negative)


def test_equal_statistics_count_as_equal_however_they_are_rounded():
    values = np.array([0.3, 0.1 + 0.2, -0.3, 0.1])
    assert permutation_test(0.3, values, exact=True).p_two_sided == 0.75
    assert permutation_test(1e15 * 0.3, 1e15 * values, exact=True).p_two_sided == 0.75


def test_nothing_to_arrange_is_refused():
    with pytest.raises(InputError, match="at least one key"):
        arrangements([])
    with pytest.raises(InputError, match="at least one draw"):
        arrangements([1, 2], draws=0)
