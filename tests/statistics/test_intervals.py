"""Class intervals against reference libraries, by their symmetries, and by simulated coverage."""

import itertools
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from memorisk.runs.errors import InputError
from memorisk.statistics.analysis_of_variance import fill_missing, is_connected, mean_squares
from memorisk.statistics.intervals.means import (
    difference_interval,
    jackknife_interval,
    jackknife_limits,
    these_groups_interval,
    two_way_interval,
    two_way_limits,
)
from tests.thorough import thorough


def table(seed=0, g=12, s=4, seed_sd=0.5):
    rng = np.random.default_rng(seed)
    return 0.3 + rng.normal(size=(g, 1)) + seed_sd * rng.normal(size=(1, s)) + rng.normal(size=(g, s))


def holed(seed=0, share=0.2, **shape):
    values = table(seed, **shape)
    return np.where(np.random.default_rng(seed + 1).random(values.shape) < share, np.nan, values)


def long(values):
    g, s = np.indices(values.shape)
    frame = pd.DataFrame({"y": values.ravel(), "g": g.ravel(), "s": s.ravel()})
    return frame.dropna()


def test_mean_squares_are_those_of_statsmodels():
    values = table()
    ours = mean_squares(values)
    theirs = anova_lm(ols("y ~ C(g) + C(s)", long(values)).fit())
    np.testing.assert_allclose(
        [ours.groups, ours.seeds, ours.error], theirs["sum_sq"].to_numpy() / theirs["df"].to_numpy(), rtol=1e-9
    )
    assert [ours.df_groups, ours.df_seeds, ours.df_error] == theirs["df"].to_list()


@pytest.mark.parametrize("seed", range(4))
def test_missing_cells_are_filled_by_least_squares(seed):
    values = holed(seed)
    fit = ols("y ~ C(g) + C(s)", long(values)).fit()
    g, s = np.indices(values.shape)
    predicted = fit.predict(pd.DataFrame({"g": g.ravel(), "s": s.ravel()})).to_numpy().reshape(values.shape)
    filled = fill_missing(values)
    np.testing.assert_allclose(filled, np.where(np.isnan(values), predicted, values), rtol=1e-8, atol=1e-10)
    # Yates: the error sum of squares of the filled table is that of the incomplete fit, on fewer degrees of freedom.
    ours = mean_squares(filled, int(np.isnan(values).sum()))
    assert ours.df_error == fit.df_resid
    np.testing.assert_allclose(ours.error, fit.mse_resid, rtol=1e-9)


def test_two_way_interval_is_its_formula():
    values = table(3)
    g, s = values.shape
    ms = mean_squares(values)
    lead, other = (ms.groups, g - 1), (ms.seeds, s - 1)
    if other[0] > lead[0]:
        lead, other = other, lead
    t = [stats.t.ppf(0.975, df) for df in (lead[1], other[1])]
    half = np.sqrt((t[0] ** 2 * lead[0] + t[1] ** 2 * max(other[0] - ms.error, 0)) / (g * s))
    found = two_way_interval(values)
    np.testing.assert_allclose(
        [found.estimate, found.low, found.high], values.mean() + np.array([0, -half, half]), rtol=1e-12
    )
    # The variance is METHODS': (MS_G + MS_S - MS_E) / (GS), not below max(MS_G, MS_S) / (GS).
    v = max(ms.groups + ms.seeds - ms.error, ms.groups, ms.seeds) / (g * s)
    np.testing.assert_allclose(stats.t.ppf(0.975, found.df) * np.sqrt(v), half, rtol=1e-9)
    assert (found.n_groups, found.n_seeds, found.conditional) == (g, s, False)


def test_degrees_of_freedom_lie_between_those_of_seeds_and_groups():
    for seed_sd, near in ((0.0, 11), (30.0, 3)):
        found = two_way_interval(table(4, seed_sd=seed_sd))
        assert 3 - 1e-6 <= found.df <= 11 + 1e-6
        assert abs(found.df - near) < 1


@pytest.mark.parametrize("call", [two_way_interval, lambda v: jackknife_interval(v, "median")])
def test_intervals_follow_shifts_scales_and_order(call):
    values = holed(5)
    rng = np.random.default_rng(5)
    there = call(values)
    moved = call(2 + 3 * values[np.ix_(rng.permutation(12), rng.permutation(4))])
    for field in ("estimate", "low", "high"):
        np.testing.assert_allclose(getattr(moved, field), 2 + 3 * getattr(there, field), rtol=1e-9)
    mirrored = call(-values)
    np.testing.assert_allclose([-mirrored.high, -mirrored.low], [there.low, there.high], rtol=1e-9)


