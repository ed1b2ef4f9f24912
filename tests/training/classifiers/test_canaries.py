"""Canary pairs: exchangeable members, coins that depend on nothing, and a small audit of a training without privacy."""

import numpy as np
import pytest
from scipy import stats
from torch import nn

from memorisk.models.classifiers.zoo import seeded
from memorisk.runs.errors import InputError
from memorisk.scores.memorization import cross_entropy
from memorisk.statistics.privacy.measured_epsilon import largest_epsilon, pair_guesses
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.twins import label_noise_pairs
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.predict import predict_logits

N, CLASSES = 240, 4


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(0)
    return rng.integers(0, CLASSES, N), np.array([f"p{g}" for g in rng.integers(0, 120, N)], dtype=object)


def test_pairs_are_of_one_class_and_different_groups_with_one_wrong_label(population):
    labels, groups = population
    rows = np.arange(40, 240)
    for seed in range(30):
        pairs = label_noise_pairs(labels, groups, rows, 30, CLASSES, seed)
        both = np.concatenate([pairs.first, pairs.second])
        assert np.isin(both, rows).all()
        assert len(set(groups[both])) == len(both) == 60
        assert (labels[pairs.first] == labels[pairs.second]).all()
        assert (pairs.label != labels[pairs.first]).all()
        assert pairs.label.min() >= 0
        assert pairs.label.max() < CLASSES


def test_target_is_trained_on_one_member_of_each_pair_under_the_wrong_label(population):
    labels, groups = population
    shared = np.arange(40)
    pairs = label_noise_pairs(labels, groups, np.arange(40, 240), 30, CLASSES, 5)
    rows, targets = pairs.training_rows(shared), pairs.targets(labels)
    np.testing.assert_array_equal(rows[:40], shared)
    for slot, (first, second, label, heads) in enumerate(
        zip(pairs.first, pairs.second, pairs.label, pairs.coin, strict=True)
    ):
        assert rows[40 + slot] == (first if heads else second)
        assert targets[first] == targets[second] == label
    untouched = np.setdiff1d(np.arange(N), np.concatenate([pairs.first, pairs.second]))
    np.testing.assert_array_equal(targets[untouched], labels[untouched])
    with pytest.raises(ValueError, match="read-only"):
        pairs.coin[0] = True
    with pytest.raises(InputError, match="also shared rows"):
        pairs.training_rows(np.append(shared, pairs.first[0]))


def test_coins_are_fair_and_independent_of_rows_labels_and_each_other(population):
    """Over 2,000 seeds; each bound is 4.5 standard deviations of what fair, independent coins give."""
    labels, groups = population
    draws = [label_noise_pairs(labels, groups, np.arange(N), 20, CLASSES, seed) for seed in range(2000)]
    coin = np.array([d.coin for d in draws]) * 2.0 - 1  # [seeds, pairs]
    allowed = 4.5 / np.sqrt(len(draws))
    assert np.abs(coin.mean(axis=0)).max() < allowed
    assert np.abs(coin[:, 1:] * coin[:, :-1]).max() == 1
    assert np.abs((coin[:, 1:] * coin[:, :-1]).mean(axis=0)).max() < allowed
    for of in ("first", "second", "label"):
        values = np.array([getattr(d, of) for d in draws]).astype(float)
        correlation = [stats.pearsonr(values[:, j], coin[:, j]).statistic for j in range(coin.shape[1])]
        assert np.abs(correlation).max() < allowed


def test_members_are_exchangeable(population):
    """Over seeds, first and second have the same distribution, and wrong labels are uniform over the other classes."""
    labels, groups = population
    draws = [label_noise_pairs(labels, groups, np.arange(N), 20, CLASSES, seed) for seed in range(2000)]
    first, second = (np.concatenate([getattr(d, of) for d in draws]) for of in ("first", "second"))
    as_first, as_second = np.bincount(first, minlength=N), np.bincount(second, minlength=N)
    met = as_first + as_second > 0
    difference = (as_first - as_second)[met] / np.sqrt((as_first + as_second)[met])  # standard normal if exchangeable
    assert np.abs(difference).max() < 4.5
    assert abs((difference**2).mean() - 1) < 4.5 * np.sqrt(2 / met.sum())
    wrong = np.concatenate([d.label for d in draws])
    offset = (wrong - labels[first]) % CLASSES
    assert stats.chisquare(np.bincount(offset, minlength=CLASSES)[1:]).pvalue > 1e-4


def test_draws_depend_on_the_seed_alone(population):
    labels, groups = population
    one = label_noise_pairs(labels, groups, np.arange(N), 20, CLASSES, 1)
    two = label_noise_pairs(labels, groups, np.arange(N)[::-1], 20, CLASSES, 1)
    other = label_noise_pairs(labels, groups, np.arange(N), 20, CLASSES, 2)
    for of in ("first", "second", "label", "coin"):
        np.testing.assert_array_equal(getattr(one, of), getattr(two, of))
        assert (getattr(one, of) != getattr(other, of)).any()


@pytest.mark.parametrize(
    ("n_pairs", "classes", "word"),
    [(500, CLASSES, "make"), (0, CLASSES, "ask for"), (5, 1, "2 classes"), (5, 3, "class numbers")],
)
def test_impossible_wishes_are_refused(population, n_pairs, classes, word):
    labels, groups = population
    with pytest.raises(InputError, match=word):
        label_noise_pairs(labels, groups, np.arange(N), n_pairs, classes, 0)


@pytest.mark.thorough
def test_training_without_privacy_is_found_out_and_a_placebo_is_not(digits):
    """Ten small nets; the many-run version is recipes/epsilon_bound.py."""
    features, labels = digits.features.astype(np.float32), digits.labels
    groups = np.arange(len(labels)).astype(str)
    options = TrainOptions(epochs=60, lr=3e-3)
    pool, shared = np.arange(600), np.arange(600, 1000)
    bounds, placebo = [], []
    for seed in range(10):
        pairs = label_noise_pairs(labels, groups, pool, 250, 10, seed)
        targets = pairs.targets(labels)
        with seeded(seed):
            net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
        fit(net, features, targets, pairs.training_rows(shared), options, seed=seed)
        loss = cross_entropy(predict_logits(net, features, pool, options), targets[pool])
        coins = label_noise_pairs(labels, groups, pool, 250, 10, seed + 100).coin
        for found, coin in ((bounds, pairs.coin), (placebo, coins)):
            guesses = pair_guesses(loss[pairs.first], loss[pairs.second], coin, 200)
            found.append(largest_epsilon(guesses.correct, guesses.r))
    assert sum(low > 1 for low in bounds) >= 9
    assert sum(low > 0 for low in placebo) <= 2  # P(Bin(10, 0.05) > 2) = 1 %, at fixed seeds
