"""Distances of twins' activations in two bands: by hand, level, coverage."""

import numpy as np
import pytest
from scipy import spatial, stats

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.layer_distances import band_distances, paired_cosine_distance
from tests.thorough import thorough


def test_distances_are_scipys_and_a_layer_that_is_off_has_none():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 9, 5))
    expected = [spatial.distance.cosine(x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(paired_cosine_distance(a, b), expected, atol=1e-12)
    a[3] = 0
    assert np.flatnonzero(np.isnan(paired_cosine_distance(a, b))).tolist() == [3]
    assert paired_cosine_distance(b, 3 * b).max() < 1e-12
    with pytest.raises(InputError, match="twice"):
        paired_cosine_distance(a, b[:, :-1])


def draw(rng, difference, n_groups=40):
    group = np.repeat(np.arange(n_groups), rng.integers(1, 4, n_groups))
    high = rng.random(len(group)) < 0.5
    noise = 0.05 * (rng.normal(size=n_groups)[group] + rng.normal(size=len(group)))
    return 0.3 + difference * high + noise, high, group


def test_means_and_deletions_by_hand():
    distance, high, group = draw(np.random.default_rng(1), 0.1)
    distance[4] = np.nan
    found = band_distances(distance, high, group)
    ok = np.isfinite(distance)
    assert found.high.estimate == pytest.approx(distance[ok & high].mean())
    assert found.low.estimate == pytest.approx(distance[ok & ~high].mean())
    assert found.difference.estimate == pytest.approx(found.high.estimate - found.low.estimate)
    assert (found.n_high, found.n_low) == ((ok & high).sum(), (ok & ~high).sum())
    deleted = [distance[ok & high & (group != g)].mean() for g in set(group[ok & high])]
    n = len(deleted)
    assert found.high.n_groups == n
    half = stats.t.ppf(0.975, found.high.df) * np.sqrt((n - 1) / n * np.square(deleted - np.mean(deleted)).sum())
    assert found.high.high - found.high.estimate == pytest.approx(half)


@pytest.mark.parametrize("difference", [thorough(0.0), 0.04])
def test_intervals_cover(difference):
    rng = np.random.default_rng(2)
    hits = np.array(
        [
            [b.high.contains(0.3 + difference), b.low.contains(0.3), b.difference.contains(difference)]
            for b in (band_distances(*draw(rng, difference)) for _ in range(600))
        ]
    )
    slack = 2 * np.sqrt(0.95 * 0.05 / 600)
    for coverage in hits.mean(axis=0):
        assert 0.93 - slack <= coverage <= 0.97 + slack


def test_too_few():
    found = band_distances([0.1, 0.2, 0.3], [True, False, False], [1, 2, 3])
    assert np.isnan(found.high.estimate)
    assert np.isnan(found.difference.estimate)
    assert found.low.estimate == pytest.approx(0.25)
    with pytest.raises(InputError, match="one per image"):
        band_distances([0.1], [True, False], [1, 2])
