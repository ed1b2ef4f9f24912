"""Paired hits: exact against enumeration and statsmodels, level over identities, Holm."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.detector_comparison import paired_hits, signed_sums
from memorisk.statistics.multiple_testing.lists import holm


def test_single_copies_are_mcnemars_exact_test():
    rng = np.random.default_rng(0)
    for n in (5, 40, 400):
        for _ in range(10):
            a, b = rng.random(n) < 0.6, rng.random(n) < 0.5
            table = [[np.sum(a & b), np.sum(a & ~b)], [np.sum(~a & b), np.sum(~a & ~b)]]
            found = paired_hits(a, b)
            assert found.p_value == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-9)
            assert (found.first_only, found.second_only) == (table[0][1], table[1][0])
            assert found.n_discordant == found.first_only + found.second_only
            assert found.smallest_p == pytest.approx(min(1.0, 2.0 ** (1 - found.n_discordant)))
            assert found.difference.estimate == pytest.approx(a.mean() - b.mean())


def test_groups_by_going_through_all_signs():
    rng = np.random.default_rng(1)
    for _ in range(20):
        group = rng.integers(0, 8, 30)
        a, b = rng.random(30) < 0.7, rng.random(30) < 0.4
        d = np.array([a[group == g].sum() - int(b[group == g].sum()) for g in np.unique(group)])
        sums = np.array([np.dot(signs, d) for signs in product((-1, 1), repeat=len(d))])
        found = paired_hits(a, b, group)
        assert found.p_value == pytest.approx(np.mean(np.abs(sums) >= abs(d.sum())), rel=1e-12)
        assert found.n_discordant == np.sum(d != 0)


def test_signed_sums_are_a_distribution():
    sizes = np.random.default_rng(2).integers(1, 6, 200)
    chance = signed_sums(sizes)
    assert len(chance) == 2 * sizes.sum() + 1
    assert chance.sum() == pytest.approx(1)
    np.testing.assert_allclose(chance, chance[::-1], atol=1e-15)
    support = np.arange(len(chance)) - sizes.sum()
    assert chance @ support**2 == pytest.approx(np.square(sizes).sum())


def test_level_over_identities_where_copies_as_units_fail():
    rng, repeats, hits, naive, covered = np.random.default_rng(3), 600, 0, 0, 0
    group = np.repeat(np.arange(40), 5)
    for _ in range(repeats):
        a, b = ((rng.normal(size=(40, 1)) + 0.4 * rng.normal(size=(40, 5)) > 0).ravel() for _ in range(2))
        found = paired_hits(a, b, group)
        hits += found.p_value <= 0.05
        naive += paired_hits(a, b).p_value <= 0.05
        covered += found.difference.contains(0.0)
    assert hits <= stats.binom.ppf(0.999, repeats, 0.05)
    assert naive > stats.binom.ppf(0.999, repeats, 0.05)
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)


def test_equal_detectors_and_a_single_identity():
    same = paired_hits([True, False], [True, False])
    assert (same.p_value, same.smallest_p, same.n_discordant) == (1.0, 1.0, 0)
    assert paired_hits([True] * 9, [False] * 9, [0] * 9).p_value == 1.0  # one identity decides nothing


def test_holm_is_statsmodels():
    p = np.random.default_rng(4).random(20) ** 3
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], rtol=1e-12)
    np.testing.assert_array_equal(holm(np.insert(p, 3, np.nan)), np.insert(holm(p), 3, np.nan))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_hits([], []), "at least one"),
        (lambda: paired_hits([True], [True, False]), "must be"),
        (lambda: holm([-0.1]), "from 0 to 1"),
    ],
)
def test_misfits_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
