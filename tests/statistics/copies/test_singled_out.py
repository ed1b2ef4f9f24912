"""Who is singled out: the chance stated is kept, the naive definition agrees, and a copy is noticed."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.singled_out import (
    MIN_HELD_OUT,
    closeness,
    copies_for_power,
    largest_lead,
    neighbour_leads,
    tail_cut,
)
from memorisk.statistics.verdicts.levels import SINGLED_OUT_LEVEL


@pytest.mark.parametrize("n_held", [30, MIN_HELD_OUT, 400])
def test_an_exponential_tail_keeps_the_chance(n_held: int) -> None:
    """Of clean sets at most the chance has anybody beyond the cut; as many are expected beyond it."""
    rng, repeats = np.random.default_rng(n_held), 4000
    cuts = [tail_cut(rng.exponential(size=n_held), 1000) for _ in range(repeats)]
    hit = sum(rng.exponential(size=1000).max() > found.cut for found in cuts)
    assert hit <= binom.ppf(0.999, repeats, SINGLED_OUT_LEVEL)
    mean = np.mean([1000 * np.exp(-found.cut) for found in cuts])  # exactly expected beyond each cut
    assert mean == pytest.approx(SINGLED_OUT_LEVEL, rel=0.25)


def test_the_predictive_tail_is_that_of_an_excess_over_the_mean_of_k() -> None:
    rng, k, x = np.random.default_rng(1), 12, 6.0
    means = rng.exponential(size=(200_000, k)).mean(axis=1)
    share = np.exp(-x * means).mean()  # a new excess is more than x times the mean of k others
    assert share == pytest.approx((1 + x / k) ** -k, rel=0.01)
    null = np.r_[3 + rng.exponential(size=20), np.zeros(180)]
    found = tail_cut(null, 50)
    top = np.sort(null)[::-1]
    assert (found.n_tail, found.start) == (20, 0.0)
    assert found.slope == pytest.approx(top[:20].mean())
    assert found.expected(found.cut) == pytest.approx(SINGLED_OUT_LEVEL)
    assert found.expected(found.start - 1) == pytest.approx(50 * 21 / 201)
    assert found.with_units(200) == pytest.approx(found.cut)
    assert found.with_units(2000) < found.cut < found.with_units(50)


def test_without_a_tail_there_is_no_cut() -> None:
    few = tail_cut([3.0, 2.0, 1.0, 0.5], 10)
    assert (few.cut, few.n_tail) == (np.inf, 0)
    assert few.expected(100.0) == 10
    assert tail_cut(np.r_[np.ones(3), np.zeros(97)], 10).cut == np.inf  # three patients are anybody's nearest
    assert tail_cut(np.r_[np.inf, np.arange(99.0)], 10).cut == np.inf  # a held-out patient has an exact copy
    assert tail_cut([], 10).cut == np.inf
    assert few.with_units(500) == np.inf


def test_closeness_and_leads() -> None:
    np.testing.assert_allclose(closeness([1.0, np.e, 0.0]), [0, -1, np.inf])
    np.testing.assert_allclose(closeness([-3.0, 2.0], logits=True), [3, -2])
    np.testing.assert_allclose(
        neighbour_leads([1.0, 0.0, 0.0, 2.0], [2.0, 1.0, 0.0, 1.0]), [np.log(2), np.inf, 0, -np.log(2)]
    )
    np.testing.assert_allclose(neighbour_leads([-3.0], [-1.0], logits=True), [2.0])
    np.testing.assert_allclose(largest_lead([1.0, 3.0, 2.0, -1.0], [0, 0, 2, 1], 4), [3, 0, 2, 0])


def test_leads_of_a_random_split_are_exchangeable_whatever_the_spread() -> None:
    """By definition over all real patients: the largest lead lies among the held-out ones as often as they are."""
    among_held, repeats, n, m = 0, 300, 40, 20
    for seed in range(repeats):
        rng = np.random.default_rng([2, seed])
        real, made = rng.normal(size=(n + m, 3)), 0.5 * rng.normal(size=(50, 3))
        distance = cdist(made, real)
        order = np.sort(distance, axis=1)
        lead = largest_lead(neighbour_leads(order[:, 0], order[:, 1]), distance.argmin(axis=1), n + m)
        among_held += lead.argmax() >= n
    low, high = binom.ppf([0.001, 0.999], repeats, m / (n + m))
    assert low <= among_held <= high


def test_copies_that_one_would_be_noticed_of() -> None:
    assert [copies_for_power(share, 0.8) for share in (1.0, 0.8, 0.5, 0.1, 0.0)] == [1, 1, 3, 16, None]
    for share in (0.05, 0.3, 0.79):
        n = copies_for_power(share, 0.8)
        assert n is not None
        assert 1 - (1 - share) ** n >= 0.8 > 1 - (1 - share) ** (n - 1)


def test_misfits_are_refused() -> None:
    with pytest.raises(InputError, match="must be numbers"):
        tail_cut([np.nan, 1.0], 10)
    for trials, chance in ((0, SINGLED_OUT_LEVEL), (10, 0.0)):
        with pytest.raises(InputError, match="positive"):
            tail_cut(np.arange(100.0), trials, chance=chance)
    with pytest.raises(InputError, match="between 0 and 1"):
        copies_for_power(0.5, 1.0)
