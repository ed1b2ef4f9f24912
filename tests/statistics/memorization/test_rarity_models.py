"""Slopes over data sets: the unit is the class, whatever the number of architectures, seeds and images."""

import itertools

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.rarity_models import class_mean_model, paper_model
from memorisk.statistics.memorization.slope_permutation import permute_within_datasets

SIZES = [
    np.array([49, 167, 165, 18, 77, 1006, 21]),
    np.array([1665, 600, 900, 300, 400, 22, 250, 1000, 1500, 200]),
    np.array([450, 300, 50, 35, 40, 25, 33, 75]),
]


def means(rng, slope=0.0, sd_class=0.5, noise=0.2, architectures=4, sizes=SIZES, by_size=False):
    """Class means of cells: mean, frequency, label, data set, architecture."""
    rows = []
    for d, n in enumerate(sizes):
        f = n / n.sum()
        own = sd_class * rng.normal(size=len(n)) + slope * np.log(f)
        spread = noise * (np.sqrt(50 / n) if by_size else np.ones(len(n)))
        for a in range(architectures):
            values = own + spread * rng.normal(size=len(n)) + 0.2 * a + 0.3 * d
            rows += [(values[c], f[c], c, d, a) for c in range(len(n))]
    return [np.array(column) for column in zip(*rows, strict=True)]


def test_the_slope_is_least_squares_on_class_averages_and_its_error_that_of_classes():
    """Every architecture has every class: the mixed model is the regression of class averages on data set dummies."""
    y, f, label, sets, networks = means(np.random.default_rng(0), slope=-0.2)
    found = class_mean_model(y, f, label, sets, networks, draws=99)
    pairs, index = np.unique(np.stack([sets, label]), axis=1, return_inverse=True)
    average = np.bincount(index.ravel(), weights=y) / 4
    x = np.log([f[index.ravel() == i][0] for i in range(pairs.shape[1])])
    design = np.column_stack([x, *(pairs[0] == d for d in range(3))])
    beta, rest = np.linalg.lstsq(design, average, rcond=None)[:2]
    df = len(x) - 4
    error = np.sqrt(rest[0] / df * np.linalg.inv(design.T @ design)[0, 0])
    assert found.slope == pytest.approx(beta[0], rel=1e-6)
    assert found.standard_error == pytest.approx(error, rel=1e-4)
    assert (found.df, found.n_classes, found.n_datasets, found.n_rows) == (df, 25, 3, 100)
    assert found.low == pytest.approx(beta[0] - stats.t.ppf(0.975, df) * error, rel=1e-3)
    assert found.permutation.slope == pytest.approx(found.slope, rel=1e-6)


def test_more_architectures_are_not_more_classes():
    rng = np.random.default_rng(1)
    y, f, label, sets, networks = means(rng, architectures=1, noise=0.0)
    copied = [np.tile(v, 6) for v in (y, f, label, sets)]
    networks = np.repeat(np.arange(6), len(y))
    one = class_mean_model(y, f, label, sets, networks[: len(y)], draws=99)
    six = class_mean_model(copied[0] + 1e-3 * rng.normal(size=len(networks)), *copied[1:], networks, draws=99)
    assert six.standard_error == pytest.approx(one.standard_error, rel=0.02)
    assert (six.n_classes, six.df) == (one.n_classes, one.df)
    assert "one architecture" in one.why


