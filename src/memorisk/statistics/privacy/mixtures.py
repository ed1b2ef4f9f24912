"""Mixtures of normal distributions on a line: their Renyi divergence, by integration.

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

import numpy as np

from memorisk.statistics.analysis_of_variance import FloatArray

MAX_TERMS = 5_000_000
"""Grid points x components above which an order is left out (its divergence is infinity, which implies nothing)."""

_REACH = 14.0  # deviations beyond the outermost peak: what is cut off is below exp(-98) of it


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
