"""Precision and recall against torch-fidelity, density and coverage against their definition; ties and intervals."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial.distance import cdist
from torch_fidelity.metric_prc import KEY_METRIC_PRECISION, KEY_METRIC_RECALL, prc_features_to_metric

from memorisk.runs.errors import InputError
from memorisk.statistics.quality import balls as quality_balls
from memorisk.statistics.quality.balls import ImageSubset, ball_radii, count_in_balls
from memorisk.statistics.quality.manifold import density_coverage, precision_recall


def naive(real, synthetic, k):
    """Density and coverage as Naeem and others define them, with closed balls."""
    radius = np.sort(cdist(real, real), axis=1)[:, k]
    inside = cdist(real, synthetic) <= radius[:, None]
    return inside.sum() / (k * len(synthetic)), inside.any(axis=1).mean()


def draw(n, m, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(0.3, 0.9, size=(m, d))


@pytest.mark.parametrize(("n", "m", "d"), [(80, 60, 3), (40, 50, 30)])
def test_equal_to_torch_fidelity_and_to_the_definition(n, m, d):
    real, synthetic = draw(n, m, d)
    theirs = prc_features_to_metric(torch.tensor(synthetic), torch.tensor(real), verbose=False)
    ours = precision_recall(real, synthetic, intervals=False)
    assert ours.precision.estimate == pytest.approx(theirs[KEY_METRIC_PRECISION], abs=1e-6)  # theirs is float32
    assert ours.recall.estimate == pytest.approx(theirs[KEY_METRIC_RECALL], abs=1e-6)
    found = density_coverage(real, synthetic, intervals=False)
    assert (found.density.estimate, found.coverage.estimate) == pytest.approx(naive(real, synthetic, 5), rel=1e-12)
    assert np.isnan(ours.precision.low)


def test_copies_lie_on_edges_that_are_counted_in_any_blocks(monkeypatch):
    """Every synthetic image is a real one: each real ball has its k-th neighbour on its edge."""
    rng = np.random.default_rng(1)
    real = (rng.normal(size=(60, 7)) + 1e4).astype(np.float32).astype(np.float64)
    synthetic = real[rng.permutation(60)]
    monkeypatch.setattr(quality_balls, "_AT_ONCE", 700)
    found = density_coverage(real, synthetic, intervals=False)
    assert found.density.estimate == pytest.approx(6 / 5)  # itself and five neighbours in each ball
    assert found.coverage.estimate == 1
    assert precision_recall(real, synthetic, intervals=False).precision.estimate == 1


@pytest.mark.parametrize("kind", ["far from the origin", "of many sizes", "tiny", "huge", "all but the same"])
def test_balls_are_those_of_the_definition_where_float32_cannot_tell(kind):
    rng = np.random.default_rng(3)
    real, synthetic = (rng.normal(size=(n, 40)) for n in (70, 60))
    synthetic[:20] = real[:20] + 1e-9 * rng.normal(size=(20, 40))
    if kind == "far from the origin":
        real, synthetic = real + 1e5, synthetic + 1e5
    elif kind == "of many sizes":
        real, synthetic = (values * 10.0 ** rng.integers(-6, 6, (len(values), 1)) for values in (real, synthetic))
    elif kind == "all but the same":
        real, synthetic = (real[:1] + 1e-8 * values for values in (real, synthetic))
    else:
        real, synthetic = (values * (1e-40 if kind == "tiny" else 1e40) for values in (real, synthetic))
    parts = [ImageSubset(np.arange(70), np.arange(60)), ImageSubset(np.arange(0, 70, 2), np.arange(0, 60, 3))]
    for found, part in zip(count_in_balls(real, synthetic, 4, parts), parts, strict=True):
        centres, others = real[part.centres], synthetic[part.others]
        inside = cdist(centres, others) <= np.sort(cdist(centres, centres), axis=1)[:, 4, None]
        assert found.others == inside.any(axis=0).mean()
        assert found.balls == inside.any(axis=1).mean()
        assert found.pairs == inside.sum() / len(others)


def test_duplicates_have_balls_of_radius_zero():
    real = np.repeat(np.arange(3.0), 5)[:, None]
    assert precision_recall(real, np.array([[0.0]] * 4 + [[0.5]] * 4), intervals=False).precision.estimate == 0.5


def test_parts_are_counted_as_if_they_were_all_there_is(monkeypatch):
    """Patients whose many images are each other's neighbours exhaust the list of neighbours."""
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(4), 30)
    real = 5 * rng.normal(size=(4, 3))[patient] + rng.normal(size=(120, 3))
    synthetic = draw(10, 50, 3)[1]
    rows = [np.flatnonzero(patient != 0), np.concatenate([np.arange(4), np.arange(40, 120, 9)]), np.arange(120)]
    rows.append(rows[-1][::-1])
    parts = [ImageSubset(r, np.arange(i % 3, 50, 1 + (i < 2))) for i, r in enumerate(rows)]
    monkeypatch.setattr(quality_balls, "_AT_ONCE", 120 * 7)
    for part, radius, held in zip(
        parts, ball_radii(real, 5, rows), count_in_balls(real, synthetic, 5, parts), strict=True
    ):
        x, y = real[part.centres], synthetic[part.others]
        np.testing.assert_allclose(radius, np.sort(cdist(x, x), axis=1)[:, 5], rtol=1e-12)
        inside = cdist(x, y) <= radius[:, None]
        assert (held.balls, held.others) == pytest.approx((inside.any(1).mean(), inside.any(0).mean()))
        assert held.pairs == pytest.approx(inside.sum() / len(y))


def test_intervals_cover_and_depend_on_the_seed_alone():
    worlds = [draw(60, 60, 3, seed) for seed in range(30)]
    precision = [precision_recall(*world, seed=i).precision for i, world in enumerate(worlds)]
    mean = np.mean([one.estimate for one in precision])
    covered = sum(one.low <= mean <= one.high for one in precision)
    assert covered >= stats.binom.ppf(0.001, 30, 0.95)
    assert precision_recall(*worlds[0], seed=0).precision == precision[0]
    assert np.median([one.high - one.low for one in precision]) < 0.5


def test_few_images_have_no_interval():
    real, synthetic = draw(9, 40, 2)
    found = density_coverage(real, synthetic)
    assert found.coverage.estimate == naive(real, synthetic, 5)[1]
    assert "too small" in found.coverage.method
    assert found.density.low < found.density.estimate < found.density.high
    with pytest.raises(InputError, match="at least 6"):
        density_coverage(real[:5], synthetic)
    with pytest.raises(InputError, match="k is 0"):
        precision_recall(real, synthetic, k=0)
