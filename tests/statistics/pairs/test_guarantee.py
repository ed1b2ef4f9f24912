"""The guarantee by enumeration, in closed form and in simulated calibrations: it fails no more often than it says."""

import math

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import one_per_group, sensitivity_threshold
from memorisk.statistics.pairs.guarantee import both_readings, miss_guarantee


@pytest.mark.parametrize("detectors", [1, 2, 5])
@pytest.mark.parametrize(("alpha", "delta"), [(0.01, 0.05), (0.05, 0.05), (0.1, 0.05), (0.2, 0.1), (0.5, 0.01)])
def test_the_threshold_is_the_largest_order_statistic_that_keeps_the_level(alpha, delta, detectors):
    """The true miss rate at the j-th smallest of n uniform scores is Beta(j, n + 1 - j)."""
    for n in (1, 5, 28, 29, 58, 59, 93, 299, 500):
        keeps = [j for j in range(1, n + 1) if stats.beta.sf(alpha, j, n + 1 - j) <= delta / detectors * (1 + 1e-9)]
        found = miss_guarantee(np.arange(n)[::-1], miss_rate=alpha, confidence=1 - delta, detectors=detectors)
        assert found.misses_allowed + 1 == max(keeps, default=0)
        assert found.kept == bool(keeps) == (found.missing == 0) == (n >= found.needed)
        assert found.threshold == (found.misses_allowed if keeps else -np.inf)
        assert found.missing == max(found.needed - n, 0)


@pytest.mark.parametrize(("alpha", "needed"), [(0.01, 299), (0.05, 59), (0.1, 29)])
def test_too_few_identities_are_counted_and_give_no_number(alpha, needed):
    rng = np.random.default_rng(0)
    short = miss_guarantee(rng.normal(size=needed - 12), miss_rate=alpha)
    assert not short.kept
    assert (short.threshold, short.needed, short.missing) == (-np.inf, needed, 12)
    words = short.words("rotation")
    assert "12 are missing" in words
    assert f"needs {needed} identities" in words
    assert "rotation" not in words
    assert miss_guarantee(rng.normal(size=needed), miss_rate=alpha).kept
    assert miss_guarantee([], miss_rate=alpha).missing == needed


def test_five_detectors_need_more_identities_each():
    found = miss_guarantee(np.zeros(100), miss_rate=0.05, detectors=5)
    assert found.needed == math.ceil(math.log(0.01) / math.log(0.95)) == 90
    assert found.misses_allowed < miss_guarantee(np.zeros(100), miss_rate=0.05).misses_allowed


def test_it_is_the_sensitivity_threshold_of_distances_turned_round():
    score = np.random.default_rng(1).normal(size=200).round(1)
    found = miss_guarantee(score, miss_rate=0.1, confidence=0.9)
    distance = sensitivity_threshold(-score, sensitivity=0.9, confidence=0.9)
    assert found.threshold == -distance.value
    np.testing.assert_array_equal(score >= found.threshold, distance.flags(-score))


def test_ties_are_rejected_so_that_they_cannot_break_the_promise():
    found = miss_guarantee(np.repeat([0.0, 1.0], [10, 290]), miss_rate=0.05)
    assert 0 < found.misses_allowed < 10
    assert found.threshold == 0.0
    assert np.sum(np.repeat([0.0, 1.0], [10, 290]) < found.threshold) == 0


@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_new_identities_are_missed_as_promised_with_few_values_too(levels):
    """1,000 calibrations of 120 identities; scores in `levels` steps, miss rates in closed form."""
    n, alpha, delta, repeats = 120, 0.05, 0.05, 1000
    rng = np.random.default_rng(levels)
    steps = rng.integers(levels, size=(repeats, n))
    tau = np.array([miss_guarantee(row, miss_rate=alpha).threshold for row in steps])
    failures = int((tau / levels > alpha).sum())  # P(uniform step < tau)
    assert failures <= repeats * (delta + 2 * math.sqrt(delta * (1 - delta) / repeats))
    if levels == 1000:
        exact = stats.binom.cdf(miss_guarantee(steps[0], miss_rate=alpha).misses_allowed, n, alpha)
        assert stats.binom.ppf(0.001, repeats, exact) <= failures <= stats.binom.ppf(0.999, repeats, exact)