def test_many_tables_at_once_are_one_at_a_time():
    many = np.stack([table(i) for i in range(5)])
    limits = two_way_limits(many)
    medians = jackknife_limits(many, "median")
    for i, values in enumerate(many):
        one, median = two_way_interval(values), jackknife_interval(values, "median")
        here = [limits.estimate[i], limits.low[i], limits.high[i], limits.df[i], medians.low[i], medians.high[i]]
        there = [one.estimate, one.low, one.high, one.df, median.low, median.high]
        np.testing.assert_allclose(here, there, rtol=1e-12)


@pytest.mark.parametrize("s", [1, 2])
def test_under_three_seeds_groups_alone(s):
    values = table(6, s=s)
    found = two_way_interval(values)
    expected = stats.t.interval(0.95, 11, values.mean(), stats.sem(values.mean(1)))
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-12)
    assert found.conditional
    assert found.df == 11
    assert jackknife_interval(values, "trimmed_mean").conditional


def test_seeds_count_while_a_cell_more_is_there_than_groups_and_seeds_need():
    values = table(6, g=5, s=4)  # 4 * 3 degrees of freedom are left for the error
    for n, conditional in ((11, False), (12, True)):
        holes = values.copy()
        holes.ravel()[np.flatnonzero((np.indices(values.shape) > 0).all(0).ravel())[:n]] = np.nan
        assert two_way_interval(holes).conditional is conditional


def test_empty_rows_and_columns_are_left_out():
    values = table(7)
    padded = np.full((14, 5), np.nan)
    padded[1:13, :4] = values
    assert two_way_interval(padded) == two_way_interval(values)
    np.testing.assert_equal(
        astuple(jackknife_interval(padded, "median")), astuple(jackknife_interval(values, "median"))
    )


def test_groups_that_share_no_seed_are_compared_by_their_own_means():
    values = np.array([[1.0, 2.0, np.nan], [2.0, 2.5, np.nan], [np.nan, np.nan, 3.0], [np.nan, np.nan, 1.0]])
    assert not is_connected(~np.isnan(values))
    found = two_way_interval(values)
    means = [1.5, 2.25, 3.0, 1.0]
    np.testing.assert_allclose(found.estimate, np.mean(means))
    np.testing.assert_allclose([found.low, found.high], stats.t.interval(0.95, 3, np.mean(means), stats.sem(means)))
    assert found.conditional


def test_too_few_groups_have_no_limits():
    for values, estimate in (([[1.0, 2.0, 3.0]], 2.0), (np.full((3, 2), np.nan), np.nan), (np.empty((0, 4)), np.nan)):
        found = two_way_interval(values)
        np.testing.assert_equal(found.estimate, estimate)
        assert np.isnan([found.low, found.high]).all()
    five = jackknife_interval(table(8, g=5), "median")
    assert np.isnan([five.low, five.high]).all()
    assert np.isfinite(jackknife_interval(table(8, g=6), "median").high)
    # 2^(1 - G) <= 0.01 from G = 8.
    assert np.isnan(jackknife_interval(table(8, g=7), "median", level=0.99).low)
    assert np.isfinite(jackknife_interval(table(8, g=8), "median", level=0.99).low)


def test_a_constant_table_has_an_interval_of_no_length():
    for found in (two_way_interval(np.full((10, 4), 0.2)), jackknife_interval(np.full((10, 4), 0.2), "trimmed_mean")):
        np.testing.assert_allclose([found.estimate, found.low, found.high], 0.2, rtol=1e-12)


def test_median_limits_over_groups_are_the_sign_tests():
    """At a level that order statistics attain exactly, the limits are those order statistics."""
    x = np.random.default_rng(9).normal(size=(10, 1))
    level = 1 - 2 * stats.binom.cdf(1, 10, 0.5)
    found = jackknife_interval(x, "median", level=level)
    ranked = np.sort(x[:, 0])
    np.testing.assert_allclose([found.estimate, found.low, found.high], [np.median(x), ranked[1], ranked[8]])


