"""Coverage of the delete-one-group intervals, and their degrees of freedom."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binom, norm, rankdata, t
from statsmodels.stats.proportion import proportion_confint

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import MIN_P, counting_bound, jackknife, jackknife_variance, t_quantile, unavailable
from memorisk.statistics.placements import group_deleted_auc, mid_ranks
from memorisk.statistics.roc import PartLeftOut, auc, auc_jackknife, part_left_out, seed_auc_jackknife, tpr_at_fpr
from tests.thorough import thorough

REPEATS = 1000


def covers(draw, truth, repeats=REPEATS):
    """Share of intervals that contain the truth."""
    return np.mean([interval.low <= truth <= interval.high for interval in (draw(i) for i in range(repeats))])


def in_range(coverage, repeats=REPEATS):
    """0.93 to 0.97, with two standard errors of the simulation itself."""
    slack = 2 * np.sqrt(0.95 * 0.05 / repeats)
    return 0.93 - slack <= coverage <= 0.97 + slack


def grouped(rng, n_groups):
    """Groups of 1 to 5 images, with a group effect that carries half of the variance."""
    group = np.repeat(np.arange(n_groups), rng.integers(1, 6, n_groups))
    noise = rng.normal(size=n_groups)[group] + rng.normal(size=len(group))
    return group, noise / np.sqrt(2)


@pytest.mark.parametrize("area", [thorough(0.5), 0.7, thorough(0.9)])
@pytest.mark.parametrize(("members", "others"), [thorough(10, 10), (10, 100), thorough(100, 100)])
def test_auc_intervals_cover(members, others, area):
    rng = np.random.default_rng(0)
    shift = np.sqrt(2) * norm.ppf(area)  # P(N(shift, 1) > N(0, 1)) = Phi(shift / sqrt 2)

    def draw(_):
        group, noise = grouped(rng, members + others)
        member = group < members
        return auc_jackknife(noise[member] + shift, group[member], noise[~member], group[~member])

    assert in_range(covers(draw, area))


@pytest.mark.parametrize("area", [0.5, thorough(0.9)])
def test_seed_averaged_intervals_cover(area):
    """Halves redrawn in each of four seeds, so that a group is a member in some and a non-member in others."""
    rng = np.random.default_rng(1)
    shift = np.sqrt(2) * norm.ppf(area)

    def draw(_):
        group, difficulty = grouped(rng, 60)
        role = np.stack([rng.permutation(60) % 2 for _ in range(4)])[:, group]
        score = np.sqrt(0.7) * difficulty + np.sqrt(0.3) * rng.normal(size=role.shape) + shift * role
        return seed_auc_jackknife(score, role, group)

    assert in_range(covers(draw, area))


@pytest.mark.parametrize("n_seeds", [3, thorough(8)])
def test_intervals_cover_where_trainings_differ(n_seeds):
    """Trainings whose members gain N(mu, 0.5^2): E Phi(shift / sqrt 2) = Phi(mu / sqrt(2 + 0.25)) is the truth.

    The same tables give, over groups alone, an interval for these models that leaves other trainings out.
    """
    rng, repeats, spread = np.random.default_rng(6), 400, 0.5
    mu = np.sqrt(2 + spread**2) * norm.ppf(0.65)

    def draw(_):
        group, difficulty = grouped(rng, 60)
        role = np.stack([rng.permutation(60) % 2 for _ in range(n_seeds)])[:, group]
        shift = rng.normal(mu, spread, (n_seeds, 1))
        score = np.sqrt(0.7) * difficulty + np.sqrt(0.3) * rng.normal(size=role.shape) + shift * role
        return seed_auc_jackknife(score, role, group)

    intervals = [draw(i) for i in range(repeats)]
    assert not any(i.conditional for i in intervals)
    assert in_range(covers(intervals.__getitem__, 0.65, repeats), repeats)
    rng, alone = np.random.default_rng(6), []
    for _ in range(100):
        group, difficulty = grouped(rng, 60)
        role = np.stack([rng.permutation(60) % 2 for _ in range(n_seeds)])[:, group]
        shift = rng.normal(mu, spread, (n_seeds, 1))
        score = np.sqrt(0.7) * difficulty + np.sqrt(0.3) * rng.normal(size=role.shape) + shift * role
        parts = [group_deleted_auc(s, r, group, 60) for s, r in zip(score, role, strict=True)]
        deleted = np.mean([p.deleted for p in parts], axis=0)
        interval = jackknife(float(np.mean([p.auc for p in parts])), deleted, np.full(60, 2), scale="logit")
        assert interval.conditional
        alone.append(interval.contains(0.65))
    assert np.sum(alone) < binom.ppf(0.001, 100, 0.95)


def twins(rng: np.random.Generator, n_seeds: int, mu: float, spread: float) -> tuple[np.ndarray, ...]:
    """Scores and roles of both twins [2 S, N], their seeds and the groups; members gain N(mu, spread^2)."""
    group, difficulty = grouped(rng, 60)
    of_a = np.stack([rng.permutation(60) % 2 for _ in range(n_seeds)])[:, group]
    role = np.concatenate([of_a, 1 - of_a])
    shift = np.tile(rng.normal(mu, spread, (n_seeds, 1)), (2, 1))
    score = np.sqrt(0.7) * difficulty + np.sqrt(0.3) * rng.normal(size=role.shape) + shift * role
    return score, role, np.tile(np.arange(n_seeds), 2), group


@pytest.mark.parametrize("spread", [0.0, thorough(0.5)])
def test_intervals_of_both_twins_cover_and_are_shorter(spread):
    """Each group is a member for one twin and a non-member for the other, so that difficulty cancels."""
    rng, repeats = np.random.default_rng(9), 400
    mu = np.sqrt(2 + spread**2) * norm.ppf(0.6)
    tables = [twins(rng, 8, mu, spread) for _ in range(repeats)]
    both = [seed_auc_jackknife(score, role, group, seed=seed) for score, role, seed, group in tables]
    one = [seed_auc_jackknife(score[:8], role[:8], group) for score, role, _, group in tables]
    assert in_range(covers(both.__getitem__, 0.6, repeats), repeats)
    assert {i.n_seeds for i in both} == {8}
    assert np.mean([i.high - i.low for i in both]) < np.mean([i.high - i.low for i in one])


def test_twins_of_a_seed_are_one_training():
    """A twin that answers as the other adds nothing, to an interval, to its part left out or to a rate."""
    score, role, seed, group = twins(np.random.default_rng(10), 4, 0.5, 0.3)
    twice = [np.concatenate([table[:4], table[:4]]) for table in (score, role)]
    assert seed_auc_jackknife(*twice, group, seed=seed) == seed_auc_jackknife(score[:4], role[:4], group)
    left = part_left_out(*twice, group, seed=seed), part_left_out(score[:4], role[:4], group)
    assert left[0].auc == left[1].auc
    np.testing.assert_allclose(left[0].deleted, left[1].deleted, rtol=1e-14)
    rates = [
        replace(tpr_at_fpr(*tables, group, 0.4, seed=of, value=0.5), tpr=0.0)
        for tables, of in ((twice, seed), ((score[:4], role[:4]), None))
    ]
    assert rates[0] == rates[1]
    with pytest.raises(InputError, match="every attacked model needs a seed: 8 models, 4 seeds"):
        seed_auc_jackknife(*twice, group, seed=seed[:4])


def test_two_trainings_speak_of_themselves():
    rng = np.random.default_rng(7)
    group, noise = grouped(rng, 40)
    role = np.tile(group % 2, (4, 1))
    score = noise + 0.3 * rng.normal(size=role.shape) + rng.normal(0, 0.5, (4, 1)) * role
    assert seed_auc_jackknife(score[:2], role[:2], group).conditional
    assert "trainings" not in seed_auc_jackknife(score[:2], role[:2], group).method
    four = seed_auc_jackknife(score, role, group)
    assert not four.conditional
    assert four.method == "jackknife over groups and trainings, t on logit scale"


def test_two_way_variance_is_that_of_the_table_of_pseudo_values():
    """The three variances in words, by deleting and recomputing; the interval from two t quantiles."""
    rng = np.random.default_rng(8)
    group, noise = grouped(rng, 30)
    role = np.stack([rng.permutation(30) % 2 for _ in range(5)])[:, group]
    score = noise + rng.normal(size=role.shape) + rng.normal(0, 1, (5, 1)) * role
    aucs = np.array([auc(s[r == 1], s[r == 0]) for s, r in zip(score, role, strict=True)])
    without = np.array(
        [[auc(s[(r == 1) & (group != g)], s[(r == 0) & (group != g)]) for g in range(30)]
         for s, r in zip(score, role, strict=True)]
    )  # fmt: skip
    over_groups = 29 / 30 * np.square(without.mean(0) - without.mean()).sum()
    within = np.mean([29 / 30 * np.square(row - row.mean()).sum() for row in without])
    over_trainings = aucs.var(ddof=1) / 5
    assert over_trainings > over_groups
    interval = seed_auc_jackknife(score, role, group)
    rest = max(over_groups - (within - over_groups) / 4, 0)
    assert interval.spread.parts[1] == pytest.approx((over_trainings, 4))
    assert interval.spread.parts[0][0] == pytest.approx(rest)
    df = interval.spread.parts[0][1]
    a = interval.estimate
    half = np.sqrt(t.ppf(0.975, 4) ** 2 * over_trainings + t.ppf(0.975, df) ** 2 * rest) / (a * (1 - a))
    assert logit(interval.high) - logit(a) == pytest.approx(half)
    assert logit(a) - logit(interval.low) == pytest.approx(half)
    of_trainings = t.ppf(0.975, 4) ** 2 * over_trainings / (half * a * (1 - a)) ** 2
    assert interval.spread.of_trainings() == pytest.approx(of_trainings)
    assert t.ppf(0.975, interval.df) * np.sqrt(over_trainings + rest) == pytest.approx(half * a * (1 - a))
    # Trainings that share references: of what lies beyond the groups the larger counts, with its degrees of freedom.
    left = np.array([0.4, 0.9, 0.5, 0.6])
    rows = left[:, None] + rng.normal(0, 0.01, (4, 30))
    apart = rows - rows.mean(axis=0)
    of_groups = 29 / 30 * np.square(apart - apart.mean(axis=1, keepdims=True)).sum()
    beyond = 3 / 4 * (np.square(left - 0.6).sum() - of_groups)
    parts = [PartLeftOut(*part) for part in zip(left, rows, strict=True)]
    shared = seed_auc_jackknife(score, role, group, without=parts)
    assert shared.spread.parts[1] == pytest.approx((beyond + (within - over_groups) / 4, 3))
    by_groups_alone = [replace(part, deleted=part.deleted + rng.normal(0, 1, 30)) for part in parts]
    lost = [*parts[:3], PartLeftOut(np.nan, np.full(30, np.nan))]
    for not_usable in (lost, parts[:2], [parts[0]] * 4, by_groups_alone):
        assert seed_auc_jackknife(score, role, group, without=not_usable) == interval


def test_noise_that_a_target_shares_with_a_reference_counts_once():
    """A score of own noise times that of the others: the jackknife over trainings holds it twice, the interval once."""
    rng, group = np.random.default_rng(12), np.arange(60)

    def scored(noise, role):
        """Score each seed against the mean of the others."""
        signed = noise * (2 * role - 1)
        return noise * (signed.sum(axis=0) - signed)

    covered, variances, by_deletion = [], [], []
    for _ in range(80):
        role = np.stack([rng.permutation(60) % 2 for _ in range(8)])
        noise = rng.normal(size=role.shape)
        left = []
        for s in range(8):
            others = np.arange(8) != s
            left.append(part_left_out(scored(noise[others], role[others]), role[others], group))
        interval = seed_auc_jackknife(scored(noise, role), role, group, without=left)
        covered.append(interval.contains(0.5))
        variances.append(sum(v for v, _ in interval.spread.parts))
        by_deletion.append(7 / 8 * np.square([p.auc - np.mean([q.auc for q in left]) for p in left]).sum())
    assert np.mean(variances) < 0.75 * np.mean(by_deletion)
    assert np.sum(covered) >= binom.ppf(0.001, 80, 0.95)


def test_p_is_the_level_at_which_the_lower_limit_stands_at_the_value():
    rng = np.random.default_rng(9)
    member, other = rng.normal(1, 1, 40), rng.normal(size=50)
    interval = auc_jackknife(member, np.arange(40), other, np.arange(40, 90))
    p = interval.p_at_most(0.6)
    assert 0 < p < 0.025
    at = auc_jackknife(member, np.arange(40), other, np.arange(40, 90), level=1 - 2 * p)
    assert at.low == pytest.approx(0.6, abs=1e-9)
    (variance, df), a = interval.spread.parts[0], interval.estimate
    assert p == pytest.approx(t.sf((logit(a) - logit(0.6)) * a * (1 - a) / np.sqrt(variance), df), rel=1e-6)
    assert interval.p_at_most(a) == 1.0
    assert unavailable("nothing").p_at_most(0.5) == 1.0
    certain = auc_jackknife([2.0, 3.0, 4.0], list("abc"), [0.0, 1.0, 1.5], list("efg"))
    assert certain.p_at_most(0.5) == pytest.approx(0.5**3, rel=1e-6)  # three disjoint pairs in order
    assert auc_jackknife(member + 60, np.arange(40), other, np.arange(40, 90)).p_at_most(0.5) == MIN_P


def test_p_holds_its_level_where_trainings_differ():
    """One-sided p of "the AUC is at most the truth": at most alpha in alpha of the tables."""
    rng, repeats, spread = np.random.default_rng(10), 300, 0.4
    mu = np.sqrt(2 + spread**2) * norm.ppf(0.6)
    small = 0
    for _ in range(repeats):
        group = np.arange(80)
        role = np.stack([rng.permutation(80) % 2 for _ in range(6)])
        score = rng.normal(size=role.shape) + rng.normal(mu, spread, (6, 1)) * role
        small += seed_auc_jackknife(score, role, group).p_at_most(0.6) <= 0.05
    assert small <= binom.ppf(0.999, repeats, 0.05)


def test_seeds_are_not_independent_units():
    """Four copies of one seed must give the interval of one seed; as units of their own they would halve it."""
    rng = np.random.default_rng(2)
    group, noise = grouped(rng, 40)
    role = (group % 2)[None]
    one = seed_auc_jackknife(noise[None], role, group)
    four = seed_auc_jackknife(np.tile(noise, (4, 1)), np.tile(role, (4, 1)), group)
    assert four.low == pytest.approx(one.low, abs=1e-12)
    assert four.high == pytest.approx(one.high, abs=1e-12)


def test_perfect_separation_bound_covers():
    """At an AUC of 0.95 five groups against five are often in perfect order; the limit must still cover."""
    rng = np.random.default_rng(4)
    shift = np.sqrt(2) * norm.ppf(0.95)
    perfect = [0, 0]

    def draw(_):
        interval = auc_jackknife(rng.normal(shift, 1, 5), np.arange(5), rng.normal(size=5), np.arange(5, 10))
        perfect[0] += interval.estimate == 1
        perfect[1] += interval.estimate == 1 and interval.low <= 0.95
        return interval

    assert covers(draw, 0.95) > 0.93
    assert perfect[0] > 100
    assert perfect[1] == perfect[0]


def test_degrees_of_freedom():
    rng = np.random.default_rng(5)
    variance, df = jackknife_variance(np.array([0.1, -0.1, 0.1, -0.1]), np.zeros(4, dtype=int))
    assert (variance, df) == (pytest.approx(3 / 4 * 0.04), 3.0)  # equal contributions: G - 1
    # One kind of 5 groups carries all the variance beside 200 that carry next to none: about 4, not 204.
    values = np.concatenate([rng.normal(0, 1, 5), rng.normal(0, 1e-3, 200)])
    assert jackknife_variance(values, np.repeat([1, 0], [5, 200]))[1] < 4.1
    # One group among 50 of its kind carries it all: one degree of freedom is left to estimate it from.
    assert jackknife_variance(np.r_[1.0, np.zeros(49)], np.zeros(50, dtype=int))[1] < 2.5
    assert jackknife_variance(np.full(9, 0.7) + np.array([1e-16] * 9), np.zeros(9, dtype=int)) == (0.0, 1.0)
    assert jackknife_variance(np.array([0.3]), np.zeros(1, dtype=int)) == (0.0, 1.0)


def test_scales_and_whole_ranges():
    values = np.array([0.2, 0.3, 0.25, 0.27])
    kind = np.zeros(4, dtype=int)
    for scale, ends in (("logit", (0, 1)), ("fisher", (-1, 1)), ("difference", (-1, 1))):
        interval = jackknife(0.25, values, kind, scale=scale)
        assert ends[0] <= interval.low < 0.25 < interval.high <= ends[1]
        nothing = jackknife(0.25, [0.25], kind[:1], scale=scale)
        assert (nothing.low, nothing.high) == ends
        assert jackknife(0.25, values, kind, scale=scale, level=0.5).low > interval.low
    wide = jackknife(0.0, [1.0, -1.0], kind[:2], scale="difference")
    assert (wide.low, wide.high) == (-1.0, 1.0)


def test_counting_bound_is_clopper_pearson():
    for k, n in ((0, 7), (3, 7), (7, 7), (12, 40)):
        assert counting_bound(k / n, n) == pytest.approx(proportion_confint(k, n, method="beta"), abs=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 300])
@pytest.mark.parametrize("distinct", [1, 5, 10**6])
def test_ranks_and_quantiles_are_those_of_scipy(n, distinct):
    rng = np.random.default_rng(n)
    values = np.append(rng.integers(0, distinct, n) / 7, [np.inf, -np.inf, 0.0, -0.0][:n])
    np.testing.assert_array_equal(mid_ranks(values), rankdata(values))
    df, probability = rng.uniform(1, 400), rng.random()
    assert t_quantile(probability, df) == t.ppf(probability, df)
