"""Groups without a partner are divided: everybody is scored, both twins hold the same, the null holds its level."""

import runpy
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from memorisk.training.classifiers.twins import placebo_design, twin_design
from memorisk.training.engine.optimization import batch_order
from tests.thorough import thorough

NONE = np.empty(0, dtype=np.intp)
RECIPE = runpy.run_path(str(Path(__file__).resolve().parents[3] / "recipes" / "twins_null.py"))
population = RECIPE["population"]
"""Of patients with random labels A, B, C and random numbers of images."""


def holdings(labels: np.ndarray, groups: np.ndarray) -> dict[str, tuple]:
    """What each group holds: its labels, equally often."""
    return {g: tuple(sorted(Counter(labels[groups == g]).items())) for g in sorted(set(groups))}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(2, 60))
def test_everybody_is_in_one_twin(drawn, seed, n_groups):
    labels, groups = population(drawn, n_groups)
    rows = np.arange(len(labels))
    design = twin_design(labels, groups, rows, NONE, seed=seed)
    for own in (design.rows_a, design.rows_b):
        assert len(np.unique(own)) == len(own)
    assert design.slots == max(len(design.rows_a), len(design.rows_b))
    assert (design.sign == np.isin(rows, design.rows_a).astype(int) - np.isin(rows, design.rows_b)).all()
    assert (design.sign != 0).all()
    assert all(len(set(design.sign[groups == g])) == 1 for g in set(groups))  # whole patients


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_both_twins_hold_the_same_and_slots_the_same_label(drawn, seed):
    """To within the two groups that are decided last, of at most five images each."""
    labels, groups = population(drawn, 60, most=5)
    design = twin_design(labels, groups, np.arange(len(labels)), NONE, seed=seed)
    n = min(len(design.rows_a), len(design.rows_b))
    assert max(len(design.rows_a), len(design.rows_b)) - n <= 10
    for label in "ABC":
        assert abs((labels[design.rows_a] == label).sum() - (labels[design.rows_b] == label).sum()) <= 10
    assert (labels[design.rows_a[:n]] == labels[design.rows_b[:n]]).mean() > 0.75


def test_where_all_have_partners_the_design_is_the_one_of_before():
    labels = np.repeat(np.array(["a", "b"], dtype=object), 24)
    groups = np.array([f"g{i // 2:02d}" for i in range(48)], dtype=object)
    for seed in range(20):
        old, new = (
            twin_design(labels, groups, np.arange(48), NONE, seed=seed, unmatched=unmatched)
            for unmatched in ("shared", "divided")
        )
        assert (old.rows_a == new.rows_a).all()
        assert (old.rows_b == new.rows_b).all()
        assert new.slots == len(new.rows_a)


def test_who_had_no_partner_has_one_now():
    """400 images of 100 patients, any of the findings A, B, C each: most patients hold what nobody else does."""
    rng = np.random.default_rng(0)
    labels = np.array(["|".join(c for c in "ABC" if rng.random() < 0.5) or "none" for _ in range(400)], dtype=object)
    groups = np.array([f"p{i // 4}" for i in range(400)], dtype=object)
    alone = {}
    for unmatched in ("shared", "divided"):
        designs = [twin_design(labels, groups, np.arange(400), NONE, seed=s, unmatched=unmatched) for s in range(8)]
        alone[unmatched] = np.all([design.sign == 0 for design in designs], axis=0).sum()
    assert alone["shared"] > 200
    assert alone["divided"] == 0


def test_whoever_has_no_partner_is_in_each_twin_equally_often():
    labels, groups = population(1, 25)
    rows = np.arange(len(labels))
    n = 600
    signs = np.array([twin_design(labels, groups, rows, NONE, seed=s).sign for s in range(n)])
    for group in sorted(set(groups)):  # each a binomial of n fair coins; 1e-6 a side for 25 of them
        heads = (signs[:, groups == group][:, 0] > 0).sum()
        assert stats.binom.ppf(1e-6, n, 0.5) <= heads <= stats.binom.isf(1e-6, n, 0.5)


def test_a_group_that_is_the_only_one_is_shared():
    labels, groups = np.array(["a", "b"], dtype=object), np.array(["p", "p"], dtype=object)
    design = twin_design(labels, groups, np.arange(2), NONE, seed=1)
    assert not design.sign.any()
    assert (design.rows_a == design.rows_b).all()


def test_decoys_of_a_placebo_are_as_many_patients_where_nobody_holds_the_same():
    labels, groups = population(5, 120)
    part = np.array([int(g[1:]) % 4 for g in groups])
    canaries, train = np.flatnonzero(part == 0), np.flatnonzero(part > 0)
    design = placebo_design(labels, groups, canaries, train, seed=1, balanced=False)
    swapped = np.concatenate([np.setdiff1d(design.rows_a, design.rows_b), np.setdiff1d(design.rows_b, design.rows_a)])
    assert len(set(groups[swapped])) == len(set(groups[canaries]))
    assert len(swapped) == pytest.approx(len(canaries), rel=0.15)
    assert not set(swapped) & set(canaries)


def test_an_empty_slot_holds_an_image_of_its_own_twin_and_nothing_else_moves():
    n, slots = 90, 100
    drawn = []
    for epoch in range(400):
        full, short = batch_order(3, epoch, slots), batch_order(3, epoch, n, slots)
        stays = full < n
        assert (full[stays] == short[stays]).all()
        assert sorted(short[stays].tolist()) == list(range(n))
        drawn.append(short[~stays].numpy())
    filled = np.bincount(np.concatenate(drawn), minlength=n)
    assert stats.chisquare(filled).pvalue > 1e-4  # no image is trained on more than another
    assert (batch_order(3, 0, n, n) == batch_order(3, 0, n)).all()


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [0.05, thorough(0.4)])
def test_the_null_holds_its_level_for_whoever_had_no_partner(noise):
    """One patient of each audit, so that p-values are independent: at most a binomial's share of them is small."""
    found = RECIPE["measure"](partial(RECIPE["by_rule"], "divided"), 160, noise)
    assert found.share == 1
    assert found.small <= stats.binom.isf(1e-4, found.audits, 0.05)
    assert found.largest <= stats.binom.isf(1e-4, found.largest_scored, 0.05)


def test_a_coin_alone_does_not_hold_it():
    """What the largest patient brings goes where the patient goes, and looks like memorization of the patient."""
    found = RECIPE["measure"](RECIPE["nearest"], 100, 0.05)
    assert found.largest > stats.binom.isf(1e-4, found.largest_scored, 0.05)
