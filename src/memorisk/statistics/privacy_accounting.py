"""Privacy accounting of DP-SGD: Renyi differential privacy, and the divergence of mixtures under it.

**Accounting.** The privacy that DP-SGD spends: Poisson-sampled Gaussian noise, by Renyi differential privacy.

METHODS section 1, "Defence". A step takes each record with probability q (Poisson sampling), clips its gradient to
norm C, and adds N(0, (z C)^2) to the sum; z is the noise multiplier. Neighbours differ in one record added or
removed; for a replaced record and for all images of a patient see `statistics.epsilon`.

A private training uses Opacus where it is installed (`training.classifiers.private.spent_epsilon`). This module
replaces it where it is not, so that `statistics/` needs neither PyTorch nor the optional extra. It also computes what
neither library has (`statistics.epsilon`: a patient, a replaced record). Tests compare it with Opacus, and at whole
orders with dp-accounting, within 1e-3 (RDP, same orders, Poisson sampling). Fractional orders are integrated
(`renyi_divergence`), which is the definition; Opacus sums a series and agrees to 1e-6. dp-accounting 0.6 takes the
absolute value of every term of that series: still an upper bound, but too large at low orders, hence where epsilon
is above about 6 (7.904 instead of 7.899 at noise 1, rate 0.1, 100 steps; 77.0 instead of 59.8 at noise 0.4). So the
tests do not use it there; compare with it at whole orders.

**Mixtures.** Renyi divergence between mixtures of normal distributions on a line, by integration.

In the worst case one step of DP-SGD with a record, a group of records or a replaced record shifts normal noise along
one direction by as many clipping norms as the batch holds of them (METHODS section 1, "Defence"). Privacy of the step
is then the divergence of two mixtures on a line.

Why a line is the worst case. Let P mix N(c_j, s^2 I) and Q mix N(d_j, s^2 I), the noise alone (shift 0) in either.
For any set S with noise probability a, N(c)(S) is at most Phi(Phi^-1(a) + |c|/s) and at least Phi(Phi^-1(a) -
|c|/s) (Neyman and Pearson), and a half-line reaches the first for shifts +|c_j| and the second for shifts -|d_j| at
the same time. So P(S) - t Q(S) is never larger than for the half-line of the same a, whatever t: mixtures on a
line, P's shifts to the right, Q's to the left, each at its largest norm, bound every pair of data sets, and with it
every composition of steps. Choquette-Choo et al. (2024, arXiv 2310.15526) show it for Q = noise alone, Lebeda et
al. (2025, arXiv 2405.20769) give the pair for a replaced record.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import scipy

from memorisk.runs.errors import InputError
from memorisk.statistics.linear_models import FloatArray

MAX_TERMS = 5_000_000
"""Grid points x components above which an order is left out (its divergence is infinity, which implies nothing)."""

_REACH = 14.0  # deviations beyond the outermost peak: what is cut off is below exp(-98) of it
DEFAULT_ORDERS: tuple[float, ...] = (
    *(1 + x / 10 for x in range(1, 100)),
    *(float(x) for x in range(12, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
"""Opacus's orders (1.1 to 10.9, 12 to 63) and four larger ones, which matter only for epsilon below about 0.5."""
_RELATIVE = 1e-4
_LEAST_ORDER = 1.01  # the conversion is numerically unstable nearer to 1, and useless there
_MOST_NOISE = 1e6


