"""Whether two parts are a random split: level, power and refusals."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from memorisk.runs.errors import InputError
from memorisk.statistics.neighbour_test import neighbour_test


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
    assert neighbour_test(neighbours(shifted, group), group, part).p_value == 0.001
    each = np.arange(len(group))
    assert neighbour_test(neighbours(x, each), each, part).p_value == 0.001


def test_the_share_is_by_patient():
    nearest, group, part = [2, 2, 0, 2], [0, 0, 1, 2], ["a", "a", "a", "b"]
    assert neighbour_test(nearest, group, part).share == pytest.approx(2 / 3)


def test_misfits_are_refused():
    with pytest.raises(InputError, match="in both parts"):
        neighbour_test([1, 0, 0], [0, 0, 1], ["a", "b", "b"])
    with pytest.raises(InputError, match="of two parts"):
        neighbour_test([1, 0], [0, 1], ["a", "a"])