def test_permutations_are_the_same_for_all_architectures_of_a_data_set():
    """Against a loop over all permutations of two small data sets."""
    rng = np.random.default_rng(2)
    sizes = [np.array([10, 30, 60]), np.array([5, 20, 20, 55])]
    y, f, label, sets, networks = means(rng, sizes=sizes, architectures=2)
    found = permute_within_datasets(f, y, label, sets, networks)
    every = []
    for p in itertools.permutations(range(3)):
        for q in itertools.permutations(range(4)):
            order = {0: p, 1: q}
            x = np.log([sizes[d][order[d][c]] / sizes[d].sum() for c, d in zip(label, sets, strict=True)])
            sxy = sxx = 0.0
            for d, a in itertools.product(range(2), range(2)):
                own = (sets == d) & (networks == a)
                centred = x[own] - x[own].mean()
                sxy, sxx = sxy + centred @ y[own], sxx + centred @ centred
            every.append(sxy / sxx)
    assert found.plain.n_arrangements == 6 * 12  # two of the four classes are equally frequent
    assert found.plain.exact
    assert found.slope == pytest.approx(every[0])
    assert found.plain.p_two_sided == pytest.approx(np.mean(np.abs(every) >= abs(every[0]) - 1e-12))
    assert found.plain.p_negative == pytest.approx(np.mean(np.array(every) <= every[0] + 1e-12))
    assert found.plain.smallest_negative == pytest.approx(np.mean(np.array(every) <= min(every) + 1e-12))


def test_studentised_slope_is_the_definition():
    """HC3 over classes, one architecture: textbook weights with the leverage of the data sets' means."""
    y, f, label, sets, networks = means(np.random.default_rng(3), architectures=1)
    found = permute_within_datasets(f, y, label, sets, networks, draws=9)
    design = np.column_stack([np.log(f), *(sets == d for d in range(3))])
    inverse = np.linalg.inv(design.T @ design)
    rest = y - design @ inverse @ design.T @ y
    hat = np.einsum("ij,jk,ik->i", design, inverse, design)
    middle = design.T @ np.diag((rest / (1 - hat)) ** 2) @ design
    error = np.sqrt((inverse @ middle @ inverse)[0, 0])
    assert found.studentised.statistic == pytest.approx(found.slope / error, rel=1e-6)


@pytest.mark.thorough
def test_the_interval_covers_with_classes_as_units():
    rng = np.random.default_rng(4)
    repeats, covered = 200, 0
    for i in range(repeats):
        truth = -0.1 if i % 2 else 0.0
        found = class_mean_model(*means(rng, slope=truth, architectures=3), draws=1)
        covered += found.low <= truth <= found.high
    assert abs(covered / repeats - 0.95) <= 2 * np.sqrt(0.0475 / repeats)


@pytest.mark.thorough
def test_permutations_hold_their_level_and_the_interval_over_classes_covers():
    rng = np.random.default_rng(77)
    repeats, plain, studentised, covered = 1000, 0, 0, 0
    for i in range(repeats):
        y, f, label, sets, networks = means(rng, architectures=3)
        found = permute_within_datasets(f, y, label, sets, networks, draws=99, seed=i)
        plain += found.plain.p_two_sided <= 0.05
        studentised += found.studentised.p_two_sided <= 0.05
        covered += found.low <= 0 <= found.high
    slack = 2 * np.sqrt(0.0475 / repeats)
    assert abs(plain / repeats - 0.05) <= slack
    assert abs(studentised / repeats - 0.05) <= slack
    assert 0.95 - slack <= covered / repeats <= 0.98


@pytest.mark.thorough
def test_rare_classes_noisier_means_mislead_the_plain_slope_more_than_the_studentised():
    """No class differs; a rare class's mean is mere noise: the interval over classes still covers."""
    rng = np.random.default_rng(5)
    sizes = [np.array([5000, 700, 500, 300, 150, 60, 20, 5, 2, 1])] * 3
    repeats, usual, by_class, plain, studentised = 150, 0, 0, 0, 0
    for i in range(repeats):
        y, f, label, sets, networks = means(rng, sd_class=0, sizes=sizes, architectures=2, by_size=True)
        found = class_mean_model(y, f, label, sets, networks, draws=99, seed=i)
        usual += found.low <= 0 <= found.high
        by_class += found.permutation.low <= 0 <= found.permutation.high
        plain += found.permutation.plain.p_two_sided <= 0.05
        studentised += found.permutation.studentised.p_two_sided <= 0.05
    slack = 2 * np.sqrt(0.0475 / repeats)
    assert by_class / repeats >= 0.95 - slack
    assert usual / repeats < 0.95 - slack
    assert studentised < plain
    assert plain / repeats > 0.1


