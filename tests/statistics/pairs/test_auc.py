"""The AUC of pairs against scikit-learn, its deleted values against the naive loop, its coverage by simulation."""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.pairs.auc import (
    deleted_pair_auc,
    disjoint_negatives,
    macro_average,
    pair_auc,
    pair_auc_difference,
    pair_design,
)
from memorisk.statistics.pairs.identity_pairs import negative_pairs, pair_weights, positive_pairs
from tests.thorough import thorough

D = 8


def patients(rng, n=40, share=0.4, heavy=30, spread=0.6):
    """Embeddings of patients, most with one image, one with many; each has a spread of its own."""
    count = np.where(rng.random(n) < share, 1 + np.minimum(rng.zipf(1.7, n), 12), 1)
    count[:2] = (max(heavy, 2), 2)
    group = np.repeat(np.arange(n), count)
    sd = spread * np.exp(0.4 * rng.standard_normal(n))
    return group, rng.standard_normal((n, D))[group] + sd[group, None] * rng.standard_normal((len(group), D))


def scored(group, x, seed=0, digits=None):
    """Score, positive, first and second identity of all positive pairs and one negative each."""
    positives = positive_pairs(group)
    negatives = negative_pairs(group, positives, seed=seed)
    first = np.concatenate([positives.first, negatives.first])
    second = np.concatenate([positives.second, negatives.second])
    score = -np.square(x[first] - x[second]).sum(1)
    score = score if digits is None else score.round(digits)
    return score, np.arange(len(first)) < len(positives), group[first], group[second]


def both_weights(positive, first):
    """1 / pairs of the identity, positives and negatives apart."""
    weight = np.empty(len(first))
    for side in (positive, ~positive):
        weight[side] = pair_weights(first[side])
    return weight


@pytest.mark.parametrize("digits", [None, 0, -1])
@pytest.mark.parametrize("weighted", [True, False])
def test_auc_and_every_deleted_value_are_scikit_learns(digits, weighted):
    rng = np.random.default_rng(5)
    score, positive, first, second = scored(*patients(rng, heavy=12), digits=digits)
    order = rng.permutation(len(score))
    score, positive, first, second = score[order], positive[order], first[order], second[order]
    weight = both_weights(positive, first) if weighted else np.ones(len(score))
    design = pair_design(positive, first, second, weights=None if weighted else weight)
    auc, deleted = deleted_pair_auc(score, design)
    assert auc == pytest.approx(roc_auc_score(positive, score, sample_weight=weight), abs=1e-11)
    ids = np.unique(np.concatenate([first, second]))
    naive = []
    for one in ids:
        kept = (first != one) & (second != one)
        naive.append(roc_auc_score(positive[kept], score[kept], sample_weight=weight[kept]))
    np.testing.assert_allclose(deleted, naive, atol=1e-11, rtol=0)
    found = pair_auc(score, positive, first, second, weights=None if weighted else weight)
    assert found.estimate == auc
    assert found.interval.low < auc < found.interval.high
    assert (found.n_identities, found.n_positive, found.n_negative) == (len(ids), positive.sum(), (~positive).sum())
    assert found.n_positive_identities == len(np.unique(first[positive]))


def test_a_patient_with_most_pairs_is_not_the_result():
    group, x = patients(np.random.default_rng(0), heavy=60)
    x[group == 0] = 10 * np.random.default_rng(1).standard_normal((60, D))  # the many images are nothing alike
    pairs = scored(group, x)
    alike = pair_auc(*pairs, weights=np.ones(len(pairs[0])))
    by_patient = pair_auc(*pairs)
    assert alike.estimate < 0.5
    assert by_patient.estimate > 0.7


def test_perfect_scores_are_bounded_by_pairs_that_share_nobody():
    group, x = patients(np.random.default_rng(2), n=30, spread=0.01)
    found = pair_auc(*scored(group, x))
    assert found.estimate == 1.0
    assert 0.2 < found.interval.low < 0.9
    assert found.interval.high == 1.0
    assert "Clopper-Pearson" in found.interval.method
    assert pair_auc(np.zeros(4), [1, 1, 0, 0], [1, 2, 1, 2], [1, 2, 3, 4]).estimate == 0.5


def test_disjoint_negatives_share_nobody():
    rng = np.random.default_rng(0)
    a = rng.integers(50, size=200)
    b = (a + rng.integers(1, 50, size=200)) % 50
    kept = disjoint_negatives(a, b)
    ends = np.concatenate([a[kept], b[kept]])
    assert len(np.unique(ends)) == len(ends)
    assert all(a[r] in ends or b[r] in ends for r in range(200))


def test_one_identity_with_positives_gives_no_limits():
    found = pair_auc([3.0, 2.0, 1.0, 2.5], [True, True, False, False], [1, 1, 1, 2], [1, 1, 2, 3])
    assert found.estimate == 0.75
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)
    assert "fewer than two identities" in found.interval.method
    none = pair_auc([1.0, 2.5], [False, False], [1, 2], [2, 3])
    assert np.isnan(none.estimate)
    assert "no identity has two images" in none.interval.method