def test_the_words_are_those_of_methods():
    found = miss_guarantee(np.arange(500.0), miss_rate=0.01)
    words = found.words("rotation and blur")
    assert words.startswith("For a random copy, made by rotation and blur, of a random new identity: ")
    assert "at most 1 % with 95 % confidence" in words
    assert "from 500 identities" in words
    assert "another distribution" in words
    assert "shared by 3" in miss_guarantee(np.arange(500.0), detectors=3).words("blur")


def test_both_readings_are_each_the_guarantee_of_its_identities_and_the_lower_one_counts():
    rng = np.random.default_rng(3)
    score, unit = rng.normal(size=150), np.repeat(np.arange(50), 3)
    unit[:30] = -1
    found = both_readings(score, unit, miss_rate=0.1, seed=4)
    rows = one_per_group(unit[30:], seed=4) + 30
    assert found.given == miss_guarantee(score, miss_rate=0.1)
    assert found.merged == miss_guarantee(score[rows], miss_rate=0.1)
    assert found.cautious.threshold == min(found.given.threshold, found.merged.threshold)
    alone = both_readings(score, np.arange(150), miss_rate=0.1)
    assert alone.given == alone.merged == alone.cautious
    nobody = both_readings(score, np.full(150, -1), miss_rate=0.1).cautious
    assert (nobody.threshold, nobody.n_identities, nobody.missing) == (-np.inf, 0, 29)


@pytest.mark.parametrize("truth", ["given", "merged"])
def test_the_cautious_threshold_keeps_the_promise_whichever_reading_is_true(truth):
    """1,000 calibrations; look-alikes are hard to find. As one person the scores of a unit are one value, nearly."""
    repeats, alpha, delta, n = 1000, 0.1, 0.05, 61
    rng = np.random.default_rng(7)
    broken = {"given": 0, "merged": 0, "cautious": 0}
    for _ in range(repeats):
        own = rng.normal(size=n)
        if truth == "merged":  # the first 30 persons have one name, the rest two
            score, unit = np.concatenate([own, own[30:]]), np.concatenate([np.arange(n), np.arange(30, n)])
        else:  # whoever scores low looks like the next one, and the lowest like somebody known
            score, unit = own, np.arange(n)
            low = np.flatnonzero(own < stats.norm.ppf(0.4))
            unit[low[1::2]] = low[: len(low) // 2 * 2 : 2]
            unit[own < stats.norm.ppf(0.1)] = -1
        found = both_readings(score, unit, miss_rate=alpha)
        for name in broken:
            broken[name] += int(stats.norm.cdf(getattr(found, name).threshold) > alpha)
    most = stats.binom.ppf(0.999, repeats, delta)
    assert broken["cautious"] <= most
    assert broken[truth] <= most
    assert broken["given" if truth == "merged" else "merged"] > most


def test_what_is_refused():
    with pytest.raises(InputError, match="one of each per identity"):
        both_readings(np.zeros(3), np.zeros(2, dtype=int))
    with pytest.raises(InputError, match="1 of 3 scores are not finite"):
        miss_guarantee([1.0, np.nan, 2.0])
    with pytest.raises(InputError, match="one per identity"):
        miss_guarantee(np.zeros((3, 2)))
    with pytest.raises(InputError, match="detectors is 0"):
        miss_guarantee(np.zeros(100), detectors=0)
    for wrong in ({"miss_rate": 0.0}, {"miss_rate": 1.0}, {"confidence": 1.0}, {"confidence": 95}):
        with pytest.raises(InputError, match="between 0 and 1"):
            miss_guarantee(np.zeros(100), **wrong)