def renyi_divergence(
    shifts_p: FloatArray,
    weights_p: FloatArray,
    shifts_q: FloatArray,
    weights_q: FloatArray,
    *,
    noise: float,
    order: float,
) -> float:
    """Compute D_a(P || Q) = log(integral of p^a q^(1 - a)) / (a - 1), P and Q mixtures of N(shift, noise^2).

    The integral uses the trapezoidal rule, whose error falls exponentially with the step for analytic integrands.
    A mixture of counts has its complex zeros at height pi noise^2, and at height t noise^2 its modulus has fallen by
    about exp(-v t^2 / 2), v the variance of the count, at most span / 4: the step is a quarter of the noise, or
    `noise^2 / (4 + sqrt(order span))` if that is less. Tests compare it with a much finer one.

    Args:
        shifts_p: Centres of P, whole numbers with binomial probabilities or one centre alone, [m].
        weights_p: Probabilities of these centres, [m], summing to 1.
        shifts_q: Centres of Q, of the same form, [l].
        weights_q: Probabilities of these centres, [l].
        noise: Standard deviation of every component, above 0, in the unit of the shifts.
        order: Order a of the divergence, above 1.

    Returns:
        Divergence in nats; infinity where it would take more than `MAX_TERMS` terms.

    Source:
        Mironov (2017), definition 3.

    Example:
        >>> at = np.zeros(1), np.ones(1), np.ones(1), np.ones(1)
        >>> round(renyi_divergence(*at, noise=1.0, order=2.0), 3)
        1.0
    """
    # Every peak is where x = order E[shift of P | x] - (order - 1) E[shift of Q | x].
    low = order * float(np.min(shifts_p)) - (order - 1) * float(np.max(shifts_q)) - _REACH * noise
    high = order * float(np.max(shifts_p)) - (order - 1) * float(np.min(shifts_q)) + _REACH * noise
    span = max(float(np.ptp(shifts_p)), float(np.ptp(shifts_q)))
    step = min(noise / 4, noise**2 / (4 + math.sqrt(order * span)))
    n_points = math.ceil((high - low) / step) + 1
    if n_points * (len(shifts_p) + len(shifts_q)) > MAX_TERMS:
        return math.inf
    x = np.linspace(low, high, n_points)
    log_p, log_q = _log_density(x, shifts_p, weights_p, noise), _log_density(x, shifts_q, weights_q, noise)
    area = log_of_sum(order * log_p + (1 - order) * log_q) + math.log(x[1] - x[0])
    return max(area / (order - 1), 0.0)


def log_of_sum(logs: FloatArray) -> float:
    """Compute log(sum(exp(logs))) without overflow, [n] to a number.

    Example:
        >>> round(log_of_sum(np.log([1.0, 3.0])), 4)
        1.3863
    """
    top = float(np.max(logs))
    return top + math.log(float(np.sum(np.exp(logs - top))))


def _log_density(x: FloatArray, shifts: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
    """Compute the log density of the mixture at x, [n]; one component at a time, so that memory stays [n]."""
    total = np.full(len(x), -np.inf)
    for shift, weight in zip(shifts, weights, strict=True):
        if weight > 0:
            total = np.logaddexp(total, math.log(weight) - ((x - shift) / noise) ** 2 / 2)
    return total - math.log(noise * math.sqrt(2 * math.pi))


def rdp_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    orders: Sequence[float] = DEFAULT_ORDERS,
) -> float:
    """Compute the epsilon that `steps` steps of DP-SGD spend at `delta`, for one record added or removed.

    `epsilon = min over orders a of [steps D_a + log(1 - 1/a) - log(delta a) / (a - 1)]`, with D_a from
    `sampled_gaussian_rdp`.

    Args:
        noise_multiplier: Standard deviation of the noise in clipping norms; 0 (no noise) gives infinity.
        sampling_rate: Probability that a step takes a record.
        steps: Number of optimiser steps.
        delta: Probability in (0, 1) that the guarantee may fail with; usually below 1 / records.
        orders: Renyi orders, each above 1; any of them gives a valid epsilon, the smallest is returned.

    Returns:
        Epsilon, 0 or more.

    Raises:
        InputError: A number outside its range.

    Source:
        METHODS section 1, "Defence"; Mironov, Talwar and Zhang (2019, arXiv 1908.10530), section 3.3; the conversion is
        Canonne, Kamath and Steinke (2020, arXiv 2004.00010), proposition 12.

    Example:
        >>> round(rdp_epsilon(1.0, 0.01, 1000, 1e-5), 2)
        2.1
    """
    _check_mechanism(noise_multiplier, sampling_rate, steps)
    check_delta(delta)
    if noise_multiplier == 0:
        return math.inf if sampling_rate > 0 and steps > 0 else 0.0
    return epsilon_from_rdp(orders, steps * sampled_gaussian_rdp(noise_multiplier, sampling_rate, orders), delta)


