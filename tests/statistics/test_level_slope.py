"""The slope over levels with few patients: least squares, and limits whose both sides hold."""

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copy_slopes import mean_slope, share_slope, share_slope_limits, slope_weights
from memorisk.statistics.intervals.shares import clopper_pearson

LEVELS = np.array([1, 4, 16, 64])
DESIGNS = [(264, 12, 12, 12), (60, 8, 8, 8), (30, 5, 5, 5), (20, 20, 20, 20)]
WORLDS = {
    "no trend": [(p,) * 4 for p in (0.01, 0.05, 0.2, 0.5, 0.9)],
    "mild": [(0.05, 0.08, 0.12, 0.15), (0.1, 0.1, 0.2, 0.3), (0.05, 0.1, 0.2, 0.35), (0.9, 0.93, 0.97, 0.99)],
    "steep": [(0.05, 0.2, 0.6, 0.9), (0.1, 0.5, 0.9, 0.97), (0.03, 0.1, 0.3, 0.6), (0.58, 0.76, 0.95, 1)],
    "one level alone": [(0.05, 0.05, 0.05, 0.9), (0, 0, 0, 0.1), (0, 0, 0, 0.7), (0, 0, 0, 0.85), (0, 0, 0.02, 0.02)],
    "all or nothing": [(0, 0, 1, 1), (0, 0, 0.03, 0.97), (0, 0.2, 0.97, 1), (0, 0, 0.25, 1), (0.7, 1, 1, 1)],
    "falling": [(0.97, 0.97, 0.97, 0.2), (1, 0.05, 0.05, 0.8), (0.6, 0.3, 0.1, 0.05)],
}


@pytest.fixture(scope="module")
def exact():
    """Of each design, its weights and the limits of every possible outcome."""
    found = {}
    for sizes in DESIGNS:
        counts = np.meshgrid(*(np.arange(n + 1) for n in sizes), indexing="ij", sparse=True)
        weights = slope_weights(np.log2(LEVELS), sizes)
        found[sizes] = weights, share_slope_limits(weights, counts, sizes)
    return found


@pytest.mark.parametrize("sizes", DESIGNS)
@pytest.mark.parametrize("world", WORLDS)
def test_each_side_of_a_share_s_limits_holds_by_the_exact_distribution(exact, sizes, world):
    weights, (low, high) = exact[sizes]
    for shares in WORLDS[world]:
        chances = [stats.binom.pmf(np.arange(n + 1), n, p) for n, p in zip(sizes, shares, strict=True)]
        true, slack = float(weights @ np.array(shares)), 1e-12
        above, below = (
            float(np.einsum("abcd,a,b,c,d", beyond.astype(float), *chances, optimize=True))
            for beyond in (low > true + slack, high < true - slack)
        )
        assert max(above, below) <= 0.032
        assert above + below <= 0.035


def jumps(p, spread=0.3, top=6.9):
    """Some patients at the top, all others around 0: copied or not."""
    return lambda rng, shape: np.where(rng.random(shape) < p, top, spread * rng.standard_normal(shape)), p * top


def normal(mean, spread):
    """No copies, only nearer."""
    return lambda rng, shape: rng.normal(mean, spread, shape), mean


def exponential(scale):
    """One long tail."""
    return lambda rng, shape: scale * rng.exponential(1.0, shape), scale


OUTCOMES = {
    "no trend, normal": [normal(0, 1)] * 4,
    "mild, normal": [normal(0, 0.3), normal(0.2, 0.4), normal(0.5, 0.8), normal(1, 1.5)],
    "no trend, exponential": [exponential(1)] * 4,
    "no trend, few copied": [jumps(0.05)] * 4,
    "mild, copied": [jumps(p) for p in (0.05, 0.08, 0.12, 0.15)],
    "steep, copied": [jumps(p) for p in (0.05, 0.2, 0.6, 0.9)],
    "all or nothing": [jumps(p) for p in (0, 0, 0.03, 0.97)],
    "one level alone": [jumps(p) for p in (0, 0, 0, 0.7)],
}


