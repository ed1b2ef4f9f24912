"""W1 of two samples: by definition, its interval's coverage, and what chance shows."""

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.wasserstein_distance import wasserstein_distance
from tests.thorough import thorough


def test_it_is_scipys_and_weighs_patients_alike() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=60), rng.normal(0.4, 2, size=35)
    found = wasserstein_distance(a, b, draws=20)
    assert found.estimate == pytest.approx(stats.wasserstein_distance(a, b), abs=1e-12)
    assert found.shift == pytest.approx(a.mean() - b.mean(), abs=1e-12)
    group = np.repeat(np.arange(20), [1] * 10 + [5] * 10)
    weight = 1 / np.bincount(group)[group]
    found = wasserstein_distance(a, b, group, draws=20)
    assert found.estimate == pytest.approx(stats.wasserstein_distance(a, b, u_weights=weight), abs=1e-12)
    assert (found.n_first, found.n_second) == (20, 35)


@pytest.mark.parametrize(("shift", "least"), [thorough(0.0, 0.90), (0.3, 0.93), thorough(1.0, 0.93)])
def test_the_intervals_hold_the_truth(shift: float, least: float) -> None:
    inside, shifts, runs = 0, 0, 120
    rng = np.random.default_rng(7)
    for run in range(runs):
        found = wasserstein_distance(rng.normal(0, 1, 60), rng.normal(shift, 1, 40), draws=80, seed=run)
        inside += found.low <= shift <= found.high
        shifts += found.shift_low <= -shift <= found.shift_high
    assert inside / runs >= least
    assert shifts / runs >= 0.91


def test_patients_of_many_images_are_few_units() -> None:
    rng = np.random.default_rng(1)
    patient = rng.normal(size=20)
    group = np.repeat(np.arange(20), 10)
    others = rng.normal(size=2000)
    of_images = wasserstein_distance(patient[group], others, draws=100)
    of_patients = wasserstein_distance(patient[group], others, group, draws=100)
    assert of_patients.estimate == pytest.approx(of_images.estimate, abs=1e-12)
    # ten images of a patient are one draw: the reach shrinks by sqrt(10) if they are taken for ten
    assert of_patients.high - of_patients.estimate > 2 * (of_images.high - of_images.estimate)


def test_chance_is_what_one_law_shows() -> None:
    rng = np.random.default_rng(2)
    alone = [wasserstein_distance(rng.normal(size=50), rng.normal(size=50), draws=60, seed=i) for i in range(40)]
    mean = np.mean([found.estimate for found in alone])
    assert np.mean([found.chance for found in alone]) == pytest.approx(mean, rel=0.15)


def test_equal_samples_are_not_apart() -> None:
    found = wasserstein_distance([1.0, 1.0, 1.0], [1.0, 1.0])
    assert (found.estimate, found.low, found.high, found.shift) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("first", "group", "words"),
    [([1.0], None, "two on each side"), ([1.0, np.nan], None, "not finite"), ([1.0, 2.0], ["a"], "do not fit")],
)
def test_what_cannot_be_is_refused(first: list, group: list | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wasserstein_distance(first, [1.0, 2.0, 3.0], group)
    with pytest.raises(InputError, match="level"):
        wasserstein_distance([1.0, 2.0], [1.0, 2.0], level=1.0)
