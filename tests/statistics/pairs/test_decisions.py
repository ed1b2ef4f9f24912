"""Thresholds and shares about pairs, against their definitions; intervals against simulated identities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from memorisk.runs.errors import InputError
from memorisk.statistics.pairs.decisions import (
    identity_difference,
    identity_share,
    pair_decisions,
    sensitivity_threshold,
    specificity_threshold,
)

SCORES = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 3.0]), min_size=1, max_size=12)
WEIGHTS = st.lists(st.sampled_from([0.25, 1.0, 2.0]), min_size=12, max_size=12)


@given(SCORES, WEIGHTS, st.sampled_from([0.2, 0.5, 0.9, 0.99]))
def test_thresholds_are_the_tightest_that_keep_the_share(
    scores: list[float], weights: list[float], level: float
) -> None:
    score, weight = np.array(scores), np.array(weights[: len(scores)])

    def kept(t: float) -> float:
        return weight[score >= t].sum() / weight.sum()

    low = sensitivity_threshold(score, weight, sensitivity=level)
    assert kept(low) >= level - 1e-9
    assert all(kept(t) < level - 1e-9 for t in scores if t > low)
    high = specificity_threshold(score, weight, specificity=level)
    assert 1 - kept(high) >= level - 1e-9
    assert all(1 - kept(t) < level - 1e-9 for t in scores if t < high)


def test_thresholds_without_pairs_and_with_bad_ones() -> None:
    assert np.isnan(sensitivity_threshold([], sensitivity=0.9))
    assert np.isnan(specificity_threshold([], specificity=0.5))
    assert specificity_threshold([1.0, 1.0], specificity=0.5) > 1.0
    bad = (([np.nan], None, 0.5), ([1.0], [0.0], 0.5), ([1.0], None, 1.0), ([1.0], [1.0, 2.0], 0.5))
    for scores, weight, level in bad:
        with pytest.raises(InputError):
            sensitivity_threshold(scores, weight, sensitivity=level)


def test_a_share_counts_every_identity_once() -> None:
    hit, group = np.array([1, 1, 1, 1, 0, 1, 0, 0]), np.array(list("aaaabbcd"))
    found = identity_share(hit, group)
    assert found.estimate == (1 + 0.5 + 0 + 0) / 4
    assert found.n_groups == 4
    assert found.low < found.estimate < found.high
    every = identity_share(np.ones(9), np.arange(9))
    assert every.high == 1.0
    assert np.isclose(every.low, 0.025 ** (1 / 9))  # Clopper-Pearson over nine identities
    assert np.isnan(identity_share([], []).estimate)


def test_a_difference_is_paired() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 3)
    first, second = rng.random(90) < 0.7, rng.random(90) < 0.4
    found = identity_difference(first, second, group)
    each = [first[group == g].mean() - second[group == g].mean() for g in range(30)]
    assert np.isclose(found.estimate, np.mean(each))
    error = np.std(each, ddof=1) / np.sqrt(30)
    assert np.isclose(found.high - found.estimate, found.estimate - found.low)
    assert np.isclose(found.high - found.estimate, t.ppf(0.975, found.df) * error)
    assert 1.9 * error < found.high - found.estimate < 2.3 * error
    same = identity_difference(first, first, group)
    few = 1 - 0.025 ** (1 / 30)
    assert np.allclose((same.low, same.estimate, same.high), (-few, 0.0, few))
    all_better = identity_difference(np.ones(90), np.zeros(90), group)
    assert np.allclose((all_better.low, all_better.high), (1 - 2 * few, 1.0))


def test_a_share_of_few_large_identities_is_covered() -> None:
    """Identities of unequal size, each with a share of its own; images as units would cover far less."""
    rng, held, naive, n = np.random.default_rng(1), 0, 0, 400
    for _ in range(n):
        own = rng.beta(2, 2, 40)
        size = np.where(np.arange(40) < 4, 60, 2)
        group = np.repeat(np.arange(40), size)
        hit = rng.random(len(group)) < own[group]
        found = identity_share(hit, group)
        held += found.contains(0.5)
        half = 1.96 * np.sqrt(hit.mean() * (1 - hit.mean()) / len(hit))
        naive += abs(hit.mean() - 0.5) <= half
    assert 0.92 <= held / n <= 0.98
    assert naive / n < 0.6


@pytest.mark.filterwarnings("error:divide by zero")
def test_decisions_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    positive = np.repeat([True, False], 60)
    first = np.tile(rng.integers(0, 15, 60), 2)
    second = np.where(positive, first, (first + 1 + rng.integers(0, 14, 120)) % 15)
    called, weight = rng.random(120) < np.where(positive, 0.7, 0.3), rng.random(120) + 0.1
    for given_weight in (None, weight):
        found = pair_decisions(called, positive, first, second, given_weight)
        for name, score in (
            ("accuracy", accuracy_score), ("f1", f1_score), ("precision", precision_score), ("recall", recall_score),
        ):  # fmt: skip
            interval = getattr(found, name)
            assert np.isclose(interval.estimate, score(positive, called, sample_weight=given_weight))
            assert interval.low < interval.estimate < interval.high
            kept = [(first != g) & (second != g) for g in range(15)]
            w = np.ones(120) if given_weight is None else given_weight
            deleted = np.array([score(positive[k], called[k], sample_weight=w[k]) for k in kept])
            variance = 14 / 15 * np.square(deleted - deleted.mean()).sum()
            half = (interval.high - interval.low) / 2
            assert 1.5 * np.sqrt(variance) < half < 3.5 * np.sqrt(variance)


def test_nothing_called_positive_has_no_precision() -> None:
    found = pair_decisions([False, False], [True, False], ["a", "a"], ["a", "b"])
    assert np.isnan(found.precision.estimate)
    assert found.recall.estimate == 0.0
    assert found.recall.high == 1 - 0.025  # of one identity with a positive pair
    with pytest.raises(InputError):
        pair_decisions([], [], [], [])
