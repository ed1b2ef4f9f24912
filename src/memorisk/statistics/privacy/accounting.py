"""Accounting of the privacy that DP-SGD spends: Poisson-sampled Gaussian noise, by Renyi differential privacy.

METHODS section 1, "Defence". A step takes each record with probability q (Poisson sampling), clips its gradient to
norm C, and adds N(0, (z C)^2) to the sum; z is the noise multiplier. Neighbours differ in one record added or
removed; for a replaced record and for all images of a patient see `statistics.privacy.patient_epsilon`.

A private training uses Opacus where it is installed (`training.classifiers.private.spent_epsilon`). This module
replaces it where it is not, so that `statistics/` needs neither PyTorch nor the optional extra. It also computes what
neither library has (`statistics.privacy.patient_epsilon`: a patient, a replaced record). Tests compare it with Opacus,
and at whole orders with dp-accounting, within 1e-3 (RDP, same orders, Poisson sampling). Fractional orders are
integrated (`renyi_divergence`), which is the definition; Opacus sums a series and agrees to 1e-6. dp-accounting 0.6
takes the absolute value of every term of that series: still an upper bound, but too large at low orders, hence where
epsilon is above about 6 (7.904 instead of 7.899 at noise 1, rate 0.1, 100 steps; 77.0 instead of 59.8 at noise 0.4). So
the tests do not use it there; compare with it at whole orders.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import scipy

from memorisk.runs.errors import InputError
from memorisk.statistics.analysis_of_variance import FloatArray
from memorisk.statistics.privacy.mixtures import log_of_sum, renyi_divergence

DEFAULT_ORDERS: tuple[float, ...] = (
    *(1 + x / 10 for x in range(1, 100)),
    *(float(x) for x in range(12, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
"""Opacus's orders (1.1 to 10.9, 12 to 63) and four larger ones, which matter only for epsilon below about 0.5."""
_RELATIVE = 1e-4
_LEAST_ORDER = 1.01  # the conversion is numerically unstable nearer to 1, and useless there
_MOST_NOISE = 1e6


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
