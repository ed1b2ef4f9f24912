"""Thresholds against their definitions by search and by simulation: what they promise of new identities holds."""

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import (
    equal_pools,
    group_values,
    identities_needed,
    misses_allowed,
    one_per_group,
    percentile_threshold,
    sensitivity_threshold,
    specificity_threshold,
)
from tests.thorough import thorough


def kept(successes, repeats, level):
    """Whether a count is no smaller than a binomial at the level would make it in 99.9 % of cases."""
    return successes >= stats.binom.ppf(0.001, repeats, level)


def close(successes, repeats, level):
    """Whether it is neither smaller nor larger."""
    return kept(successes, repeats, level) and successes <= stats.binom.ppf(0.999, repeats, level)


def patients(rng, n, images=5):
    """Distances of images of patients who share most of theirs: [n, images]."""
    return rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, images))


@pytest.mark.parametrize("confidence", [None, 0.9, 0.95])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_misses_by_search(alpha, confidence):
    for n in (0, 1, 18, 19, 28, 29, 58, 59, 60, 99, 298, 299, 500):
        if confidence is None:
            allowed = [c for c in range(n + 1) if (c + 1) / (n + 1) <= alpha + 1e-12]
        else:
            allowed = [c for c in range(n + 1) if stats.binom.cdf(c, n, alpha) <= 1 - confidence]
        assert misses_allowed(n, alpha, confidence) == max(allowed, default=-1)


def test_the_numbers_needed_are_those_of_methods():
    assert [identities_needed(level, 0.95) for level in (0.99, 0.95, 0.9)] == [299, 59, 29]
    for level in (0.5, 0.9, 0.95, 0.99):
        for confidence in (None, 0.9, 0.95, 0.99):
            n = identities_needed(level, confidence)
            assert misses_allowed(n, 1 - level, confidence) >= 0
            assert misses_allowed(n - 1, 1 - level, confidence) == -1


def test_too_few_identities_give_no_threshold():
    few = np.arange(18.0)
    none = specificity_threshold(few)
    assert none.value == -np.inf
    assert not none.kept
    assert not none.flags([-1e300]).any()
    assert (none.n_units, none.needed, none.rank) == (18, 19, 0)
    every = sensitivity_threshold(few)
    assert every.value == np.inf
    assert every.flags([1e300]).all()
    assert every.needed == 59
    assert specificity_threshold(np.arange(19.0)).rank == 1


def test_a_percentile_is_numpys_and_flags_what_is_strictly_nearer():
    values = np.random.default_rng(0).normal(size=101)
    found = percentile_threshold(values, 5)
    assert found.value == np.percentile(values, 5) == np.sort(values)[5]
    assert found.flags(values).sum() == 5
    assert "nothing is promised" in found.promise


GRID = np.linspace(-6, 6, 241)


def beyond(value, images=5):
    """Share of patients all of whose images lie beyond the value, exactly."""
    density = stats.norm.pdf(GRID) * stats.norm.sf((value - GRID) / 0.5) ** images
    return density.sum() * (GRID[1] - GRID[0])


@pytest.mark.parametrize("ties", [thorough(False), True])
@pytest.mark.parametrize("confidence", [thorough(None), 0.9])
def test_specificity_holds_for_new_patients_and_not_over_images(confidence, ties):
    rng, repeats, level, n = np.random.default_rng(1), 600, 0.9, 60
    group = np.repeat(np.arange(n), 5)
    shares, by_images = [], []
    for _ in range(repeats):
        own = patients(rng, n).ravel()
        own = np.round(2 * own) if ties else own
        for groups, found in ((group, shares), (None, by_images)):
            cut = specificity_threshold(own, groups, specificity=level, confidence=confidence)
            # a rounded image lies below a whole value when the image lies below the edge of its step
            found.append(beyond((cut.value - 0.5) / 2 if ties else cut.value))
    if confidence is None:
        errors = [np.std(found) / np.sqrt(repeats) for found in (shares, by_images)]
        assert np.mean(shares) >= level - 3 * errors[0]
        assert ties or np.mean(shares) <= 1 - (misses_allowed(n, 1 - level) + 1) / (n + 1) + 3 * errors[0]
        assert ties or np.mean(by_images) < level - 3 * errors[1]
    else:
        attained = 1 - stats.binom.cdf(misses_allowed(n, 1 - level, confidence), n, 1 - level)
        reached = np.sum(np.array(shares) >= level)
        assert kept(reached, repeats, attained)
        assert ties or close(reached, repeats, attained)
        assert not kept(np.sum(np.array(by_images) >= level), repeats, confidence)


