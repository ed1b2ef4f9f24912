"""Pairs against their definitions by enumeration; draws against their probabilities."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.pairs.identity_pairs import (
    Pairs,
    cliques,
    negative_pairs,
    one_positive_each,
    pair_weights,
    positive_pairs,
)

GROUPS = np.random.default_rng(0).permutation(np.repeat(["a", "b", "c", "d", "e"], [1, 2, 2, 7, 4]))


def as_set(pairs):
    """Pairs as rows, which must not repeat."""
    found = set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert len(found) == len(pairs)
    return found


def test_every_pair_of_a_group_once():
    expected = [(i, j) for i, j in combinations(range(len(GROUPS)), 2) if GROUPS[i] == GROUPS[j]]
    found = positive_pairs(GROUPS)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == expected
    assert len(found) == 0 + 1 + 1 + 21 + 6
    assert len(positive_pairs(["a", "b"])) == 0
    assert len(positive_pairs([])) == 0


def test_one_pair_of_each_group_that_has_two():
    found = one_positive_each(GROUPS, seed=3)
    assert GROUPS[found.first].tolist() == ["b", "c", "d", "e"]
    assert as_set(found) <= as_set(positive_pairs(GROUPS))
    again = one_positive_each(GROUPS, seed=3)
    np.testing.assert_array_equal(found.first, again.first)
    np.testing.assert_array_equal(found.second, again.second)


def test_all_pairs_of_a_group_are_equally_likely():
    rows = np.flatnonzero(GROUPS == "e")
    drawn = [one_positive_each(GROUPS, seed=s) for s in range(600)]
    number = dict.fromkeys(combinations(rows.tolist(), 2), 0)
    for pairs in drawn:
        number[(int(pairs.first[3]), int(pairs.second[3]))] += 1
    assert stats.chisquare(list(number.values())).pvalue > 0.001


@pytest.mark.parametrize("partner", ["identity", "image"])
def test_negatives_are_of_two_groups_of_one_data_set(partner):
    rng = np.random.default_rng(1)
    groups = rng.integers(30, size=200)
    dataset = np.array(["x", "y", "z"])[groups % 3]
    positives = positive_pairs(groups)
    found = negative_pairs(groups, positives, dataset=dataset, partner=partner, seed=0)
    np.testing.assert_array_equal(found.first, positives.first)
    assert (groups[found.first] != groups[found.second]).all()
    assert (dataset[found.first] == dataset[found.second]).all()
    alone = negative_pairs(groups, 500, dataset=dataset, partner=partner, seed=0)
    assert len(alone) == 500
    assert (groups[alone.first] != groups[alone.second]).all()
    assert (dataset[alone.first] == dataset[alone.second]).all()


@pytest.mark.parametrize("partner", ["identity", "image"])
def test_partners_are_drawn_with_the_stated_probabilities(partner):
    n = 4000
    row = int(np.flatnonzero(GROUPS == "c")[0])
    anchors = Pairs(np.full(n, row), np.full(n, row))
    found = negative_pairs(GROUPS, anchors, partner=partner, seed=5)
    times = np.bincount(found.second, minlength=len(GROUPS))
    others = GROUPS != "c"
    size = np.array([(g == GROUPS).sum() for g in GROUPS])
    expected = others / (4 * size) if partner == "identity" else others / others.sum()
    assert times[~others].sum() == 0
    assert stats.chisquare(times[others], n * expected[others]).pvalue > 0.001


def test_anchors_are_random_images_of_random_groups():
    found = negative_pairs(GROUPS, 4000, seed=5)
    size = np.array([(g == GROUPS).sum() for g in GROUPS])
    assert stats.chisquare(np.bincount(found.first, minlength=len(GROUPS)), 4000 / (5 * size)).pvalue > 0.001
    assert len(negative_pairs(GROUPS, 0, seed=5)) == 0


def test_every_identity_counts_one():
    positives = positive_pairs(GROUPS)
    weight = pair_weights(GROUPS[positives.first])
    for name in "bcde":
        assert weight[GROUPS[positives.first] == name].sum() == pytest.approx(1.0)


def test_what_is_refused():
    with pytest.raises(InputError, match="one group only"):
        negative_pairs(["a", "a", "b", "c"], Pairs(np.array([0]), np.array([1])), dataset=[0, 0, 1, 1], seed=0)
    with pytest.raises(InputError, match="no data set has two groups"):
        negative_pairs(["a", "a", "b"], 3, dataset=[0, 0, 1], seed=0)
    with pytest.raises(InputError, match="do not fit"):
        negative_pairs(["a", "b"], 3, dataset=[0], seed=0)
    with pytest.raises(InputError, match="Did you mean 'image'"):
        negative_pairs(["a", "b"], 3, partner="images", seed=0)
    with pytest.raises(InputError, match="one id per image"):
        positive_pairs([["a", "b"]])


def test_cliques_join_whom_every_link_joins_and_never_a_chain():
    rng = np.random.default_rng(2)
    for n, share in ((1, 0.0), (30, 0.0), (30, 0.1), (40, 0.5), (12, 1.0)):
        ends = np.array([pair for pair in combinations(range(n), 2) if rng.random() < share]).reshape(-1, 2)
        links = {tuple(pair) for pair in ends.tolist()}
        turned = np.where(rng.random(len(ends))[:, None] < 0.5, ends, ends[:, ::-1])  # which end comes first is nothing
        found = cliques(n, turned[:, 0], turned[:, 1])
        members = [np.flatnonzero(found == c).tolist() for c in range(found.max() + 1)]
        assert sorted(i for each in members for i in each) == list(range(n))
        assert all(pair in links for each in members for pair in combinations(each, 2))
        for one, other in combinations(members, 2):  # who opened a later set did not fit an earlier one as it was
            assert any((j, other[0]) not in links for j in one if j < other[0])
    assert cliques(0, [], []).tolist() == []
    assert cliques(12, *zip(*combinations(range(12), 2), strict=True)).tolist() == [0] * 12
