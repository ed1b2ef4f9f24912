"""Epsilon of a patient with several images, and of a record that is replaced instead of removed.

METHODS section 1, "Defence": "With groups of several images: the per-patient epsilon (group privacy) beside it",
and the empirical lower bound "bounds *replace-one* epsilon: compare with that". Accountants state epsilon for one
record added or removed. Two ways lead on from there, both valid, the smaller being taken:

* group privacy: k neighbours in a row. If one step of the chain costs (e, d), k cost
  `(k e, d (1 + exp(e) + ... + exp((k - 1) e)))`; a replaced record is k = 2 (one out, one in),
  `(2 e, (1 + exp(e)) d)`. The customary `k exp((k - 1) e) d` (Vadhan 2017, lemma 2.2) bounds this sum from above.
* the step itself: a batch holds J ~ Bin(k, q) of a patient's k images, which shift the noise by at most J clipping
  norms, so that a step is bounded by `sum_j P(J = j) N(j, z^2)` against N(0, z^2), both ways round. A replaced
  record shifts it one way or the other: `(1 - q) N(0, z^2) + q N(1, z^2)` against
  `(1 - q) N(0, z^2) + q N(-1, z^2)`. `statistics.privacy.mixtures` says why these are the worst cases.
  dp-accounting 0.6 has no replaced record for Poisson sampling; tests hold the patient's form to its PLD accountant
  and the replaced record's to direct integration.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from memorisk.runs.errors import InputError
from memorisk.statistics.analysis_of_variance import FloatArray
from memorisk.statistics.privacy.accounting import (
    DEFAULT_ORDERS,
    check_delta,
    epsilon_from_rdp,
    rdp_epsilon,
    sampled_gaussian_rdp,
)
from memorisk.statistics.privacy.mixtures import renyi_divergence

GROUP_ORDERS: tuple[float, ...] = tuple(1 + 0.05 * 1.2**i for i in range(48))
"""Orders from 1.05 to 265, each 20 % further from 1: within 1 % of a dense list, at a fraction of its time."""

_LEAST_LOG_DELTA = -690.0  # smaller deltas are not floating-point numbers
_CLAIM_HALVINGS = 40


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