def sampled_gaussian_rdp(noise_multiplier: float, sampling_rate: float, orders: Sequence[float]) -> FloatArray:
    """Compute the Renyi divergence of one step, D_a = log(A_a) / (a - 1), at each order a.

    `A_a = E_{x ~ N(0, z^2)} [(1 - q + q exp((2x - 1) / (2 z^2)))^a]`; at whole a the sum over i of
    `binom(a, i) (1 - q)^(a - i) q^i exp(i (i - 1) / (2 z^2))`. The other direction (record removed) is never larger
    (theorem 5 of the source).

    Args:
        noise_multiplier: Noise multiplier z, above 0.
        sampling_rate: Probability q that a step takes a record, in [0, 1].
        orders: Renyi orders, each above 1.

    Returns:
        Divergences in nats, [orders].

    Raises:
        InputError: A number outside its range.

    Source:
        Mironov, Talwar and Zhang (2019), section 3.
    """
    _check_mechanism(noise_multiplier, sampling_rate, 1)
    if noise_multiplier == 0:
        raise InputError("noise_multiplier is 0; a divergence needs noise: give a value above 0, such as 1.0")
    return np.array([_one_order(noise_multiplier, sampling_rate, a) for a in check_orders(orders)])


def _one_order(z: float, q: float, order: float) -> float:
    if q == 0:
        return 0.0
    if q == 1:
        return order / (2 * z**2)
    if not order.is_integer():
        shifts, weights = np.array([0.0, 1.0]), np.array([1 - q, q])
        return renyi_divergence(shifts, weights, np.zeros(1), np.ones(1), noise=z, order=order)
    i = np.arange(int(order) + 1)
    log_binomial = (
        scipy.special.gammaln(order + 1) - scipy.special.gammaln(i + 1) - scipy.special.gammaln(order - i + 1)
    )
    terms = log_binomial + i * math.log(q) + (order - i) * math.log1p(-q) + i * (i - 1) / (2 * z**2)
    return max(log_of_sum(terms) / (order - 1), 0.0)


def epsilon_from_rdp(orders: Sequence[float], rdp: FloatArray, delta: float) -> float:
    """Compute the smallest epsilon at `delta` that divergences at several orders imply.

    It is `min over a of [rdp + log(1 - 1/a) - log(delta a) / (a - 1)]`, and 0 where `delta >= sqrt(1 - exp(-rdp))`
    already
    bounds the total variation (Bretagnolle and Huber).

    Args:
        orders: Renyi orders, each above 1, [n].
        rdp: Divergences at these orders, in nats, [n]; infinity where unknown.
        delta: Delta of the guarantee, in (0, 1).

    Returns:
        Epsilon, 0 or more; infinity if no order implies one.

    Raises:
        InputError: Lengths that differ, an order of 1 or less, or a delta outside (0, 1).

    Source:
        Canonne, Kamath and Steinke (2020), proposition 12.

    Example:
        >>> round(epsilon_from_rdp([2.0, 8.0], np.array([0.1, 0.4]), 1e-5), 3)
        1.614
    """
    a, divergence = np.asarray(check_orders(orders)), np.asarray(rdp, dtype=np.float64)
    check_delta(delta)
    if a.shape != divergence.shape:
        raise InputError(f"{len(a)} orders and {divergence.size} divergences; give one divergence for each order")
    if np.any(delta**2 >= -np.expm1(-divergence)):
        return 0.0
    usable = a >= _LEAST_ORDER
    epsilon = divergence[usable] + np.log1p(-1 / a[usable]) - np.log(delta * a[usable]) / (a[usable] - 1)
    return max(float(np.min(epsilon, initial=math.inf)), 0.0)


