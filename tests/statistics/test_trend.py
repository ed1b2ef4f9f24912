"""The slope of M over numbers of copies, as `recipes/validity.py` computes it."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from tests.thorough import thorough

RECIPE = Path(__file__).parents[2] / "recipes" / "duplicate_trend.py"
duplicate_trend = runpy.run_path(str(RECIPE))["duplicate_trend"]
COPIES = np.repeat([1, 2, 4, 8], 8)


def draw(rng, slope=0.0, seeds=4, seed_sd=0.2, seed_slope_sd=0.0, n=8):
    """Scores whose spread grows with the copies, as losses' do."""
    x = np.log2(np.repeat([1, 2, 4, 8], n))[:, None]
    own = (0.3 + 0.3 * x) * rng.standard_t(4, size=x.shape)
    tilt = seed_slope_sd * rng.normal(size=(1, seeds)) * x
    return slope * x + own + tilt + seed_sd * rng.normal(size=(1, seeds)) + 0.5 * rng.normal(size=(4 * n, seeds))


def test_slope_is_that_of_least_squares():
    values = draw(np.random.default_rng(0), slope=0.4)
    found = duplicate_trend(values, COPIES)
    line = stats.linregress(np.log2(COPIES), values.mean(1))
    np.testing.assert_allclose(found.estimate, line.slope, rtol=1e-12)
    assert (found.n_groups, found.n_seeds) == (32, 4)


def test_two_numbers_of_copies_give_a_slope():
    found = duplicate_trend([[1.0], [2.0], [9.0]], [1, 1, 4])
    assert found.estimate == pytest.approx((9 - 1.5) / 2)


def test_spread_over_groups_is_the_jackknifes():
    """With one seed the standard error is that of the delete-one-group slopes, up to centring."""
    values = draw(np.random.default_rng(1), seeds=1)
    found = duplicate_trend(values, COPIES)
    x, y = np.log2(COPIES), values[:, 0]
    without = [stats.linregress(np.delete(x, i), np.delete(y, i)).slope for i in range(32)]
    jackknife = np.sqrt(31 / 32 * np.sum((np.array(without) - np.mean(without)) ** 2))
    half = (found.high - found.low) / 2
    np.testing.assert_allclose(half, stats.t.ppf(0.975, 31) * jackknife * np.sqrt(32 / 31) ** 2, rtol=1e-9)
    assert found.conditional


def test_unscored_groups_are_left_out():
    values = draw(np.random.default_rng(2), slope=0.3)
    holed = values.copy()
    holed[[3, 20]] = np.nan
    kept = np.delete(np.arange(32), [3, 20])
    assert duplicate_trend(holed, COPIES) == duplicate_trend(values[kept], COPIES[kept])


@pytest.mark.parametrize("seed_slope_sd", [thorough(0.0), 0.1])
@pytest.mark.parametrize("seeds", [4, thorough(8)])
def test_the_slope_is_covered(seeds, seed_slope_sd):
    rng = np.random.default_rng([seeds, int(10 * seed_slope_sd)])
    n = 1500
    hits = 0
    for _ in range(n):
        found = duplicate_trend(draw(rng, slope=0.2, seeds=seeds, seed_slope_sd=seed_slope_sd), COPIES)
        hits += found.low <= 0.2 <= found.high
    error = 2 * np.sqrt(0.0475 / n)
    assert 0.93 - error <= hits / n <= 0.975 + error


def test_a_trend_is_seen_and_noise_is_not():
    rng = np.random.default_rng(3)
    assert np.mean([duplicate_trend(draw(rng, slope=1.0), COPIES).low > 0 for _ in range(200)]) > 0.9
    assert np.mean([duplicate_trend(draw(rng), COPIES).low > 0 for _ in range(200)]) < 0.06


@pytest.mark.parametrize(
    "call",
    [
        lambda: duplicate_trend(np.zeros((3, 2)), [1, 2]),
        lambda: duplicate_trend(np.zeros((3, 2)), [1, 2, 0]),
        lambda: duplicate_trend(np.zeros((3, 2)), [2, 2, 2]),
        lambda: duplicate_trend(np.zeros((2, 2)), [1, 2]),
        lambda: duplicate_trend(np.zeros(3), [1, 2, 4]),
    ],
)
def test_misfits_are_refused(call):
    with pytest.raises(InputError):
        call()
