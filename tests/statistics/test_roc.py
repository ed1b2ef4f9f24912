"""ROC, AUC, low false-positive rates and thresholds, each against scikit-learn or a naive definition."""

from dataclasses import astuple

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import beta, binom, norm, t
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, jackknife_variance, unavailable
from memorisk.statistics.placements import group_deleted_auc
from memorisk.statistics.roc import (
    auc,
    auc_jackknife,
    log_roc_points,
    reject_if_control_fails,
    roc_curve,
    seed_auc_jackknife,
    tpr_at_fpr,
)
from tests.thorough import thorough


def scores(rng, m, n, *, ties=False, shift=1.0):
    member, other = rng.normal(shift, 1, m), rng.normal(0, 1, n)
    return (np.round(member), np.round(other)) if ties else (member, other)


@pytest.mark.parametrize("ties", [False, True])
def test_curve_and_auc_equal_scikit_learn(ties):
    rng = np.random.default_rng(0)
    for m, n in ((1, 1), (7, 4), (300, 200)):
        member, other = scores(rng, m, n, ties=ties)
        truth, values = np.repeat([1, 0], [m, n]), np.concatenate([member, other])
        fpr, tpr, thresholds = sklearn_roc_curve(truth, values, drop_intermediate=False)
        curve = roc_curve(member, other)
        np.testing.assert_allclose(curve.fpr, fpr, atol=1e-15)
        np.testing.assert_allclose(curve.tpr, tpr, atol=1e-15)
        np.testing.assert_array_equal(curve.threshold, thresholds)
        assert auc(member, other) == pytest.approx(roc_auc_score(truth, values), abs=1e-12)
        assert auc(member, other) == pytest.approx(np.trapezoid(curve.tpr, curve.fpr), abs=1e-12)
        pairs = (member[:, None] > other).mean() + 0.5 * (member[:, None] == other).mean()
        assert auc(member, other) == pytest.approx(pairs, abs=1e-12)


def test_infinite_scores_have_a_rank_and_nan_has_not():
    assert auc([np.inf, 2.0], [-np.inf, 1.0]) == 1.0
    for call in (auc, roc_curve):
        with pytest.raises(InputError, match="a score is NaN"):
            call([1.0, np.nan], [0.0])
        with pytest.raises(InputError, match="needs members and non-members"):
            call([], [0.0])


@pytest.mark.parametrize("ties", [False, True])
def test_log_points_stay_within_a_cell_of_the_curve(ties):
    rng = np.random.default_rng(1)
    cells = 100
    for m, n in ((20_000, 30_000), (500, 40), (3, 2)):
        curve = roc_curve(*scores(rng, m, n, ties=ties))
        x, y = log_roc_points(curve, cells)
        assert len(x) <= 3 * cells + 4
        assert (np.diff(x) >= 0).all()
        assert (np.diff(y) >= 0).all()
        assert (x[0], x[-1], y[-1]) == (0.5 / n, 1.0, 1.0)
        assert y[0] == curve.tpr[curve.fpr == 0].max()
        width = np.log(n) / cells + 1e-9
        shown = curve.fpr > 0
        # Every true point lies between the drawn curve one cell to the left and one cell to the right of it.
        log_x, log_f = np.log(x), np.log(curve.fpr[shown])
        below = np.interp(log_f - width, log_x, y)
        above = np.interp(log_f + width, log_x, y)
        assert (below <= curve.tpr[shown] + 1e-12).all()
        assert (curve.tpr[shown] <= above + 1e-12).all()


def rate(member, other, fpr, **settings):
    """TPR of one model on images that are their own patients."""
    score = np.concatenate([member, other])[None]
    role = np.repeat([1, 0], [len(member), len(other)])[None]
    return tpr_at_fpr(score, role, np.arange(score.size), fpr, **settings)


