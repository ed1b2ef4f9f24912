"""Attack AUC of single patients: its definition, its exact null, and limits that cover the worst patient."""

from itertools import product

import numpy as np
import pytest
import scipy

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.patient_auc import binomial_mean_limits, patient_aucs


def _definition(seen: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Compare every loss of a model that saw the patient with every one of a model that did not."""
    lower, equal = seen[:, None] < unseen[None], seen[:, None] == unseen[None]
    return (lower + 0.5 * equal).mean(axis=(0, 1))


def test_auc_is_the_share_of_pairs_of_models_that_are_ordered_right() -> None:
    rng = np.random.default_rng(0)
    seen, unseen = rng.random((2, 7, 60)).round(1)  # with ties
    np.testing.assert_allclose(patient_aucs(seen, unseen).auc, _definition(seen, unseen), atol=1e-12)


def test_the_null_is_every_exchange_within_pairs() -> None:
    rng = np.random.default_rng(1)
    seen, unseen = rng.random((2, 5, 20)).round(1)
    flips = np.array(list(product([False, True], repeat=5)))
    null = np.array(
        [_definition(np.where(f[:, None], unseen, seen), np.where(f[:, None], seen, unseen)) for f in flips]
    )
    scores = patient_aucs(seen, unseen)
    np.testing.assert_allclose(scores.p, (null >= scores.auc - 1e-9).mean(axis=0))
    expected = [(null >= a - 1e-9).mean() for a in scores.grid]
    np.testing.assert_allclose(scores.chance, expected)
    np.testing.assert_allclose(scores.share, [(scores.auc >= a - 1e-9).mean() for a in scores.grid])


@pytest.mark.parametrize("n_pairs", [6, 14])  # all exchanges, and a sample of them
def test_no_memory_gives_small_p_values_no_more_often_than_they_say(n_pairs: int) -> None:
    rng = np.random.default_rng(2)
    shared = rng.standard_normal((n_pairs, 2000))  # twins share their noise
    seen, unseen = (shared + rng.standard_t(3, (n_pairs, 2000)) for _ in range(2))
    p = patient_aucs(seen, unseen).p
    for level in (0.05, 0.2):
        assert (p <= level).mean() <= level + 2.33 * np.sqrt(level * (1 - level) / 2000)
    assert p.min() > 0


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_limits_cover_the_worst_patient_though_it_was_selected(correlation: float) -> None:
    rng, covered = np.random.default_rng(3), 0
    for _ in range(100):
        shift = np.where(rng.random(300) < 0.05, 3.0, 0.3)
        shared = np.sqrt(correlation) * rng.standard_normal((8, 300))
        seen, unseen = (shared + np.sqrt(1 - correlation) * rng.standard_normal((8, 300)) for _ in range(2))
        scores = patient_aucs(seen, unseen + shift)
        truth = scipy.stats.norm.cdf(shift[scores.worst] / np.sqrt(2))
        covered += scores.low[scores.worst] <= truth <= scores.high[scores.worst]
    assert covered >= 95


def test_limits_of_a_binomial_share_hold_clopper_and_pearsons() -> None:
    """They are wider, since they hold for means of dependent shares, and equal where all draws agree."""
    n = 12
    low, high = binomial_mean_limits(np.arange(n + 1) / n, n, 0.95)
    for k in range(n + 1):
        exact = scipy.stats.binomtest(k, n).proportion_ci(0.95)
        assert low[k] <= exact.low + 1e-9
        assert high[k] >= exact.high - 1e-9
    assert low[n] == pytest.approx(0.025 ** (1 / n))


def test_patients_of_fewer_pairs_have_no_auc() -> None:
    rng = np.random.default_rng(4)
    seen, unseen = rng.random((2, 6, 5))
    seen[2, 1] = np.nan
    scores = patient_aucs(seen, unseen)
    assert np.isnan(scores.auc).tolist() == [False, True, False, False, False]
    assert scores.share[0] == 1.0


def test_without_a_scored_patient_nothing_is_found() -> None:
    scores = patient_aucs(np.full((3, 2), np.nan), np.full((3, 2), np.nan))
    assert scores.worst == -1
    assert not scores.share.any()


def test_wrong_shapes_and_levels_are_refused() -> None:
    with pytest.raises(InputError, match="shapes"):
        patient_aucs(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(InputError, match="level is 2"):
        patient_aucs(np.zeros((2, 3)), np.zeros((2, 3)), level=2)
