"""Twin designs: partners, slots, coins, placebo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorisk.training.classifiers.twins import paper_design, placebo_design, twin_design


def _population(seed: int, n_groups: int = 40, classes: int = 3, biggest: int = 4):
    rng = np.random.default_rng(seed)
    groups, labels = [], []
    for g in range(n_groups):
        for _ in range(rng.integers(1, biggest + 1)):
            groups.append(f"p{g:03d}")
            labels.append(f"c{rng.integers(classes)}")
    order = rng.permutation(len(groups))
    return np.array(labels, dtype=object)[order], np.array(groups, dtype=object)[order]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_slots_hold_unmatched_of_the_same_label_and_groups_stay_whole(population, seed):
    labels, groups = _population(population)
    canaries = np.arange(0, len(labels))[np.isin(groups, sorted(set(groups))[:25])]
    shared = np.setdiff1d(np.arange(len(labels)), canaries)[::2]
    design = twin_design(labels, groups, canaries, shared, seed=seed, unmatched="shared")
    assert len(design.rows_a) == len(design.rows_b)
    assert (labels[design.rows_a] == labels[design.rows_b]).all()
    assert len(np.unique(design.rows_a)) == len(design.rows_a)
    a, b = set(design.rows_a), set(design.rows_b)
    for row in range(len(labels)):
        assert design.sign[row] == (row in a) - (row in b)
    for row in canaries:
        assert (row in a) or (row in b)
    for group in set(groups):
        assert len(set(design.sign[groups == group])) == 1
    different = design.rows_a != design.rows_b
    assert (design.sign[design.rows_a[different]] == 1).all()
    assert (design.sign[design.rows_b[different]] == -1).all()


def test_every_canary_is_in_each_twin_equally_often():
    labels, groups = np.array(["a"] * 8, dtype=object), np.array([f"g{i}" for i in range(8)], dtype=object)
    signs = np.array([twin_design(labels, groups, np.arange(8), np.empty(0, int), seed=s).sign for s in range(2000)])
    assert (np.abs(signs) == 1).all()
    # binomial: 2,000 fair coins per image, sd of the mean 1/sqrt(2000); 4.5 sd over 8 images
    assert np.abs(signs.mean(axis=0)).max() < 4.5 / np.sqrt(2000)
    # partners are redrawn: any two images are opposite in 4/7 of the seeds (partners 1/7, else independent coins)
    opposite = (signs[:, 0] != signs[:, 1]).mean()
    assert abs(opposite - 4 / 7) < 4.5 * np.sqrt(4 / 7 * 3 / 7 / 2000)


def test_group_without_partner_joins_both_twins_and_is_listed():
    labels = np.array(["a", "a", "a", "b"], dtype=object)
    groups = np.array(["g0", "g1", "g1", "g2"], dtype=object)
    given = {"canaries": np.arange(4), "shared": np.empty(0, int), "unmatched": "shared"}
    designs = [twin_design(labels, groups, seed=s, **given) for s in range(3)]
    for design in designs:
        assert not design.sign.any()
        assert set(design.rows_a) == set(design.rows_b) == {0, 1, 2, 3}


def test_designs_do_not_depend_on_the_order_of_other_rows_and_are_fixed():
    labels, groups = _population(3)
    rows = np.arange(len(labels))
    one = twin_design(labels, groups, rows, np.empty(0, int), seed=5)
    two = twin_design(labels, groups, rows[::-1], np.empty(0, int), seed=5)
    assert (one.rows_a == two.rows_a).all()
    with pytest.raises(ValueError, match="read-only"):
        one.sign[0] = 1


def test_paper_design_is_candidate_and_independent():
    design = paper_design(6, np.array([4, 3]), np.array([1, 0]), seed=1)
    assert list(design.rows_a) == [0, 1, 3, 4]
    assert list(design.rows_b) == [0, 1]
    assert list(design.sign) == [0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize("balanced", [True, False])
def test_placebo_trains_on_no_canary_and_draws_the_same_signs(balanced):
    labels, groups = _population(8, n_groups=60)
    part = np.array([hash_ % 3 for hash_ in map(int, (g[1:] for g in groups))])
    canaries, train = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
    design = placebo_design(labels, groups, canaries, train, seed=4, balanced=balanced)
    assert not set(design.rows_a) & set(canaries)
    assert set(design.rows_a) | set(design.rows_b) == set(train)
    assert set(design.rows_a) != set(design.rows_b)
    drawn = twin_design(labels, groups, canaries, np.empty(0, int), seed=4)
    assert (design.sign[canaries] == drawn.sign[canaries]).all()
    assert not design.sign[np.setdiff1d(np.arange(len(labels)), canaries)].any()
