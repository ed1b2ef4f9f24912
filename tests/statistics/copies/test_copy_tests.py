"""Wasserstein-1, C_T and authenticity against SciPy and loops; their levels, and where they fail."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.copy_tests import authenticity, copying_z, data_copying, wasserstein


def test_wasserstein_is_scipys_and_its_permutations_are_loops():
    rng = np.random.default_rng(0)
    a, b = np.round(rng.normal(size=30), 1), np.round(rng.normal(0.5, 1, 20), 1)
    one, other = rng.integers(0, 9, 30), 100 + rng.integers(0, 6, 20)
    found = wasserstein(a, b, one, other, draws=200, seed=3)
    assert found.distance == stats.wasserstein_distance(a, b)
    n_one, n_other = len(np.unique(one)), len(np.unique(other))
    assert (found.n_first, found.n_second) == (n_one, n_other)
    both = np.concatenate([a, b])
    group = np.concatenate([np.unique(one, return_inverse=True)[1], n_one + np.unique(other, return_inverse=True)[1]])
    sides = np.random.default_rng(3).permuted(np.tile(np.arange(n_one + n_other) < n_one, (200, 1)), axis=1)
    reached = [
        stats.wasserstein_distance(both[side[group]], both[~side[group]]) >= found.distance - 1e-12 for side in sides
    ]
    assert found.p_value == (1 + sum(reached)) / 201


def test_wasserstein_keeps_its_level_over_groups_and_not_over_images():
    rng, repeats, groups, images = np.random.default_rng(1), 400, 0, 0
    one, other = np.repeat(np.arange(20), 4), np.repeat(np.arange(20, 35), 4)
    for i in range(repeats):
        a, b = ((rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, 4))).ravel() for n in (20, 15))
        groups += wasserstein(a, b, one, other, draws=99, seed=i).p_value <= 0.05
        images += wasserstein(a, b, draws=99, seed=i).p_value <= 0.05
    assert stats.binomtest(groups, repeats, 0.05).pvalue > 0.001
    assert images > stats.binom.ppf(0.999, repeats, 0.05)


def test_z_is_scipys_rank_sum_and_counts_pairs():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=40), rng.normal(0.3, 1, 25)
    assert copying_z(a, b) == pytest.approx(stats.ranksums(a, b).statistic, rel=1e-12)
    assert copying_z(a[1:], b) == pytest.approx(stats.ranksums(a[1:], b).statistic, rel=1e-12)  # an odd number of pairs
    a, b = np.round(a), np.round(b)
    u = sum((x > y) + 0.5 * (x == y) for x in a for y in b)
    assert copying_z(a, b) == pytest.approx((u - 500) / np.sqrt(40 * 25 * 66 / 12))
    assert data_copying(a, b).c_t == pytest.approx(copying_z(a, b))
    assert data_copying(a, b).p_value == pytest.approx(stats.norm.cdf(copying_z(a, b)))


def test_cells_are_weighted_by_test_images():
    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(size=200), rng.normal(size=100)
    cell, test_cell = rng.choice(4, 200, p=[0.5, 0.4, 0.05, 0.05]), rng.choice(4, 100, p=[0.3, 0.3, 0.2, 0.2])
    found = data_copying(ours, theirs, cell, test_cell, least=20)
    total = weight = 0.0
    for c in range(4):
        if np.sum(cell == c) >= 20:
            share = np.mean(test_cell == c)
            total += share * copying_z(ours[cell == c], theirs[test_cell == c])
            weight += share
    assert found.c_t == pytest.approx(total / weight)
    assert found.used.sum() == 2
    assert np.isnan(found.p_value)
    none = data_copying(ours, theirs, cell, test_cell, least=500)
    assert np.isnan(none.c_t)
    apart = data_copying([1.0], [1.0], [0], [1], least=1)
    assert np.isnan(apart.z).all()
    assert np.isnan(apart.c_t)


@pytest.mark.parametrize(("spread", "kept"), [(1.0, True), (0.8, False)])
def test_one_cell_keeps_its_level_for_the_data_s_spread_only(spread, kept):
    rng, repeats, hits = np.random.default_rng(4), 400, 0
    for _ in range(repeats):
        train, test, synthetic = rng.normal(size=(80, 5)), rng.normal(size=(60, 5)), spread * rng.normal(size=(80, 5))
        hits += data_copying(cdist(synthetic, train).min(1), cdist(test, train).min(1)).p_value <= 0.05
    assert (hits <= stats.binom.ppf(0.999, repeats, 0.05)) == kept


def test_authenticity_by_loops():
    rng = np.random.default_rng(5)
    train, synthetic, held = rng.normal(size=(50, 3)), rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    group = rng.integers(0, 12, 30)
    to_train, to_new, inside = cdist(synthetic, train), cdist(held, train), cdist(train, train)
    np.fill_diagonal(inside, np.inf)
    found = authenticity(to_train.min(1), to_train.argmin(1), inside.min(1), to_new.min(1), to_new.argmin(1), group)
    count = 0
    for s in synthetic:
        r = np.argmin(np.linalg.norm(train - s, axis=1))
        nearest = min(np.linalg.norm(train[r] - train[j]) for j in range(50) if j != r)
        count += np.linalg.norm(train[r] - s) > nearest
    assert (found.share.successes, found.share.trials) == (count, 40)
    away = to_new.min(1) > inside.min(1)[to_new.argmin(1)]
    assert found.of_new.successes == sum(away[group == g].all() for g in np.unique(group))
    assert found.of_new.trials == len(np.unique(group))
    copied = authenticity(np.zeros(50), np.arange(50), inside.min(1))
    assert copied.share.estimate == 0
    assert copied.of_new.trials == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wasserstein([1.0], [2.0], ["a"], ["a"]), "on both sides"),
        (lambda: wasserstein([1.0], [2.0], [1, 2]), "one group per distance"),
        (lambda: data_copying([1.0], [2.0], [0]), "both sides"),
        (lambda: data_copying([1.0], [2.0], [0, 1], [0]), "one cell per image"),
        (lambda: authenticity([1.0], [3], [1.0]), "from 0 to 0"),
        (lambda: authenticity([1.0], [0], [1.0], [1.0]), "index of the nearest"),
        (lambda: copying_z([], [1.0]), "one image at least"),
    ],
)
def test_misfits_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