def test_trimmed_mean_is_scipys_with_its_winsorised_variance():
    x = np.random.default_rng(10).standard_t(3, size=(37, 1))
    found = jackknife_interval(x, "trimmed_mean")
    np.testing.assert_allclose(found.estimate, stats.trim_mean(x[:, 0], 0.1))
    spread = stats.mstats.trimmed_stde(x[:, 0], limits=(0.1, 0.1), inclusive=(True, True))
    half = stats.t.ppf(0.975, 37 - 2 * 3 - 1) * float(spread)
    # SciPy divides by the kept share 1 - 0.2 of the limits; three of 37 at each end leave 31/37.
    np.testing.assert_allclose(found.high - found.estimate, half * 0.8 / (31 / 37), rtol=1e-9)


def test_difference_of_runs_with_equal_seeds_pairs_them():
    after, before = table(11), table(12)
    assert difference_interval(after, before) == two_way_interval(after - before)


def test_difference_of_runs_with_other_seeds():
    after, before = table(13, s=3), table(14, s=8)
    after[2] = np.nan
    found = difference_interval(after, before)
    kept = np.arange(12) != 2
    d = after[kept].mean(1) - before[kept].mean(1)
    square = stats.t.ppf(0.975, 10) ** 2 * d.var(ddof=1) / 11
    for values in (after[kept], before[kept]):
        ms = mean_squares(values)
        square += stats.t.ppf(0.975, ms.df_seeds) ** 2 * max(ms.seeds - ms.error, 0) / values.size
    np.testing.assert_allclose([found.estimate, found.high - found.estimate], [d.mean(), np.sqrt(square)], rtol=1e-9)
    assert (found.n_groups, found.n_seeds) == (11, 3)
    back = difference_interval(before, after)
    np.testing.assert_allclose([back.estimate, back.low, back.high], [-found.estimate, -found.high, -found.low])


# Coverage. Group effects and interactions of sd 1, seed effects of sd 0.2, 0.5 or 1; recipes/interval_coverage.py has
# the whole tables. A share near 0.95 of n tables has a standard error of sqrt(0.0475 / n); two of them are allowed.
def tables(rng, n, g, s, tail, seed_sd):
    effect = rng.normal(size=(n, g, 1)) if tail == "normal" else rng.standard_t(3, (n, g, 1)) / np.sqrt(3)
    return effect + seed_sd * rng.normal(size=(n, 1, s)) + rng.standard_normal((n, g, s))


