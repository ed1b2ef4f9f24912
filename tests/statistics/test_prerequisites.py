"""The check that unseen canaries look like test images: its parts, its level and its power."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from memorisk.runs.errors import InputError
from memorisk.statistics.exchangeability.unseen_losses import compare_unseen_losses, draw_twin_losses

CLASSES = np.array(["rare"] * 8 + ["mid"] * 30 + ["common"] * 120)
TESTS = np.array(["rare"] * 3 + ["mid"] * 8 + ["common"] * 30)


def draw(rng, seeds=4, shift=0.0, label=CLASSES, test_label=TESTS):
    """Losses of canaries under the unseeing twin, and of tests under both; models differ, images differ more."""
    model = 0.2 * rng.normal(size=(seeds, 2))
    canary = np.exp(rng.normal(size=len(label))) + shift * (label == "mid")
    side = rng.integers(0, 2, (seeds, len(label)))
    unseen = canary + np.take_along_axis(model, side, 1) + 0.3 * rng.normal(size=(seeds, len(label)))
    test = np.exp(rng.normal(size=len(test_label)))
    a, b = (test + model[:, [k]] + 0.3 * rng.normal(size=(seeds, len(test_label))) for k in (0, 1))
    return unseen, a, b


def check(rng, **more):
    unseen, a, b = draw(rng, **more)
    return compare_unseen_losses(unseen, np.arange(len(CLASSES)), CLASSES, a, b, np.arange(len(TESTS)), TESTS)


def test_one_twin_is_drawn_per_group_and_seed():
    a, b = np.zeros((6, 40)), np.ones((6, 40))
    group = np.repeat(np.arange(20), 2)
    read = draw_twin_losses(a, b, group, seed=3)
    assert set(np.unique(read)) == {0.0, 1.0}
    np.testing.assert_array_equal(read[:, ::2], read[:, 1::2])
    assert len({tuple(row) for row in read}) == 6
    np.testing.assert_array_equal(read, draw_twin_losses(a, b, group, seed=3))
    np.testing.assert_array_equal(draw_twin_losses(a, b, group), draw_twin_losses(a, b, group, seed=0))


def test_result_is_scipys_on_group_means_with_holm():
    rng = np.random.default_rng(0)
    label, group = np.repeat(["x", "y"], 40), np.repeat(np.arange(40), 2)
    test_label, test_group = np.repeat(["x", "y"], 12), np.repeat(np.arange(12), 2)
    unseen = rng.normal(size=(3, 80))
    unseen[1, 5] = np.nan
    unseen[:, 6:8] = np.nan  # a group that no seed scored
    a = rng.normal(size=(3, 24))
    found = compare_unseen_losses(unseen, group, label, a, a, test_group, test_label)
    p, p_spread = [], []
    scored = np.where(np.isnan(unseen).all(0), 0, unseen)
    log_sd = [np.log(np.nanstd(loss, axis=0, ddof=1) + (loss == 0).all(0)) for loss in (scored, a)]
    for name in ("x", "y"):
        ours = [np.nanmean(unseen[:, group == g], 0).mean() for g in np.unique(group[label == name]) if g != 3]
        theirs = [a[:, test_group == g].mean() for g in np.unique(test_group[test_label == name])]
        p.append(stats.ks_2samp(ours, theirs).pvalue)
        spreads = [
            [log_sd[i][of == g].mean() for g in np.unique(of[kind == name]) if i or g != 3]
            for i, (of, kind) in enumerate(((group, label), (test_group, test_label)))
        ]
        p_spread.append(stats.mannwhitneyu(*spreads).pvalue)
        np.testing.assert_allclose(found[name].p_value, p[-1], rtol=1e-9)
        np.testing.assert_allclose(found[name].p_spread, p_spread[-1], rtol=1e-9)
        assert (found[name].n_canary_groups, found[name].n_test_groups) == (len(ours), len(theirs))
    both = multipletests([*p, *p_spread], method="holm")[1].reshape(2, 2).min(axis=0)
    np.testing.assert_allclose([found[n].adjusted for n in ("x", "y")], both)


def test_in_the_paper_design_tests_are_read_under_the_independent_model():
    rng = np.random.default_rng(1)
    label, group = np.array(["x"] * 30), np.arange(30)
    unseen, loss_b = rng.normal(size=(2, 30)), rng.normal(size=(2, 30))
    found = compare_unseen_losses(unseen, group, label, loss_b + 100, loss_b, group, label, symmetric=False)
    np.testing.assert_allclose(found["x"].p_value, stats.ks_2samp(unseen.mean(0), loss_b.mean(0)).pvalue)


@pytest.mark.thorough
def test_level_holds_over_all_classes_together():
    rng = np.random.default_rng(2)
    repeats = 1000
    failed = np.mean([not all(c.ok for c in check(rng).values()) for _ in range(repeats)])
    assert failed <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / repeats)


def test_both_twins_averaged_would_differ_by_that_alone():
    """Why a test group is read under one twin: where models differ much, an average over twice as many differs less."""
    rng = np.random.default_rng(3)
    label = np.array(["x"] * 400)
    one, both = [], []
    for _ in range(60):
        noise = rng.normal(size=(3, 2, 400))
        unseen = rng.normal(size=(2, 400))
        a, b = noise[:2, 0], noise[:2, 1]
        one.append(compare_unseen_losses(unseen, np.arange(400), label, a, b, np.arange(400), label)["x"].p_value)
        average = (a + b) / 2
        both.append(
            compare_unseen_losses(unseen, np.arange(400), label, average, average, np.arange(400), label)["x"].p_value
        )
    assert np.mean(np.array(one) < 0.05) < 0.15
    assert np.mean(np.array(both) < 0.05) > 0.5


def test_a_shifted_class_fails_alone():
    rng = np.random.default_rng(4)
    found = [check(rng, shift=3.0) for _ in range(20)]
    assert np.mean([not f["mid"].ok for f in found]) > 0.8
    assert np.mean([f["common"].ok for f in found]) > 0.9


def test_a_class_without_test_groups_is_not_ok_and_takes_no_part():
    rng = np.random.default_rng(5)
    label = np.array(["x"] * 10 + ["y"] * 10)
    losses = rng.normal(size=(2, 20))
    found = compare_unseen_losses(
        losses, np.arange(20), label, losses[:, :10], losses[:, :10], np.arange(10), label[:10]
    )
    assert found["x"].ok
    assert found["x"].adjusted == found["x"].p_value
    assert not found["y"].ok
    assert np.isnan(found["y"].p_value)
    assert (found["y"].n_canary_groups, found["y"].n_test_groups) == (10, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: draw_twin_losses(np.zeros((2, 3)), np.zeros((2, 4)), [1, 2, 3]),
        lambda: draw_twin_losses(np.zeros((2, 3)), np.zeros((2, 3)), [1, 2]),
        lambda: compare_unseen_losses(np.zeros((1, 2)), [0], ["x"], np.zeros((1, 1)), np.zeros((1, 1)), [0], ["x"]),
        lambda: compare_unseen_losses(
            np.zeros((1, 1)), [0], ["x"], np.zeros((1, 1)), np.zeros((1, 1)), [0], ["x"], level=1
        ),
    ],
)
def test_misfits_are_refused_in_one_line(call):
    with pytest.raises(InputError) as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("ratio", "fewest", "most"), [(1.0, 0, 2), (0.5, 19, 20), (2.0, 19, 20)])
def test_a_test_part_whose_gaps_spread_otherwise_is_no_null(ratio: float, fewest: int, most: int) -> None:
    failing = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scale = 0.1 * np.exp(0.7 * rng.normal(size=500))
        scale[400:] *= ratio
        level = rng.gamma(2.0, 0.4, 500)
        a, b = (level + scale * rng.standard_t(3, (8, 500)) for _ in range(2))
        label, part = np.full(500, "x"), slice(400, None)
        check = compare_unseen_losses(
            b[:, :400], np.arange(400), label[:400], a[:, part], b[:, part], np.arange(100), label[part]
        )["x"]
        failing += not check.ok
        assert check.by_spread or ratio == 1
    assert fewest <= failing <= most
