"""One test of the whole set: exact where all splits can be counted, at its level where patients are a random split."""

from itertools import combinations

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.set_memorization import nearness_test


def largest_lead(train: np.ndarray, held: np.ndarray) -> float:
    """max of F_train - F_held, by definition."""
    return max(float((train <= d).mean() - (held <= d).mean()) for d in [*train, *held])


def test_statistic_and_p_value_are_those_of_all_splits() -> None:
    rng = np.random.default_rng(0)
    train, held = rng.normal(size=5), rng.normal(0.7, 1, size=6)
    found = nearness_test(train, held)
    assert found.statistic == pytest.approx(largest_lead(train, held))
    everyone = np.concatenate([train, held])
    leads = []
    for chosen in combinations(range(len(everyone)), len(train)):
        mine = np.isin(np.arange(len(everyone)), chosen)
        leads.append(largest_lead(everyone[mine], everyone[~mine]))
    assert found.p_value == pytest.approx(np.mean(np.array(leads) >= found.statistic - 1e-12))
    assert (train <= found.at).mean() - (held <= found.at).mean() == pytest.approx(found.statistic)
    assert (found.n_train, found.n_held) == (5, 6)


def test_farther_training_patients_are_no_evidence() -> None:
    far = nearness_test(np.arange(20) + 100.0, np.arange(20.0))
    assert far.statistic == 0
    assert far.p_value == 1
    assert nearness_test(np.arange(20.0), np.arange(20) + 100.0).p_value < 1e-6


def test_level_where_patients_of_several_images_are_a_random_split() -> None:
    rng, p = np.random.default_rng(1), []
    for _ in range(400):
        group = np.repeat(np.arange(70), rng.integers(1, 5, 70))
        distance = rng.gamma(2, size=len(group)) + rng.gamma(1, size=70)[group]
        mine = np.isin(group, rng.permutation(70)[:40])
        p.append(nearness_test(distance[mine], distance[~mine], group[mine], group[~mine]).p_value)
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(p) <= level) <= level + 3 * np.sqrt(level * (1 - level) / len(p))
    assert np.mean(np.array(p) <= 0.2) > 0.1  # exact, less what steps leave: not merely conservative


def test_patients_count_by_their_nearest_image() -> None:
    distance, group = np.array([3.0, 1.0, 2.0, 5.0]), np.array(["a", "a", "b", "b"])
    grouped = nearness_test(distance, distance + 1, group, group)
    alone = nearness_test(group_values(distance, group), group_values(distance + 1, group))
    assert grouped == alone
    with pytest.raises(InputError):
        nearness_test([], [1.0])
    with pytest.raises(InputError):
        nearness_test([np.nan], [1.0])
