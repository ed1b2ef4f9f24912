"""One cell: SciPy's numbers, permutations against a naive loop, levels and coverage."""

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.rarity import class_rarity, image_rarity, permuted_image_rho
from memorisk.statistics.rank_correlation import spearman
from tests.thorough import thorough

HAM = np.array([49, 167, 165, 18, 77, 1006, 21])  # canaries of paper 000, table 5


def cell(rng, sizes=HAM, effects=None, seeds=4, sd_seed=0.0):
    """Class effects, image effects, seed by class effects and noise."""
    label = np.repeat(np.arange(len(sizes)), sizes)
    effects = np.zeros(len(sizes)) if effects is None else effects
    per_seed = effects + sd_seed * rng.normal(size=(seeds, len(sizes)))
    image = rng.normal(size=len(label))
    return (sizes / sizes.sum())[label], per_seed[:, label] + image + 0.7 * rng.normal(size=(seeds, len(label))), label


def test_the_papers_column_is_scipys():
    f, m, label = cell(np.random.default_rng(0), effects=-0.3 * np.log(HAM))
    found = image_rarity(f, m, label, np.arange(len(label)), draws=99)
    each = [spearmanr(f, row).statistic for row in m]
    np.testing.assert_allclose(found.rho, each, atol=1e-12)
    assert found.mean == pytest.approx(np.mean(each))
    assert found.sd == pytest.approx(np.std(each, ddof=1))
    assert found.of_mean == pytest.approx(spearmanr(f, m.mean(axis=0)).statistic)
    assert found.p_printed == 1e-10
    alone = image_rarity(f, m[:1], label, np.arange(len(label)), draws=99).interval
    assert (alone.n_seeds, 90 < alone.df <= 99) == (1, True)  # of 100 blocks
    assert alone.low < alone.estimate < alone.high
    few = image_rarity(f[::40], m[:, ::40], label[::40], np.arange(len(f[::40])), draws=99)
    assert few.p_printed == pytest.approx(spearmanr(f[::40], m[:, ::40].mean(axis=0)).pvalue, rel=1e-9)
    assert (found.n_images, found.n_classes) == (len(label), 7)


def test_permuted_image_rho_equals_the_naive_loop_with_ties_and_gaps():
    rng = np.random.default_rng(1)
    sizes = np.array([3, 9, 5, 7])
    _, m, label = cell(rng, sizes, seeds=3)
    m = np.round(m, 1)
    m[rng.random(m.shape) < 0.2] = np.nan
    m[0, :3], m[:, np.isnan(m).all(axis=0)] = 0.5, 0.1
    frequencies = np.array([[0.1, 0.4, 0.2, 0.3], [0.2, 0.2, 0.5, 0.1], [0.4, 0.3, 0.2, 0.1]])
    naive = [
        np.mean([spearmanr(f[label][np.isfinite(row)], row[np.isfinite(row)]).statistic for row in m])
        for f in frequencies
    ]
    np.testing.assert_allclose(permuted_image_rho(frequencies, m, label), naive, atol=1e-12)


def test_image_permutation_equals_all_permutations_of_classes():
    rng = np.random.default_rng(2)
    sizes = np.array([4, 8, 12, 20])
    f, m, label = cell(rng, sizes, effects=np.array([1.0, 0.5, 0.2, 0.0]))
    found = image_rarity(f, m, label, np.arange(len(label)))
    own = sizes / sizes.sum()
    every = [np.mean([spearman(np.array(p)[label], row) for row in m]) for p in itertools.permutations(own)]
    assert found.permutation.exact
    assert found.permutation.n_arrangements == 24
    assert found.permutation.p_two_sided == pytest.approx(np.mean(np.abs(every) >= abs(found.mean) - 1e-12))
    assert found.permutation.p_negative == pytest.approx(np.mean(np.array(every) <= found.mean + 1e-12))


def test_class_rarity_equals_scipy_and_all_permutations():
    f, m = np.array([0.4, 0.3, 0.1, 0.1, 0.06, 0.04]), np.array([0.1, 0.4, 0.3, 0.9, 0.9, 1.2])
    found = class_rarity(frequency=f, mean_m=m)
    assert found.rho == pytest.approx(spearmanr(f, m).statistic)
    every = np.array([spearman(p, m) for p in itertools.permutations(f)])
    assert found.permutation.n_arrangements == 360  # 6! / 2!: two classes are equally frequent
    assert found.permutation.p_two_sided == pytest.approx(np.mean(np.abs(every) >= abs(found.rho) - 1e-12))
    largest = np.abs(every).max()
    assert found.permutation.smallest_two_sided == pytest.approx(np.mean(np.abs(every) >= largest - 1e-12))
    ordered = class_rarity(np.arange(1, 8), -np.arange(7.0))
    assert ordered.permutation.p_two_sided == ordered.permutation.smallest_two_sided == pytest.approx(2 / 5040)
    assert ordered.permutation.p_negative == ordered.permutation.smallest_negative == pytest.approx(1 / 5040)


