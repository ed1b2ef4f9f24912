"""Lower bound of epsilon from one training: how often can an auditor tell which of two images was in it?

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
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError

_BOUND_HALVINGS = 45


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
