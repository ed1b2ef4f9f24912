"""Youden's threshold on other folds, each against a naive definition, and 0.5 when there is nothing to find."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.roc import roc_curve
from memorisk.statistics.thresholds import (
    seed_youden_by_folds,
    youden_by_folds,
    youden_threshold,
)


def scores(rng, m, n, *, ties=False, shift=1.0):
    member, other = rng.normal(shift, 1, m), rng.normal(0, 1, n)
    return (np.round(member), np.round(other)) if ties else (member, other)


@pytest.mark.parametrize("ties", [False, True])
def test_youden_threshold_is_the_best_of_all(ties):
    rng = np.random.default_rng(6)
    for _ in range(20):
        member, other = scores(rng, 30, 20, ties=ties)
        gains = [(member >= v).mean() - (other >= v).mean() for v in np.concatenate([member, other, [np.inf]])]
        best = youden_threshold(member, other)
        assert (member >= best).mean() - (other >= best).mean() == pytest.approx(max(gains), abs=1e-12)
    assert youden_threshold([0.0], [1.0]) == np.inf
    assert youden_threshold([1.0], [0.0]) == 0.5
    assert youden_threshold([1.0, np.nextafter(1.0, 2.0)], [np.nextafter(1.0, 0.0)]) == 1.0


def test_thresholds_come_from_other_folds_and_folds_are_whole_groups():
    rng = np.random.default_rng(7)
    group = rng.integers(0, 40, 200)
    member = np.isin(group, rng.permutation(40)[:15])
    score = rng.normal(size=200) + member
    result = youden_by_folds(score, member, group, folds=5, seed=3)
    for g in range(40):
        assert len(set(result.fold[group == g])) == 1
    for k in range(5):
        inside = result.fold == k
        assert member[inside].any()
        assert (~member[inside]).any()
        best = youden_threshold(score[~inside & member], score[~inside & ~member])
        assert result.threshold[k] == best
        np.testing.assert_array_equal(result.accused[inside], score[inside] >= best)
    accuracy = (result.accused[member].mean() + 1 - result.accused[~member].mean()) / 2
    assert result.balanced_accuracy == pytest.approx(accuracy)
    curve = roc_curve(score[member], score[~member])
    assert result.naive == pytest.approx((1 + (curve.tpr - curve.fpr).max()) / 2)


def test_out_of_fold_does_not_find_what_is_not_there():
    rng = np.random.default_rng(8)
    honest, naive = [], []
    for i in range(300):
        group = np.repeat(np.arange(40), 2)
        member = group % 2 == 0
        score = rng.normal(size=40)[group] + 0.5 * rng.normal(size=80)
        result = youden_by_folds(score, member, group, seed=i)
        honest.append(result.balanced_accuracy)
        naive.append(result.naive)
    assert abs(np.mean(honest) - 0.5) <= 2 * np.std(honest, ddof=1) / np.sqrt(300)
    assert np.mean(naive) > 0.55


def test_few_groups_have_fewer_folds_or_none():
    score, member = np.array([3.0, 2.0, 1.0, 0.0, -1.0]), np.array([1, 1, 0, 0, 0], dtype=bool)
    assert len(youden_by_folds(score, member, np.arange(5)).threshold) == 2
    none = youden_by_folds(score, member, [0, 0, 1, 2, 3])
    assert np.isnan(none.balanced_accuracy)
    assert none.naive == 1.0
    assert "fewer than two groups" in none.note
    with pytest.raises(InputError, match="folds at least 2"):
        youden_by_folds(score, member, np.arange(5), folds=1)


def test_seeds_are_averaged_and_unmeasurable_ones_left_out():
    rng = np.random.default_rng(10)
    group = np.arange(60)
    role = np.stack([rng.permutation(60) % 3 - 1 for _ in range(4)])
    score = rng.normal(size=(4, 60)) + (role == 1)
    score[role < 0] = np.nan
    role[3] = np.where(role[3] == 0, -1, role[3])  # no non-members in the last seed
    each = []
    for s in range(3):
        used = role[s] >= 0
        each.append(youden_by_folds(score[s, used], role[s, used] == 1, group[used]).balanced_accuracy)
    assert seed_youden_by_folds(score, role, group) == pytest.approx(np.mean(each), abs=1e-15)
    assert np.isnan(seed_youden_by_folds(score[3:], role[3:], group))
    with pytest.raises(InputError, match="score and role must be"):
        seed_youden_by_folds(score, role[:1], group)
