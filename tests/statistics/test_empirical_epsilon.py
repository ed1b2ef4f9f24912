"""The empirical lower bound: golden values, level, and what breaks it."""

import math

import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_sigma_gaussian
from scipy import special, stats

from memorisk.runs.errors import InputError
from memorisk.statistics.privacy.measured_epsilon import (
    PairGuesses,
    epsilon_bound,
    guess_p_value,
    largest_epsilon,
    pair_guesses,
)
from tests.thorough import thorough

DELTA = 1e-5
PAIRS, R, RUNS = 500, 200, 200


def naive_p_value(correct, r, epsilon, delta, m):
    """The theorem, term by term."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    pmf = [stats.binom.pmf(k, r, q) for k in range(r + 1)]
    beta = sum(pmf[correct:])
    alpha = max((2 / i) * sum(pmf[max(correct - i, 0) : correct]) for i in range(1, m + 1))
    return min(1.0, beta + alpha * m * delta)


@pytest.mark.parametrize(("r", "printed", "digits"), [(10, 1.05, 2), (50, 2.8, 1), (100, 3.5, 1), (500, 5.1, 1)])
def test_largest_provable_values_are_those_of_the_methods(r, printed, digits):
    assert round(largest_epsilon(r, r), digits) == printed
    assert largest_epsilon(r, r) == pytest.approx(math.log(0.05 ** (1 / r) / (1 - 0.05 ** (1 / r))))


def test_published_example():
    """Steinke, Nasr and Jagielski (2023), appendix D: 75 of 100 guesses of 1,000 canaries at delta 1e-4 prove 0.673."""
    assert round(largest_epsilon(75, 100, delta=1e-4, n_pairs=1000), 3) == 0.673


@pytest.mark.parametrize(("correct", "r", "m"), [(15, 20, 30), (20, 20, 20), (0, 20, 25), (3, 20, 20), (90, 120, 150)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_p_value_is_the_theorem_term_by_term(correct, r, m, delta, epsilon):
    found = guess_p_value(correct, r, epsilon, delta=delta, n_pairs=m)
    assert found == pytest.approx(naive_p_value(correct, r, epsilon, delta, m), abs=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_bound_is_where_the_p_value_crosses_five_percent(delta):
    for correct in (120, 150, 199, 200):
        low = largest_epsilon(correct, 200, delta=delta, n_pairs=300)
        values = [guess_p_value(correct, 200, e, delta=delta, n_pairs=300) for e in (max(low - 1e-6, 0), low + 1e-6)]
        assert values[1] > 0.05
        assert low == 0 or values[0] <= 0.05


@pytest.mark.parametrize(
    ("correct", "r", "m", "delta"), [(75, 100, 1000, 1e-4), (100, 100, 1000, 1e-4), (60, 100, 100, 1e-3)]
)
def test_p_value_rises_with_epsilon_and_falls_with_correct_guesses(correct, r, m, delta):
    """So that a bisection finds the crossing, and a larger refuted epsilon never adds to the level."""
    by_epsilon = [guess_p_value(correct, r, e, delta=delta, n_pairs=m) for e in np.linspace(0, 12, 200)]
    assert (np.diff(by_epsilon) >= -1e-12).all()
    by_correct = [guess_p_value(v, r, 1.0, delta=delta, n_pairs=m) for v in range(1, r + 1)]
    assert (np.diff(by_correct) <= 1e-12).all()


def test_delta_lowers_the_bound():
    bounds = [largest_epsilon(180, 200, delta=d, n_pairs=200) for d in (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 0.1)]
    assert (np.diff(bounds) < 0).all() or bounds[-1] == 0
    assert bounds[-1] == 0
    assert bounds[1] == pytest.approx(bounds[0], abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("r", [10, 50, 200, 500])
def test_level_under_randomised_response_exactly(epsilon, r):
    """By the binomial: the bound exceeds the true epsilon in at most 5 % of audits, and at large r in over 2 %."""
    share = special.expit(epsilon)
    above = sum(stats.binom.pmf(v, r, share) for v in range(r + 1) if largest_epsilon(v, r) > epsilon)
    assert above <= 0.05
    if largest_epsilon(r, r) > epsilon and r >= 200:
        assert above > 0.02


def test_guesses_are_the_lower_scores_of_the_most_different_pairs():
    first = np.array([0.0, 5.0, 1.0, 2.0, 9.0])
    second = np.array([4.0, 0.0, 1.5, 2.0, 8.0])
    coin = np.array([True, True, True, False, False])
    found = [pair_guesses(first, second, coin, r).correct for r in range(1, 6)]
    assert found == [0, 1, 2, 3, 3]  # differences 5 (wrong), 4, 1, 0.5, and a tie within a pair: first is guessed


def test_guesses_equal_a_naive_loop_also_with_ties():
    rng = np.random.default_rng(0)
    for _ in range(50):
        first, second = rng.integers(0, 4, (2, 30)).astype(float)
        coin = rng.random(30) < 0.5
        order = sorted(range(30), key=lambda j: (-abs(first[j] - second[j]), j))
        right = sum((first[j] <= second[j]) == coin[j] for j in order[:17])
        assert pair_guesses(first, second, coin, 17) == PairGuesses(right, 17, 30)


def gaussian_audit(claim, seed, *, twin):
    """A noisy sum of orthogonal unit vectors, one of each pair; a twin holds the others with the very same noise."""
    rng = np.random.default_rng([seed, 7])
    sd = math.sqrt(2) * get_sigma_gaussian(claim, DELTA)
    coin = rng.random(PAIRS) < 0.5
    noise = sd * rng.standard_normal((2, PAIRS))
    first, second = coin + noise[0], ~coin + noise[1]
    if twin:
        first, second = first - (~coin + noise[0]), second - (coin + noise[1])
    return epsilon_bound(pair_guesses(-first, -second, coin, R), delta=DELTA, claimed=claim)


@pytest.mark.parametrize("claim", [1.0, thorough(4.0)])
def test_bound_seldom_exceeds_the_claim_of_a_gaussian_mechanism(claim):
    bounds = [gaussian_audit(claim, seed, twin=False) for seed in range(RUNS)]
    above = np.mean([bool(b.exceeds_claim) for b in bounds])
    assert above <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / RUNS)
    assert np.mean([b.low > 0 for b in bounds]) > 0.5  # the auditor does see something
    assert all(b.exceeds_claim == (b.p_claimed <= 0.05) for b in bounds)


def test_noise_shared_with_a_twin_is_invalid():
    """Done wrong on purpose: the noise cancels in the difference, and the "bound" refutes a true claim."""
    above = np.mean([bool(gaussian_audit(1.0, seed, twin=True).exceeds_claim) for seed in range(RUNS)])
    assert above > 0.9


def test_guessing_without_any_information_proves_nothing():
    rng = np.random.default_rng(3)
    above = 0
    for _ in range(RUNS):
        scores, coin = rng.standard_normal((2, PAIRS)), rng.random(PAIRS) < 0.5
        above += epsilon_bound(pair_guesses(*scores, coin, R)).low > 0
    assert above / RUNS <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / RUNS)


def test_bound_says_what_it_rests_on():
    bound = epsilon_bound(PairGuesses(180, 200, 250), delta=DELTA, claimed=1.0)
    assert (bound.correct, bound.r, bound.n_pairs, bound.delta, bound.confidence) == (180, 200, 250, DELTA, 0.95)
    assert 1 < bound.low < bound.largest_provable < largest_epsilon(200, 200)
    assert bound.exceeds_claim
    assert bound.p_claimed == guess_p_value(180, 200, 1.0, delta=DELTA, n_pairs=250)
    unclaimed = epsilon_bound(PairGuesses(100, 200, 250))
    assert (unclaimed.low, unclaimed.exceeds_claim, unclaimed.p_claimed) == (0.0, None, None)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: largest_epsilon(11, 10), "11 correct of 10"),
        (lambda: largest_epsilon(0, 0), "r of 1 or more"),
        (lambda: largest_epsilon(5, 10, confidence=95), "confidence"),
        (lambda: largest_epsilon(5, 10, delta=1e-5), "n_pairs is missing"),
        (lambda: largest_epsilon(5, 10, delta=1e-5, n_pairs=9), "at most all pairs"),
        (lambda: guess_p_value(5, 10, -1.0), "epsilon"),
        (lambda: guess_p_value(5, 10, 1.0, delta=1.0, n_pairs=10), "delta"),
        (lambda: pair_guesses([1.0], [2.0, 3.0], [True], 1), "shape"),
        (lambda: pair_guesses([1.0], [math.nan], [True], 1), "pair 0"),
        (lambda: pair_guesses([1.0], [2.0], [2], 1), "coin"),
        (lambda: pair_guesses([1.0], [2.0], [True], 2), "r is 2"),
        (lambda: pair_guesses([1.0], [2.0], [True], 0), "r is 0"),
    ],
)
def test_misfits_are_refused_by_name(call, word):
    with pytest.raises(InputError, match=word):
        call()
