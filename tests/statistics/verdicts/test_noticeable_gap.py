"""What a class's list would have noticed: its room by the formula, its power against planted patients."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.nulls import unit_p_values
from memorisk.statistics.memorization.sign_flips import flip_null, joined_units, sign_flip_p_values
from memorisk.statistics.verdicts import noticeable_gap as module
from memorisk.statistics.verdicts.levels import POWER
from memorisk.statistics.verdicts.noticeable_gap import (
    EVERY,
    GAPS,
    MIN_ROOM,
    NOISIEST,
    class_list,
    gap_profiles,
    noticeable_gap,
    power,
    room,
    seeds_needed,
    strata,
)
from tests.thorough import thorough


def of(gap, n_scored, level, *, unit=None, sizes=None, flip=True):
    """A class with these unseen gaps, and so many scored groups with gaps drawn from them."""
    groups = np.arange(n_scored) if sizes is None else np.repeat(np.arange(n_scored), sizes)
    names = np.arange(gap.shape[1]) if unit is None else unit
    alike = gap[:, np.arange(len(groups)) % gap.shape[1]] if gap.shape[1] else np.zeros((len(gap), len(groups)))
    return class_list(alike, np.ones(alike.shape), groups, gap, names, level, flip=flip)


@pytest.mark.parametrize(("n_classes", "n_models"), [(1, 10), (2, 12), (12, 16)])
def test_room_is_the_formula_and_so_are_the_models_that_give_it(n_classes, n_models):
    """1,000 patients, 85 to 15: q / C n 2^S / m, at least twice the level of a single patient from that K on."""
    m, n = 850 // n_classes, 150 // n_classes
    for seeds in (n_models // 2 - 1, n_models // 2):
        listing = of(np.zeros((seeds, n)), m, 0.1 / n_classes)
        assert room(listing) == pytest.approx(0.1 / n_classes * (n + m) * 2**seeds / m)
        assert (room(listing) >= MIN_ROOM) == (seeds == n_models // 2)
    assert room(listing, n_models // 2 - 1) < MIN_ROOM


def test_room_is_what_four_of_five_groups_have():
    """Groups that lack a seed have half the room; where more than one in five does, theirs counts."""
    sign = np.ones((8, 100))
    for lacking, factor in ((20, 1.0), (21, 0.5)):
        sign[0] = np.arange(100) >= lacking
        listing = class_list(np.zeros((8, 100)), sign, np.arange(100), np.zeros((8, 19)), np.arange(19), 0.1)
        n_null = 119 - lacking if factor == 1 else 119  # those who lack a seed are compared with everybody
        assert room(listing) == pytest.approx(factor * 0.1 * n_null * 2**8 / 100)


def test_without_room_nothing_is_noticed_however_large():
    rng = np.random.default_rng(0)
    found = noticeable_gap(of(rng.normal(0, 0.1, (4, 75)), 425, 0.05), seed=0)
    assert np.isinf(found.worst.gap)
    assert found.room < MIN_ROOM
    none = noticeable_gap(of(np.zeros((4, 0)), 10, 0.05), seed=0)
    assert np.isinf(none.worst.gap)
    assert none.room == 0


def test_profiles_have_the_mean_and_the_spread_of_real_ones():
    rng = np.random.default_rng(1)
    n = 40000
    for gap, variation, zeros in ((0.5, 0.87, 0.12), (1.0, 0.87, 0.12), (2.0, 0.71, 0.0), (4.0, 0.35, 0.0)):
        drawn = gap_profiles(gap, *rng.random((2, n, 8))).ravel()
        error = 4 / np.sqrt(len(drawn))  # four standard errors of a mean, in standard deviations
        assert drawn.mean() == pytest.approx(gap, abs=error * drawn.std())
        assert drawn.std() / drawn.mean() == pytest.approx(variation, rel=0.02)
        assert (drawn == 0).mean() == pytest.approx(zeros, abs=error * 0.5)


@pytest.mark.parametrize("sizes", [[1] * 60, [1, 1, 1, 2, 2, 3, 5, 9]])
def test_own_flips_are_counted_as_by_enumeration(sizes):
    """Each image whose flip reaches the patient's largest counts, and each flip of the sum."""
    rng, n = np.random.default_rng(2), len(sizes)
    draw = np.repeat(np.arange(n), sizes)
    rows = rng.normal(0.5, 1, (len(draw), 6))
    null = flip_null(joined_units(rows.T, np.ones((6, len(draw))), draw, np.zeros((6, 0)), []))
    every = np.array(list(product([1.0, -1.0], repeat=6)))
    images = null.of_images(every, rows.T)
    largest = np.array([null.of_images(np.ones((1, 6)), rows[draw == u].T).max() for u in range(n)])
    counted = module._image_hits(null, rows, draw, largest)
    limit = np.where(largest > 0, largest * (1 - 1e-9), -np.inf)[draw]
    assert counted.tolist() == np.bincount(draw, (images >= limit).sum(0)).tolist()
    if null.of_class is not None:
        sums = null.of_class.sums(null.units).gap.T
        observed = null.of_class.null.of_images(np.ones((1, 6)), sums.T)[0]
        limit = np.where(observed > 0, observed * (1 - 1e-9), -np.inf)
        by_hand = (null.of_class.null.of_images(every, sums.T) >= limit).sum(axis=0)
        assert module._own_hits(null.of_class.null, sums, observed).tolist() == by_hand.tolist()