class Accountant(Protocol):
    """Function that computes epsilon of DP-SGD; arguments, units and result as of `rdp_epsilon`."""

    def __call__(
        self, noise_multiplier: float, sampling_rate: float, steps: int, delta: float, orders: Sequence[float], /
    ) -> float:
        """Compute epsilon, 0 or more."""
        ...


def noise_for_epsilon(
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    orders: Sequence[float] = DEFAULT_ORDERS,
    accountant: Accountant = rdp_epsilon,
) -> float:
    """Find the least noise multiplier with which DP-SGD spends no more than epsilon.

    The function bisects on the accountant, on the safe side: the value spends at most epsilon, and one smaller by a
    relative
    1e-4 would spend more.

    Args:
        epsilon: Epsilon that may be spent, above 0, for one record added or removed.
        delta: Delta of the guarantee, in (0, 1).
        sampling_rate: Probability that a step takes a record, above 0.
        steps: Number of optimiser steps, 1 or more.
        orders: Renyi orders, each above 1.
        accountant: Function that computes epsilon of a noise; `training.classifiers.private` gives Opacus'.

    Returns:
        Noise multiplier, in clipping norms.

    Raises:
        InputError: A number outside its range, or an epsilon that no noise reaches at these orders.

    Source:
        METHODS section 1, "Defence".
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"epsilon is {epsilon}; give a number above 0, such as 8, 3 or 1")
    if not sampling_rate > 0 or steps < 1:
        raise InputError(
            f"sampling_rate is {sampling_rate} and steps {steps}; noise is chosen for a training with both above 0"
        )

    def spends_too_much(z: float) -> bool:
        """Return whether this noise spends more than epsilon."""
        return accountant(z, sampling_rate, steps, delta, orders) > epsilon

    high = 1.0
    while spends_too_much(high):
        high *= 2
        if high > _MOST_NOISE:
            raise InputError(
                f"no noise multiplier up to {_MOST_NOISE:g} spends only epsilon {epsilon} at delta {delta}"
            )
    return _smallest_safe(spends_too_much, high)


def _smallest_safe(too_small: Callable[[float], bool], high: float) -> float:
    """Find the smallest number above 0, to a relative 1e-4 from above, that is not too small; `high` is not."""
    low = high / 2
    while not too_small(low):
        low, high = low / 2, low
    while high - low > _RELATIVE * low:
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high


def check_delta(delta: float) -> None:
    """Refuse a delta outside (0, 1).

    Raises:
        InputError: The delta is outside.
    """
    if not 0 < delta < 1:
        raise InputError(f"delta is {delta}; give a probability above 0 and below 1, such as 1e-5")


def check_orders(orders: Sequence[float]) -> list[float]:
    """Check the orders, and return them as floats.

    Raises:
        InputError: The list is empty, or one order is not a finite number above 1.
    """
    values = [float(a) for a in orders]
    if not values or not all(1 < a < math.inf for a in values):
        raise InputError("orders must be one or more finite numbers above 1, such as (1.5, 2, 4, 8, 16, 32, 64)")
    return values


def _check_mechanism(noise_multiplier: float, sampling_rate: float, steps: int) -> None:
    if not 0 <= noise_multiplier < math.inf:
        raise InputError(f"noise_multiplier is {noise_multiplier}; give 0 or more, in clipping norms")
    if not 0 <= sampling_rate <= 1:
        raise InputError(f"sampling_rate is {sampling_rate}; give the share of records a step takes, from 0 to 1")
    if steps < 0 or steps != int(steps):
        raise InputError(f"steps is {steps}; give a whole number, 0 or more")