@pytest.mark.parametrize("world", OUTCOMES)
def test_each_side_of_a_mean_s_limits_holds(world):
    rng, runs, sizes = np.random.default_rng(7), 1000, (120, 10, 10, 10)
    copies, draws = np.repeat(LEVELS, sizes), OUTCOMES[world]
    true = float(slope_weights(np.log2(LEVELS), sizes) @ np.array([mean for _, mean in draws]))
    values = np.concatenate([draw(rng, (runs, n)) for (draw, _), n in zip(draws, sizes, strict=True)], axis=1)
    found = [mean_slope(row, copies) for row in values]
    above, below = sum(one.low > true for one in found), sum(one.high < true for one in found)
    assert max(above, below) <= stats.binom.ppf(0.999, runs, 0.025)
    assert above + below <= stats.binom.ppf(0.999, runs, 0.05)


def test_a_trend_of_half_a_deviation_per_doubling_is_seen():
    rng, copies = np.random.default_rng(8), np.repeat(LEVELS, (120, 10, 10, 10))
    assert all(mean_slope(rng.normal(0.5 * np.log2(copies), 1.0), copies).low > 0 for _ in range(50))
    flagged = [rng.random(len(copies)) < 0.05 + 0.12 * np.log2(copies) for _ in range(50)]
    assert all(share_slope(one, copies).low > 0 for one in flagged)


def test_the_estimate_is_least_squares_and_limits_hold_it():
    rng = np.random.default_rng(2)
    copies = np.repeat([1, 2, 16], [30, 7, 4])
    values = rng.normal(np.log2(copies), 1.0)
    for found, y in ((mean_slope(values, copies), values), (share_slope(values > 1, copies), values > 1)):
        assert found.estimate == pytest.approx(np.polyfit(np.log2(copies), y.astype(float), 1)[0])
        assert found.low < found.estimate < found.high
        assert found.n_groups == 41


def test_one_level_of_two_has_its_own_exact_limits():
    """Where the other level's share is known to be 0, the slope is the share over the distance of the levels."""
    copies = np.repeat([1, 4], [100_000, 12])
    found = share_slope(np.r_[np.zeros(100_000), np.ones(4), np.zeros(8)], copies)
    assert found.low <= clopper_pearson(4, 12).low / 2 + 1e-3
    assert found.high == pytest.approx(clopper_pearson(4, 12).high / 2, rel=0.05)


def test_nobody_or_everybody_flagged_has_an_interval_around_0():
    copies = np.repeat(LEVELS, (264, 12, 12, 12))
    for flagged in (np.zeros(300), np.ones(300)):
        found = share_slope(flagged, copies)
        assert (found.estimate, np.sign(found.low), np.sign(found.high)) == (pytest.approx(0), -1, 1)
    assert np.isnan(mean_slope(np.ones(300), copies).low)


def test_a_level_of_one_patient_has_limits_that_say_little():
    copies = np.repeat([1, 64], [50, 1])
    assert share_slope(copies > 1, copies).low < 0.05
    found = mean_slope(np.r_[np.linspace(0, 1, 50), 7.0], copies)
    assert found.low < 0.1 < found.estimate <= found.high


@pytest.mark.parametrize(
    ("values", "copies", "words"),
    [
        ([1.0, 2.0], [1, 2, 4], "do not fit"),
        ([1.0, 2.0], [0, 2], "do not fit"),
        ([1.0, 2.0], [2, 2], "2 different"),
        ([1.0, float("nan")], [1, 2], "not finite"),
    ],
)
def test_what_has_no_slope_is_refused(values, copies, words):
    with pytest.raises(InputError, match=words):
        mean_slope(values, copies)
    with pytest.raises(InputError, match="level is"):
        share_slope([True, False], [1, 2], level=1.0)
