"""Score against M: equal to SciPy, level under the null with patients of several images, coverage of the intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.association import PAPER_FLOOR, associate, paper_p, residualise
from memorisk.statistics.randomization.group_permutations import group_permutation
from tests.thorough import thorough


def patients(rng, n_groups=60, n_classes=3, most=3):
    """Group and class of each image: patients of 1 to ``most`` images of one class."""
    size = rng.integers(1, most + 1, n_groups)
    group = np.repeat(np.arange(n_groups), size)
    return group, (np.arange(n_groups) % n_classes)[group]


def correlated(rng, group, label, r, shift=2.0):
    """Score and M with correlation r within classes, half of each from the patient; class means differ in both."""
    both = np.linalg.cholesky([[1, r], [r, 1]])
    draw = rng.normal(size=(group.max() + 1, 2))[group] + rng.normal(size=(len(group), 2))
    x, m = (draw / np.sqrt(2) @ both.T).T
    return x + shift * label, m + shift * label


def test_residuals_are_what_class_means_leave():
    rng = np.random.default_rng(0)
    label = rng.choice(["a", "b", "c"], 40)
    values = rng.normal(size=(2, 40))
    frame = pd.DataFrame(values.T)
    np.testing.assert_allclose(
        residualise(values, label), (frame - frame.groupby(label).transform("mean")).to_numpy().T, atol=1e-14
    )
    np.testing.assert_allclose(residualise(values[0], label), residualise(values, label)[0])
    assert (residualise(np.full(40, 0.1), label) == 0).all()  # what rounding leaves has no ranks
    tiny = 2.0**-60  # a unit of measure, whatever it is
    np.testing.assert_array_equal(residualise(tiny * values, label), tiny * residualise(values, label))
    with pytest.raises(InputError, match="finite"):
        residualise([1.0, np.nan], ["a", "a"])
    with pytest.raises(InputError, match="one label per value"):
        residualise([1.0, 2.0], ["a"])


def test_rhos_and_the_papers_p_are_scipys():
    rng = np.random.default_rng(1)
    group, label = patients(rng)
    x, m = correlated(rng, group, label, 0.4)
    x = np.round(x, 1)  # ties
    (found,) = associate(x, m, label, group, draws=9)
    raw = stats.spearmanr(x, m)
    inner = stats.spearmanr(residualise(x, label), residualise(m, label))
    assert found.raw.estimate == pytest.approx(raw.statistic, abs=1e-12)
    assert found.residual.estimate == pytest.approx(inner.statistic, abs=1e-12)
    assert found.p_paper_raw == max(raw.pvalue, PAPER_FLOOR)
    assert found.p_paper_residual == pytest.approx(inner.pvalue, rel=1e-9)
    assert (found.n, found.n_groups) == (len(x), 60)
    assert paper_p(0.466, 1503) == PAPER_FLOOR  # paper 000, table 7
    assert paper_p(0.082, 1503) == pytest.approx(0.00147, abs=1e-5)
    assert np.isnan(paper_p(np.nan, 10))


def test_jackknife_deletes_whole_groups():
    rng = np.random.default_rng(2)
    group, label = patients(rng, n_groups=30)
    x, m = correlated(rng, group, label, 0.3)
    (found,) = associate(x, m, label, group, draws=1)
    deleted = []
    for g in range(30):
        keep = group != g
        deleted.append(stats.spearmanr(residualise(x[keep], label[keep]), residualise(m[keep], label[keep])).statistic)
    variance = 29 / 30 * np.square(deleted - np.mean(deleted)).sum()
    half = stats.t.ppf(0.975, found.residual.df) * np.sqrt(variance) / (1 - found.residual.estimate**2)
    centre = np.arctanh(found.residual.estimate)
    assert (found.residual.low, found.residual.high) == pytest.approx((np.tanh(centre - half), np.tanh(centre + half)))


def test_permutations_exchange_whole_patients_of_one_make_up():
    label = np.array(["a", "a", "b", "a", "b", "a", "a", "a", "b"])
    group = np.array(["1", "1", "1", "2", "2", "2", "3", "4", "5"])  # 1 and 2: two a, one b; 3, 4: one a; 5 alone
    found = group_permutation(label, group)
    assert (found.n, found.n_groups, found.n_movable) == (9, 5, 4)
    assert found.smallest_p(9999) == pytest.approx(1 / 4)
    assert found.smallest_p(1) == 0.5
    seen = set()
    for seed in range(60):
        taken = found.draw(np.random.default_rng(seed))
        assert (label[taken] == label).all()
        for g in set(group):  # what one patient gets comes from one patient
            assert len(set(group[taken][group == g])) == 1
        assert sorted(taken) == list(range(9))
        seen.add(tuple(taken))
    assert len(seen) == 4
    with pytest.raises(InputError, match="one of each per image"):
        group_permutation(label, group[:-1])


@pytest.mark.parametrize("shift", [thorough(0.0), 3.0])
def test_level_with_patients_of_several_images(shift):
    """Score and M independent within classes: p below 5 % in 5 % of repeats, however far the classes are apart."""
    rng = np.random.default_rng(3)
    p, naive = [], []
    for repeat in range(400):
        group, label = patients(rng, n_groups=45, most=6)
        x, m = correlated(rng, group, label, 0.0, shift)
        (found,) = associate(x, m, label, group, draws=39, seed=repeat, max_groups=2)
        p.append(found.p)
        naive.append(found.p_paper_residual)
    slack = 2 * np.sqrt(0.05 * 0.95 / 400)
    assert abs(np.mean(np.array(p) <= 0.05) - 0.05) < slack
    assert np.mean(np.array(naive) <= 0.05) > 0.09  # images are not independent units


def test_power():
    rng = np.random.default_rng(4)
    group, label = patients(rng, n_groups=80)
    (found,) = associate(*correlated(rng, group, label, 0.5), label, group, draws=199)
    assert found.p == found.smallest_p == 1 / 200
    assert found.residual.low > 0


@pytest.mark.parametrize(("r", "most"), [thorough(0.0, 3), (0.5, 1)])
def test_intervals_cover(r, most):
    """Within-class rho of a bivariate normal is (6 / pi) asin(r / 2); 30 blocks of groups are deleted."""
    rng = np.random.default_rng(5)
    truth = 6 / np.pi * np.arcsin(r / 2)
    hits = []
    for _ in range(300):
        group, label = patients(rng, n_groups=90, most=most)
        (found,) = associate(*correlated(rng, group, label, r), label, group, draws=1, max_groups=30)
        hits.append(found.residual.contains(truth))
    slack = 2 * np.sqrt(0.95 * 0.05 / 300)
    assert 0.93 - slack <= np.mean(hits) <= 0.97 + slack


def test_several_scores_use_the_same_images():
    rng = np.random.default_rng(6)
    group, label = patients(rng)
    x, m = correlated(rng, group, label, 0.4)
    gap = x.copy()
    gap[:5] = np.nan
    m[7] = np.nan
    both = associate([gap, x], m, label, group, draws=19)
    used = np.isfinite(gap) & np.isfinite(m)
    (alone,) = associate(x[used], m[used], label[used], group[used], draws=19)
    for found in both:
        assert (found.p, found.n, found.n_groups) == (alone.p, len(x) - 6, alone.n_groups)
        assert found.residual.estimate == pytest.approx(alone.residual.estimate, abs=1e-12)
        assert found.residual.low == pytest.approx(alone.residual.low, abs=1e-12)


def test_what_cannot_be_had():
    rng = np.random.default_rng(7)
    group, label = patients(rng)
    x, m = correlated(rng, group, label, 0.4)
    (few,) = associate(x[:2], m[:2], label[:2], [1, 2], draws=9)
    assert np.isnan(few.residual.estimate)
    assert "fewer than three groups" in few.residual.method
    (flat,) = associate(label.astype(float), m, label, group, draws=9)
    assert np.isnan(flat.residual.estimate)
    assert np.isnan(flat.p)
    assert flat.raw.estimate > 0.5
    with pytest.raises(InputError, match="one value of each per image"):
        associate(x, m[:-1], label, group)
    with pytest.raises(InputError, match="at least one permutation"):
        associate(x, m, label, group, draws=0)
