"""Probes: folds by patient, scikit-learn's own numbers, level and coverage, M that comes back."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.probes import (
    above_class_median,
    chance_band,
    fold_auroc,
    out_of_fold_scores,
    permuted_within_class,
    probe,
    probe_folds,
)


def patients(rng, n_groups=60, n_classes=2, most=3):
    size = rng.integers(1, most + 1, n_groups)
    group = np.repeat(np.arange(n_groups), size)
    return group, (np.arange(n_groups) % n_classes)[group]


def grouped(rng, group, *shape):
    """Noise of unit variance, half of it from the patient."""
    return (rng.normal(size=(group.max() + 1, *shape))[group] + rng.normal(size=(len(group), *shape))) / np.sqrt(2)


def test_the_median_splits_each_class():
    m = np.array([1, 2, 3, 4, 10, 20, 30])
    assert above_class_median(m, list("aaaabbb")).tolist() == [False, False, True, True, False, False, True]
    with pytest.raises(InputError, match="finite"):
        above_class_median([np.nan, 1.0], ["a", "a"])
    with pytest.raises(InputError, match="one of each"):
        above_class_median([1.0], ["a", "a"])


def test_folds_keep_patients_together_and_strata_even():
    rng = np.random.default_rng(0)
    group, label = patients(rng, 200)
    high = above_class_median(rng.normal(size=len(group)), label)
    fold = probe_folds(high, label, group)
    assert set(fold) == {0, 1, 2, 3, 4}
    assert all(len(set(fold[group == g])) == 1 for g in set(group))
    for c in (0, 1):
        for side in (True, False):
            counts = np.bincount(fold[(label == c) & (high == side)], minlength=5)
            assert counts.max() - counts.min() <= 6
    assert (probe_folds(high, label, group) == fold).all()
    assert (probe_folds(high, label, group, seed=1) != fold).any()
    with pytest.raises(InputError, match="3 groups have images above"):
        probe_folds(np.arange(20) < 3, np.zeros(20), np.arange(20))
    with pytest.raises(InputError, match="one of each"):
        probe_folds(high, label, group[:-1])


def test_logistic_scores_are_scikit_learns():
    rng = np.random.default_rng(1)
    group, label = patients(rng)
    x = rng.normal(3, 5, (len(group), 4))
    x[:, 2] = 1.0  # constant: standardised to 0
    high = above_class_median(x[:, 0] + rng.normal(0, 5, len(group)), label)
    fold = probe_folds(high, label, group)
    found = probe(x, high, group, fold)
    scores = out_of_fold_scores(x, high, fold)
    each = []
    for k in range(5):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x[fold != k], high[fold != k])
        np.testing.assert_allclose(scores[fold == k], model.decision_function(x[fold == k]), atol=1e-10)
        each.append(roc_auc_score(high[fold == k], scores[fold == k]))
    assert found.fold_mean == pytest.approx(np.mean(each))
    assert found.fold_sd == pytest.approx(np.std(each, ddof=1))
    assert (found.n_images, found.n_groups, found.n_features) == (len(x), 60, 4)


def test_fold_auroc_counts_pairs_within_folds_and_deletes_groups():
    rng = np.random.default_rng(2)
    group, label = patients(rng, 25)
    score = np.round(rng.normal(size=len(group)), 1)
    high = above_class_median(grouped(rng, group), label)
    fold = probe_folds(high, label, group, n_folds=3)

    def naive(keep):
        right = pairs = 0.0
        for i in np.flatnonzero(keep & high):
            for j in np.flatnonzero(keep & ~high & (fold == fold[i])):
                right += (score[i] > score[j]) + 0.5 * (score[i] == score[j])
                pairs += 1
        return right / pairs

    interval, each = fold_auroc(score, high, group, fold)
    assert interval.estimate == pytest.approx(naive(np.ones(len(group), dtype=bool)))
    assert len(each) == 3
    deleted = np.array([naive(group != g) for g in range(25)])
    variance = 2 * 24 / 25 * np.square(deleted - deleted.mean()).sum()
    width = np.log(interval.high / (1 - interval.high)) - np.log(interval.low / (1 - interval.low))
    half = stats.t.ppf(0.975, interval.df) * np.sqrt(variance) / (interval.estimate * (1 - interval.estimate))
    assert width == pytest.approx(2 * half)


@pytest.mark.thorough
def test_level_and_coverage_at_no_signal():
    """Activations that know nothing: intervals contain 0.5 in at least 95 % of repeats, 0.5 is the mean AUROC."""
    rng = np.random.default_rng(3)
    inside, aurocs = [], []
    for repeat in range(150):
        group, label = patients(rng, 60)
        high = above_class_median(grouped(rng, group), label)
        fold = probe_folds(high, label, group, seed=repeat)
        found = probe(grouped(rng, group, 4) + label[:, None], high, group, fold)
        inside.append(found.auroc.contains(0.5))
        aurocs.append(found.auroc.estimate)
    assert abs(np.mean(aurocs) - 0.5) < 2.5 * np.std(aurocs) / np.sqrt(150)
    slack = 2 * np.sqrt(0.95 * 0.05 / 150)
    assert 0.95 - slack <= np.mean(inside) <= 0.995


def test_permuted_labels_give_one_half_where_there_is_signal():
    rng = np.random.default_rng(4)
    group, label = patients(rng, 60)
    x = grouped(rng, group, 3)
    m = x[:, 0] + 0.3 * grouped(rng, group)
    high = above_class_median(m, label)
    assert probe(x, high, group, probe_folds(high, label, group)).auroc.low > 0.8
    null = []
    for seed in range(100):
        shuffled = permuted_within_class(high, label, seed=seed)
        assert (np.bincount(label[shuffled]) == np.bincount(label[high])).all()
        null.append(probe(x, shuffled, group, probe_folds(shuffled, label, group)).auroc.estimate)
    assert abs(np.mean(null) - 0.5) < 2.5 * np.std(null) / np.sqrt(100)
    assert (shuffled != high).any()


@pytest.mark.thorough
def test_the_chance_band_holds_shuffled_labels_at_its_level():
    """What `audit explain` does: one shuffle within classes, five folds of patients, features that know M."""
    rng, repeats = np.random.default_rng(8), 300
    inside, inside_single = 0, 0
    for repeat in range(repeats):
        group, label = patients(rng, 40)
        mixed = grouped(rng, group, 32) / np.sqrt(np.arange(1, 33)) @ rng.normal(size=(32, 32))
        x = mixed + rng.normal(size=(2, 32))[label]
        high = above_class_median(x[:, 0] + grouped(rng, group), label)
        shuffled = permuted_within_class(high, label, seed=repeat)
        fold = probe_folds(shuffled, label, group)
        found = fold_auroc(out_of_fold_scores(x, shuffled, fold), shuffled, group, fold)[0].estimate
        half = chance_band(int(shuffled.sum()), int((~shuffled).sum()))
        inside += abs(found - 0.5) <= half
        inside_single += abs(found - 0.5) <= half / np.sqrt(2)
    assert stats.binomtest(inside, repeats, 0.95).pvalue > 0.05
    assert stats.binomtest(inside_single, repeats, 0.95, "less").pvalue < 1e-6  # the rank test's own variance is not it


def test_the_chance_band_is_its_formula():
    assert chance_band(60, 40) == pytest.approx(1.959964 * np.sqrt(2 * 105 / (12 * 60 * 40)), rel=1e-6)
    assert chance_band(60, 40, 0.5, n_folds=1) == pytest.approx(0.674490 * np.sqrt(2 * 101 / (12 * 60 * 40)), rel=1e-6)
    assert chance_band(60, 40) == chance_band(40, 60) < chance_band(60, 40, 0.99)
    assert chance_band(3, 2) == 0.5
    for wrong in ((0, 10), (10, 0), (-1, 10), (2, 2)):
        with pytest.raises(InputError, match="at least one of each"):
            chance_band(*wrong)
    for level in (0, 1, 95, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            chance_band(10, 10, level)


@pytest.mark.thorough
def test_intervals_cover_with_signal():
    """One feature that follows M: any increasing score has the population's AUROC, here from a million draws."""
    rng = np.random.default_rng(5)
    m, x = rng.normal(size=(2, 1_000_000))
    truth = roc_auc_score(m > 0, m + 1.5 * x)
    inside = []
    for repeat in range(150):
        group, label = patients(rng, 60)
        both = grouped(rng, group, 2)
        high = above_class_median(both[:, 0], label)
        fold = probe_folds(high, label, group, seed=repeat)
        inside.append(probe((both @ [1, 1.5])[:, None], high, group, fold).auroc.contains(truth))
    assert np.mean(inside) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 150)  # wider than need be where a signal is strong


