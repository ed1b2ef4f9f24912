"""Whether two parts are a random split: level, power and refusals."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom

from memorisk.runs.errors import InputError
from memorisk.statistics.exchangeability.neighbours import neighbour_test


def neighbours(x: np.ndarray, group: np.ndarray) -> np.ndarray:
    distance = cdist(x, x)
    distance[group[:, None] == group] = np.inf
    return distance.argmin(axis=1)


def patients(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Images around their patient, one to five each."""
    group = np.repeat(np.arange(n), rng.integers(1, 6, n))
    return rng.normal(size=(n, 4))[group] + 0.2 * rng.normal(size=(len(group), 4)), group


def test_a_random_split_of_patients_keeps_the_level():
    rng, rejected, n = np.random.default_rng(0), 0, 200
    for seed in range(n):
        x, group = patients(rng, 40)
        part = rng.permutation(np.arange(40) < 25)[group]
        found = neighbour_test(neighbours(x, group), group, part, draws=99, seed=seed)
        rejected += found.p_value <= 0.05
        assert found.n_groups == 40
    assert rejected / n <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)


def test_parts_that_lie_apart_and_patients_under_several_names_are_told():
    rng = np.random.default_rng(1)
    x, group = patients(rng, 60)
    part = (np.arange(60) < 35)[group]
    shifted = x + 2 * part[:, None]
    each = np.arange(len(group))
    for found in (
        neighbour_test(neighbours(shifted, group), group, part),
        neighbour_test(neighbours(x, each), each, part),
    ):
        assert found.p_value == 2 * found.p_apart == 2 / 1000
        assert not found.together


def test_parts_that_share_every_person_are_as_close_as_can_be():
    nearest, part = np.arange(40) ^ 1, np.arange(40) % 2  # each next to their second id, which lies in the other part
    found = neighbour_test(nearest, np.arange(40), part, draws=99)
    assert (found.share, found.p_together, found.p_value) == (0.0, 1 / 100, 2 / 100)


def leads_of(x: np.ndarray, group: np.ndarray) -> np.ndarray:
    """By definition: log of the distance to the next group over that to the nearest."""
    distance = cdist(x, x)
    least = np.array(
        [[distance[i, group == g].min() for g in np.unique(group) if g != group[i]] for i in range(len(x))]
    )
    first, second = np.sort(least, axis=1)[:, :2].T
    return np.log(second / first)


@pytest.mark.thorough
def test_people_who_are_in_both_parts_are_seen():
    """A fifth of the held-out people are training people; whose nearest neighbour is where is hardly changed."""
    seen, by_share, n = 0, 0, 40
    for seed in range(n):
        rng = np.random.default_rng([4, seed])
        train, other = rng.normal(size=(200, 8)), rng.normal(size=(40, 8))
        other[:8] = train[:8] + 0.2 * rng.normal(size=(8, 8))
        x, each, part = np.r_[train, other], np.arange(240), np.arange(240) < 200
        found = neighbour_test(neighbours(x, each), each, part, leads_of(x, each), draws=399, seed=seed)
        seen += found.p_value <= 0.01 and found.together
        by_share += neighbour_test(neighbours(x, each), each, part, draws=399, seed=seed).p_value <= 0.01
    assert seen > 0.9 * n
    assert by_share < 0.5 * n


def test_leads_keep_the_level_with_people_under_two_ids():
    """Twins under two ids at random: they share a part as often as chance has it."""
    rejected, n = 0, 200
    for seed in range(n):
        rng = np.random.default_rng([5, seed])
        x = rng.normal(size=(60, 4))
        x[:10] = x[10:20] + 0.05 * rng.normal(size=(10, 4))
        each, part = np.arange(60), rng.permutation(np.arange(60) < 40)
        rejected += (
            neighbour_test(neighbours(x, each), each, part, leads_of(x, each), draws=99, seed=seed).p_value <= 0.05
        )
    assert rejected <= binom.ppf(0.999, n, 0.05)


def test_equal_images_weigh_as_much_as_the_largest_lead():
    found = neighbour_test([1, 0, 3, 2], range(4), ["a", "b", "a", "b"], [np.inf, np.inf, 1.0, 2.0], draws=9)
    assert found.across == 1
    nothing = neighbour_test([1, 0, 3, 2], range(4), ["a", "a", "b", "b"], np.zeros(4), draws=9)
    assert (nothing.across, nothing.share) == (0, 1)


def test_the_share_is_by_patient():
    nearest, group, part = [2, 2, 0, 2], [0, 0, 1, 2], ["a", "a", "a", "b"]
    assert neighbour_test(nearest, group, part).share == pytest.approx(2 / 3)


def test_misfits_are_refused():
    with pytest.raises(InputError, match="in both parts"):
        neighbour_test([1, 0, 0], [0, 0, 1], ["a", "b", "b"])
    with pytest.raises(InputError, match="of two parts"):
        neighbour_test([1, 0], [0, 1], ["a", "a"])
