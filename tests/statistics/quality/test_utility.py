"""Held-out accuracy against the majority class: definitions, pairing, and intervals that cover."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.majority import against_majority
from tests.thorough import thorough


def test_values_are_sklearns() -> None:
    rng = np.random.default_rng(0)
    label, answer = rng.integers(0, 4, 300), rng.integers(0, 4, 300)
    found = against_majority(label == answer, label, np.arange(300), "2", draws=10)
    assert found.accuracy.value == pytest.approx(accuracy_score(label, answer))
    assert found.balanced.value == pytest.approx(balanced_accuracy_score(label, answer))
    assert found.majority == pytest.approx((label == 2).mean())
    assert found.gain.value == pytest.approx(found.accuracy.value - found.majority)
    assert (found.n_images, found.n_groups, found.n_models) == (300, 300, 1)


def test_several_models_are_averaged() -> None:
    rng = np.random.default_rng(1)
    correct = rng.random((5, 80)) < 0.6
    found = against_majority(correct, np.arange(80) % 3, np.arange(80), "0", draws=10)
    assert found.accuracy.value == pytest.approx(correct.mean())
    assert found.n_models == 5


def test_the_majority_itself_gains_nothing_with_certainty() -> None:
    label = np.array(["a"] * 70 + ["b"] * 30)
    found = against_majority(label == "a", label, np.arange(100), "a", draws=200)
    assert (found.gain.value, found.gain.low, found.gain.high) == (0, 0, 0)  # paired: no image can tell them apart
    assert found.balanced.value == 0.5
    assert not found.beats_majority
    assert found.accuracy.low < found.accuracy.high


@pytest.mark.parametrize(("images", "effect"), [thorough(1, 0.0), (4, 0.3)])
def test_intervals_cover_with_patients_as_the_units(images: int, effect: float) -> None:
    """Right answers of a patient's images go together; counting images would cover far less."""
    rng, n_groups, runs, truth = np.random.default_rng(2), 60, 200, 0.7
    covered = 0
    for run in range(runs):
        tendency = np.clip(truth + effect * rng.choice([-1, 1], n_groups), 0, 1)
        correct = rng.random(n_groups * images) < np.repeat(tendency, images)
        label = rng.choice(["a", "b"], n_groups * images)
        found = against_majority(correct, label, np.repeat(np.arange(n_groups), images), "a", draws=300, seed=run)
        covered += found.accuracy.low <= truth <= found.accuracy.high
    assert covered / runs == pytest.approx(0.94, abs=3 * (0.05 * 0.95 / runs) ** 0.5)


@pytest.mark.thorough
def test_the_balanced_interval_is_not_moved_by_rare_classes() -> None:
    """A class that a draw misses would drop out of the mean and lift it; drawn within classes, none is missed."""
    rng, runs = np.random.default_rng(3), 200
    label = np.repeat(["a", "b", "c"], [120, 30, 10])
    rate = {"a": 0.9, "b": 0.6, "c": 0.2}
    truth = float(np.mean(list(rate.values())))
    sides = np.zeros(2)
    for run in range(runs):
        correct = rng.random(160) < np.vectorize(rate.get)(label)
        found = against_majority(correct, label, np.arange(160), "a", draws=300, seed=run).balanced
        sides += [truth < found.low, truth > found.high]
    assert sides.sum() / runs <= 0.12  # ten images of a class bound what a bootstrap can do
    assert sides[0] / runs <= 0.06  # not shifted upwards


def test_one_patient_gives_no_interval() -> None:
    found = against_majority([True, False], ["a", "b"], ["p", "p"], "a")
    assert found.accuracy.value == 0.5
    assert np.isnan(found.accuracy.low)
    assert not found.beats_majority


def test_lengths_must_agree() -> None:
    with pytest.raises(InputError, match="must be as many"):
        against_majority([True, False], ["a"], ["p", "q"], "a")