def test_a_part_of_many_flips_stands_for_all(monkeypatch):
    rng = np.random.default_rng(3)
    listing = of(rng.standard_t(4, (12, 75)) * 0.3, 425, 0.05)
    every = power(listing, 0.8, seed=0, stratum=EVERY, n_draws=2000)
    monkeypatch.setattr(module, "_FEWEST_FLIPS", 1024)
    monkeypatch.setattr(module, "_ENOUGH_ROOM", 1)  # room 9 in place of 36
    assert power(listing, 0.8, seed=0, stratum=EVERY, n_draws=2000) == pytest.approx(every, abs=0.06)
    assert 0.2 < every < 0.95


def noise(rng, seeds, unit, scale):
    """Heavy tails, unequal noise, and what a patient's images share."""
    n = unit.max() + 1
    return (
        scale
        * np.exp(0.5 * rng.standard_normal(len(unit)))
        * (rng.standard_t(4, (seeds, len(unit))) + 0.5 * rng.standard_t(4, (seeds, n))[:, unit])
    )


@pytest.mark.parametrize("largest", [thorough(1), 5])
def test_the_power_is_that_with_which_planted_patients_are_found(largest):
    """Over 40 audits: the share of four planted patients that the audit's own p-values would list."""
    estimated, found = [], []
    for repeat in range(40):
        rng = np.random.default_rng([4, largest, repeat])
        sizes = rng.integers(1, largest + 1, 130)
        unit = np.repeat(np.arange(130), sizes)
        gap, test = noise(rng, 9, unit, 0.25), unit >= 100
        listing = class_list(
            gap[:, ~test], np.ones((9, int((~test).sum()))), unit[~test], gap[:, test], unit[test], 0.05
        )
        estimated.append(power(listing, 1.2, seed=repeat, stratum=EVERY, n_draws=100))
        planted = np.arange(0, 100, 25)
        first = (np.cumsum(sizes) - sizes)[planted] + (rng.random(4) * sizes[planted]).astype(int)
        changed = gap.copy()
        changed[:, first] += gap_profiles(1.2, *rng.random((2, 4, 9))).T
        data = changed[:, ~test], np.ones((9, int((~test).sum()))), unit[~test], gap[:, test], unit[test]
        p = sign_flip_p_values(*data, level=0.05).p_value[planted]
        found.append((p <= 0.05 / 100 * (1 + 1e-12)).mean())
    difference = np.array(estimated) - found
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    assert abs(difference.mean()) < 4 * error + 0.02  # four at a time hide one another a little
    assert 0.3 < np.mean(found) < 0.97  # where a power can be told from none and from all