def test_a_planted_slope_is_found():
    y, f, label, sets, networks = means(np.random.default_rng(6), slope=-0.5, sd_class=0.3)
    found = class_mean_model(y, f, label, sets, networks, draws=999)
    assert found.high < 0
    assert found.permutation.plain.p_two_sided == found.permutation.plain.smallest_two_sided == 0.001
    assert found.variances["class"] == pytest.approx(0.09, rel=0.7)
    assert found.variances["residual"] == pytest.approx(0.04, rel=0.4)


def test_an_architecture_met_on_one_data_set_only_needs_no_extra_column():
    y, f, label, sets, _ = means(np.random.default_rng(7), architectures=1)
    found = class_mean_model(y, f, label, sets, sets, draws=99)
    assert found.slope == pytest.approx(class_mean_model(y, f, label, sets, np.zeros(len(y)), draws=99).slope)


def images(rng, slope, sd_class=0.3, seeds=4):
    rows = []
    shift = 0.1 * rng.normal(size=seeds)
    for d, n in enumerate(SIZES):
        n = n // 10 + 2
        f = n / n.sum()
        own = sd_class * rng.normal(size=len(n)) + slope * f + 0.3 * rng.normal()
        label = np.repeat(np.arange(len(n)), n)
        image = rng.normal(size=len(label))
        for s in range(seeds):
            m = own[label] + image + shift[s] + 0.5 * rng.normal(size=len(label))
            rows.append(np.stack([m, f[label], label, np.full(len(label), s), np.full(len(label), d)]))
    return np.concatenate(rows, axis=1)


def test_the_papers_model_covers_with_classes_as_units():
    rng = np.random.default_rng(18)
    covered = np.zeros(120)
    for i in range(120):
        found = paper_model(*images(rng, -1.0))
        covered[i] = found.low <= -1 <= found.high
    assert 0.95 - 2 * np.sqrt(0.0475 / 120) <= covered.mean() < 0.995
    assert set(found.variances) == {"class", "seed", "dataset", "residual"}
    assert (found.n_classes, found.n_datasets, found.df) == (25, 3, 21)


def test_the_papers_model_leaves_out_factors_of_one_level():
    m, f, label, seed, sets = images(np.random.default_rng(9), 0.0)
    own = (sets == 1) & (seed == 0)
    found = paper_model(m[own], f[own], label[own], seed[own], sets[own])
    assert "seed, dataset" in found.why
    assert np.isfinite(found.slope)
    assert found.df == 8


def test_what_cannot_be_fitted_says_so():
    two = class_mean_model([0.1, 0.2], [0.3, 0.7], ["a", "b"], ["d", "d"], ["r", "r"])
    assert np.isnan(two.slope)
    assert "2 classes in 1 data sets" in two.why
    alike = paper_model([0.1, 0.2, 0.3], [0.5, 0.5, 0.5], [0, 1, 1], [0, 0, 0], [0, 0, 0])
    assert np.isnan(alike.low)
    with pytest.raises(InputError, match="two frequencies"):
        permute_within_datasets([0.3, 0.7], [0.1, 0.2], ["a", "a"], ["d", "d"], ["r", "s"])
    with pytest.raises(InputError, match="comes twice"):
        permute_within_datasets([0.3, 0.3], [0.1, 0.2], ["a", "a"], ["d", "d"], ["r", "r"])
    with pytest.raises(InputError, match="above 0"):
        permute_within_datasets([0.0, 0.3], [0.1, 0.2], ["a", "b"], ["d", "d"], ["r", "r"])
    with pytest.raises(InputError, match="one entry per image and seed"):
        paper_model([0.1], [0.1, 0.2], ["a"], [0], ["d"])
