import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.mark_contrasts import mean_limits, pearson, pearson_p, positive_mean, seed_share
from tests.thorough import thorough

RNG = np.random.default_rng


def test_limits_are_those_of_student_and_a_little_wider_than_welchs():
    a, b = RNG(0).normal(1, 2, 12), RNG(1).normal(0, 1, 20)
    one, two = mean_limits(a), mean_limits(a, b)
    expected = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    assert (one.low, one.high) == pytest.approx((expected.low, expected.high))
    half = np.hypot(stats.sem(a) * stats.t.ppf(0.975, 11), stats.sem(b) * stats.t.ppf(0.975, 19))
    difference = a.mean() - b.mean()
    assert (two.low, two.high) == pytest.approx((difference - half, difference + half))
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert two.low < welch.low < welch.high < two.high
    assert (two.n, two.n_other) == (12, 20)


@pytest.mark.filterwarnings("error")
def test_one_value_has_no_limits_and_none_no_mean():
    assert np.isnan(mean_limits([1.0]).low)
    assert mean_limits([1.0]).estimate == 1.0
    assert np.isnan(mean_limits([]).estimate)
    assert np.isnan(mean_limits([1.0, 2.0], []).estimate)


def test_equal_values_have_limits_of_no_width():
    found = mean_limits([2.0, 2.0], [1.0, 1.0, 1.0])
    assert (found.low, found.estimate, found.high) == (1.0, 1.0, 1.0)


def test_mean_of_the_positive_is_biased_by_selection():
    noise = RNG(2).normal(0, 1, 100_000)
    assert positive_mean(noise) == pytest.approx(np.sqrt(2 / np.pi), abs=0.01)
    assert np.isnan(positive_mean([-1.0, 0.0]))


def test_seed_share_equals_the_formula_of_anova():
    table = RNG(3).normal(size=(7, 4)) + RNG(4).normal(size=(7, 1))
    f = stats.f_oneway(*table).statistic
    found = seed_share(table)
    assert found.share == pytest.approx((f - 1) / (f + 3))
    assert found.low < found.share < found.high
    assert (found.n_images, found.n_runs) == (7, 4)


def test_seed_share_of_the_published_example():
    """Shrout and Fleiss (1979), table 2: four judges of six targets; the limits are those of R's psych."""
    found = seed_share([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    assert (found.share, found.low, found.high) == pytest.approx((0.166, -0.133, 0.723), abs=0.001)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_seed_share_covers(share):
    held, n = 0, 600
    for i in range(n):
        rng = RNG(100 + i)
        table = rng.normal(0, np.sqrt(share), (20, 1)) + rng.normal(0, np.sqrt(1 - share), (20, 5))
        found = seed_share(table)
        held += found.low <= share <= found.high
    assert abs(held / n - 0.95) < 3 * np.sqrt(0.95 * 0.05 / n)


def test_seed_share_of_too_few_and_of_no_spread():
    assert np.isnan(seed_share(np.ones((1, 5))).share)
    assert np.isnan(seed_share(np.ones((5, 1))).share)
    assert np.isnan(seed_share(np.ones((5, 3))).share)
    assert seed_share([[1.0, 1.0], [2.0, 2.0]]).share == 1.0
    with pytest.raises(InputError, match="images, runs"):
        seed_share([1.0, 2.0])


def test_pearson_equals_scipy():
    x, y = RNG(5).normal(size=30), RNG(6).normal(size=30)
    assert pearson(x, y).estimate == pytest.approx(stats.pearsonr(x, y).statistic)
    p = stats.pearsonr(x, y).pvalue
    assert pearson_p(x, y, draws=4000) == pytest.approx(p, abs=0.03)


@pytest.mark.parametrize("heavy", [False, thorough(True)])
def test_pearson_covers_and_its_p_holds_the_level(heavy):
    held = rejected = 0
    n, rho = 500, 0.0
    for i in range(n):
        rng = RNG(1000 + i)
        x = rng.lognormal(0, 1, 30) if heavy else rng.normal(size=30)
        y = rng.normal(size=30)
        held += pearson(x, y).contains(rho)
        rejected += pearson_p(x, y, draws=199, seed=i) <= 0.05
    assert held / n > 0.95 - 3 * np.sqrt(0.95 * 0.05 / n)
    assert abs(rejected / n - 0.05) < 3 * np.sqrt(0.95 * 0.05 / n)


def test_pearson_of_a_constant_is_not_known():
    assert np.isnan(pearson(np.ones(5), np.arange(5.0)).estimate)
    assert np.isnan(pearson_p(np.ones(5), np.arange(5.0)))
    with pytest.raises(InputError, match="equally long"):
        pearson([1.0, 2.0], [1.0])
