"""Losses and margins against torch and SciPy, scores against their definitions written as loops."""

import numpy as np
import pytest
import torch
from scipy.special import log_expit, log_softmax

from memorisk.runs.errors import InputError
from memorisk.scores import memorization as d


def some_logits(rng, n=200, k=7, scale=5.0):
    return rng.normal(0, scale, (n, k)), rng.integers(0, k, n)


@pytest.mark.parametrize("scale", [0.1, 5.0, 1e4])
def test_cross_entropy_is_torch_and_scipy(scale):
    z, y = some_logits(np.random.default_rng(0), scale=scale)
    ours = d.cross_entropy(z, y)
    theirs = torch.nn.functional.cross_entropy(torch.tensor(z), torch.tensor(y), reduction="none").numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours, -log_softmax(z, axis=1)[np.arange(len(y)), y], rtol=1e-12, atol=1e-12)


def test_cross_entropy_takes_float32_logits_in_float64():
    z, y = some_logits(np.random.default_rng(1))
    z32 = z.astype(np.float32)
    assert d.cross_entropy(z32, y).dtype == np.float64
    np.testing.assert_array_equal(d.cross_entropy(z32, y), d.cross_entropy(z32.astype(np.float64), y))


def test_binary_cross_entropy_is_torch_and_the_two_class_form():
    rng = np.random.default_rng(2)
    z, t = rng.normal(0, 30, 300), rng.integers(0, 2, 300)
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.tensor(z), torch.tensor(t, dtype=torch.float64), reduction="none"
    )
    # torch subtracts numbers of the size of z, so its small losses carry z's rounding; log_expit does not.
    np.testing.assert_allclose(d.binary_cross_entropy(z, t), theirs.numpy(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(d.binary_cross_entropy(z, t), -log_expit((2 * t - 1) * z), rtol=1e-13)
    two = d.cross_entropy(np.stack([np.zeros(300), z], 1), t)
    np.testing.assert_allclose(d.binary_cross_entropy(z, t), two, rtol=1e-9, atol=1e-13)


def test_logit_margin_is_the_log_odds_where_these_can_be_formed():
    z, y = some_logits(np.random.default_rng(3), scale=2.0)
    p = np.exp(log_softmax(z, axis=1))[np.arange(len(y)), y]
    np.testing.assert_allclose(d.logit_margin(z, y), np.log(p) - np.log1p(-p), rtol=1e-9)


def test_logit_margin_stays_exact_where_probabilities_round():
    # With two classes the margin is z_y - z_other, however large.
    for big in (40.0, 800.0, 1e4):
        z = np.array([[big, -big], [-big, big], [big, big - 1]])
        np.testing.assert_array_equal(d.logit_margin(z, [0, 0, 0]), [2 * big, -2 * big, 1.0])
    # Three classes: log p - log(1 - p) in 60 digits would be z_y - log(e^a + e^b).
    z = np.array([[1e4, -1e4, -1e4]])
    np.testing.assert_allclose(d.logit_margin(z, [0]), [2e4 - np.log(2)], rtol=1e-15)


def test_logit_margin_of_one_logit_is_that_of_two():
    rng = np.random.default_rng(4)
    z, t = rng.normal(0, 50, 100), rng.integers(0, 2, 100)
    np.testing.assert_array_equal(d.logit_margin(z, t), (2 * t - 1) * z)
    np.testing.assert_allclose(d.logit_margin(z, t), d.logit_margin(np.stack([np.zeros(100), z], 1), t), rtol=1e-12)


def random_design(rng, seeds=5, n=40):
    sign = rng.choice([-1, 0, 1], (seeds, n))
    sign[:, 0] = 0
    gap = rng.normal(size=(seeds, n))
    return gap, sign


def test_memorization_is_the_loop_over_seeds():
    gap, sign = random_design(np.random.default_rng(5))
    naive = []
    for i in range(gap.shape[1]):
        scored = [float(sign[s, i] * gap[s, i]) for s in range(len(gap)) if sign[s, i] != 0]
        naive.append(sum(scored) / len(scored) if scored else np.nan)
    np.testing.assert_array_equal(d.memorization(gap, sign), naive)


def test_exchanging_the_twins():
    gap, sign = random_design(np.random.default_rng(6))
    np.testing.assert_array_equal(d.memorization(-gap, sign), -d.memorization(gap, sign))
    # Renaming the twins (losses and sides together) is no change at all.
    np.testing.assert_array_equal(d.memorization(-gap, -sign), d.memorization(gap, sign))


def test_a_gap_that_no_one_scored_may_be_missing():
    gap, sign = random_design(np.random.default_rng(8))
    holed = np.where(sign == 0, np.nan, gap)
    np.testing.assert_array_equal(d.memorization(holed, sign), d.memorization(gap, sign))
    gap[0, np.flatnonzero(sign[0])[0]] = np.nan
    with pytest.raises(InputError, match="not finite"):
        d.memorization(gap, sign)


def test_group_table_is_the_loop_over_groups():
    rng = np.random.default_rng(9)
    gap, sign = random_design(rng)
    group = rng.choice(["p1", "p2", "p3", "p10"], gap.shape[1])
    table = d.group_table(gap, sign, group)
    assert table.group.tolist() == sorted(set(group.tolist()))
    for g, name in enumerate(table.group):
        assert table.n_images[g] == np.sum(group == name)
        for s in range(len(gap)):
            values = [sign[s, i] * gap[s, i] for i in np.flatnonzero(group == name) if sign[s, i] != 0]
            np.testing.assert_allclose(table.values[g, s], np.mean(values) if values else np.nan, rtol=1e-13)


def test_feldman_zhang_is_the_loop_over_models():
    rng = np.random.default_rng(10)
    correct, member = rng.random((16, 30)) < 0.7, rng.random((16, 30)) < 0.5
    member[:, 0] = True
    found = d.feldman_zhang(correct, member)
    for i in range(30):
        seen, unseen = correct[member[:, i], i], correct[~member[:, i], i]
        assert (found.n_in[i], found.n_out[i]) == (len(seen), len(unseen))
        naive = seen.mean() - unseen.mean() if len(seen) and len(unseen) else np.nan
        np.testing.assert_allclose(found.memorization[i], naive, atol=1e-15)


def test_feldman_zhang_standard_error_is_never_zero_and_at_most_one_over_root_k():
    k = 16
    member = np.repeat([[True], [False]], k // 2, axis=0)
    always = d.feldman_zhang(np.ones((k, 1)), member)
    assert always.memorization[0] == 0
    # 8 of 8 shrinks to 9/10 on either side.
    np.testing.assert_allclose(always.standard_error, np.sqrt(2 * 0.9 * 0.1 / 8))
    half = d.feldman_zhang(np.tile([[1.0], [0.0]], (k // 2, 1)), member)
    np.testing.assert_allclose(half.standard_error, 1 / np.sqrt(k))


def test_feldman_zhang_standard_error_covers_the_spread_over_models():
    # Many images with the same rates stand for repeats of one estimate.
    rng = np.random.default_rng(11)
    k, n = 64, 20000
    member = np.repeat([[True], [False]], k // 2, axis=0) & np.ones((1, n), dtype=bool)
    correct = rng.random((k, n)) < np.where(member, 0.9, 0.6)
    found = d.feldman_zhang(correct, member)
    spread = found.memorization.std()
    assert abs(found.memorization.mean() - 0.3) < 4 * spread / np.sqrt(n)
    assert 1 <= np.sqrt(np.mean(found.standard_error**2)) / spread < 1.1


def test_influence_is_the_masked_means():
    rng = np.random.default_rng(12)
    correct, member = rng.random((120, 9)) < 0.6, rng.random((120, 11)) < 0.5
    naive = np.empty((11, 9))
    for i in range(11):
        for j in range(9):
            naive[i, j] = correct[member[:, i], j].mean() - correct[~member[:, i], j].mean()
    np.testing.assert_allclose(d.influence(correct, member), naive, atol=1e-13)
    # An image's influence on itself is its memorization.
    own = d.influence(correct, member[:, :9])
    np.testing.assert_allclose(np.diag(own), d.feldman_zhang(correct, member[:, :9]).memorization, atol=1e-13)


def test_labels_beyond_the_logits_are_told_which_there_are():
    with pytest.raises(InputError, match=r"from 0 to 2$"):
        d.cross_entropy(np.zeros((2, 3)), [0, 3])


def test_influence_is_refused_below_a_hundred_models():
    with pytest.raises(InputError, match="at least 100 models and got 99"):
        d.influence(np.ones((99, 2)), np.ones((99, 3)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: d.cross_entropy(np.zeros((3, 1)), [0, 0, 0]),
        lambda: d.cross_entropy(np.zeros((3, 2)), [0, 1]),
        lambda: d.cross_entropy(np.zeros((2, 2)), [0, 2]),
        lambda: d.cross_entropy(np.zeros((2, 2)), [0, -1]),
        lambda: d.cross_entropy(np.zeros((2, 2)), [0.0, 1.0]),
        lambda: d.cross_entropy([[np.nan, 0.0]], [0]),
        lambda: d.logit_margin([[np.inf, 0.0]], [0]),
        lambda: d.binary_cross_entropy([0.0, 1.0], [0.5, 1.0]),
        lambda: d.binary_cross_entropy([np.nan], [1]),
        lambda: d.binary_cross_entropy([[0.0]], [[1]]),
        lambda: d.memorization(np.zeros((2, 3)), np.zeros((3, 2))),
        lambda: d.memorization(np.zeros((1, 1)), [[2]]),
        lambda: d.group_table(np.zeros((1, 2)), np.ones((1, 2)), ["a"]),
        lambda: d.feldman_zhang([[0.5]], [[True]]),
        lambda: d.feldman_zhang(np.ones((2, 3)), np.ones((3, 2))),
        lambda: d.influence(np.ones((100, 2)), np.ones((101, 2))),
    ],
)
def test_misfits_are_refused_in_one_line(call):
    with pytest.raises(InputError) as refused:
        call()
    assert "\n" not in str(refused.value)
