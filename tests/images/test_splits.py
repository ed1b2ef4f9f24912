"""Splits by group: shares met within a group, every group's chances equal, the same split in any order of rows."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from memorisk.images.splits import (
    NOT_AUDITABLE,
    PARTS,
    Rounding,
    draw_rounding,
    merge_linked,
    small_classes,
    split_by_group,
)
from memorisk.runs.errors import InputError
from tests.thorough import thorough

POOL_AND_TEST = (0.0, 0.85, 0.15)
FRACTIONS = st.sampled_from([(0.7, 0.15, 0.15), POOL_AND_TEST, (0.5, 0.3, 0.2), (0.6, 0.0, 0.4)])
SMALLEST_P = 1e-4  # level of the chi-square tests, after Bonferroni over the units; seeds are fixed


def images_of(sizes, unit_labels):
    """Images of groups that hold one label each."""
    groups = np.repeat([f"g{i:03d}" for i in range(len(sizes))], sizes)
    return np.repeat(np.asarray(unit_labels, dtype=str), sizes), groups


@st.composite
def one_label_a_group(draw):
    units = draw(st.lists(st.tuples(st.integers(1, 40), st.sampled_from("abc")), min_size=1, max_size=60))
    return images_of([size for size, _ in units], [label for _, label in units])


@st.composite
def any_labels(draw):
    label = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True).map(lambda x: "|".join(sorted(x)))
    units = draw(st.lists(st.lists(label, min_size=1, max_size=5), min_size=1, max_size=25))
    pairs = [(joined, f"g{i}") for i, unit in enumerate(units) for joined in unit]
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


def assert_groups_whole(groups, parts):
    trained = np.where(parts == NOT_AUDITABLE, "train", parts)
    assert all(len(set(trained[groups == g])) == 1 for g in set(groups))


@settings(max_examples=150, deadline=None)
@given(one_label_a_group(), FRACTIONS, st.integers(0, 2**32 - 1))
def test_every_class_gets_its_shares_within_its_largest_group(images, fractions, seed):
    labels, groups = images
    parts = split_by_group(labels, groups, fractions=fractions, seed=seed)
    assert_groups_whole(groups, parts)
    small = small_classes(labels, groups, fractions=fractions)
    assert set(labels[parts == NOT_AUDITABLE]) == set(small)
    for label in set(labels) - set(small):
        mine = labels == label
        largest = max(Counter(groups[mine]).values())
        for part, share in zip(PARTS, fractions, strict=True):
            assert abs((parts[mine] == part).sum() - share * mine.sum()) <= largest + 1e-6
            assert share == 0 or part in parts[mine]


@settings(max_examples=60, deadline=None)
@given(any_labels(), FRACTIONS, st.integers(0, 1000), st.randoms(use_true_random=False))
def test_several_labels_a_group_and_any_order_of_rows(images, fractions, seed, random):
    labels, groups = images
    parts = split_by_group(labels, groups, fractions=fractions, seed=seed)
    assert_groups_whole(groups, parts)
    small = set(small_classes(labels, groups, fractions=fractions))
    holds_small = np.array([bool(small & set(joined.split("|"))) for joined in labels])
    assert ((parts == NOT_AUDITABLE) == holds_small).all()
    order = np.array(random.sample(range(len(labels)), len(labels)))
    assert (split_by_group(labels[order], groups[order], fractions=fractions, seed=seed) == parts[order]).all()


@pytest.mark.thorough
def test_small_problems_are_as_good_as_the_best_of_all_splits():
    """Several labels a group, where no theorem helps: against every possible split of eight units into three parts."""
    rng = np.random.default_rng(0)
    solvable = 0
    for seed in range(25):
        held = rng.integers(0, 3, (8, 3))
        held[held.sum(axis=1) == 0, 0] = 1
        problem = Rounding(held, np.unique(held, axis=0, return_inverse=True)[1], np.array([0.5, 0.25, 0.25]))
        best = min(problem.excess(np.array(parts)) for parts in itertools.product(range(3), repeat=8))
        assert problem.excess(draw_rounding(problem, np.random.default_rng(seed))) == best
        solvable += best == 0
    assert solvable > 20


def test_the_excess_counts_images_beyond_a_group_and_missing_parts():
    problem = Rounding(np.array([[3], [1], [1], [1]]), np.array([0, 1, 1, 1]), np.array([0.5, 0.5]))
    assert problem.excess(np.array([0, 1, 1, 1])) == 0  # 3 and 3
    assert problem.excess(np.array([0, 0, 1, 1])) == 0  # 4 and 2: off by 1, a group of 3 allowed
    assert problem.excess(np.array([0, 0, 0, 0])) == 1  # 6 and 0: off by 3, allowed; one part without the class


def inclusion_p_values(split, sizes, fractions, seeds):
    """Chi-square p-value of each group: does it land in the parts as often as the shares say?"""
    labels, groups = images_of(sizes, ["a"] * len(sizes))
    first = np.unique(groups, return_index=True)[1]
    counts = np.zeros((len(sizes), 3))
    for seed in range(seeds):
        landed = split(labels, groups, seed)[first]
        counts += landed[:, None] == np.array(PARTS)
    used = np.array(fractions) > 0
    expected = seeds * np.array(fractions)[used]
    return stats.chi2.sf(((counts[:, used] - expected) ** 2 / expected).sum(axis=1), used.sum() - 1)


SIZES = [1] * 7 + [2] * 4 + [3, 3, 7, 12]


@pytest.mark.parametrize("fractions", [(0.7, 0.15, 0.15), thorough(POOL_AND_TEST)])
@pytest.mark.parametrize("sizes", [SIZES, thorough([1, 2, 3, 4, 5, 6, 7])], ids=["mixed", "seven"])
def test_large_and_small_groups_land_in_each_part_equally_often(sizes, fractions):
    """Unconditionally, not only among groups of one size: a part that attracts large groups is no fair null."""
    p = inclusion_p_values(lambda x, g, s: split_by_group(x, g, fractions=fractions, seed=s), sizes, fractions, 400)
    assert p.min() * len(sizes) > SMALLEST_P


def test_the_inclusion_test_finds_a_splitter_that_places_large_groups_first():
    """The usual greedy rule: the largest group next, to the part that lacks most images."""

    def greedy(labels, groups, seed):
        size = Counter(groups)
        tie = dict(zip(sorted(size), np.random.default_rng(seed).permutation(len(size)), strict=True))
        lacking = dict(zip(PARTS, len(labels) * np.array(fractions), strict=True))
        part_of = {}
        for group in sorted(size, key=lambda g: (-size[g], tie[g])):
            part_of[group] = max(lacking, key=lacking.__getitem__)
            lacking[part_of[group]] -= size[group]
        return np.array([part_of[g] for g in groups], dtype=object)

    fractions = (0.7, 0.15, 0.15)
    found = inclusion_p_values(greedy, SIZES, fractions, 100)
    assert found.min() * len(SIZES) < SMALLEST_P


@pytest.mark.thorough
def test_groups_with_several_labels_keep_their_chances():
    rng = np.random.default_rng(4)
    held = [rng.choice(["a", "b", "a|b"], size=rng.integers(1, 5)) for _ in range(24)]
    labels = np.concatenate(held)
    groups = np.repeat([f"g{i:02d}" for i in range(24)], [len(h) for h in held])
    first = np.unique(groups, return_index=True)[1]
    seeds, counts = 500, np.zeros((24, 3))
    for seed in range(seeds):
        counts += split_by_group(labels, groups, seed=seed)[first][:, None] == np.array(PARTS)
    expected = seeds * np.array([0.7, 0.15, 0.15])
    p = stats.chi2.sf(((counts - expected) ** 2 / expected).sum(axis=1), 2)
    assert p.min() * 24 > SMALLEST_P


@pytest.mark.thorough
def test_two_groups_alike_are_independent_of_their_names():
    """Pairs of equal groups: which of the two is in the test part is a fair coin (exact binomial, level stated)."""
    labels, groups = images_of([2, 2] + [1] * 12, ["a"] * 14)
    only = Counter()
    for seed in range(1000):
        parts = split_by_group(labels, groups, seed=seed)
        in_test = parts[groups == "g000"][0] == "test", parts[groups == "g001"][0] == "test"
        only[in_test] += in_test[0] != in_test[1]
    first, second = only[(True, False)], only[(False, True)]
    assert first + second > 150
    assert stats.binomtest(first, first + second).pvalue > SMALLEST_P


def test_the_seed_decides():
    labels, groups = images_of(SIZES, ["a"] * len(SIZES))
    again = [split_by_group(labels, groups, seed=s).tolist() for s in (1, 1, 2)]
    assert again[0] == again[1] != again[2]


def test_a_class_too_small_joins_training_and_leaves_the_others_alone():
    labels, groups = images_of([1] * 20 + [1] * 6 + [1] * 7, ["a"] * 20 + ["b"] * 6 + ["c"] * 7)
    assert small_classes(labels, groups) == ["b"]  # 1 / 0.15 = 6.7: seven groups are the fewest that give each part one
    parts = split_by_group(labels, groups, seed=3)
    assert set(parts[labels == "b"]) == {NOT_AUDITABLE}
    assert set(parts[labels == "a"]) == set(parts[labels == "c"]) == set(PARTS)


def test_a_group_that_holds_a_small_class_trains_as_a_whole():
    labels = np.array(["a", "b"] + ["a"] * 10)
    groups = np.array(["x", "x"] + [f"g{i}" for i in range(10)])
    parts = split_by_group(labels, groups, seed=0)
    assert parts[0] == "train"
    assert parts[1] == NOT_AUDITABLE


def test_a_small_class_can_make_another_too_small():
    """Both groups of "rare" hold "a": without them "a" has six groups left, one fewer than it needs."""
    labels = np.array(["rare", "a", "rare", "a", *["a"] * 6])
    groups = np.array(["x", "x", "y", "y", *[f"g{i}" for i in range(6)]])
    assert small_classes(labels, groups) == ["a", "rare"]
    assert set(split_by_group(labels, groups, seed=0)) == {NOT_AUDITABLE}


def test_linked_groups_stay_together():
    labels, groups = images_of([1] * 30, ["a"] * 30)
    linked = [("g000", "g001"), ("g001", "g017"), ("g020", "g021")]
    merged = merge_linked(groups, linked)
    assert merged[[0, 1, 17]].tolist() == ["g000"] * 3
    assert merged[21] == "g020"
    assert merged[5] == "g005"
    for seed in range(30):
        parts = split_by_group(labels, groups, seed=seed, linked=linked)
        assert_groups_whole(merged, parts)
        assert (parts == split_by_group(labels, merged, seed=seed)).all()


@pytest.mark.parametrize(
    ("labels", "groups", "settings_", "message"),
    [
        (["a"], ["g"], {"fractions": (0.7, 0.2, 0.2)}, "add up to 1"),
        (["a"], ["g"], {"fractions": (1.2, -0.2, 0.0)}, "add up to 1"),
        (["a"], ["g"], {"fractions": (0.5, 0.5)}, "add up to 1"),
        (["a", "a"], ["g"], {}, "2 labels but 1 groups"),
        ([], [], {}, "no images"),
        (["a"], ["g"], {"linked": [("g", "no\nsuch")]}, "is not the group of any image"),
    ],
)
def test_refusals_are_one_line(labels, groups, settings_, message):
    with pytest.raises(InputError, match=message) as error:
        split_by_group(labels, groups, seed=0, **settings_)
    assert "\n" not in str(error.value)


def test_chest_x_rays_with_both_labels(shared_data):
    files = sorted((shared_data / "nih_cxr14_64" / "NIH1000").rglob("*.png"))
    labels = np.array([f.parent.name for f in files])
    groups = np.array([f.name.split("_")[0] for f in files])
    both = [g for g in set(groups) if len(set(labels[groups == g])) == 2]
    assert (len(files), len(set(groups)), len(both)) == (1000, 264, 68)  # SOURCE.txt of the set
    for seed in range(10):
        parts = split_by_group(labels, groups, seed=seed)
        assert_groups_whole(groups, parts)
        assert all({"train", "canary", "test"} <= set(parts[labels == label]) for label in set(labels))
