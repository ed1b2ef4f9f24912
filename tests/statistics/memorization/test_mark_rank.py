"""Ranks of a mark: exact where models are exchangeable, against brute force, with intervals that cover."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.mark_rank import (
    MAX_EXACT,
    noticeable_shift,
    percentile_among,
    permutation_p,
    rank_mark,
    rank_p,
    references_needed,
    smallest_permutation_p,
)
from tests.thorough import thorough


def table(rng, models, controls=40, bias=0.0):
    """Log KL of a mark (first) and its controls: pattern effects that all models share, model effects, noise."""
    shared = rng.normal(size=controls + 1)
    shared[0] += bias
    return shared + rng.normal(size=(models, 1)) + 0.5 * rng.normal(size=(models, controls + 1))


def test_the_rank_by_hand():
    found = rank_mark([2.0], [[1.0, 2.0, 3.0, 0.0]])
    assert found.p == found.p_controls == (1 + 2) / 5
    assert found.smallest_p == 1 / 5
    assert found.m == 2.0 - 1.5
    assert found.method == "controls"
    assert np.isnan(found.low)
    assert np.isinf(rank_mark([2.0], [[1.0, 2.0]]).detectable)
    centred = rank_mark([2.0], [[1.0, 2.0, 3.0, 0.0]], [1.0], [[1.0, 1.0, 1.0, 1.0]])
    assert (centred.method, centred.smallest_p) == ("centred", 1 / 5)


def test_a_mark_that_is_a_control_has_m_zero():
    found = rank_mark([1.5], [[1.5]])
    assert found.m == 0
    assert found.p == 1


def test_the_permutation_test_by_brute_force():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 3), rng.normal(size=5)
    both = np.concatenate([a, b])
    means = [both[list(c)].mean() for c in combinations(range(8), 3)]
    assert permutation_p(a, b) == np.mean(np.array(means) >= a.mean() - 1e-12)
    assert permutation_p([5.0], b) == 1 / 6 == smallest_permutation_p(1, 5)
    many = rng.normal(size=30)
    exact = permutation_p(many[:1], many[1:])
    assert exact == (1 + np.sum(many[1:] >= many[0])) / 30
    drawn = permutation_p(many[:12] + 0.3, many[12:], draws=4000, seed=1)
    again = permutation_p(many[:12] + 0.3, many[12:], draws=4000, seed=2)
    assert abs(drawn - again) < 4 * np.sqrt(2 * 0.25 / 4000)


def test_references_are_exact_for_a_mark_that_every_model_answers_to_and_controls_are_not():
    rng = np.random.default_rng(1)
    n, rejected = 800, {"references": 0, "controls": 0}
    for _ in range(n):
        log_kl = table(rng, 20, bias=2.0)
        found = rank_mark(log_kl[:1, 0], log_kl[:1, 1:], log_kl[1:, 0], log_kl[1:, 1:])
        assert found.method == "references"
        rejected["references"] += found.p <= 0.05
        rejected["controls"] += found.p_controls <= 0.05
    assert abs(rejected["references"] / n - 0.05) < 2 * np.sqrt(0.05 * 0.95 / n) + 1e-9
    assert rejected["controls"] / n > 0.3


def test_several_models_that_share_a_mark():
    rng = np.random.default_rng(2)
    n, rejected, held = 400, 0, 0
    for _ in range(n):
        log_kl = table(rng, 9, bias=1.0)
        found = rank_mark(log_kl[:3, 0], log_kl[:3, 1:], log_kl[3:, 0], log_kl[3:, 1:])
        rejected += found.p <= 0.05
        held += found.low <= 0 <= found.high
        assert found.method == "references"
        assert found.smallest_p == 1 / 84
    assert rejected / n <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)
    assert held / n >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / n)


@pytest.mark.parametrize("models", [1, 7])
def test_one_alone_is_taken_to_spread_as_the_others_do(models):
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(500):
        log_kl = table(rng, 8, bias=1.0)
        found = rank_mark(log_kl[:models, 0], log_kl[:models, 1:], log_kl[models:, 0], log_kl[models:, 1:])
        held += found.low <= 0 <= found.high
        assert found.method == "centred"
    assert abs(held / 500 - 0.95) < 3 * np.sqrt(0.05 * 0.95 / 500)


@pytest.mark.parametrize("references", [0, 6, 30])
def test_what_is_called_detectable_is_detected(references):
    rng = np.random.default_rng(4)
    log_kl = table(rng, 1 + references)
    given = [log_kl[1:, 0], log_kl[1:, 1:]] if references else []
    found = rank_mark(log_kl[:1, 0], log_kl[:1, 1:], *given)
    for beyond, caught in ((1e-6, True), (-1e-6, False)):
        shifted = log_kl[:1, 0] + found.detectable - found.m + beyond
        assert (rank_mark(shifted, log_kl[:1, 1:], *given).p <= 0.05) == caught


@pytest.mark.parametrize("drawn", [thorough("normal"), "skewed"])
@pytest.mark.parametrize(
    ("models", "references", "repeats"), [(1, 19, 1500), thorough(1, 45, 1500), (2, 8, 600), thorough(3, 3, 600)]
)
def test_a_noticeable_shift_is_found_in_four_of_five_cases(models, references, repeats, drawn):
    """Planted into models like the references. For one model the power is exact, and never far above 0.8."""
    rng = np.random.default_rng([models, references])
    found, threshold = 0, 0
    for _ in range(repeats):
        t = rng.normal(size=models + references) if drawn == "normal" else -rng.exponential(size=models + references)
        shift = noticeable_shift(t[:models], t[models:])
        found += permutation_p(t[:models] + shift, t[models:]) <= 0.05
        threshold += t[0] > t[1:].mean()  # a shift by what one model needs, `detectable`, is found where this holds
    low = stats.binom.ppf(0.001, repeats, 0.8)
    assert found >= low
    if models == 1:
        exact = 1 - int(0.2 * (references + 1) + 1e-9) / (references + 1)
        assert found <= stats.binom.ppf(0.999, repeats, exact)
        assert threshold < low


def test_the_noticeable_shift_by_brute_force():
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=2), rng.normal(size=6)
    pool = np.concatenate([(x - x.mean()) * np.sqrt(len(x) / (len(x) - 1)) for x in (a, b)])
    least = []
    for chosen in combinations(range(8), 2):
        own, rest = pool[list(chosen)], np.delete(pool, chosen)
        low, high = -10.0, 10.0
        for _ in range(50):
            middle = (low + high) / 2
            found = permutation_p(own + middle, rest) <= 0.05
            low, high = (low, middle) if found else (middle, high)
        least.append(high)
    assert noticeable_shift(a, b) == pytest.approx(np.sort(least)[int(np.ceil(0.8 * (len(least) - 1)))], abs=1e-9)
    assert (
        noticeable_shift([7.0], np.arange(19.0)) == 18 - 3
    )  # beyond the largest of them, 16 of 20 models are at least the fourth smallest


def test_what_cannot_be_found_has_no_noticeable_shift():
    assert noticeable_shift([1.0], np.arange(18.0)) == np.inf  # p is 1 / 19 at least
    assert noticeable_shift([1.0], np.arange(4.0), level=0.3) < np.inf
    assert noticeable_shift([1.0], np.arange(38.0), power=0.8) == 37 - 6  # above all 38, from the 7th on: 0.2 * 39
    assert noticeable_shift([1.0], np.arange(3.0), level=0.3) == np.inf  # nobody of four is found so often
    assert noticeable_shift(np.arange(30.0), [1.0]) == np.inf
    assert noticeable_shift([1.0], []) == np.inf
    assert noticeable_shift([0.0], np.arange(39.0)) < noticeable_shift([0.0], np.arange(39.0), power=0.9)
    many = noticeable_shift(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12), draws=999)  # too many for all assignments
    assert 0 < many < 2
    assert many == noticeable_shift(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12), draws=999)


def test_how_many_references_are_needed():
    assert [references_needed(s, 0.05) for s in (1, 2, 3, 19)] == [19, 5, 3, 1]
    assert references_needed(1, 0.2) == 4
    assert references_needed(5, 1e-6) is None
    assert references_needed(1, 0.5 / MAX_EXACT, draws=4 * MAX_EXACT) == MAX_EXACT  # the fewest that are drawn from
    for s, level in ((1, 0.05), (2, 0.01), (4, 0.05)):
        r = references_needed(s, level)
        assert r is not None
        assert smallest_permutation_p(s, r) <= level < smallest_permutation_p(s, r - 1)


def test_a_remembered_mark_is_found():
    rng = np.random.default_rng(5)
    log_kl = table(rng, 20)
    log_kl[0, 0] += 6
    found = rank_mark(log_kl[:1, 0], log_kl[:1, 1:], log_kl[1:, 0], log_kl[1:, 1:])
    assert found.p == 1 / 20
    assert found.low > 0


def test_places_and_ranks():
    assert percentile_among(2, [1, 2, 3, 4]) == 1.5 / 4
    assert np.isnan(percentile_among(1, []))
    assert rank_p(5, [1, 2, 3]) == 1 / 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([1.0], [[]]), "one control at least"),
        (([1.0, 2.0], [[1.0]]), "give .models. of the mark"),
        (([np.nan], [[1.0]]), "not finite"),
        (([1.0], [[1.0]], [1.0], [[1.0, 2.0]]), "the references' statistics"),
    ],
)
def test_misfits_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        rank_mark(*given)