def share_covered(limits_of, n, g, s, tail, seed_sd):
    rng = np.random.default_rng([g, s, tail == "normal", int(10 * seed_sd)])
    step = min(n, max(1, 2_000_000 // (g * s)))
    hits = 0
    for start in range(0, n, step):
        limits = limits_of(tables(rng, min(step, n - start), g, s, tail, seed_sd))
        hits += int(((limits.low <= 0) & (limits.high >= 0)).sum())
    return hits / n


@pytest.mark.parametrize("tail", ["normal", "heavy"])
@pytest.mark.parametrize(
    ("g", "s"),
    [*itertools.product([10, 50], [3, 4, 8]), (1000, 3), thorough(1000, 4), thorough(1000, 8)],
)
def test_the_mean_is_covered_93_to_97_percent(g, s, tail):
    n = 4000 if g < 1000 else 1200
    error = 2 * np.sqrt(0.0475 / n)
    for seed_sd in (0.2, 1.0) if g == 1000 else (0.2, 0.5, 1.0):
        assert 0.93 - error <= share_covered(two_way_limits, n, g, s, tail, seed_sd) <= 0.97 + error


@pytest.mark.parametrize("tail", ["normal", "heavy"])
@pytest.mark.parametrize(("g", "s"), [(10, 3), (10, 8), (50, 3), (50, 8), thorough(200, 4)])
@pytest.mark.parametrize(("statistic", "highest"), [("median", 0.98), ("trimmed_mean", 0.97)])
def test_median_and_trimmed_mean_are_covered(statistic, highest, g, s, tail):
    n = 3000
    error = 2 * np.sqrt(0.0475 / n)
    for seed_sd in (0.2, 1.0):
        share = share_covered(lambda v: jackknife_limits(v, statistic), n, g, s, tail, seed_sd)
        assert 0.93 - error <= share <= highest + error


@pytest.mark.parametrize(("g", "s"), [(10, 4), (50, 4), (12, 8)])
def test_the_mean_is_covered_with_missing_cells(g, s):
    rng = np.random.default_rng([g, s])
    n = 1500
    hits = 0
    for values in tables(rng, n, g, s, "normal", 0.5):
        found = two_way_interval(np.where(rng.random((g, s)) < 0.15, np.nan, values))
        hits += found.low <= 0 <= found.high
    error = 2 * np.sqrt(0.0475 / n)
    assert 0.93 - error <= hits / n <= 0.97 + error


def test_differences_are_covered_whether_or_not_seeds_match():
    rng = np.random.default_rng(15)
    n = 1500
    error = 2 * np.sqrt(0.0475 / n)
    for seeds_after, seeds_before in ((4, 4), (3, 8)):
        hits = 0
        for _ in range(n):
            shared = rng.normal(size=(30, 1))
            runs = []
            for s in (seeds_after, seeds_before):
                own = 0.5 * rng.normal(size=(30, 1)) + 0.3 * rng.normal(size=(1, s)) + rng.normal(size=(30, s))
                runs.append(shared + own)
            found = difference_interval(*runs)
            hits += found.low <= 0 <= found.high
        assert 0.93 - error <= hits / n <= 0.975 + error


@pytest.mark.parametrize(
    "call",
    [
        lambda: two_way_interval([1.0, 2.0]),
        lambda: two_way_interval([[1.0, np.inf], [1.0, 2.0]]),
        lambda: two_way_interval(table(), level=95),
        lambda: jackknife_interval(table(), "mode"),
        lambda: difference_interval(table(), table(g=5)),
    ],
)
def test_misfits_are_refused_in_one_line(call):
    with pytest.raises(InputError) as refused:
        call()
    assert "\n" not in str(refused.value)


def _skewed(kind, rng, shape):
    """Gaps of groups as real ones are: one patient in ten, or a lognormal tail."""
    if kind == "one in ten":
        return 2 * (rng.random(shape) < 0.1) * rng.exponential(1, shape)
    return 0.1 * np.exp(rng.normal(0, 1.5, shape))


@pytest.mark.parametrize("kind", ["one in ten", "lognormal"])
@pytest.mark.parametrize("n_groups", [12, 50])
def test_the_mean_over_these_groups_is_covered_whatever_their_gaps(kind, n_groups):
    """Patients as they are, trainings anew; the interval for future patients, too, does not cover their mean."""
    rng, repeats, n_seeds = np.random.default_rng(21), 2000, 8
    gaps = _skewed(kind, rng, (repeats, n_groups))
    noise = 0.4 * rng.normal(size=(repeats, n_groups, n_seeds)) * (0.3 + gaps[..., None])
    tables = gaps[..., None] + noise + 0.05 * rng.normal(size=(repeats, 1, n_seeds))
    seeds = tables.mean(1)
    half = stats.t.ppf(0.975, n_seeds - 1) * seeds.std(1, ddof=1) / np.sqrt(n_seeds)
    covered = np.abs(seeds.mean(1) - gaps.mean(1)) <= half
    assert abs(covered.mean() - 0.95) <= 3 * np.sqrt(0.95 * 0.05 / repeats)
    for i in range(3):  # the same by the function
        interval = these_groups_interval(tables[i])
        assert (interval.estimate, interval.high - interval.low) == pytest.approx((seeds[i].mean(), 2 * half[i]))
        assert (interval.df, interval.n_groups, interval.n_seeds) == (n_seeds - 1, n_groups, n_seeds)
    limits = two_way_limits(tables)
    mean = 0.2 if kind == "one in ten" else 0.1 * np.exp(1.5**2 / 2)
    assert ((limits.low <= mean) & (mean <= limits.high)).mean() < 0.95 - 3 * np.sqrt(0.95 * 0.05 / repeats)


def test_these_groups_need_two_trainings_that_connect():
    one = these_groups_interval([[1.0], [2.0]])
    assert (one.estimate, np.isnan(one.low), one.conditional) == (1.5, True, True)
    assert np.isnan(these_groups_interval(np.empty((0, 3))).estimate)
    apart = these_groups_interval([[1.0, np.nan], [np.nan, 3.0]])
    assert np.isnan(apart.low)
    two = these_groups_interval([[1.0, 1.5], [2.0, 2.5]])
    assert two.conditional
    assert two.low < two.estimate < two.high
    # A seed that did not score a group is filled as in the two-way table: the estimate is the same.
    gaps = np.array([[1.0, 1.2, np.nan], [2.0, 2.1, 2.2], [0.4, 0.7, 0.5]])
    assert these_groups_interval(gaps).estimate == pytest.approx(two_way_interval(gaps).estimate)