def test_tpr_at_fpr_is_the_best_threshold_and_refuses_small_samples():
    rng = np.random.default_rng(2)
    for ties in (False, True):
        member, other = scores(rng, 500, 1037, ties=ties)
        curve = roc_curve(member, other)
        for fpr in (0.01, 0.02, 0.5):
            got = rate(member, other, fpr)
            assert got.tpr == pytest.approx(curve.tpr[curve.fpr <= fpr].max(), abs=1e-15)
            assert got.note == ""
            assert got.low <= got.tpr <= got.high
    member, other = scores(rng, 500, 999)
    short = rate(member, other, 0.01)
    assert np.isnan(short.tpr)
    assert short.note == "not measurable: 999 non-members, at least 1,000 needed"
    assert (short.n_members, short.n_non_members) == (500, 999)
    assert 0 < short.low < short.high < 1  # the limits need no ten patients above the threshold
    assert rate(member, rng.normal(size=1000), 0.01).needed == 1000
    assert rate(member, other, 0.001).needed == 10_000
    exact = rate([0.5], np.arange(1000.0), 0.01)
    assert exact.tpr == 0.0
    assert rate([989.5], np.arange(1000.0), 0.01).tpr == 1.0  # ten of 1,000 non-members lie above
    with pytest.raises(InputError, match="between 0 and 1"):
        rate(member, other, 0.0)


def test_limits_of_a_rate_are_those_of_the_threshold_and_of_the_share():
    """One model: exact order statistics of the non-members, Clopper-Pearson of the members."""
    rng = np.random.default_rng(6)
    member, other = scores(rng, 300, 1200, shift=1.5)
    got, ordered = rate(member, other, 0.01, value=0.05), np.sort(other)[::-1]
    k_low = max(k for k in range(1200) if binom.cdf(k, 1200, 0.01) <= 0.0125)
    k_high = min(k for k in range(1200) if binom.cdf(k, 1200, 0.01) >= 1 - 0.0125)
    low, high = (member > ordered[k_low]).sum(), (member >= ordered[k_high]).sum()
    assert got.low == pytest.approx(beta.ppf(0.0125, low, 300 - low + 1))
    assert got.high == pytest.approx(beta.ppf(1 - 0.0125, high + 1, 300 - high))
    assert got.p_at_most < 0.025
    assert rate(member, other, 0.01).p_at_most == 1.0
    assert rate(member, other, 0.01, level=1 - 2 * got.p_at_most * (1 + 1e-6)).low > 0.05
    assert rate(member, other, 0.01, level=1 - 2 * got.p_at_most * (1 - 1e-6)).low <= 0.05
    # 436 patients cannot bound a false-positive rate at 1.25 %: 0.99^436 is above it, 0.99^437 is not.
    assert rate(member + 9, other[:436], 0.01).low == 0.0
    assert rate(member + 9, other[:437], 0.01).low > 0.9
    nobody = rate(rng.normal(size=300), other, 0.01, value=0.05)
    assert nobody.p_at_most == 1.0


def test_rates_count_patients_and_not_images():
    rng = np.random.default_rng(7)
    member, other = scores(rng, 100, 1200, shift=2.0)
    once = rate(member, other, 0.01)
    score = np.repeat(np.concatenate([member, other]), 3)
    noise = np.tile([-0.1, 0.0, 0.1], 1300)  # a patient's score is the mean of the images'
    role = np.repeat([1, 0], [300, 3600])[None]
    assert tpr_at_fpr((score + noise)[None], role, np.repeat(np.arange(1300), 3), 0.01) == once
    none = tpr_at_fpr(np.zeros((1, 4)), np.ones((1, 4)), np.arange(4), 0.01)
    assert (none.low, none.high, none.p_at_most) == (0.0, 1.0, 1.0)
    assert "a side is empty" in none.note