def test_the_noticeable_gap_is_the_smallest_of_the_grid():
    rng = np.random.default_rng(5)
    listing = of(rng.standard_t(4, (8, 40)) * 0.2, 200, 0.1)
    whole = noticeable_gap(listing, seed=7, n_draws=200)
    found = whole.strata[0]
    assert found.stratum == EVERY
    i = int(np.flatnonzero(found.gap == GAPS)[0])
    assert found.power == power(listing, found.gap, seed=7, stratum=EVERY, n_draws=200) >= POWER
    assert power(listing, float(GAPS[i - 1]), seed=7, stratum=EVERY, n_draws=200) < POWER
    assert found.low < found.power < found.high
    assert noticeable_gap(listing, seed=7, n_draws=200) == whole
    each = [power(listing, found.gap, seed=7, stratum=one.stratum, n_draws=200) for one in whole.strata]
    assert len(each) == 2  # the patients have one image each: all of them, and the noisiest
    assert power(listing, found.gap, seed=7, n_draws=200) == min(each) < each[0]


def test_the_powers_interval_covers_over_draws():
    rng = np.random.default_rng(6)
    listing = of(rng.standard_t(4, (8, 40)) * 0.3, 200, 0.1)
    truth = power(listing, 1.0, seed=0, stratum=EVERY, n_draws=20000)
    inside = 0
    for seed in range(1, 101):
        share = module.clopper_pearson(round(100 * power(listing, 1.0, seed=seed, stratum=EVERY, n_draws=100)), 100)
        inside += share.low <= truth <= share.high
    assert inside >= stats.binom.ppf(0.001, 100, 0.95)


def test_more_noise_or_fewer_seeds_notice_less():
    rng = np.random.default_rng(8)
    gap = rng.standard_t(4, (12, 60)) * 0.2
    gaps = [noticeable_gap(of(factor * gap, 300, 0.1), seed=0, n_draws=200).worst.gap for factor in (1, 3)]
    assert gaps[0] < gaps[1]
    assert noticeable_gap(of(gap[:8], 300, 0.1), seed=0, n_draws=200).worst.gap > gaps[0]


def test_the_seeds_that_are_named_give_room_and_power():
    rng = np.random.default_rng(9)
    gap = rng.standard_t(4, (32, 60)) * 0.3
    few = of(gap[:4], 300, 0.05)
    needed = seeds_needed(few, 2.0, seed=0)
    assert needed is not None
    assert room(few, needed) >= MIN_ROOM
    assert noticeable_gap(few, seed=0).worst.gap > 2
    assert noticeable_gap(of(gap[: needed + 1], 300, 0.05), seed=0).worst.gap <= 2
    assert seeds_needed(of(10 * gap[:6], 300, 0.05), 0.25, seed=0) is None  # too noisy for 64 models
    assert seeds_needed(of(np.zeros((6, 0)), 300, 0.05), 2.0, seed=0) is None


def test_missing_seeds_take_power_away():
    rng = np.random.default_rng(10)
    gap = rng.standard_t(4, (9, 240)) * 0.25
    every, some = np.ones((9, 200)), np.ones((9, 200))
    some[:2, ::2] = 0
    shares = [
        power(
            class_list(gap[:, :200], sign, np.arange(200), gap[:, 200:], np.arange(40), 0.1),
            0.7,
            seed=0,
            stratum=EVERY,
            n_draws=800,
        )
        for sign in (every, some)
    ]
    assert shares[1] < shares[0] - 3 * np.sqrt(0.25 / 800)


def test_the_paper_design_ranks_without_flips():
    """One score a group and no flips: with 400 of a class in the null a large gap is the largest of all."""
    rng = np.random.default_rng(11)
    test = rng.normal(0, 0.2, (1, 400))
    listing = of(test, 15, 0.1, flip=False)
    assert room(listing) == pytest.approx(0.1 * 401 / 15)
    assert noticeable_gap(listing, seed=0).worst.gap <= 2
    p = unit_p_values([test.max() + 0.1], ["a"], test[0], np.arange(400)).p_value
    assert p[0] <= 0.1 / 15
    assert np.isinf(noticeable_gap(of(test[:, :50], 15, 0.1, flip=False), seed=0).worst.gap)
    assert seeds_needed(listing, 2.0, seed=0) is None


