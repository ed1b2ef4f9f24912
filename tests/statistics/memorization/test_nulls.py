"""The sign-flip p-values against their definition written as loops, and their symmetries."""

from itertools import combinations, product
from math import ceil

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.scores.memorization import memorization
from memorisk.statistics import randomization
from memorisk.statistics.memorization import nulls
from memorisk.statistics.memorization.nulls import (
    candidate_p_values,
    comparison_sizes,
    sign_flip_p_values,
    unit_p_values,
)


def draw(rng, sizes, test_sizes, seeds, missing=0.0):
    """Gaps, signs and units with ids in no order, whole units unscored in some seeds."""
    unit = np.repeat([f"u{rng.integers(10**6)}-{i}" for i in range(len(sizes))], sizes)
    test_unit = np.repeat([f"t{i}" for i in range(len(test_sizes))], test_sizes)
    order, test_order = rng.permutation(len(unit)), rng.permutation(len(test_unit))
    unit, test_unit = unit[order], test_unit[test_order]
    sign = np.zeros((seeds, len(unit)), dtype=int)
    for u in np.unique(unit):
        side = rng.choice([-1, 1], seeds) * (rng.random(seeds) >= missing)
        sign[:, unit == u] = side[:, None]
    gap = rng.standard_t(3, (seeds, len(unit)))
    return gap, sign, unit, rng.standard_t(3, (seeds, len(test_unit))), test_unit


def largest(gap, flip, images, offset=None):
    """Max over images of the flipped sum over seeds, in the order of the seeds; studentized with an offset."""
    best = -np.inf
    for i in images:
        total, squares = 0.0, 0.0
        for s, side in enumerate(flip):
            total += side * gap[s, i]
            squares += gap[s, i] ** 2
        if offset is not None:
            mean = total / len(flip)
            error = np.sqrt(max(squares / len(flip) - mean * mean, 0.0) / max(len(flip) - 1, 1))
            total = mean / (error + offset)
        best = max(best, total)
    return best


def naive_any_size(gap, sign, unit, test_gap, test_unit):
    """METHODS' definition: a loop over units, over flips, over test units."""
    out = {}
    for u in np.unique(unit):
        images = np.flatnonzero(unit == u)
        seeds = np.flatnonzero(sign[:, images[0]])
        if not len(seeds):
            out[u] = np.nan
            continue
        own = (sign * gap)[seeds]
        observed = largest(own, np.ones(len(seeds)), images)
        hits = pool = 0
        for flip in product((1, -1), repeat=len(seeds)):
            hits += largest(own, flip, images) >= observed
            pool += 1
            for t in np.unique(test_unit):
                hits += largest(test_gap[seeds], flip, np.flatnonzero(test_unit == t)) >= observed
                pool += 1
        out[u] = hits / pool
    return out


def naive_matched(gap, sign, unit, test_gap, test_unit, studentize=False):
    """The definition for unequal sizes: every subset of a test unit's images, by enumeration."""
    out = {}
    test_sizes = {t: np.flatnonzero(test_unit == t) for t in np.unique(test_unit)}
    for u in np.unique(unit):
        images = np.flatnonzero(unit == u)
        k = len(images)
        options = [k, *sorted({len(t) for t in test_sizes.values() if len(t) < k}, reverse=True)]
        floors = [ceil(k / c) / (1 + sum(len(t) >= c for t in test_sizes.values())) for c in options]
        size = options[int(np.argmin(floors))]
        seeds = np.flatnonzero(sign[:, images[0]])
        if not len(seeds):
            out[u] = np.nan
            continue
        own, offset = (sign * gap)[seeds], None
        if studentize:
            offset = 0.15 + np.median([np.sqrt(np.mean(d**2) / len(seeds)) for d in test_gap[seeds].T])
        observed = largest(own, np.ones(len(seeds)), images, offset)
        compared = [t for t in test_sizes.values() if len(t) >= size]
        hits = 0.0
        for flip in product((1, -1), repeat=len(seeds)):
            hits += largest(own, flip, images, offset) >= observed
            for t in compared:
                reached = [
                    largest(test_gap[seeds], flip, subset, offset) >= observed for subset in combinations(t, size)
                ]
                hits += np.mean(reached)
        out[u] = min(1.0, ceil(k / size) * hits / ((len(compared) + 1) * 2 ** len(seeds)))
    return out


def check(found, naive, **tolerance):
    assert found.unit.tolist() == sorted(naive)
    np.testing.assert_allclose(found.p_value, [naive[u] for u in found.unit.tolist()], **tolerance)


