"""Classifiers trained on synthetic and on real images, compared."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.transfer import balanced_accuracy, compare_training, mean_auc


def draw(rng, n, signal, trainings=3):
    """Scores of two classes by several trainings, with an effect of the patient and of the training."""
    patient = np.arange(n) // 2
    label = patient % 2
    shared = signal * label + rng.normal(size=n // 2)[patient]
    logit = shared + rng.normal(0, 0.3, size=(trainings, 1)) * label + rng.normal(0, 0.5, size=(trainings, n))
    p = 1 / (1 + np.exp(-logit))
    return np.stack([1 - p, p], axis=2), label, patient


def test_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    scores, label = rng.dirichlet(np.ones(4), size=90), rng.integers(0, 4, 90)
    assert balanced_accuracy(scores, label) == pytest.approx(balanced_accuracy_score(label, scores.argmax(1)))
    theirs = roc_auc_score(label, scores, multi_class="ovr")
    assert mean_auc(np.round(scores, 1), label) == pytest.approx(
        np.mean([roc_auc_score(label == c, np.round(scores, 1)[:, c]) for c in range(4)])
    )
    assert mean_auc(scores, label) == pytest.approx(theirs)
    assert np.isnan(mean_auc(scores, np.zeros(90, int)))


def test_the_difference_is_paired_over_patients():
    scores, label, patient = draw(np.random.default_rng(1), 60, 1.0, trainings=1)
    other = scores + np.random.default_rng(2).normal(0, 0.02, size=scores.shape)
    found = compare_training(other, scores, label, patient, mean_auc)
    assert found.difference.estimate == pytest.approx(found.synthetic.estimate - found.real.estimate)
    apart = np.hypot(found.real.high - found.real.low, found.synthetic.high - found.synthetic.low)
    assert found.difference.high - found.difference.low < apart / 3


def test_the_interval_covers_the_mean_over_patients_and_trainings():
    rng = np.random.default_rng(2)
    found = []
    for _ in range(80):
        scores, label, patient = draw(rng, 60, 1.0)
        found.append(compare_training(scores, scores, label, patient, balanced_accuracy).real)
    mean = np.mean([one.estimate for one in found])
    assert sum(one.low <= mean <= one.high for one in found) >= stats.binom.ppf(0.001, 80, 0.95)


def test_one_training_and_nothing_that_varies():
    scores, label, patient = draw(np.random.default_rng(3), 40, 1.0, trainings=1)
    one = compare_training(scores, scores, label, patient, balanced_accuracy)
    assert (one.real.n_trainings, one.real.n_patients) == (1, 20)
    perfect = np.eye(2)[label][None]
    found = compare_training(perfect, perfect, label, patient, balanced_accuracy)
    assert found.real.estimate == 1
    assert np.isnan(found.real.low)
    two = np.eye(2)[[0, 1, 0, 0]][None]  # of two patients the second is right half the time
    found = compare_training(two, two, np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), balanced_accuracy)
    assert (found.real.estimate, found.real.low, found.real.high) == (0.75, 0.0, 1.0)
    with pytest.raises(InputError, match="do not fit"):
        compare_training(scores, scores[:, 1:], label, patient, mean_auc)