@pytest.mark.parametrize("of", ["random", "largest"])
def test_sensitivity_holds_for_new_sources(of):
    rng, repeats, level, confidence, n = np.random.default_rng(2), 600, 0.9, 0.95, 80
    reached = 0
    for i in range(repeats):
        own = patients(rng, n).ravel()
        found = sensitivity_threshold(
            own, np.repeat(np.arange(n), 5), sensitivity=level, confidence=confidence, of=of, seed=i
        )
        assert found.n_units == n
        # the distribution is symmetric: of a random copy one image counts, of every copy all five
        reached += beyond(-found.value, 1 if of == "random" else 5) >= level
    attained = 1 - stats.binom.cdf(misses_allowed(n, 1 - level, confidence), n, 1 - level)
    assert attained >= confidence
    assert close(reached, repeats, attained)


def test_sensitivity_is_the_mirror_of_specificity():
    values = np.random.default_rng(3).normal(size=100)
    for confidence in (None, 0.95):
        near = specificity_threshold(values, specificity=0.9, confidence=confidence)
        far = sensitivity_threshold(-values, sensitivity=0.9, confidence=confidence)
        assert far.value == -near.value
        assert far.flags(-values).sum() == 100 - near.flags(values).sum()


def test_values_of_groups_by_loops():
    rng = np.random.default_rng(4)
    values, group = rng.normal(size=50), rng.integers(0, 12, 50).astype(str)
    ids = np.unique(group)
    np.testing.assert_array_equal(group_values(values, group), [values[group == g].min() for g in ids])
    np.testing.assert_array_equal(group_values(values, group, of="largest"), [values[group == g].max() for g in ids])
    rows = one_per_group(group, seed=3)
    np.testing.assert_array_equal(group[rows], ids)
    np.testing.assert_array_equal(group_values(values, group, of="random", seed=3), values[rows])


def test_one_per_group_is_drawn_evenly():
    group, n = np.array([0, 0, 0, 1]), 3000
    drawn = np.bincount([one_per_group(group, seed=i)[0] for i in range(n)], minlength=3)
    assert stats.chisquare(drawn).pvalue > 0.001


def test_pools_are_cut_to_one_size_by_whole_groups():
    large, small = np.repeat(np.arange(40), 3), np.repeat(np.arange(100, 110), 5)
    rows, others = equal_pools(large, small, seed=1)
    assert len(rows) == len(others) == 50
    np.testing.assert_array_equal(others, np.arange(50))
    counts = np.bincount(large[rows], minlength=40)
    assert sorted(counts[counts > 0])[1:] == [3] * 16  # the last group is cut
    again, _ = equal_pools(large, small, seed=1)
    np.testing.assert_array_equal(rows, again)
    assert not np.array_equal(rows, equal_pools(large, small, seed=2)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: specificity_threshold([]), "one image at least"),
        (lambda: specificity_threshold([1.0, np.nan]), "row 1"),
        (lambda: specificity_threshold([1.0], [1, 2]), "one group per image"),
        (lambda: specificity_threshold([1.0], specificity=95), "between 0 and 1"),
        (lambda: sensitivity_threshold([1.0], of="mean"), "value of a group"),
        (lambda: percentile_threshold([1.0], 101), "from 0 to 100"),
        (lambda: equal_pools([], [1]), "empty"),
        (lambda: misses_allowed(-1, 0.05), "give a count"),
    ],
)
def test_misfits_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
