"""Patients whose gaps are large in some seeds only, or of both signs: told by their size, and nobody by chance."""

import numpy as np
import pytest
from scipy import stats

from memorisk.statistics.verdicts.noticeable_gap import uneven_gaps
from tests.thorough import thorough

SCORED, UNSEEN, SEEDS = 400, 200, 10


def gaps(seed: int, tails: float = np.inf, spread: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaps of scored and of unseen patients where nobody is memorized, in nats."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_t(tails, (SCORED + UNSEEN, SEEDS)) if np.isfinite(tails) else rng.normal(size=(600, SEEDS))
    noise *= 0.15 * np.exp(spread * rng.normal(size=(SCORED + UNSEEN, 1)))
    return noise[:SCORED], noise[SCORED:]


@pytest.mark.parametrize(
    "planted",
    [[20.0] + 9 * [0.0], 4 * [5.0] + 6 * [0.0], 5 * [4.0, -4.0]],
    ids=["one seed", "four seeds", "roles exchanged in half of the seeds"],
)
def test_a_gap_of_some_seeds_or_of_both_signs_is_told(planted: list[float]) -> None:
    for seed in range(20):
        scored, unseen = gaps(seed)
        scored[7] += planted
        found = uneven_gaps(scored, unseen)
        assert found.uneven[7]
        assert found.size[7] == pytest.approx(np.sqrt(np.square(scored[7]).mean()))
        assert found.largest_unseen == pytest.approx(np.sqrt(np.square(unseen).mean(axis=1)).max())


@pytest.mark.parametrize(
    ("tails", "spread"), [thorough(np.inf, 0.0), (np.inf, 1.0), thorough(3.0, 0.0), thorough(2.2, 0.5)]
)
def test_nobody_is_told_by_chance_more_often_than_stated(tails: float, spread: float) -> None:
    repeats = 300
    told = sum(uneven_gaps(*gaps(1000 + seed, tails, spread)).uneven.any() for seed in range(repeats))
    assert told <= stats.binom.ppf(0.999, repeats, 0.05)


def test_missing_gaps_do_not_count_and_few_unseen_patients_tell_nothing() -> None:
    scored, unseen = gaps(3)
    scored[0] = [3.0, 4.0] + 8 * [np.nan]
    assert uneven_gaps(scored, unseen).size[0] == pytest.approx(np.sqrt(12.5))
    few = uneven_gaps(scored, unseen[:4])
    assert (few.cut, few.uneven.any()) == (np.inf, False)
    none = uneven_gaps(np.empty((0, SEEDS)), np.empty((0, SEEDS)))
    assert np.isnan(none.largest_unseen)
    assert not uneven_gaps(np.ones((3, SEEDS)), np.zeros((60, SEEDS))).uneven.any()