@pytest.mark.parametrize(("n_seeds", "spread"), [thorough(1, 0.0), (4, 0.5)])
def test_limits_of_a_rate_cover(n_seeds, spread):
    """Members gain N(mu, spread^2) with the training; the truth is the mean over trainings of Phi(z_f + shift)."""
    rng, mu, repeats, canaries, test = np.random.default_rng(8), 1.0, 200, 300, 500
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    truth = float(weights @ norm.cdf(norm.ppf(0.01) + mu + spread * nodes) / weights.sum())
    missed = 0
    for _ in range(repeats):
        role = np.zeros((n_seeds, canaries + test), dtype=int)
        for row in role:
            row[rng.permutation(canaries)[: canaries // 2]] = 1
        noise = np.sqrt(0.7) * rng.normal(size=canaries + test) + np.sqrt(0.3) * rng.normal(size=role.shape)
        got = tpr_at_fpr(noise + rng.normal(mu, spread, (n_seeds, 1)) * role, role, np.arange(canaries + test), 0.01)
        missed += not got.low <= truth <= got.high
    assert missed <= binom.ppf(0.999, repeats, 0.05)


# -- intervals over groups


def naive_deletions(score, role, group):
    """Mean over seeds of the AUC, recomputed without each group."""
    values = []
    for g in np.unique(group):
        kept = group != g
        values.append(np.mean([auc(s[kept & (r == 1)], s[kept & (r == 0)]) for s, r in zip(score, role, strict=True)]))
    return np.array(values)


@pytest.mark.parametrize("ties", [False, True])
def test_deletions_equal_recomputation_also_for_groups_on_both_sides(ties):
    rng = np.random.default_rng(3)
    group = rng.integers(0, 25, 120)
    score = rng.normal(size=(4, 120))
    score = np.round(score * 2) if ties else score
    role = rng.choice([1, 0, -1], size=(4, 120))
    score[role < 0] = np.nan
    parts = [group_deleted_auc(s, r, group, 25) for s, r in zip(score, role, strict=True)]
    expected = naive_deletions(score, role, group)
    np.testing.assert_allclose(np.mean([p.deleted for p in parts], axis=0), expected, atol=1e-13)
    # The interval from the naive values, by the formulas in words.
    interval = seed_auc_jackknife(score, role, group)
    assert interval.estimate == pytest.approx(np.mean([p.auc for p in parts]), abs=1e-15)
    variance = 24 / 25 * np.square(expected - expected.mean()).sum()
    half = (logit(interval.high) - logit(interval.low)) / 2
    a = interval.estimate
    assert half == pytest.approx(t.ppf(0.975, interval.df) * np.sqrt(variance) / (a * (1 - a)), rel=1e-9)
    assert (logit(interval.high) + logit(interval.low)) / 2 == pytest.approx(logit(a), abs=1e-9)
    assert (interval.n_groups, interval.n_seeds) == (25, 4)


def test_members_non_members_and_groups_on_both_sides_have_a_spread_of_their_own():
    rng = np.random.default_rng(8)
    group = np.repeat(np.arange(21), 4)
    kind = np.select([np.arange(21) < 10, np.arange(21) < 16], [1, 0], 2)
    role = np.where(kind[group] == 2, np.tile([1, 0, 0, 1], 21), kind[group])
    score = rng.normal(size=84) * np.where(kind[group] == 0, 3.0, 1.0)
    variance, df = jackknife_variance(naive_deletions(score[None], role[None], group), kind)
    found = seed_auc_jackknife(score[None], role[None], group)
    assert found.df == pytest.approx(df, rel=1e-9)
    assert df != pytest.approx(jackknife_variance(naive_deletions(score[None], role[None], group), 0 * kind)[1])
    a = found.estimate
    half = t.ppf(0.975, df) * np.sqrt(variance) / (a * (1 - a))
    assert (logit(found.high) - logit(found.low)) / 2 == pytest.approx(half, rel=1e-9)


def test_one_seed_form_and_renamed_groups():
    rng = np.random.default_rng(4)
    member, other = scores(rng, 60, 50)
    m_group, n_group = rng.integers(0, 20, 60), rng.integers(15, 35, 50)
    first = auc_jackknife(member, m_group, other, n_group)
    named = auc_jackknife(member, [f"p{g}" for g in m_group], other, [f"p{g}" for g in n_group])
    assert named.n_groups == first.n_groups == len(set(m_group) | set(n_group))
    assert (named.low, named.high) == pytest.approx((first.low, first.high), abs=1e-12)
    assert auc_jackknife(-member, m_group, -other, n_group).low == pytest.approx(1 - first.high, abs=1e-12)
    with pytest.raises(InputError, match="every score needs a group"):
        auc_jackknife(member, m_group, other, n_group[:-1])


def test_groups_count_not_images():
    """Ten copies of every image carry no more information: the interval must not shrink."""
    rng = np.random.default_rng(5)
    member, other = scores(rng, 30, 30)
    once = auc_jackknife(member, np.arange(30), other, np.arange(30, 60))
    copies = auc_jackknife(
        np.repeat(member, 10), np.repeat(np.arange(30), 10), np.repeat(other, 10), np.repeat(np.arange(30, 60), 10)
    )
    assert copies.low == pytest.approx(once.low, abs=1e-12)
    assert copies.high == pytest.approx(once.high, abs=1e-12)


def test_perfect_separation_has_an_exact_bound():
    """P(all n disjoint pairs in order) = AUC^n = 0.025 at the lower limit."""
    perfect = auc_jackknife([2.0, 3.0, 4.0, 5.0], list("abcd"), [0.0, 1.0, 1.5], list("efg"))
    assert (perfect.estimate, perfect.high) == (1.0, 1.0)
    assert perfect.low**3 == pytest.approx(0.025, abs=1e-12)
    inverse = auc_jackknife([0.0, 1.0, 1.5], list("efg"), [2.0, 3.0, 4.0, 5.0], list("abcd"))
    assert (inverse.estimate, inverse.low) == (0.0, 0.0)
    assert inverse.high == pytest.approx(1 - perfect.low)


def test_what_cannot_be_measured_says_so():
    tied = auc_jackknife(np.ones(8), np.arange(8), np.ones(9), np.arange(9, 18))
    assert tied.estimate == 0.5
    assert tied.low < 0.25
    assert tied.high > 0.75
    lone = auc_jackknife([1.0, 2.0], ["a", "a"], [0.0, 3.0], ["b", "c"])
    assert (lone.estimate, lone.low, lone.high) == (0.5, 0.0, 1.0)
    none = seed_auc_jackknife(np.zeros((2, 3)), np.ones((2, 3)), [0, 1, 2])
    assert np.isnan(none.estimate)
    assert none.method.startswith("not measurable")
    # A seed with one group of members is left out beside seeds that have more.
    score, role = np.array([[1.0, 0, 0, 1], [1, 0, 2, 0.5]]), np.array([[1, 0, 0, 0], [1, 0, 1, 0]])
    mixed = seed_auc_jackknife(score, role, np.arange(4))
    assert (mixed.n_seeds, mixed.estimate) == (1, 1.0)
    with pytest.raises(InputError, match="score and role must be"):
        seed_auc_jackknife(score, role[:1], np.arange(4))
    empty = rate(np.empty(0), [0.0, 1.0], 0.1)
    words = "not measurable: a side is empty"
    np.testing.assert_equal(astuple(empty), (np.nan, 0.0, 1.0, 0.1, 0, 0, 100, words, 1.0))
    assert rate(np.full(9, -1.0), [0.0, 1.0, 2.0], 0.9).high == 1.0  # a threshold below three non-members' scores


def test_control_check_speaks_plainly():
    inside = JackknifeInterval(0.52, 0.45, 0.59, 20.0, 30, 1, "")
    outside = JackknifeInterval(0.62, 0.55, 0.69, 20.0, 30, 1, "")
    assert reject_if_control_fails(inside).passed
    assert "contains 0.5" in reject_if_control_fails(inside).message
    assert not reject_if_control_fails(outside).passed
    assert "0.620 (0.550 to 0.690), which does not contain 0.5" in reject_if_control_fails(outside).message
    missing = reject_if_control_fails(unavailable("no members"))
    assert not missing.passed
    assert "could not be measured" in missing.message
