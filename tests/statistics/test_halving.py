"""Halves at random: fair to each unit, and what both hold is the same."""

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.randomization.halves import halve

DRAWS = 1500


def units(seed: int, n: int = 30) -> np.ndarray:
    """Sizes and three findings; the first unit is as large as ten others."""
    rng = np.random.default_rng(seed)
    findings = rng.multinomial(1, [0.6, 0.3, 0.1], size=(n, 4)).sum(axis=1)[:, :3]
    findings[0] = [18, 12, 6]
    return np.column_stack([findings.sum(axis=1), findings])


def test_each_side_has_chance_one_half_and_nobody_goes_where_more_is():
    """A unit's side is uncorrelated with what else its side holds: the gap that composition alone makes is nobody's."""
    held = units(0)
    rng = np.random.default_rng(1)
    sides = np.array([halve(held, rng) for _ in range(DRAWS)])
    assert set(np.unique(sides)) == {-1, 1}
    heads = (sides > 0).sum(axis=0)
    bound = 1e-6  # a side, for 30 units
    assert (heads >= stats.binom.ppf(bound, DRAWS, 0.5)).all()
    assert (heads <= stats.binom.isf(bound, DRAWS, 0.5)).all()
    surplus = sides @ held[:, 0]  # images more on the side +1
    carried = (sides[:, 0] * surplus).mean() / held[0, 0]  # 1 for the largest under a coin of its own
    own_coin = rng.choice([-1, 1], size=sides.shape)
    assert carried < 0.05
    assert (own_coin[:, 0] * (own_coin @ held[:, 0])).mean() / held[0, 0] > 0.5


@pytest.mark.parametrize("n", [2, 10, 41])
def test_units_that_hold_the_same_are_halved_exactly(n):
    held = np.tile([2, 1, 1], (n, 1))
    for seed in range(50):
        assert abs(halve(held, np.random.default_rng(seed)).sum()) == n % 2


def test_totals_are_nearer_than_coins_bring_them():
    rng = np.random.default_rng(3)
    walk, coins = [], []
    for seed in range(40):
        held = units(seed, 60)
        walk.append(np.abs(halve(held, rng) @ held))
        coins.append(np.abs(rng.choice([-1, 1], 60) @ held))
    assert (np.mean(walk, axis=0) < 0.25 * np.mean(coins, axis=0)).all()


def test_halves_are_drawn_anew():
    """Two small units share a side about as often as not: halves that never change would repeat their own noise."""
    held = units(4)
    sides = np.array([halve(held, np.random.default_rng(s)) for s in range(400)])
    together = (sides.T @ sides / len(sides))[1:, 1:]
    assert np.abs(together[~np.eye(len(together), dtype=bool)]).max() < 0.5


def test_an_empty_table_and_bad_counts():
    assert len(halve(np.empty((0, 3)), np.random.default_rng(0))) == 0
    for bad in ([1, 2], [[1, -1]], [[np.nan, 1]]):
        with pytest.raises(InputError, match="counts of at least 0"):
            halve(bad, np.random.default_rng(0))
