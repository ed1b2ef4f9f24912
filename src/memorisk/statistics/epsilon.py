"""Epsilon of a patient and of a replaced record as accounted, and a lower bound of epsilon as measured.

**Accounted.** Privacy of a patient with several images, and of a record that is replaced instead of removed.

METHODS section 1, "Defence": "With groups of several images: the per-patient epsilon (group privacy) beside it",
and the empirical lower bound "bounds *replace-one* epsilon: compare with that". Accountants state epsilon for one
record added or removed. Two ways lead on from there, both valid, the smaller being taken:

* group privacy: k neighbours in a row. If one step of the chain costs (e, d), k cost
  `(k e, d (1 + exp(e) + ... + exp((k - 1) e)))`; a replaced record is k = 2 (one out, one in),
  `(2 e, (1 + exp(e)) d)`. The customary `k exp((k - 1) e) d` (Vadhan 2017, lemma 2.2) bounds this sum from above.
* the step itself: a batch holds J ~ Bin(k, q) of a patient's k images, which shift the noise by at most J clipping
  norms, so that a step is bounded by `sum_j P(J = j) N(j, z^2)` against N(0, z^2), both ways round. A replaced
  record shifts it one way or the other: `(1 - q) N(0, z^2) + q N(1, z^2)` against
  `(1 - q) N(0, z^2) + q N(-1, z^2)`. `statistics.privacy_accounting` says why these are the worst cases.
  dp-accounting 0.6 has no replaced record for Poisson sampling; tests hold the patient's form to its PLD accountant
  and the replaced record's to direct integration.

**Measured.** A lower bound on epsilon from one training: how often can an auditor tell which of two images was in
it?

METHODS section 1, "Empirical lower bound on epsilon": canaries come in pairs; one fair coin per pair decides which
member the target was trained on; the auditor guesses the likelier member of the r most confident pairs, r fixed
beforehand, and counts the correct guesses.

Why this bounds *replace-one* epsilon. Turning one pair's coin replaces one record by another and leaves the rest.
If training is epsilon-private for that, then, given the other coins and whatever was released, the odds of heads
against tails of this pair's coin, 1 before, are at most exp(epsilon): no guess is right with a probability above
exp(epsilon) / (1 + exp(epsilon)), which randomised response of the coin attains. Pair after pair, the number of
correct guesses among r is then stochastically at most Bin(r, exp(epsilon) / (1 + exp(epsilon))). Steinke, Nasr and
Jagielski (2023, arXiv 2305.08846) prove it, with the term for delta, for any mechanism of fair coins of which one
is turned; their coins include or leave out one record, ours choose between two, so their theorem holds with epsilon
and delta of the replace-one claim, and m is the number of pairs.

What it needs. Fair coins that nothing but the target depends on; independent noise in the target (noise shared with
a model that the auditor uses cancels and "proves" more than epsilon); scores from the target alone, or less the
losses of references trained on T only, never on a twin, which knows the coins; r fixed before looking. It does not
need members that are alike: unlike members only cost power (`training.classifiers.twins`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.linear_models import FloatArray
from memorisk.statistics.privacy_accounting import (
    DEFAULT_ORDERS,
    check_delta,
    epsilon_from_rdp,
    rdp_epsilon,
    renyi_divergence,
    sampled_gaussian_rdp,
)

GROUP_ORDERS: tuple[float, ...] = tuple(1 + 0.05 * 1.2**i for i in range(48))
"""Orders from 1.05 to 265, each 20 % further from 1: within 1 % of a dense list, at a fraction of its time."""

_LEAST_LOG_DELTA = -690.0  # smaller deltas are not floating-point numbers
_CLAIM_HALVINGS = 40
_BOUND_HALVINGS = 45


def group_privacy_epsilon(epsilon_of: Callable[[float], float], delta: float, group_size: int) -> float:
    """Compute the epsilon of a group at `delta` by group privacy alone, from any accountant.

    The function finds the largest d' with `d' (1 + exp(e') + ... + exp((k - 1) e')) <= delta`, `e' = epsilon_of(d')`,
    by
    bisection on log d'; the result is `k e'`. Every d' that fulfils it is valid, so a bisection that ends early is only
    looser.

    Args:
        epsilon_of: Accountant: epsilon for one record added or removed at a delta, falling in delta.
        delta: Delta of the group, in (0, 1).
        group_size: Number k of records in the group, 1 or more; 2 for a replaced record.

    Returns:
        Epsilon of the group; infinity if even d' = 1e-300 is too large.

    Raises:
        InputError: A number outside its range.

    Source:
        METHODS section 1, "Defence"; Vadhan (2017), lemma 2.2.

    Example:
        >>> round(group_privacy_epsilon(lambda delta: 1.0, 1e-5, 2), 3)
        2.0
    """
    check_delta(delta)
    _check_size(group_size)
    if group_size == 1:
        return epsilon_of(delta)

    def too_large(log_delta: float) -> bool:
        """Return whether a delta of one image gives the group more than delta."""
        return log_delta + _log_of_sum(epsilon_of(math.exp(log_delta)), group_size) > math.log(delta)

    high = math.log(delta)
    low = high - math.log(group_size)
    while too_large(low):
        low, high = low - 2 * (math.log(delta) - low), low
        if low < _LEAST_LOG_DELTA:
            return math.inf
    for _ in range(_CLAIM_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if too_large(middle) else (middle, high)
    return group_size * epsilon_of(math.exp(low))


def group_epsilon(noise_multiplier: float, sampling_rate: float, steps: int, delta: float, group_size: int) -> float:
    """Compute the per-patient epsilon of DP-SGD: all `group_size` images of a patient added or removed.

    It is the smaller of group privacy (`group_privacy_epsilon`) and of the step's own divergence: per step and order a
    the
    larger of `D_a(M || N)` and `D_a(N || M)`, M = sum_j Bin(k, q)(j) N(j, z^2), N = N(0, z^2), in clipping norms.

    Args:
        noise_multiplier: Noise multiplier z, above 0.
        sampling_rate: Probability q that a step takes an image (each image by its own draw).
        steps: Number of optimiser steps.
        delta: Delta of the group, in (0, 1).
        group_size: Number k of images of the patient; 1 gives `rdp_epsilon`.

    Returns:
        Epsilon at delta; never falling in `group_size`. Infinity where no order can be computed: hundreds of images at
        little noise, where epsilon would be in the hundreds.

    Raises:
        InputError: A number outside its range.

    Source:
        METHODS section 1, "Defence"; Choquette-Choo et al. (2024, arXiv 2310.15526) for the mixture.

    Example:
        >>> round(group_epsilon(4.0, 0.01, 1000, 1e-5, 3), 2)
        0.99
    """
    _check_size(group_size)
    single = rdp_epsilon(noise_multiplier, sampling_rate, steps, delta)
    if group_size == 1 or not 0 < single < math.inf:
        return single
    per_step = _group_rdp(noise_multiplier, sampling_rate, group_size)
    by_chain = group_privacy_epsilon(_accountant(noise_multiplier, sampling_rate, steps), delta, group_size)
    return min(epsilon_from_rdp(GROUP_ORDERS, steps * per_step, delta), by_chain)


def replace_one_epsilon(noise_multiplier: float, sampling_rate: float, steps: int, delta: float) -> float:
    """Compute epsilon of DP-SGD for one record *replaced* by another, with which the empirical lower bound compares.

    It is the smaller of group privacy with k = 2 and of the step's own divergence
    `D_a((1 - q) N(0, z^2) + q N(1, z^2) || (1 - q) N(0, z^2) + q N(-1, z^2))` (the same both ways round).

    Args:
        noise_multiplier: Noise multiplier z, above 0.
        sampling_rate: Probability q that a step takes a record.
        steps: Number of optimiser steps.
        delta: Delta of the replace-one claim, in (0, 1).

    Returns:
        Epsilon at delta, between `rdp_epsilon` and about twice as much.

    Raises:
        InputError: A number outside its range.

    Source:
        METHODS section 1, "Empirical lower bound on epsilon"; Lebeda et al. (2025, arXiv 2405.20769) for the pair.

    Example:
        >>> round(replace_one_epsilon(4.0, 0.01, 1000, 1e-5), 2)
        0.62
    """
    single = rdp_epsilon(noise_multiplier, sampling_rate, steps, delta)
    if not 0 < single < math.inf:
        return single
    per_step = _replaced_rdp(noise_multiplier, sampling_rate)
    by_chain = group_privacy_epsilon(_accountant(noise_multiplier, sampling_rate, steps), delta, 2)
    return min(epsilon_from_rdp(GROUP_ORDERS, steps * per_step, delta), by_chain)


def _accountant(z: float, q: float, steps: int) -> Callable[[float], float]:
    """Return `rdp_epsilon` as a function of delta, its divergences computed once."""
    rdp = steps * sampled_gaussian_rdp(z, q, DEFAULT_ORDERS)
    return lambda delta: epsilon_from_rdp(DEFAULT_ORDERS, rdp, delta)


def _replaced_rdp(z: float, q: float) -> FloatArray:
    """Compute the divergence of one step with a record replaced, in nats, [orders]."""
    if q in (0, 1):
        return np.array([q * 2 * a / z**2 for a in GROUP_ORDERS])  # N(1, z^2) against N(-1, z^2)
    weights, right = np.array([1 - q, q]), np.array([0.0, 1.0])
    return np.array([renyi_divergence(right, weights, -right, weights, noise=z, order=a) for a in GROUP_ORDERS])


def _group_rdp(z: float, q: float, size: int) -> FloatArray:
    """Compute the divergence of one step with a group added or removed, the larger of both, [orders]."""
    if q in (0, 1):
        return np.array([q * size**2 * a / (2 * z**2) for a in GROUP_ORDERS])
    counts = np.arange(size + 1.0)
    weights = np.asarray(scipy.stats.binom.pmf(counts, size, q))
    nothing, certain = np.zeros(1), np.ones(1)
    added = [renyi_divergence(counts, weights, nothing, certain, noise=z, order=a) for a in GROUP_ORDERS]
    removed = [renyi_divergence(nothing, certain, counts, weights, noise=z, order=a) for a in GROUP_ORDERS]
    return np.maximum(added, removed)


def _log_of_sum(epsilon: float, size: int) -> float:
    """Compute log(1 + exp(e) + ... + exp((k - 1) e))."""
    if epsilon == 0:
        return math.log(size)
    if not math.isfinite(epsilon):
        return math.inf
    top = (size - 1) * epsilon
    return top + math.log(-math.expm1(-size * epsilon)) - math.log(-math.expm1(-epsilon))


def _check_size(group_size: int) -> None:
    if group_size < 1 or group_size != int(group_size):
        raise InputError(f"group_size is {group_size}; give the number of images of the group, 1 or more")


@dataclass(frozen=True)
class PairGuesses:
    """Guesses of the auditor about pairs."""

    correct: int
    """Number of guesses that named the member the target was trained on."""
    r: int
    """Number of guesses, one for each of the most confident pairs."""
    n_pairs: int
    """Number of pairs with a coin: the independent units."""


@dataclass(frozen=True)
class EpsilonBound:
    """One-sided lower confidence limit for replace-one epsilon, [low, infinity)."""

    low: float
    """Lower limit; 0 when the guesses are at most as good as coins."""
    correct: int
    """Number of correct guesses."""
    r: int
    """Number of guesses, fixed beforehand."""
    n_pairs: int
    """Number of pairs with a coin: the independent units."""
    largest_provable: float
    """Limit if all r guesses were correct: no audit with this r can show more."""
    claimed: float | None
    """Replace-one epsilon that the training claims at `delta`, if it claims any."""
    p_claimed: float | None
    """Probability of as many correct guesses if the claim is true (its null); None without a claim."""
    delta: float
    """Delta of the claim; 0 for pure epsilon."""
    confidence: float
    """Least probability with which a limit computed like this lies at or below the true epsilon."""

    @property
    def exceeds_claim(self) -> bool | None:
        """Return whether the limit is above the claimed epsilon, which refutes the claim; None without a claim."""
        return None if self.claimed is None else self.low > self.claimed


def epsilon_bound(
    guesses: PairGuesses, *, delta: float = 0.0, claimed: float | None = None, confidence: float = 0.95
) -> EpsilonBound:
    """Compute the lower limit together with the other numbers of a report.

    Args:
        guesses: Guesses from `pair_guesses`.
        delta: Delta of the replace-one claim, in [0, 1); 0 bounds pure epsilon, which is larger.
        claimed: Replace-one epsilon of the training at `delta` (`group_accounting.replace_one_epsilon`).
        confidence: Confidence of the limit, in (0, 1).

    Returns:
        Limit, largest provable value, p-value of the claim.

    Raises:
        InputError: As `largest_epsilon`, or a negative claim.

    Source:
        METHODS section 1, "Empirical lower bound on epsilon".

    Example:
        >>> bound = epsilon_bound(PairGuesses(correct=180, r=200, n_pairs=250), claimed=1.0)
        >>> round(bound.low, 2), round(bound.largest_provable, 2), bound.exceeds_claim
        (1.8, 4.19, True)
    """
    v, r, m = guesses.correct, guesses.r, guesses.n_pairs
    low = largest_epsilon(v, r, delta=delta, n_pairs=m, confidence=confidence)
    most = largest_epsilon(r, r, delta=delta, n_pairs=m, confidence=confidence)
    p_claimed = None if claimed is None else guess_p_value(v, r, claimed, delta=delta, n_pairs=m)
    return EpsilonBound(low, v, r, m, most, claimed, p_claimed, delta, confidence)


def pair_guesses(score_first: ArrayLike, score_second: ArrayLike, coin: ArrayLike, r: int) -> PairGuesses:
    """Guess the member with the lower score in the r pairs whose scores differ most, and count the correct guesses.

    Ties are broken by the pairs' order and, within a pair, in favour of the first: both are independent of the coins.

    Args:
        score_first: Loss of each pair's first member under the target, on the label it was given, optionally less its
            mean loss under references trained on T only, [n]; nats.
        score_second: Loss of each pair's second member in the same way, [n].
        coin: Whether the target was trained on the first member, [n].
        r: Number of guesses, fixed before any score was seen, from 1 to n.

    Returns:
        Correct guesses, r and n.

    Raises:
        InputError: Lengths that differ, scores that are NaN, coins that are neither 0 nor 1, or an impossible r.

    Source:
        METHODS section 1, "Empirical lower bound on epsilon".

    Example:
        >>> pair_guesses([0.1, 2.0, 0.5], [3.0, 0.2, 0.4], [True, False, True], r=2).correct
        2
    """
    first, second = np.asarray(score_first, dtype=np.float64), np.asarray(score_second, dtype=np.float64)
    heads = np.asarray(coin)
    if first.ndim != 1 or first.shape != second.shape or first.shape != heads.shape:
        raise InputError(
            f"scores of shape {first.shape} and {second.shape} with coins {heads.shape}; give one of each per pair, [n]"
        )
    if not np.isin(heads, (0, 1)).all():
        raise InputError("coin must be true (first member trained on) or false for each pair")
    difference = first - second
    if np.isnan(difference).any():
        pair = int(np.argmax(np.isnan(difference)))
        raise InputError(f"the scores of pair {pair} cannot be compared: {first[pair]} and {second[pair]}; give losses")
    if not 1 <= r <= len(first):
        raise InputError(f"r is {r}; with {len(first)} pairs, fix it beforehand between 1 and {len(first)}")
    chosen = np.argsort(-np.abs(difference), kind="stable")[:r]
    correct = (difference[chosen] <= 0) == heads[chosen].astype(bool)
    return PairGuesses(int(correct.sum()), int(r), len(first))


def largest_epsilon(
    correct: int, r: int, *, delta: float = 0.0, n_pairs: int | None = None, confidence: float = 0.95
) -> float:
    """Find the largest epsilon that `correct` of `r` guesses refute: a lower confidence limit for replace-one epsilon.

    It is the epsilon at which `guess_p_value` rises through `1 - confidence`; 0 if even epsilon 0 is not
    refuted. METHODS writes "largest epsilon with P > 0.05"; since P rises with epsilon that is the same crossing, met
    from below.

    With delta 0 it is `log(p / (1 - p))`, p the lower Clopper-Pearson limit of the share of correct guesses; all of
    r = 10, 50, 100, 500 correct prove 1.05, 2.8, 3.5, 5.1.

    Args:
        correct: Number of correct guesses, 0 to r.
        r: Number of guesses, fixed beforehand.
        delta: Delta of the replace-one claim, in [0, 1).
        n_pairs: Number of pairs with a coin, at least r; needed when delta is above 0 (every coin, also one not
            guessed, may
            be the one that leaks with probability delta).
        confidence: Confidence of the limit, in (0, 1).

    Returns:
        Epsilon in nats, 0 or more; with delta above 0 never larger than with 0.

    Raises:
        InputError: Counts or probabilities outside their ranges, or n_pairs missing.

    Source:
        METHODS section 1, "Empirical lower bound on epsilon"; Steinke, Nasr and Jagielski (2023), corollary 5.4.

    Example:
        >>> [round(largest_epsilon(r, r), 2) for r in (10, 50, 100, 500)]
        [1.05, 2.78, 3.49, 5.11]
    """
    m = _check_counts(correct, r, delta, n_pairs)
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}; give a value between 0 and 1, such as 0.95")
    level = 1 - confidence
    if correct == 0:
        return 0.0
    share = float(scipy.special.betaincinv(correct, r - correct + 1, level))
    high = max(math.log(share / (1 - share)), 0.0)
    if delta == 0:
        return high

    def refuted(epsilon: float) -> bool:
        """Return whether so many right guesses are too many for this epsilon."""
        return _p_value(correct, r, epsilon, delta, m) <= level

    if not refuted(0.0):
        return 0.0
    low = 0.0
    for _ in range(_BOUND_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def guess_p_value(correct: int, r: int, epsilon: float, *, delta: float = 0.0, n_pairs: int | None = None) -> float:
    """Bound the probability of `correct` or more correct guesses if training is (epsilon, delta)-private for replacing.

    `beta + m delta max over i = 1..correct of (2 / i) P(correct > B >= correct - i)` with
    `beta = P(B >= correct)`, `B ~ Bin(r, exp(epsilon) / (1 + exp(epsilon)))`, m the number of pairs; at most 1.

    Args:
        correct: Number of correct guesses, 0 to r.
        r: Number of guesses, fixed beforehand.
        epsilon: Epsilon of the claim, 0 or more.
        delta: Delta of the claim, in [0, 1).
        n_pairs: Number m of pairs, at least r; needed when delta is above 0.

    Returns:
        p-value of the claim.

    Raises:
        InputError: Counts or probabilities outside their ranges, or n_pairs missing.

    Source:
        Steinke, Nasr and Jagielski (2023), theorem 5.2 and corollary 5.4.

    Example:
        >>> round(guess_p_value(18, 20, 1.0), 4)
        0.0648
    """
    m = _check_counts(correct, r, delta, n_pairs)
    if not epsilon >= 0:
        raise InputError(f"epsilon is {epsilon}; a claim is 0 or more")
    return _p_value(correct, r, epsilon, delta, m)


def _p_value(correct: int, r: int, epsilon: float, delta: float, m: int) -> float:
    share = float(scipy.special.expit(epsilon))
    if correct == 0:
        return 1.0
    beta = float(scipy.special.betainc(correct, r - correct + 1, share))  # P(B >= correct)
    if delta == 0:
        return beta
    least = np.arange(correct - 1, 0, -1)  # correct - i for i = 1, 2, ...; the last one, 0, is certain
    below = np.append(scipy.special.betainc(least, r - least + 1, share), 1.0) - beta  # P(correct > B >= correct - i)
    alpha = float(np.max(2 * below / np.arange(1, correct + 1)))
    return min(beta + m * delta * alpha, 1.0)


def _check_counts(correct: int, r: int, delta: float, n_pairs: int | None) -> int:
    if r < 1 or not 0 <= correct <= r:
        raise InputError(f"{correct} correct of {r} guesses; give r of 1 or more and correct from 0 to r")
    if not 0 <= delta < 1:
        raise InputError(f"delta is {delta}; give a probability from 0 to below 1, such as 1e-5")
    if n_pairs is None:
        if delta > 0:
            raise InputError("n_pairs is missing; with delta above 0 the bound depends on how many pairs had a coin")
        return r
    if n_pairs < r:
        raise InputError(f"r is {r} with {n_pairs} pairs; guesses are made for at most all pairs")
    return n_pairs