@pytest.mark.parametrize(("seeds", "missing"), [(1, 0.0), (3, 0.0), (4, 0.3), (5, 0.5)])
def test_units_of_one_image_equal_the_definition_exactly(seeds, missing):
    data = draw(np.random.default_rng(seeds), [1] * 12, [1] * 7, seeds, missing)
    naive = naive_any_size(*data)
    check(sign_flip_p_values(*data), naive, rtol=0, atol=0)
    check(sign_flip_p_values(*data, sizes="any"), naive, rtol=0, atol=0)


def test_units_of_one_size_equal_the_definition_exactly_in_both_forms():
    data = draw(np.random.default_rng(10), [3] * 8, [3] * 5, 4, 0.3)
    naive = naive_any_size(*data)
    check(sign_flip_p_values(*data), naive, rtol=0, atol=0)
    check(sign_flip_p_values(*data, sizes="any"), naive, rtol=0, atol=0)


@pytest.mark.parametrize("seed", range(4))
def test_unequal_sizes_equal_the_definitions(seed):
    rng = np.random.default_rng(20 + seed)
    data = draw(rng, rng.integers(1, 7, 9), rng.integers(1, 6, 6), 3, 0.25)
    check(sign_flip_p_values(*data, sizes="any"), naive_any_size(*data), rtol=0, atol=0)
    check(sign_flip_p_values(*data), naive_matched(*data), rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_studentized_ranks_equal_the_definition(seed):
    rng = np.random.default_rng(24 + seed)
    data = draw(rng, rng.integers(1, 5, 9), rng.integers(1, 4, 6), 3, 0.25)
    found = sign_flip_p_values(*data, ranking="studentized")
    check(found, naive_matched(*data, studentize=True), rtol=1e-12)


def test_one_seed_is_ranked_by_its_gap_alone():
    data = draw(np.random.default_rng(28), [1] * 12, [1] * 7, 1)
    plain, ratio = sign_flip_p_values(*data), sign_flip_p_values(*data, ranking="studentized")
    np.testing.assert_array_equal(plain.p_value, ratio.p_value)


def test_blocks_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(30)
    data = draw(rng, rng.integers(1, 5, 20), rng.integers(1, 5, 15), 6, 0.2)
    whole = sign_flip_p_values(*data)
    monkeypatch.setattr(randomization, "BLOCK", 64)
    np.testing.assert_allclose(sign_flip_p_values(*data).p_value, whole.p_value, rtol=1e-13)


def test_values_held_at_a_time_stay_within_a_block(monkeypatch):
    rng = np.random.default_rng(31)
    data = draw(rng, [1] * 50, [1] * 40, 10)
    held = []
    kept = randomization.flipped_sums
    monkeypatch.setattr(nulls, "flipped_sums", lambda s, g: held.append(len(s) * g.shape[1]) or kept(s, g))
    monkeypatch.setattr(randomization, "BLOCK", 2**12)
    sign_flip_p_values(*data)
    assert sum(held) > 2**10 * 40
    assert max(held) <= 2**12


def test_the_statistic_is_the_memorization_score():
    rng = np.random.default_rng(32)
    gap, sign, unit, test_gap, test_unit = draw(rng, [1, 2, 3, 4, 1], [2, 2], 5, 0.3)
    found = sign_flip_p_values(gap, sign, unit, test_gap, test_unit)
    m = memorization(gap, sign)
    np.testing.assert_array_equal(found.statistic, [m[unit == u].max() for u in found.unit])
    np.testing.assert_array_equal(found.n_images, [np.sum(unit == u) for u in found.unit])
    np.testing.assert_array_equal(found.n_seeds, [np.count_nonzero(sign[:, unit == u][:, 0]) for u in found.unit])


def test_exchanging_the_loss_columns_mirrors_the_null():
    """With A and B exchanged M becomes -M, and its p-value is the share of the same pool at or below M."""
    data = draw(np.random.default_rng(33), [1] * 15, [1] * 10, 4)
    gap, sign, unit, test_gap, test_unit = data
    there = sign_flip_p_values(*data)
    back = sign_flip_p_values(-gap, sign, unit, -test_gap, test_unit)
    np.testing.assert_array_equal(back.statistic, -there.statistic)
    # One value of the pool, the observed one, is counted on both sides; the pool is symmetric under flips.
    np.testing.assert_allclose(there.p_value + back.p_value, 1 + 1 / (11 * 16), rtol=1e-12)


def test_renaming_the_twins_changes_nothing():
    gap, sign, unit, test_gap, test_unit = draw(np.random.default_rng(34), [2, 1, 3, 1], [1, 2, 2], 4, 0.2)
    there = sign_flip_p_values(gap, sign, unit, test_gap, test_unit)
    back = sign_flip_p_values(-gap, -sign, unit, -test_gap, test_unit)
    np.testing.assert_array_equal(back.p_value, there.p_value)


def test_order_of_images_and_of_seeds_does_not_matter_beyond_rounding():
    rng = np.random.default_rng(35)
    gap, sign, unit, test_gap, test_unit = draw(rng, [2, 1, 3, 1], [1, 2, 2], 4, 0.2)
    i, j, s = rng.permutation(7), rng.permutation(5), rng.permutation(4)
    there = sign_flip_p_values(gap, sign, unit, test_gap, test_unit)
    back = sign_flip_p_values(gap[np.ix_(s, i)], sign[np.ix_(s, i)], unit[i], test_gap[np.ix_(s, j)], test_unit[j])
    np.testing.assert_allclose(back.p_value, there.p_value, rtol=1e-13)


def test_ties_count_as_reaching():
    """Gaps of 0 and 1 are exact: the p-value is a count that can be done by hand."""
    # M = 2/2; of the unit's own flips only ++ reaches 2; of the test unit's (1, 1) only ++ does.
    found = sign_flip_p_values([[1.0], [1.0]], [[1], [1]], ["a"], [[1.0], [1.0]], ["t"])
    assert found.p_value.tolist() == [2 / 8]
    # No gap at all: everything reaches.
    found = sign_flip_p_values(np.zeros((3, 2)), np.ones((3, 2)), ["a", "b"], np.zeros((3, 4)), list("tuvw"))
    assert found.p_value.tolist() == [1.0, 1.0]


def test_the_smallest_p_value_is_the_floor():
    rng = np.random.default_rng(36)
    gap, sign, unit, test_gap, test_unit = draw(rng, [1, 2, 5, 1], [1, 1, 2, 3], 4, 0.2)
    gap = np.where(sign != 0, sign * (50 + rng.random(gap.shape)), gap)
    found = sign_flip_p_values(gap, sign, unit, test_gap, test_unit)
    np.testing.assert_allclose(found.p_value, found.floor, rtol=1e-12)
    k = comparison_sizes(found.n_images, [1, 1, 2, 3])
    np.testing.assert_array_equal(found.n_compared, [sum(t >= c for t in (1, 1, 2, 3)) for c in k])
    expected = np.ceil(found.n_images / k) / ((found.n_compared + 1) * 2.0**found.n_seeds)
    np.testing.assert_allclose(found.floor, np.minimum(1, expected))


def test_comparison_sizes():
    # All of one size: compared whole. No test unit as large: in parts, if that lowers the floor.
    assert comparison_sizes([3, 3], [3, 3, 3]).tolist() == [3, 3]
    assert comparison_sizes([1], [4, 2]).tolist() == [1]
    # 60 images against 200 test units of one: 60 / 201 is below 1 (its own flips alone).
    assert comparison_sizes([60], [1] * 200).tolist() == [1]
    # Against 19 of one: 60 / 20 is not.
    assert comparison_sizes([60], [1] * 19).tolist() == [60]
    assert comparison_sizes([4], []).tolist() == [4]
    # 2 images against 50 single and 50 double: 1/51 (two at a time) beats 2/101 only just.
    assert comparison_sizes([2], [1] * 50 + [2] * 50).tolist() == [2]
    assert comparison_sizes([2], [1] * 50 + [2] * 49).tolist() == [2]  # a tie goes to the fewer parts
    assert comparison_sizes([2], [1] * 50 + [2] * 48).tolist() == [1]


def test_units_never_scored_have_no_p_value():
    gap, sign, unit, test_gap, test_unit = draw(np.random.default_rng(37), [1, 1, 1], [1, 1], 3)
    sign[:, unit == np.unique(unit)[1]] = 0
    found = sign_flip_p_values(gap, sign, unit, test_gap, test_unit)
    assert np.isnan(found.p_value).tolist() == [False, True, False]
    assert np.isnan(found.floor).tolist() == [False, True, False]
    nobody = sign_flip_p_values(gap, np.zeros_like(sign), unit, test_gap, test_unit)
    assert np.isnan(nobody.p_value).all()
    assert nobody.n_flips == 0


def test_no_test_units_leave_the_own_flips():
    found = sign_flip_p_values([[1.0, -1.0]], [[1, 1]], ["a", "b"], np.zeros((1, 0)), [])
    assert found.p_value.tolist() == [0.5, 1.0]
    assert found.n_test == 0


def test_no_canaries_at_all():
    found = sign_flip_p_values(np.zeros((2, 0)), np.zeros((2, 0)), [], np.zeros((2, 3)), ["a", "b", "c"])
    assert found.p_value.shape == (0,)


def test_random_flips_beyond_the_budget():
    data = draw(np.random.default_rng(38), [1] * 30, [1] * 20, 12)
    exact = sign_flip_p_values(*data)
    drawn = sign_flip_p_values(*data, max_draws=50 * 2000, seed=5)
    assert (exact.exact, exact.n_flips) == (True, 2**12)
    assert (drawn.exact, drawn.n_flips) == (False, 2000)
    # Each p is a mean over 2,000 random flips of the share of 21 values: sd at most sqrt(p (1 - p) / 2000).
    sd = np.sqrt(exact.p_value * (1 - exact.p_value) / 2000) + 1 / (21 * 2000)
    assert np.all(np.abs(drawn.p_value - exact.p_value) < 4 * sd)
    assert np.all(drawn.p_value >= 1 / (21 * 2000))
    again = sign_flip_p_values(*data, max_draws=50 * 2000, seed=5)
    np.testing.assert_array_equal(again.p_value, drawn.p_value)
    assert not np.array_equal(sign_flip_p_values(*data, max_draws=50 * 2000, seed=6).p_value, drawn.p_value)


def test_random_flips_are_a_thousand_to_65536():
    assert randomization.plan_flips(40, 10**6, 10**6, 0) == (1000, False)
    assert randomization.plan_flips(40, 100, 10**6, 0) == (10**4, False)
    assert randomization.plan_flips(40, 1, 10**6, 0) == (2**16, False)


def test_random_flips_hold_the_identity_first():
    """A unit whose every flip but the identity falls short keeps p >= 1 / draws, whatever the draws."""
    gap = np.full((70, 1), 1.0)
    found = sign_flip_p_values(gap, np.ones((70, 1)), ["a"], np.zeros((70, 0)), [])
    assert not found.exact
    assert found.n_flips == randomization.MAX_RANDOM_FLIPS
    assert found.p_value[0] == 1 / found.n_flips
    few = sign_flip_p_values(gap, np.ones((70, 1)), ["a"], np.zeros((70, 0)), [], max_draws=1)
    assert few.n_flips == randomization.MIN_RANDOM_FLIPS
    assert few.p_value[0] == 1 / few.n_flips


def test_candidate_p_values_are_the_loop():
    rng = np.random.default_rng(39)
    m, test = rng.normal(size=20).round(1), rng.normal(size=15).round(1)
    m[3] = np.nan
    naive = [(1 + sum(t >= x for t in test)) / 16 if x == x else np.nan for x in m]
    np.testing.assert_array_equal(candidate_p_values(m, test), naive)
    # The same by units of one image, where every unit is scored.
    kept = ~np.isnan(m)
    found = unit_p_values(m[kept], np.arange(19), test, np.arange(15))
    np.testing.assert_array_equal(found.p_value, candidate_p_values(m[kept], test))
    assert (found.n_flips, found.n_test, found.exact) == (1, 15, True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sign_flip_p_values([[1.0]], [[1]], ["a"], [[1.0]], ["t"], sizes="some"), "unknown way"),
        (lambda: sign_flip_p_values([[1.0]], [[1]], ["a"], [[1.0], [1.0]], ["t"]), "1 seeds"),
        (lambda: sign_flip_p_values([[1.0]], [[1]], ["a", "b"], [[1.0]], ["t"]), "do not fit"),
        (lambda: sign_flip_p_values([[np.nan]], [[1]], ["a"], [[1.0]], ["t"]), "canary image is not finite"),
        (lambda: sign_flip_p_values([[1.0]], [[1]], ["a"], [[np.inf]], ["t"]), "test image is not finite"),
        (lambda: sign_flip_p_values([[1.0]], [[3]], ["a"], [[1.0]], ["t"]), "signs must be"),
        (lambda: sign_flip_p_values([[1.0, 1.0]], [[1, -1]], ["a", "a"], [[1.0]], ["t"]), "'a' has images on both"),
        (lambda: sign_flip_p_values([[1.0]], [[1]], ["a"], [[1.0]], ["t"], max_draws=0), "max_draws"),
        (lambda: unit_p_values([1.0], ["a"], [1.0], ["t"], sizes="none"), "unknown way"),
        (lambda: sign_flip_p_values([[1.0]], [[1]], ["a"], [[1.0]], ["t"], ranking="studentised"), "unknown ranking"),
        (lambda: candidate_p_values([1.0], [np.nan]), "not finite"),
        (lambda: candidate_p_values([[1.0]], [1.0]), "one-dimensional"),
    ],
)
def test_misfits_are_refused_in_one_line(call, words):
    with pytest.raises(InputError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