def test_a_hidden_layer_finds_what_no_line_can():
    rng = np.random.default_rng(6)
    group, label = patients(rng, 150)
    along = rng.normal(size=(len(group), 1))
    x = along + 0.3 * rng.normal(size=(len(group), 32))
    high = above_class_median(np.abs(along[:, 0]), label)
    fold = probe_folds(high, label, group)
    line, network = (probe(x, high, group, fold, kind=kind) for kind in ("logistic", "mlp"))
    assert line.auroc.contains(0.5)
    assert network.auroc.low > 0.6
    again = probe(x, high, group, fold, kind="mlp")
    assert again.auroc == network.auroc
    assert probe(x, high, group, fold, kind="mlp", seed=1).auroc != network.auroc


def test_refusals():
    x, high, fold = np.zeros((10, 2)), np.arange(10) % 2 == 0, np.arange(10) // 2
    with pytest.raises(InputError, match="Did you mean 'mlp'"):
        probe(x, high, np.arange(10), fold, kind="mpl")
    with pytest.raises(InputError, match="do not fit"):
        probe(x[:-1], high, np.arange(10), fold)
    spoilt = x.copy()
    spoilt[3, 1] = np.inf
    with pytest.raises(InputError, match="1 image has activations that are not finite"):
        probe(spoilt, high, np.arange(10), fold)
    with pytest.raises(InputError, match="one side"):
        probe(x, np.arange(10) < 5, np.arange(10), np.arange(10) // 5)
