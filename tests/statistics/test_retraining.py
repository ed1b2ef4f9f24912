"""Differences beside retraining noise: what they say where nothing happens, and where something does."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import two_way_interval
from memorisk.statistics.retraining import INSUFFICIENT, LARGER, NOT_LARGER, retraining_difference
from tests.thorough import thorough

RUNS = 400


def simulated(rng, *, groups, seeds, effect=0.0, shared=0.5, missing=0.0):
    """Before, after, re-run: groups' own M, what a seed's halves do, and a training's own noise (by class and group).

    ``shared`` is the part of the training noise that the same start gives to before and after.
    """
    own = rng.exponential(1.0, (groups, 1)) + rng.normal(0, 0.2, (1, seeds)) + rng.normal(0, 0.3, (groups, seeds))
    start = rng.normal(0, 0.3, (1, seeds)) + rng.normal(0, 0.5, (groups, seeds))

    def training():
        return rng.normal(0, 0.3, (1, seeds)) + rng.normal(0, 0.5, (groups, seeds))

    alike = np.sqrt(1 - shared**2)
    tables = [own + shared * start + alike * training() for _ in range(2)] + [own + training()]
    tables[1] = tables[1] + effect * rng.exponential(1.0, (groups, 1))
    gone = rng.random((groups, seeds)) < missing
    return [np.where(gone, np.nan, t) for t in tables]


@pytest.mark.parametrize(("groups", "seeds"), [(12, 3), thorough(12, 8), thorough(60, 4), thorough(60, 8)])
def test_where_only_retraining_happens_the_intervals_cover_0_and_the_claim_is_rare(groups, seeds):
    rng = np.random.default_rng([17, groups, seeds])
    covered, noise, excess, larger = 0, 0, 0, 0
    for _ in range(RUNS):
        found = retraining_difference(*simulated(rng, groups=groups, seeds=seeds, missing=0.02))
        covered += found.difference.low <= 0 <= found.difference.high
        noise += found.noise.low <= 0 <= found.noise.high
        excess += found.excess.low <= 0 <= found.excess.high
        larger += found.reading == LARGER
    room = 3 * np.sqrt(0.05 * 0.95 / RUNS)
    for n in (covered, noise, excess):
        assert 0.95 - room <= n / RUNS <= 1
    assert larger / RUNS <= 0.02  # 0.5 % of 400 are 2, with room for three deviations


def test_an_effect_is_found_and_its_interval_covers_it():
    rng = np.random.default_rng(5)
    larger = covered = 0
    for _ in range(RUNS):
        found = retraining_difference(*simulated(rng, groups=40, seeds=8, effect=1.0))
        larger += found.reading == LARGER
        covered += found.difference.low <= 1.0 <= found.difference.high
    assert larger / RUNS >= 0.95
    assert 0.95 - 3 * np.sqrt(0.05 * 0.95 / RUNS) <= covered / RUNS <= 0.99


def test_a_rerun_that_strays_alone_makes_no_difference_larger():
    rng = np.random.default_rng(6)
    before, _, rerun = simulated(rng, groups=30, seeds=8)
    found = retraining_difference(before, before, rerun + 2.0)
    assert found.excess.high < 0  # the re-run moved
    assert found.difference.estimate == 0
    assert found.reading == NOT_LARGER
    against = retraining_difference(before, before + 0.5, rerun + 2.0)  # moved, but less than the re-run
    assert against.difference.low > 0
    assert against.excess.high < 0
    assert against.reading == NOT_LARGER


def test_the_three_differences_are_those_of_the_tables_and_add_up():
    before, after, rerun = simulated(np.random.default_rng(7), groups=15, seeds=5, effect=0.7, missing=0.1)
    found = retraining_difference(before, after, rerun)
    assert found.difference == two_way_interval(after - before)
    assert found.excess == two_way_interval((after - before) - (rerun - before))
    assert found.excess.estimate == pytest.approx(found.difference.estimate - found.noise.estimate, abs=1e-12)
    assert found.difference.estimate == pytest.approx(found.after - found.before, abs=1e-12)
    assert found.noise.estimate == pytest.approx(found.rerun - found.before, abs=1e-12)


@pytest.mark.parametrize(("groups", "seeds"), [(9, 8), (40, 2), (1, 8), (0, 8)])
def test_few_groups_or_seeds_are_insufficient_evidence(groups, seeds):
    before, after, rerun = simulated(np.random.default_rng(8), groups=groups, seeds=seeds, effect=5.0)
    found = retraining_difference(before, after + 5.0, rerun)
    assert found.reading == INSUFFICIENT


def test_tables_of_other_shapes_are_refused():
    with pytest.raises(InputError, match="the same groups and seeds"):
        retraining_difference(np.ones((4, 3)), np.ones((4, 3)), np.ones((4, 2)))
