"""Coverage of the delete-one-group intervals, and their degrees of freedom."""

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.proportion import proportion_confint

from memorisk.statistics.jackknife import counting_bound, jackknife, jackknife_variance
from memorisk.statistics.roc import auc_jackknife, seed_auc_jackknife
from memorisk.statistics.thresholds import balanced_accuracy_jackknife

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


@pytest.mark.parametrize("area", [0.5, 0.7, 0.9])
@pytest.mark.parametrize(("members", "others"), [(10, 10), (10, 100), (100, 100)])
def test_auc_intervals_cover(members, others, area):
    rng = np.random.default_rng(0)
    shift = np.sqrt(2) * norm.ppf(area)  # P(N(shift, 1) > N(0, 1)) = Phi(shift / sqrt 2)

    def draw(_):
        group, noise = grouped(rng, members + others)
        member = group < members
        return auc_jackknife(noise[member] + shift, group[member], noise[~member], group[~member])

    assert in_range(covers(draw, area))


@pytest.mark.parametrize("area", [0.5, 0.9])
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


def test_seeds_are_not_independent_units():
    """Four copies of one seed must give the interval of one seed; as units of their own they would halve it."""
    rng = np.random.default_rng(2)
    group, noise = grouped(rng, 40)
    role = (group % 2)[None]
    one = seed_auc_jackknife(noise[None], role, group)
    four = seed_auc_jackknife(np.tile(noise, (4, 1)), np.tile(role, (4, 1)), group)
    assert four.low == pytest.approx(one.low, abs=1e-12)
    assert four.high == pytest.approx(one.high, abs=1e-12)


def test_balanced_accuracy_intervals_cover():
    rng = np.random.default_rng(3)

    def draw(_):
        group, noise = grouped(rng, 60)
        member = group % 2 == 0
        return balanced_accuracy_jackknife(noise + member > 0.5, member, group)

    assert in_range(covers(draw, norm.cdf(0.5)))


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
