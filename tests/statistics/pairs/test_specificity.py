"""Specificity at a sensitivity against its definition by search, and what it promises by simulation."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.pairs.identity_pairs import pair_weights
from memorisk.statistics.pairs.specificity import specificity_at_sensitivity
from tests.statistics.pairs.test_auc import both_weights, patients, scored
from tests.thorough import thorough

SPREAD = 0.4


def by_search(score, positive, weight, sensitivity):
    """The largest positive score with at least the sensitivity at or above it, and the share of negatives below."""
    p, w = score[positive], weight[positive]
    good = [t for t in np.unique(p) if w[p >= t].sum() >= sensitivity * w.sum() - 1e-9]
    n, v = score[~positive], weight[~positive]
    return max(good), v[n < max(good)].sum() / v.sum()


@pytest.mark.parametrize("digits", [None, 0])
@pytest.mark.parametrize("sensitivity", [0.7, 0.9])
def test_the_threshold_is_the_largest_that_keeps_the_sensitivity(sensitivity, digits):
    score, positive, first, second = scored(*patients(np.random.default_rng(4), n=120), digits=digits)
    found = specificity_at_sensitivity(score, positive, first, second, sensitivity=sensitivity)
    threshold, share = by_search(score, positive, both_weights(positive, first), sensitivity)
    assert not found.at_lowest
    assert found.threshold == threshold
    assert found.estimate == pytest.approx(share, abs=1e-11)
    assert found.interval.low <= found.estimate <= found.interval.high
    assert found.name == f"specificity at {100 * sensitivity:g} % sensitivity"
    alike = specificity_at_sensitivity(
        score, positive, first, second, sensitivity=sensitivity, weights=np.ones(len(score))
    )
    assert alike.threshold == by_search(score, positive, np.ones(len(score)), sensitivity)[0]


def test_with_few_identities_it_is_the_lowest_positive_and_says_so():
    score, positive, first, second = scored(*patients(np.random.default_rng(4), n=120))
    found = specificity_at_sensitivity(score, positive, first, second)
    n = len(np.unique(first[positive]))
    assert found.at_lowest
    assert (found.n_identities, found.needed) == (n, 299)
    assert found.threshold == score[positive].min()
    assert found.sensitivity_low == pytest.approx(0.05 ** (1 / n))
    assert "lowest positive" in found.name
    assert "99 %" not in found.name


def test_deleted_identities_make_the_interval_at_a_fixed_threshold():
    score, positive, first, second = scored(*patients(np.random.default_rng(4), n=60))
    found = specificity_at_sensitivity(score, positive, first, second)
    weight, below = pair_weights(first[~positive]), score[~positive] < found.threshold
    a, b = first[~positive], second[~positive]
    deleted = []
    for one in np.unique(np.concatenate([a, b])):
        kept = (a != one) & (b != one)
        deleted.append(np.average(below[kept], weights=weight[kept]))
    d = np.array(deleted)
    se = np.sqrt((len(d) - 1) / len(d) * np.square(d - d.mean()).sum())
    p = found.estimate
    half = np.log(found.interval.high / (1 - found.interval.high)) - np.log(p / (1 - p))
    assert half * p * (1 - p) == pytest.approx(stats.t.ppf(0.975, found.interval.df) * se, rel=1e-6)


@cache
def truth(sensitivity):
    """Threshold quantile of a random identity's random pair, and the negatives below it, over 400,000 of either."""
    rng, n, d = np.random.default_rng(7), 400_000, 8

    def sd():
        return SPREAD * np.exp(0.4 * rng.standard_normal(n))

    positive = -2 * sd() ** 2 * rng.chisquare(d, size=n)
    negative = -(2 + sd() ** 2 + sd() ** 2) * rng.chisquare(d, size=n)
    return np.sort(positive), np.mean(negative < np.quantile(positive, 1 - sensitivity))


def test_the_lowest_positive_keeps_its_sensitivity():
    """The lower limit is one-sided at 95 %: it fails in no more than that of 300 draws of patients."""
    positive, repeats, fails = truth(0.9)[0], 300, 0
    for seed in range(repeats):
        rng = np.random.default_rng([seed, 1])
        found = specificity_at_sensitivity(*scored(*patients(rng, 40, spread=SPREAD), seed=seed))
        missed = np.searchsorted(positive, found.threshold) / len(positive)
        fails += missed > 1 - found.sensitivity_low
    assert fails <= stats.binom.ppf(0.999, repeats, 0.05)


@pytest.mark.parametrize("n", [80, thorough(300)])
def test_intervals_cover_and_so_does_the_sensitivity(n):
    """At 90 %, which 29 identities allow."""
    positive, specificity = truth(0.9)
    repeats, covered, fails = 150, 0, 0
    for seed in range(repeats):
        rng = np.random.default_rng([seed, n])
        pairs = scored(*patients(rng, n, share=0.8, spread=SPREAD), seed=seed)
        found = specificity_at_sensitivity(*pairs, sensitivity=0.9)
        assert not found.at_lowest
        covered += found.interval.contains(specificity)
        fails += np.searchsorted(positive, found.threshold) / len(positive) > 1 - found.sensitivity_low
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)
    assert fails <= stats.binom.ppf(0.999, repeats, 0.05)


def test_between_299_and_367_identities_there_is_no_lower_limit():
    ids = np.arange(340)
    first = np.concatenate([ids, ids])
    second = np.concatenate([ids, (ids + 1) % 340])
    score = np.concatenate([np.random.default_rng(0).normal(3, 1, 340), np.random.default_rng(1).normal(0, 1, 340)])
    found = specificity_at_sensitivity(score, np.arange(680) < 340, first, second)
    assert not found.at_lowest
    assert found.interval.low == 0.0
    assert 0 < found.estimate < found.interval.high


def test_nothing_to_measure():
    none = specificity_at_sensitivity([1.0], [False], [1], [2])
    assert np.isnan(none.estimate)
    assert np.isnan(none.threshold)
    assert "no identity has two images" in none.interval.method
    star = specificity_at_sensitivity([3.0, 3.0, 1.0, 2.0], [1, 1, 0, 0], [1, 2, 1, 1], [1, 2, 2, 3])
    assert star.estimate == 1.0
    assert (star.interval.low, star.interval.high) == (0.0, 1.0)
    with pytest.raises(InputError, match="levels are"):
        specificity_at_sensitivity([1.0], [False], [1], [2], sensitivity=1.0)
