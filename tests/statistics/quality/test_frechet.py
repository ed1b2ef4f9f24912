"""FID against torch-fidelity, its influences against difference quotients."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_features_to_statistics, fid_statistics_to_metric

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.figures import check_samples, figure_interval, unit_sums
from memorisk.statistics.quality.frechet import frechet, frechet_distance


def features(n, m, d, seed=0):
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d))
    return rng.normal(size=(n, d)) @ mix, rng.normal(0.3, 1.2, size=(m, d)) @ mix + 1


@pytest.mark.parametrize(("n", "m", "d"), [(200, 150, 8), (40, 300, 20), (30, 25, 64), (300, 40, 64)])
def test_equal_to_torch_fidelity_also_with_fewer_images_than_features(n, m, d):
    real, synthetic = features(n, m, d)
    theirs = fid_statistics_to_metric(
        *(fid_features_to_statistics(torch.tensor(values)) for values in (synthetic, real)), verbose=False
    )[KEY_METRIC_FID]
    assert frechet_distance(real, synthetic).estimate == pytest.approx(theirs, rel=1e-7)
    alone = frechet_distance(real, synthetic, intervals=False)
    assert alone.estimate == pytest.approx(frechet_distance(real, synthetic).estimate, rel=1e-11)
    assert np.isnan(alone.low)


def test_the_closed_form_of_commuting_covariances():
    """Scaling one set by s about its mean: FID = |mu|^2 + (1 - s)^2 tr S, exactly."""
    real, _ = features(50, 2, 80)
    moved = (real - real.mean(0)) * 0.5 + real.mean(0) + 3
    expected = 80 * 9 + 0.25 * np.cov(real, rowvar=False).trace()
    assert frechet_distance(real, moved).estimate == pytest.approx(expected, rel=1e-12)


def test_equal_sets_are_at_zero_without_an_interval():
    real, _ = features(60, 2, 10)
    found = frechet_distance(real, real[::-1])
    assert found.estimate == 0
    assert frechet_distance(real, real[::-1], intervals=False).estimate == 0
    assert np.isnan(found.low)
    assert "no unit" in found.method


def test_contributions_are_the_derivative_by_the_weight_of_an_image():
    """An image given twice has weight 2/n; with many copies of all the rest that is a derivative."""
    real, synthetic = features(40, 30, 4)
    copies = 200
    many = np.tile(real, (copies, 1)), np.tile(synthetic, (copies, 1))
    base = frechet(check_samples(*many))
    for i in (0, 7):
        more = frechet(check_samples(np.concatenate([many[0], real[[i]]]), many[1])).estimate
        assert more - base.estimate == pytest.approx(base.real[i], rel=0.02)
    assert base.real.sum() == pytest.approx(0, abs=1e-9)


def test_patients_are_the_units():
    real, synthetic = features(120, 100, 6)
    patient = np.repeat(np.arange(30), 4)
    doubled = np.repeat(real[::4], 4, axis=0) + 1e-6 * real
    alone, grouped = frechet_distance(doubled, synthetic), frechet_distance(doubled, synthetic, patient)
    assert grouped.n_real_units == 30
    assert alone.estimate == grouped.estimate
    assert grouped.high - grouped.low > 1.2 * (alone.high - alone.low)


def test_degrees_of_freedom_are_satterthwaites():
    """Contributions of one size each: their squares have no spread, so that each side's variance has n - 1."""
    samples = check_samples(*features(20, 30, 2))
    real, synthetic = 0.3 * np.resize([1.0, -1], 20), 0.2 * np.resize([1.0, -1], 30)
    v, w = 0.09 * 20**2 / 19, 0.04 * 30**2 / 29
    found = figure_interval(samples, 5.0, real, synthetic, "log", "by hand")
    assert found.df == pytest.approx((v + w) ** 2 / (v**2 / 19 + w**2 / 29))
    half = stats.t.ppf(0.975, found.df) * np.sqrt(v + w) / 5
    assert (found.low, found.high) == pytest.approx((5 * np.exp(-half), 5 * np.exp(half)))
    assert unit_sums(np.empty(0), np.empty(0, dtype=np.int64)).shape == (0,)


def test_what_is_refused():
    real, synthetic = features(20, 20, 3)
    with pytest.raises(InputError, match="too few"):
        frechet_distance(real, synthetic[:1])
    with pytest.raises(InputError, match="not finite"):
        frechet_distance(real, np.where(synthetic == synthetic[3, 1], np.nan, synthetic))
    with pytest.raises(InputError, match="all real images are the same"):
        frechet_distance(np.ones((20, 3)), synthetic)
    with pytest.raises(InputError, match="do not compare"):
        frechet_distance(real, synthetic[:, :2])
    with pytest.raises(InputError, match="one group an image"):
        frechet_distance(real, synthetic, np.arange(3))
    with pytest.raises(InputError, match="level is 95"):
        frechet_distance(real, synthetic, level=95)
    assert "6 independent units" in frechet_distance(real, synthetic, np.arange(20) % 5).method


def test_the_interval_covers_the_expected_figure_at_this_number():
    rng = np.random.default_rng(5)
    found = [frechet_distance(rng.normal(size=(60, 5)), rng.normal(0.5, 0.8, size=(60, 5))) for _ in range(300)]
    mean = np.mean([one.estimate for one in found])
    covered = sum(one.low <= mean <= one.high for one in found)
    assert covered >= stats.binom.ppf(0.001, 300, 0.95)
