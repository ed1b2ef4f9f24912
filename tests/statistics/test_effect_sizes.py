"""Standardised differences by definition, coverage over groups, and the paper's percentages."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.effect_sizes import cohens_d, paired_dz
from tests.thorough import thorough


def test_by_definition():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=20), rng.normal(0.5, 2, 30)
    pooled = np.sqrt((19 * x.var(ddof=1) + 29 * y.var(ddof=1)) / 48)
    independent = cohens_d(x, y)
    assert independent.estimate == pytest.approx((y.mean() - x.mean()) / pooled)
    assert (independent.n_first, independent.n_second, independent.n_groups) == (20, 30, 50)
    d = y[:20] - x
    paired = paired_dz(x, y[:20])
    assert paired.estimate == pytest.approx((1 - 3 / (4 * 19 - 1)) * d.mean() / d.std(ddof=1))
    assert paired.mean_difference == pytest.approx(d.mean())
    groups = np.repeat(np.arange(5), 4)
    assert paired_dz(x, y[:20], groups).estimate == pytest.approx((1 - 3 / 15) * d.mean() / d.std(ddof=1))
    assert paired_dz(y[:20], x).estimate == pytest.approx(-paired.estimate)


def in_range(covered, repeats):
    return 0.93 - 2 * np.sqrt(0.0475 / repeats) <= covered / repeats <= 0.99


@pytest.mark.parametrize("truth", [thorough(0.0), 1.0])
@pytest.mark.parametrize(("n_groups", "size"), [thorough(6, 1), thorough(20, 1), (12, 3)])
def test_the_paired_interval_covers_over_groups(n_groups, size, truth):
    rng = np.random.default_rng([n_groups, size, int(truth)])
    group, repeats = np.repeat(np.arange(n_groups), size), 500
    covered = 0
    for _ in range(repeats):
        shared = rng.normal(size=n_groups)[group] if size > 1 else 0.0
        change = truth + (shared + rng.normal(size=len(group))) / (np.sqrt(2) if size > 1 else 1.0)
        found = paired_dz(np.zeros(len(group)), change, group)
        covered += found.low <= truth <= found.high
    assert in_range(covered, repeats)


def test_images_of_a_patient_are_not_independent():
    """Copies of each image must not narrow the interval."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=15), rng.normal(0.5, 1, 15)
    one = paired_dz(x, y)
    four = paired_dz(np.tile(x, 4), np.tile(y, 4), np.tile(np.arange(15), 4))
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.1)
    alone = paired_dz(np.tile(x, 4), np.tile(y, 4))
    assert alone.high - alone.low < 0.6 * (one.high - one.low)


@pytest.mark.parametrize("truth", [thorough(0.0), 1.0])
@pytest.mark.parametrize(("n", "m"), [thorough(10, 10), (8, 30)])
def test_the_independent_interval_covers(n, m, truth):
    rng = np.random.default_rng([n, m, int(truth)])
    found = [cohens_d(rng.normal(size=n), rng.normal(truth, 1, m)) for _ in range(400)]
    assert in_range(sum(f.low <= truth <= f.high for f in found), 400)


def test_the_interval_of_cohens_d_on_the_same_images_knows_that_they_are():
    rng = np.random.default_rng(2)
    same = np.arange(20)
    covered = 0
    for _ in range(400):
        before = rng.normal(size=20)
        after = 1 + 0.9 * before + np.sqrt(1 - 0.81) * rng.normal(size=20)
        found = cohens_d(before, after, same, same)
        covered += found.low <= 1 <= found.high
    assert in_range(covered, 400)
    assert found.n_groups == 20
    assert found.high - found.low < cohens_d(before, after).high - cohens_d(before, after).low


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_measured_says_so():
    few = paired_dz([0.0, 0.0, 0.0], [1.0, 2.0, 4.0])
    assert np.isfinite(few.estimate)
    assert np.isnan(few.low)
    assert "at least 5 groups" in few.method
    assert "some spread" in paired_dz([0.0, 0.0], [1.0, 1.0]).method
    assert "some spread" in paired_dz([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]).method
    assert np.isnan(cohens_d([1.0], [2.0, 3.0]).estimate)
    assert np.isnan(cohens_d([2.0, 3.0], [1.0]).estimate)
    assert np.isnan(paired_dz([], []).estimate)
    with pytest.raises(InputError, match="same ones in the same order"):
        paired_dz([1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="leave unscored images out"):
        cohens_d([np.nan], [1.0])
    with pytest.raises(InputError, match="of both samples or of neither"):
        cohens_d([1.0, 2.0], [1.0, 2.0], group_first=[0, 1])
    with pytest.raises(InputError, match="group ids for 2 images"):
        paired_dz([1.0, 2.0], [1.0, 2.0], [0])
