"""Places of detectors against counting; shares over identities against loops."""

from itertools import combinations

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.detector_comparison import compare_pairs, paired_hits
from memorisk.statistics.copies.detector_ranks import mean_share, rank_ranges
from memorisk.statistics.multiple_testing.lists import holm


def test_pairs_are_the_paired_test_with_holm_over_the_pairs_asked():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 30, 80)
    hits = {name: rng.random((1, 80)) < share for name, share in (("a", 0.9), ("b", 0.5), ("c", 0.5))}
    found = compare_pairs([("a", "b"), ("b", "c")], hits, group)
    tests = [paired_hits(hits[x][0], hits[y][0], group) for x, y in (("a", "b"), ("b", "c"))]
    assert [f.hits for f in found] == tests
    assert [f.adjusted for f in found] == pytest.approx(holm([t.p_value for t in tests]))


def test_trainings_weigh_as_one_detector():
    rng = np.random.default_rng(1)
    group = np.arange(40)
    one, three = rng.random((1, 40)) < 0.4, rng.random((3, 40)) < 0.7
    found = compare_pairs([("a", "b")], {"a": one, "b": three}, group)[0].hits
    assert found.difference.estimate == pytest.approx(one.mean() - three.mean())
    assert found.difference.n_groups == 40  # trainings are no further patients
    assert found.n_copies == 120


def test_detectors_that_nobody_tells_apart_differ_by_the_share_of_those_who_might():
    same = {"a": np.ones((1, 30), bool), "b": np.ones((1, 30), bool)}
    found = compare_pairs([("a", "b")], same, np.arange(30))[0].hits.difference
    assert (found.low, found.estimate, found.high) == (pytest.approx(-(1 - 0.025 ** (1 / 30))), 0, -found.low)


def test_places_count_who_is_significantly_ahead():
    rng = np.random.default_rng(2)
    names = ["best", "good", "same", "poor"]
    pairs = list(combinations(names, 2))
    hits = {n: rng.random((1, 400)) < s for n, s in zip(names, (0.95, 0.6, 0.6, 0.1), strict=True)}
    found = rank_ranges(names, compare_pairs(pairs, hits, np.arange(400)))
    assert {name: place.words for name, place in found.items()} == {
        "best": "1", "good": "2 to 3", "same": "2 to 3", "poor": "4",
    }  # fmt: skip
    alike = dict.fromkeys(names, hits["good"])
    assert {p.words for p in rank_ranges(names, compare_pairs(pairs, alike, np.arange(400))).values()} == {"1 to 4"}


def test_a_share_over_identities_by_loops():
    rng = np.random.default_rng(3)
    group = rng.integers(0, 25, 90)
    hits = rng.random((4, 90)) < 0.5
    found = mean_share(hits, group)
    each = [np.mean([hits[d, i] for d in range(4) for i in np.flatnonzero(group == g)]) for g in np.unique(group)]
    assert found.estimate == pytest.approx(np.mean(each))
    assert found.n_groups == len(each)
    assert found.low < found.estimate < found.high
    none = mean_share(np.zeros((2, 90)), group)
    assert (none.estimate, none.low) == (0, 0)
    assert 0.05 < none.high < 0.2


def test_a_share_covers_the_population_of_identities():
    rng, covered, repeats = np.random.default_rng(4), 0, 400
    for _ in range(repeats):
        chance = rng.beta(2, 1, (30, 1))
        found = mean_share((rng.random((30, 4)) < chance).ravel(), np.repeat(np.arange(30), 4))
        covered += found.low <= 2 / 3 <= found.high
    assert covered / repeats > 0.92


def test_no_copies_are_refused():
    with pytest.raises(InputError, match="must be"):
        mean_share(np.zeros((2, 0)), [])