def test_the_same_detector_twice_does_not_differ_and_a_better_one_does():
    rng = np.random.default_rng(3)
    group, x = patients(rng, n=120)
    score, positive, first, second = scored(group, x)
    same = pair_auc_difference(score, 3 * score + 1, positive, first, second)
    assert same.estimate == 0.0
    better = pair_auc_difference(score, rng.standard_normal(len(score)), positive, first, second)
    assert better.interval.low > 0.2
    a, b = pair_auc(score, positive, first, second), pair_auc(-score, positive, first, second)
    both = pair_auc_difference(score, -score, positive, first, second)
    assert both.estimate == pytest.approx(a.estimate - b.estimate)


@cache
def true_auc(spread):
    """AUC of a random identity's random pair against a random pair of two, over 400,000 draws of either."""
    rng, n = np.random.default_rng(99), 400_000

    def sd():
        return spread * np.exp(0.4 * rng.standard_normal(n))

    positive = -2 * sd() ** 2 * rng.chisquare(D, size=n)
    negative = -(2 + sd() ** 2 + sd() ** 2) * rng.chisquare(D, size=n)
    return (stats.rankdata(np.concatenate([positive, negative]))[:n].mean() - (n + 1) / 2) / n


@pytest.mark.parametrize(("n", "spread"), [thorough(24, 0.6), thorough(80, 0.6), (24, 0.35), thorough(80, 0.35)])
def test_intervals_cover(n, spread):
    """Random patients, one of whom owns most pairs; few have a second image; AUC 0.90 and 0.98."""
    truth, repeats = true_auc(spread), 150
    covered = 0
    for seed in range(repeats):
        rng = np.random.default_rng([seed, n])
        covered += pair_auc(*scored(*patients(rng, n, spread=spread), seed=seed)).interval.contains(truth)
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)


def test_differences_cover():
    """The second detector sees the same images through independent noise of every image."""
    n, repeats, noise = 40, 150, 0.8
    rng = np.random.default_rng(99)
    truth = true_auc(0.6)
    big, x = patients(rng, 60_000, heavy=2)
    positives = positive_pairs(big)
    row = {"p": [], "n": []}
    y = x + noise * rng.standard_normal(x.shape)
    _, one = np.unique(big[positives.first], return_index=True)
    negatives = negative_pairs(big, 60_000, seed=0)
    for name, a, b in (("p", positives.first[one], positives.second[one]), ("n", negatives.first, negatives.second)):
        row[name] = -np.square(y[a] - y[b]).sum(1)
    p, q = row["p"], row["n"]
    second = (stats.rankdata(np.concatenate([p, q]))[: len(p)].mean() - (len(p) + 1) / 2) / len(q)
    covered = 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        group, x = patients(rng, n)
        score, positive, first, other = scored(group, x, seed)
        noisy = scored(group, x + noise * rng.standard_normal(x.shape), seed)[0]
        covered += pair_auc_difference(score, noisy, positive, first, other).interval.contains(truth - second)
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)


def interval(estimate, low, high, n=10):
    return JackknifeInterval(estimate, low, high, 9.0, n, 1, "")


def test_a_macro_average_carries_lopsided_limits_over():
    found = macro_average([interval(0.9, 0.8, 0.95), interval(0.7, 0.6, 0.78, n=30)])
    assert found.estimate == pytest.approx(0.8)
    assert found.low == pytest.approx(0.8 - np.hypot(0.1, 0.1) / 2)
    assert found.high == pytest.approx(0.8 + np.hypot(0.05, 0.08) / 2)
    assert found.n_groups == 40
    alone = macro_average([interval(0.9, 0.8, 0.95)])
    assert (alone.low, alone.high) == (pytest.approx(0.8), pytest.approx(0.95))
    lacking = macro_average([interval(0.9, 0.8, 0.95), interval(np.nan, np.nan, np.nan)])
    assert np.isnan(lacking.estimate)
    assert "1 of 2 data sets" in lacking.method
    with pytest.raises(InputError, match="at least one data set"):
        macro_average([])


def test_macro_averages_cover():
    truth = np.mean([true_auc(0.6), true_auc(0.35)])
    repeats, covered = 100, 0
    for seed in range(repeats):
        rng = np.random.default_rng([seed, 7])
        each = [pair_auc(*scored(*patients(rng, 40, spread=s), seed=seed)).interval for s in (0.6, 0.35)]
        covered += macro_average(each).contains(truth)
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)


def test_what_is_refused():
    with pytest.raises(InputError, match="pair 1 is called positive and has the identities 2 and 3"):
        pair_auc([1.0, 2.0], [True, True], [1, 2], [1, 3])
    with pytest.raises(InputError, match="pair 0 is called negative"):
        pair_auc([1.0, 2.0], [False, False], [1, 2], [1, 3])
    with pytest.raises(InputError, match="1 of 2 scores are NaN"):
        pair_auc([1.0, np.nan], [True, False], [1, 2], [1, 3])
    with pytest.raises(InputError, match="one number above 0"):
        pair_auc([1.0, 2.0], [True, False], [1, 2], [1, 3], weights=[1.0, 0.0])
    with pytest.raises(InputError, match="one per pair"):
        pair_auc([1.0, 2.0], [True, False], [1], [1, 3])
    with pytest.raises(InputError, match="one score per pair"):
        pair_auc([1.0], [True, False], [1, 2], [1, 3])