def test_levels_of_the_class_permutations_where_the_parametric_p_fails():
    """Classes differ, frequency means nothing: images are no units."""
    rng = np.random.default_rng(3)
    sizes, repeats = HAM // 4 + 1, 250
    parametric, images, classes = 0, 0, 0
    for _ in range(repeats):
        f, m, label = cell(rng, sizes, effects=0.5 * rng.normal(size=7), seeds=1)
        found = image_rarity(f, m, label, np.zeros(len(label)))
        means = np.bincount(label, weights=m[0]) / sizes
        parametric += found.p_printed <= 0.05
        images += found.permutation.p_two_sided <= 0.05
        classes += class_rarity(sizes, means).permutation.p_two_sided <= 0.05
    upper = 0.05 + 2 * np.sqrt(0.05 * 0.95 / repeats)
    assert images / repeats <= upper
    assert classes / repeats <= upper
    assert parametric / repeats > 0.5


@pytest.mark.parametrize("n", [5, thorough(7), thorough(14)])
@pytest.mark.parametrize("rho", [thorough(0.0), -0.8])
def test_the_interval_over_classes_covers(n, rho):
    rng = np.random.default_rng([n, int(-10 * rho)])
    truth = 6 / np.pi * np.arcsin(rho / 2)  # Spearman's of a normal pair
    x = rng.normal(size=(300, n))
    y = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=x.shape)
    covered = np.mean([class_rarity(a, b, draws=1).interval.contains(truth) for a, b in zip(x, y, strict=True)])
    assert covered >= 0.95 - 2 * np.sqrt(0.0475 / 300)


def test_the_interval_over_patients_and_seeds_covers_for_these_classes():
    rng = np.random.default_rng(4)
    sizes, effects = HAM // 16 + 3, np.array([0.8, 0.9, 0.7, 0.6, 0.4, 0.0, 0.2])
    truth = np.mean([image.mean() for image in (rho_of(rng, sizes * 20, effects) for _ in range(40))])
    repeats, covered = 150, 0
    for _ in range(repeats):
        f, m, label = cell(rng, sizes, effects, sd_seed=0.2)
        found = image_rarity(f, m, label, np.arange(len(label)), draws=1, max_groups=25)
        covered += found.interval.contains(truth)
    assert 0.95 - 2 * np.sqrt(0.0475 / repeats) <= covered / repeats


def rho_of(rng, sizes, effects):
    f, m, _ = cell(rng, sizes, effects, sd_seed=0.2)
    return np.array([spearman(f, row) for row in m])


def test_what_cannot_be_measured_says_so():
    four = class_rarity([0.4, 0.3, 0.2, 0.1], [1.0, 3.0, 2.0, 4.0])
    assert "at least 5" in four.interval.method
    assert four.permutation.p_two_sided == pytest.approx(8 / 24)
    alike = class_rarity([0.5, 0.5], [1.0, 2.0])
    assert np.isnan(alike.rho)
    assert np.isnan(alike.permutation.p_two_sided)
    one = image_rarity([0.5, 0.5, 0.5], [[1.0, 2.0, 3.0]], ["a", "a", "a"], [1, 2, 3])
    assert np.isnan(one.mean)
    assert np.isnan(one.sd)
    assert one.interval.method.startswith("not measurable")
    with pytest.raises(InputError, match="two frequencies"):
        image_rarity([0.5, 0.4], [[1.0, 2.0]], ["a", "a"], [1, 2])
    with pytest.raises(InputError, match="every image scored"):
        image_rarity([0.5, 0.5], [[1.0, np.nan]], ["a", "a"], [1, 2])
    with pytest.raises(InputError, match=r"\[seeds, images\]"):
        image_rarity([0.5, 0.5], [1.0, 2.0], ["a", "a"], [1, 2])
    with pytest.raises(InputError, match="leave unscored classes out"):
        class_rarity([0.5, 0.5], [1.0, np.nan])
