"""MemRate over identities: the plain counts, coverage with one identity that owns most images, the difference."""

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.memorization_rate import memorization_rate, rate_difference
from memorisk.statistics.intervals.shares import clopper_pearson
from tests.thorough import thorough


def test_with_one_image_each_it_is_the_exact_interval_of_a_share():
    hit = np.arange(80) < 3
    found = memorization_rate(hit)
    exact = clopper_pearson(3, 80)
    assert found.estimate == found.share == pytest.approx(3 / 80)
    assert (found.low, found.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    assert found.exposed == exact
    none = memorization_rate(np.zeros(80, dtype=bool))
    assert (none.estimate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 80))


def test_what_is_no_list_of_pairs_is_refused():
    for matches, identity in ((np.ones((2, 2)), np.ones((2, 2))), ([True], ["a", "b"])):
        with pytest.raises(InputError, match="do not fit"):
            memorization_rate(matches, identity)


def test_a_patient_with_most_images_counts_once():
    identity = np.array(["many"] * 900 + [f"p{i}" for i in range(99)])
    found = memorization_rate(identity == "many", identity)
    assert found.share == pytest.approx(900 / 999)
    assert found.estimate == pytest.approx(0.01)
    assert (found.exposed.successes, found.n_identities, found.n_pairs) == (1, 100, 999)
    assert found.high < 0.06


def draw(rng, n, mean):
    """Patients with their own rates of being matched; one of them has most images."""
    rate = rng.beta(8 * mean, 8 * (1 - mean), size=n)
    count = 1 + rng.poisson(2, size=n)
    count[0] = 10 * n
    identity = np.repeat(np.arange(n), count)
    return rng.random(len(identity)) < rate[identity], identity


@pytest.mark.parametrize("mean", [0.02, thorough(0.2)])
def test_intervals_and_differences_cover(mean):
    repeats, covered, over, both = 400, 0, 0, 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        found, held = memorization_rate(*draw(rng, 60, mean)), memorization_rate(*draw(rng, 40, 0.01))
        covered += found.low <= mean <= found.high
        hit, identity = draw(rng, 60, mean)
        images = clopper_pearson(int(hit.sum()), len(identity))
        over += images.low <= mean <= images.high
        both += rate_difference(found, held).contains(mean - 0.01)
    least = stats.binom.ppf(0.001, repeats, 0.95)
    assert covered >= least
    assert both >= least
    assert over < least  # images as units


def test_a_rate_does_not_differ_from_itself():
    rng = np.random.default_rng(0)
    found = memorization_rate(*draw(rng, 60, 0.2))
    same = rate_difference(found, found)
    assert same.estimate == 0.0
    assert same.contains(0.0)
    clear = rate_difference(memorization_rate(np.ones(50, dtype=bool)), memorization_rate(np.zeros(50, dtype=bool)))
    assert clear.low > 0.85
    assert clear.high == 1.0


def test_without_pairs_there_is_no_number():
    none = memorization_rate([], [])
    assert np.isnan(none.estimate)
    assert (none.low, none.high) == (0.0, 1.0)
    apart = rate_difference(none, memorization_rate([True]))
    assert np.isnan(apart.estimate)
    assert (apart.low, apart.high) == (-1.0, 1.0)


def test_what_is_refused():
    with pytest.raises(InputError, match="do not fit"):
        memorization_rate([True, False], ["a"])
    with pytest.raises(InputError, match="use one level"):
        rate_difference(memorization_rate([True]), memorization_rate([True], level=0.9))
    with pytest.raises(InputError, match="level is 2"):
        memorization_rate([True], level=2)
