"""Section 5's p-values against loops, their level by simulation, and what no list can hold."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import specificity_threshold
from memorisk.statistics.copies.reversed_queries import (
    exposures,
    held_out_needed,
    nearness,
    precedence_p,
    reversed_queries,
)
from memorisk.statistics.memorization.nulls import candidate_p_values
from tests.thorough import thorough


def test_p_values_by_loops_with_ties():
    rng = np.random.default_rng(0)
    for _ in range(10):
        train, held = rng.integers(0, 9, 40) / 3, rng.integers(0, 9, 25) / 3
        ours, theirs = rng.integers(0, 12, 40), 100 + rng.integers(0, 9, 25)
        found = reversed_queries(train, held, ours, theirs, sizes="any")
        smallest = np.array([held[theirs == h].min() for h in np.unique(theirs)])
        for unit, w, p in zip(found.unit, found.distance, found.p_value, strict=True):
            assert w == train[ours == unit].min()
            assert p == (1 + np.sum(smallest <= w)) / (len(smallest) + 1)
        assert found.ahead == np.sum(found.distance < smallest.min())
        np.testing.assert_array_equal(found.floor, np.full(len(found.unit), 1 / (len(smallest) + 1)))


def test_without_groups_it_is_the_per_image_variant_whatever_the_sizes():
    rng = np.random.default_rng(1)
    train, held = rng.normal(size=30), rng.normal(size=19)
    naive = [(1 + np.sum(held <= d)) / 20 for d in train]
    np.testing.assert_array_equal(candidate_p_values(-train, -held), naive)
    for sizes in ("any", "matched"):
        np.testing.assert_allclose(reversed_queries(train, held, sizes=sizes).p_value, naive, rtol=1e-15)


def test_p_at_most_a_level_is_the_specificity_threshold_of_the_held_out():
    rng = np.random.default_rng(2)
    train, held = rng.integers(0, 60, 200) / 7.0, rng.integers(0, 60, 99) / 7.0
    for level in (0.01, 0.05, 0.2):
        cut = specificity_threshold(held, specificity=1 - level)
        np.testing.assert_array_equal(cut.flags(train), candidate_p_values(-train, -held) <= level)


@pytest.mark.parametrize("spread", [0.6, thorough(1.0), thorough(1.5)])
def test_the_level_is_exact_whatever_the_spread_of_a_set_made_without_either_part(spread):
    """One patient an audit, so that the counts are binomial; the usual direction beside it."""
    rng, repeats, hits, usual = np.random.default_rng(3), 700, 0, 0
    for _ in range(repeats):
        real, synthetic = rng.normal(size=(139, 6)), spread * rng.normal(size=(60, 6))
        train, held = real[:100], real[100:]
        found = reversed_queries(cdist(train, synthetic).min(1), cdist(held, synthetic).min(1))
        hits += found.p_value[0] <= 0.05
        usual += candidate_p_values(-cdist(synthetic, train).min(1)[:1], -cdist(held, train).min(1))[0] <= 0.05
    assert stats.binomtest(hits, repeats, 0.05).pvalue > 0.01
    if spread == 0.6:
        assert usual > stats.binom.ppf(0.999, repeats, 0.05)


def test_lists_and_the_count_ahead_keep_their_level():
    rng, repeats, q, any_listed, ahead = np.random.default_rng(4), 1500, 0.2, 0, 0
    for _ in range(repeats):
        order = rng.permutation(90).astype(float)
        found = reversed_queries(order[:60], order[60:], q=q)
        any_listed += found.listed.n_rejected > 0
        ahead += found.p_ahead <= 0.05
    assert any_listed <= stats.binom.ppf(0.999, repeats, q)
    # the largest attainable level below 5 %
    exact = max(precedence_p(a, 60, 30) for a in range(61) if precedence_p(a, 60, 30) <= 0.05)
    assert stats.binomtest(ahead, repeats, exact).pvalue > 0.001


def test_units_ahead_by_counting_orders():
    assert precedence_p(0, 5, 3) == 1
    assert precedence_p(1, 5, 3) == pytest.approx(5 / 8)
    assert precedence_p(3, 5, 3) == pytest.approx(stats.hypergeom.pmf(3, 8, 5, 3))
    assert precedence_p(5, 5, 3) == pytest.approx(1 / 56)
    assert precedence_p(16, 700, 150) <= 0.05 < precedence_p(15, 700, 150)


def test_patients_of_many_images_are_flagged_more_unless_sizes_are_matched():
    rng, repeats, many = np.random.default_rng(5), 120, {"any": [], "matched": []}
    for _ in range(repeats):
        count = np.where(np.arange(80) % 8, 1, 12)
        group = np.repeat(np.arange(80), count)
        distance, kept = rng.normal(size=len(group)), group < 48
        for sizes, shares in many.items():
            found = reversed_queries(distance[kept], distance[~kept], group[kept], group[~kept], sizes=sizes)
            shares.append(np.mean(found.p_value[found.n_images == 12] <= 0.1))
    assert np.mean(many["any"]) > 0.1 + 3 * np.std(many["any"]) / np.sqrt(repeats)
    assert np.mean(many["matched"]) <= 0.1 + 2 * np.std(many["matched"]) / np.sqrt(repeats)


def test_what_could_be_listed_at_all():
    train = np.full(1000, 5.0)
    train[:40] = 0.0  # forty exact copies
    few = reversed_queries(train, np.linspace(1, 9, 199), q=0.1)
    assert few.shortest_list == 50
    assert few.testable
    assert len(few.flagged) == 0
    assert few.ahead == 40
    assert few.p_ahead < 1e-3
    assert held_out_needed(1000, 40) == 249
    enough = reversed_queries(train, np.linspace(1, 9, 249), q=0.1)
    np.testing.assert_array_equal(enough.flagged, np.arange(40))
    assert not reversed_queries(train, [1.0, 2.0], q=0.1).testable


def test_the_images_that_expose_listed_patients():
    train = np.array([0.0, 0.5, 3.0, 0.1, 0.1, 4.0])
    group = np.array(["a", "a", "b", "c", "c", "d"])
    nearest = np.array([7, 7, 2, 9, 5, 1])
    found = reversed_queries(train, np.arange(1.0, 40.0), group, q=0.1)
    np.testing.assert_array_equal(found.flagged, ["a", "c"])
    seen = exposures(found, train, nearest, group)
    np.testing.assert_array_equal(seen.unit, ["a", "c", "c"])
    np.testing.assert_array_equal(seen.image, [0, 3, 4])
    np.testing.assert_array_equal(seen.synthetic, [7, 9, 5])
    np.testing.assert_array_equal(seen.images, [5, 7, 9])
    nobody = exposures(reversed_queries(train, [0.0], group), train, nearest, group)
    assert len(nobody.unit) == 0


def test_nearness_by_loops():
    rng = np.random.default_rng(6)
    synthetic, held, group = rng.integers(0, 9, 20) / 2, rng.integers(0, 9, 30) / 2, rng.integers(0, 7, 30)
    second = synthetic + rng.integers(0, 3, 20)
    found = nearness(synthetic, held, group, second)
    for d, share in zip(synthetic, found.share, strict=True):
        assert share == pytest.approx(np.mean([np.mean(held[group == g] <= d) for g in np.unique(group)]))
    both = (synthetic == 0) & (second == 0)
    np.testing.assert_array_equal(found.ratio[both], 1)
    np.testing.assert_allclose(found.ratio[~both], synthetic[~both] / second[~both])
    assert found.n_patients == len(np.unique(group))
    assert np.isnan(nearness([1.0], [2.0]).ratio).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: reversed_queries([1.0], [1.0], ["x"], ["x"]),
            "1 patient is in training and held out, such as x; split by patient",
        ),
        (lambda: reversed_queries([1.0], []), "one image at least"),
        (lambda: reversed_queries([1.0], [1.0], q=2), "share between 0 and 1"),
        (lambda: reversed_queries([1.0], [1.0], sizes="equal"), "compare sizes"),
        (lambda: exposures(reversed_queries([1.0], [1.0]), [1.0], [0, 1]), "do not fit"),
        (lambda: exposures(reversed_queries([1.0], [1.0]), [1.0], [0], ["x"]), "not the result's"),
        (lambda: nearness([1.0], [1.0], second_distance=[0.5]), "none below the first"),
        (lambda: nearness([1.0], [1.0], [1, 2]), "do not fit"),
        (lambda: precedence_p(1, 5, 0), "at least one held-out"),
        (lambda: held_out_needed(10, 0), "at least 1"),
    ],
)
def test_misfits_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
