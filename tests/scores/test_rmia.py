"""RMIA: equal to the double loop over images and population, population by group, and 0.5 when nothing is memorized."""

import tracemalloc

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.scores.lira import twin_references
from memorisk.scores.rmia import rmia_scores, split_population
from memorisk.statistics.roc import auc


def naive_rmia(p_target, p_in, p_out, z_target, z_refs, gamma, mode, a):
    """LR(x, z) for every pair, one at a time, in probabilities."""
    scores = []
    for x in range(len(p_target)):
        out = np.nanmean(p_out[:, x])
        p_x = (np.nanmean(p_in[:, x]) + out) / 2 if mode == "online" else ((1 + a) * out + (1 - a)) / 2
        wins = 0
        for z in range(len(z_target)):
            mean = np.nanmean(z_refs[:, z])
            p_z = mean if mode == "online" else ((1 + a) * mean + (1 - a)) / 2
            wins += (p_target[x] / p_x) / (z_target[z] / p_z) >= gamma
        scores.append(wins / len(z_target))
    return np.array(scores)


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
@pytest.mark.parametrize("complete", [True, False])
def test_equals_the_double_loop(mode, gamma, complete):
    rng = np.random.default_rng(0)
    p_target, z_target = rng.beta(2, 1, 60), rng.beta(2, 1, 45)
    p_in, p_out, z_refs = rng.beta(3, 1, (7, 60)), rng.beta(2, 1, (5, 60)), rng.beta(2, 1, (12, 45))
    if not complete:
        p_in[0, :9], p_out[2, 5:20], z_refs[3, 7:] = np.nan, np.nan, np.nan
    for a in (0.0, 0.3, 1.0):
        got = rmia_scores(p_target, p_in, p_out, z_target, z_refs, gamma=gamma, mode=mode, offline_a=a)
        expected = naive_rmia(p_target, p_in, p_out, z_target, z_refs, gamma, mode, a)
        np.testing.assert_array_equal(got, expected)
        logs = [np.log(v) for v in (p_target, p_in, p_out, z_target, z_refs)]
        np.testing.assert_array_equal(rmia_scores(*logs, gamma=gamma, mode=mode, offline_a=a, log=True), expected)
    assert 5 < len(np.unique(got)) <= 46


def test_a_population_image_scored_against_itself_is_reached_at_gamma_one():
    """LR(x, x) = 1 counts at gamma = 1: the comparison is "at least"."""
    p, refs = np.array([0.2, 0.5, 0.9]), np.full((2, 3), 0.5)
    np.testing.assert_array_equal(rmia_scores(p, refs, refs, p, refs), np.array([1, 2, 3]) / 3)


def test_log_probabilities_do_not_underflow():
    loss = np.array([900.0, 1000.0, 1100.0])
    refs = -np.full((4, 3), 1000.0)
    score = rmia_scores(-loss, refs, refs, -np.array([950.0, 1050.0]), refs[:, :2], log=True)
    np.testing.assert_array_equal(score, [1.0, 0.5, 0.0])


def test_images_without_a_target_or_a_side_have_no_score():
    rng = np.random.default_rng(1)
    p, refs_in, refs_out = rng.random(3), rng.random((4, 3)), rng.random((4, 3))
    p[0], refs_in[:, 1] = np.nan, np.nan
    z, z_refs = rng.random(9), rng.random((4, 9))
    assert np.isnan(rmia_scores(p, refs_in, refs_out, z, z_refs)).tolist() == [True, True, False]
    assert np.isnan(rmia_scores(p, None, refs_out, z, z_refs, mode="offline")).tolist() == [True, False, False]


def test_no_array_of_images_times_population():
    rng = np.random.default_rng(2)
    n = 20_000
    p, refs = rng.random(n), rng.random((3, n))
    rmia_scores(p[:10], refs[:, :10], refs[:, :10], p[:10], refs[:, :10])
    tracemalloc.start()
    rmia_scores(p, refs, refs, p, refs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.01 * 8 * n * n


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_half_when_nothing_is_memorized_and_the_target_is_one_of_the_twins(mode):
    rng = np.random.default_rng(3)
    seeds, n, fair, found = 4, 1000, [], []
    for _ in range(200):
        sign = np.stack([rng.permutation(np.arange(n) % 2) * 2 - 1 for _ in range(seeds)])
        difficulty, shared = rng.gamma(2.0, 1.0, n), rng.normal(0, 0.6, (seeds, n))
        logit = rng.normal(0, 0.5, (2, seeds, n)) + shared + 2 - difficulty
        for gain, into in ((0.0, fair), (1.0, found)):
            log_p = -np.logaddexp(0, -(logit + gain * np.stack([sign > 0, sign < 0])))
            refs = twin_references(log_p[0], log_p[1], sign, 0)
            member, other = np.flatnonzero(sign[0] > 0), np.flatnonzero(sign[0] < 0)
            population = other[split_population(other, seed=len(into))]
            scored = np.setdiff1d(other, population)
            z_refs = np.concatenate([refs.refs_in, refs.refs_out]) if mode == "online" else refs.refs_out
            arrays = (log_p[0, 0], refs.refs_in, refs.refs_out, log_p[0, 0][population], z_refs[:, population])
            score = rmia_scores(*arrays, mode=mode, log=True)
            into.append(auc(score[member], score[scored]))
    assert abs(np.mean(fair) - 0.5) <= 2 * np.std(fair, ddof=1) / np.sqrt(len(fair))
    assert np.mean(found) > 0.6


def test_population_is_disjoint_by_group_and_independent_of_order():
    rng = np.random.default_rng(4)
    groups = np.array([f"patient {i}" for i in rng.integers(0, 60, 400)])
    chosen = split_population(groups, seed=0, share=0.3)
    assert not set(groups[chosen]) & set(groups[~chosen])
    largest = np.unique(groups, return_counts=True)[1].max()
    assert abs(chosen.mean() - 0.3) * 400 <= largest
    order = rng.permutation(400)
    np.testing.assert_array_equal(split_population(groups[order], seed=0, share=0.3), chosen[order])
    assert (split_population(groups, seed=1, share=0.3) != chosen).any()
    pair = split_population(["a", "a", "b"], seed=0, share=0.99)
    assert pair.any()
    assert not pair.all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, r: rmia_scores(p, r, r, p, r, mode="on"), "unknown RMIA mode"),
        (lambda p, r: rmia_scores(p, None, r, p, r), "use mode='offline'"),
        (lambda p, r: rmia_scores(p + 1, r, r, p, r), "p_target must hold probabilities"),
        (lambda p, r: rmia_scores(p, r, r, p, r, log=True), "finite log-probabilities"),
        (lambda p, r: rmia_scores(p, r, r, p, r, gamma=0.0), "gamma > 0"),
        (lambda p, r: rmia_scores(p, r, r, p[:0], r[:, :0]), "none is left"),
        (lambda p, r: rmia_scores(p, r, r[:, :2], p, r), "for 3 images"),
        (lambda p, r: split_population(["a", "a"], seed=0), "2 groups or more"),
        (lambda p, r: split_population(["a", "b"], seed=0, share=1.0), "between 0 and 1"),
    ],
)
def test_bad_input_is_one_clear_error(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call(np.array([0.2, 0.5, 0.9]), np.full((2, 3), 0.5))
    assert "\n" not in str(caught.value)
