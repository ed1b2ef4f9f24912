"""The threshold leaves as many chance pairs as it says, on tails of one kind and of many; copies do not set it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.pairs_of_people import (
    EXPECTED_PAIRS,
    MIN_TAIL_PAIRS,
    OUTLIER_SHARE,
    ChanceThreshold,
    chance_threshold,
    pairs_of_people,
    tail_depth,
)
from tests.thorough import thorough

PEOPLE = 120
PAIRS = PEOPLE * (PEOPLE - 1) // 2


def one_kind(rng):
    """Correlations of 40 independent numbers."""
    return 2 * rng.beta(19.5, 19.5, PAIRS) - 1


def flat_ones(rng):
    """A tenth of the pairs are of images with few details: their correlations are of 12 numbers."""
    d = np.where(rng.random(PAIRS) < 0.1, 12, 80) / 2
    return 2 * rng.beta(d, d) - 1


def hubs(rng):
    """Each person has a number of details of their own, from 10 to 100; a pair has the smaller."""
    own = rng.uniform(10, 100, PEOPLE)
    one, other = np.triu_indices(PEOPLE, 1)
    d = np.minimum(own[one], own[other]) / 2
    return 2 * rng.beta(d, d) - 1


def shared(rng):
    """All pairs have something in common."""
    return np.tanh(np.arctanh(one_kind(rng)) * 0.7 + 0.3)


def falling(r):
    return np.sort(r)[::-1]


@pytest.mark.parametrize("kind", [thorough(one_kind), thorough(flat_ones), hubs, shared])
@pytest.mark.parametrize("expected", [EXPECTED_PAIRS, thorough(1.0)])
def test_no_more_chance_pairs_than_it_says(kind, expected):
    rng, runs, found = np.random.default_rng(0), 150, 0
    for _ in range(runs):
        r = falling(kind(rng))
        threshold = chance_threshold(r, PEOPLE, expected=expected)
        assert threshold.similarity is not None
        found += int((r >= threshold.similarity).sum())
    assert found <= stats.poisson.ppf(0.999, runs * expected)


@pytest.mark.parametrize("copies", [1, 10, PEOPLE // 2])
def test_copies_under_two_ids_stand_apart_and_do_not_set_it(copies):
    rng = np.random.default_rng(1)
    for _ in range(20):
        clean = falling(one_kind(rng))
        mixed = falling(np.concatenate([clean[copies:], rng.uniform(0.97, 1, copies)]))
        alone, found = chance_threshold(clean, PEOPLE), chance_threshold(mixed, PEOPLE)
        assert found.apart == copies
        assert alone.apart == 0
        assert alone.similarity is not None
        assert found.similarity is not None
        assert found.similarity < 0.95
        assert (mixed >= found.similarity).sum() == copies


def test_it_is_the_largest_of_nested_fits_by_their_upper_limits():
    r = falling(flat_ones(np.random.default_rng(2)))
    z, depth, best = np.arctanh(r), min(4 * PEOPLE, PAIRS // 20), -np.inf
    assert tail_depth(PEOPLE) == depth
    while depth >= MIN_TAIL_PAIRS:
        upper = sum(z[i] - z[depth] for i in range(depth)) * 2 / stats.chi2.ppf(0.05, 2 * depth)
        best = max(best, z[depth] + upper * np.log(depth / EXPECTED_PAIRS))
        depth //= 3
    found = chance_threshold(r, PEOPLE)
    assert found.similarity == pytest.approx(np.tanh(best))
    assert found.n_fitted in (357, 119, 39)
    assert found.expected == EXPECTED_PAIRS
    assert found.n_pairs == PAIRS
    assert found.rate == EXPECTED_PAIRS / PAIRS
    assert "fewer than 0.01 are expected to be so alike by chance, one in 714,000." in found.words


def test_who_stands_apart_is_out_of_reach_of_the_censored_deepest_fit():
    r = falling(one_kind(np.random.default_rng(3)))
    z, k = np.arctanh(r), tail_depth(PEOPLE)
    cut = k // 5
    excess = [z[i] - z[k] for i in range(k)]
    mean = (sum(excess[cut:]) + cut * excess[cut]) / (k - cut)
    edge = z[k] + mean * np.log(k / (EXPECTED_PAIRS * OUTLIER_SHARE))
    for added, apart in ((edge - 0.05, 0), (edge + 0.05, 1)):
        assert chance_threshold(falling(np.concatenate([[np.tanh(added)], r[1:]])), PEOPLE).apart == apart


def test_a_stricter_expectation_asks_for_more():
    r = falling(hubs(np.random.default_rng(4)))
    found = [chance_threshold(r, PEOPLE, expected=e).similarity for e in (1.0, 0.1, 0.01, 0.001)]
    assert all(one is not None and other is not None and one < other for one, other in itertools.pairwise(found))


def test_few_people_have_no_threshold():
    r = falling(2 * np.random.default_rng(5).beta(20, 20, 36 * 35 // 2) - 1)
    assert tail_depth(35) < MIN_TAIL_PAIRS < tail_depth(36) + 1
    assert chance_threshold(r, 36).similarity is not None
    few = chance_threshold(r[: 35 * 34 // 2], 35)
    assert few.similarity is None
    assert few.rate == few.expected == 0
    assert few.words == (
        "Only identical pixels count as copies: 35 people are too few to tell how alike two different ones can be "
        "(a tail takes 30 pairs of them and 36 people)."
    )
    assert chance_threshold([], 0).similarity is None


def test_people_who_look_like_copies_have_no_threshold():
    rng = np.random.default_rng(6)
    alike = falling(np.tanh(np.abs(rng.normal(2, 1.5, PAIRS))))
    assert "as alike as copies are" in chance_threshold(alike, PEOPLE).why


def test_a_tail_that_stands_apart_as_a_whole_leaves_none():
    r = np.concatenate([np.linspace(1, 0.999, tail_depth(PEOPLE) - 10), np.full(20, 0.1)])
    assert chance_threshold(r, PEOPLE).similarity is None


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(5, 9), st.booleans()), max_size=30))
def test_each_pair_of_people_counts_once_by_its_most_alike_images(rows):
    similarity = falling(np.random.default_rng(len(rows)).random(len(rows)))
    best: dict[frozenset[int], float] = {}
    for (a, b, _), r in zip(rows, similarity, strict=True):
        best.setdefault(frozenset((a, b)), r)
    one = np.array([b if turned else a for a, b, turned in rows], dtype=np.int64)
    other = np.array([a if turned else b for a, b, turned in rows], dtype=np.int64)
    np.testing.assert_array_equal(pairs_of_people(one, other, similarity), list(best.values()))


def test_what_is_no_falling_list_of_correlations_is_refused():
    for bad in ([0.1, 0.2], [1.5, 0.2], [np.nan, 0.1], [[0.3, 0.2]]):
        with pytest.raises(InputError, match="from the most alike on"):
            chance_threshold(bad, 50)


def test_words_of_a_threshold():
    assert ChanceThreshold(0.9, 0.01, 101, 40, 2, 5050).words == (
        "Two images count as nearly the same from a similarity of 0.900 on: of 5,050 pairs of different people fewer "
        "than 0.01 are expected to be so alike by chance, one in 505,000."
    )


def test_a_sample_of_people_stands_for_all_of_them():
    """A hundredth of the pairs was seen: a hundredth of the expectation holds there."""
    r = falling(one_kind(np.random.default_rng(7)))
    whole = chance_threshold(r, PEOPLE, compared=100 * PAIRS)
    assert whole.similarity == chance_threshold(r, PEOPLE, expected=EXPECTED_PAIRS / 100).similarity
    assert (whole.n_pairs, whole.expected, whole.rate) == (100 * PAIRS, EXPECTED_PAIRS, EXPECTED_PAIRS / 100 / PAIRS)