def test_a_level_that_is_none_is_refused():
    with pytest.raises(InputError, match="level of a class's list is 0"):
        of(np.zeros((4, 5)), 5, 0.0)


def mixed(rng, seeds, sizes, scale, n_scored):
    """A class of patients with these numbers of images and noise of another scale each."""
    unit = np.repeat(np.arange(len(sizes)), sizes)
    gap, test = rng.standard_t(4, (seeds, len(unit))) * scale[unit], unit >= n_scored
    sign = np.ones((seeds, int((~test).sum())))
    return class_list(gap[:, ~test], sign, unit[~test], gap[:, test], unit[test], 0.05)


def test_the_strata_are_those_of_the_scored_patients():
    sizes, scale = np.array([1] * 10 + [2] * 5 + [9] * 5 + [1] * 4 + [12]), np.ones(25)
    scale[[3, 7]] = 50.0
    listing = mixed(np.random.default_rng(12), 5, sizes, scale, 20)
    groups = {name: members.tolist() for name, members in strata(listing).items()}
    assert groups == {EVERY: list(range(20)), "one": list(range(10)), "few": list(range(10, 20)), NOISIEST: [3, 7]}
    assert strata(replace(listing, listed=np.arange(20) == 3))[EVERY].tolist() == [g for g in range(20) if g != 3]


def test_each_stratum_is_noticed_as_often_as_its_planted_patients():
    """A gap in patients of one stratum, found by the audit's own p-values, against the power stated for the stratum."""
    estimated, found = {"one": [], "many": [], NOISIEST: []}, {"one": [], "many": [], NOISIEST: []}
    for repeat in range(12):
        rng = np.random.default_rng([13, repeat])
        sizes = np.where(np.arange(140) % 4 == 0, 12, 1)
        scale = 0.12 * np.where(np.arange(140) % 10 == 1, 4.0, 1.0)
        listing = mixed(rng, 8, sizes, scale, 120)
        simulator = module._Simulator(listing, repeat, 60)
        gap = listing.units.gap
        for name in found:
            estimated[name].append(simulator.power(name, 1.0))
            for group in rng.choice(strata(listing)[name], 3):
                images = np.flatnonzero(listing.units.unit_of == group)
                changed = gap.copy()
                changed[:, images] *= rng.choice([-1, 1], (8, 1))
                changed[:, rng.choice(images)] += gap_profiles(1.0, *rng.random((2, 1, 8)))[0]
                scored, unit = listing.units.unit_of < 120, listing.units.unit_of
                data = changed[:, scored], np.ones((8, scored.sum())), unit[scored], changed[:, ~scored], unit[~scored]
                found[name].append(sign_flip_p_values(*data).p_value[group] <= 0.05 / 120 * (1 + 1e-12))
    for name in found:
        error = np.sqrt(np.var(found[name]) / len(found[name]) + np.var(estimated[name]) / len(estimated[name]))
        assert abs(np.mean(estimated[name]) - np.mean(found[name])) < 4 * error + 0.02, name
    assert np.mean(estimated[NOISIEST]) < np.mean(estimated["one"]) - 0.1  # what one number would hide


def test_the_noticeable_gap_is_that_of_the_stratum_that_is_noticed_least():
    rng = np.random.default_rng(14)
    found = noticeable_gap(mixed(rng, 8, np.array([1] * 100 + [12] * 20), np.full(120, 0.15), 100), seed=0, n_draws=200)
    assert [s.stratum for s in found.strata] == [EVERY, NOISIEST]
    sizes = np.where(np.arange(120) % 5 == 0, 25, 1)
    found = noticeable_gap(mixed(rng, 8, sizes, np.full(120, 0.3), 100), seed=0, n_draws=200)
    gaps = {s.stratum: s.gap for s in found.strata}
    assert list(gaps) == [EVERY, "one", "many", NOISIEST]
    assert found.worst.gap == max(gaps.values())
    assert gaps["many"] > gaps["one"]
