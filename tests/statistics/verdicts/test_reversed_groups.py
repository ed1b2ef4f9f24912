"""Reversed groups: named where they carry the mean of a class, and at the level that the module states."""

import numpy as np
import pytest
from scipy import stats

from memorisk.statistics.intervals.means import these_groups_interval, two_way_interval
from memorisk.statistics.verdicts.reversed_groups import is_surely_below_zero, reversed_groups


def gaps(rng: np.random.Generator, n: int = 40, n_seeds: int = 10, tails: float = 3.0) -> np.ndarray:
    """Gaps of groups without memory, [n, S]: symmetric, of very unequal noise."""
    return rng.standard_t(tails, (n, n_seeds)) * rng.gamma(1.0, 0.2, (n, 1))


def is_below(table: np.ndarray) -> bool:
    interval = these_groups_interval(table)
    return is_surely_below_zero(interval.low, interval.high)


@pytest.mark.parametrize("n_seeds", [3, 6])
def test_tables_without_memory_have_the_doubt_at_its_level(n_seeds: int) -> None:
    rng, n = np.random.default_rng(n_seeds), 3000
    level = stats.t.cdf(-2 * stats.t.ppf(0.975, n_seeds - 1), n_seeds - 1)
    tables = [gaps(rng, 20, n_seeds) for _ in range(n)]
    doubted = sum(is_below(table) for table in tables)
    assert doubted <= stats.binom.ppf(0.999, n, level)
    assert sum(reversed_groups(table).any() for table in tables) <= doubted


@pytest.mark.parametrize("n_reversed", [1, 2, 3])
def test_groups_that_carry_the_mean_are_found_and_no_other(n_reversed: int) -> None:
    exact = []
    for seed in range(60):
        rng = np.random.default_rng([n_reversed, seed])
        table = 0.1 * gaps(rng)
        chosen = rng.choice(len(table), n_reversed, replace=False)
        table[chosen] -= rng.uniform(3.0, 6.0, (n_reversed, 1))
        assert is_below(table)
        assert two_way_interval(table).high >= 0
        found = np.flatnonzero(reversed_groups(table))
        exact.append(set(found) == set(chosen))
    assert np.mean(exact) >= 0.95


def test_a_class_that_is_below_zero_as_a_whole_has_no_carriers() -> None:
    for seed in range(30):
        table = 0.1 * gaps(np.random.default_rng(seed)) - 0.3
        assert is_below(table)
        assert two_way_interval(table).high < 0
        assert not reversed_groups(table).any()


def test_a_doubted_mean_always_has_a_name() -> None:
    """Where the mean is surely below 0, the class is below 0 over groups as well, or some groups are named."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        table = gaps(rng, int(rng.integers(2, 12)), 4) - rng.choice([0.0, 2.0], (1, 1)) * rng.random()
        table[0] -= rng.choice([0.0, 8.0])
        table[-1, 0] = np.nan
        if is_below(table):
            assert reversed_groups(table).any() or two_way_interval(table).high < 0
        else:
            assert not reversed_groups(table).any()
