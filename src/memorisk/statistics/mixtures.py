"""Renyi divergence between mixtures of normal distributions on a line, by integration.

What one step of DP-SGD does with a record, a group of records or a replaced record is, in the worst case, to shift
normal noise along one direction by as many clipping norms as the batch holds of them (METHODS section 1, "Defence").
Privacy of the step is then the divergence of two mixtures on a line.

Why a line is the worst case. Let P mix N(c_j, s^2 I) and Q mix N(d_j, s^2 I), the noise alone (shift 0) in either. For
any set S with noise probability a, N(c)(S) is at most Phi(Phi^-1(a) + |c|/s) and at least Phi(Phi^-1(a) - |c|/s)
(Neyman and Pearson), and a half-line reaches the first for shifts +|c_j| and the second for shifts -|d_j| at the same
time. So P(S) - t Q(S) is never larger than for the half-line of the same a, whatever t: mixtures on a line, P's shifts
to the right, Q's to the left, each at its largest norm, bound every pair of data sets, and with it every composition of
steps.
Choquette-Choo et al. (2024, arXiv 2310.15526) show it for Q = noise alone, Lebeda et al. (2025, arXiv 2405.20769) give
the pair for a replaced record.
"""

import math

import numpy as np

from memorisk.statistics.anova import FloatArray

MAX_POINTS = 1_000_000
"""Points of the grid above which an order is left out (its divergence reads infinity, a bound that says nothing)."""

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
    """D_a(P || Q) = log(integral of p^a q^(1 - a)) / (a - 1), P and Q mixtures of N(shift, noise^2).

    The trapezoidal rule, whose error falls exponentially with the step for such integrands: the step is a quarter of
    the noise, or less where the mixtures' complex zeros come nearer to the line (noise^2 pi / span).

    Args:
        shifts_p: Centres of P, [m].
        weights_p: Their probabilities, [m], summing to 1.
        shifts_q: Centres of Q, [l]; 0 among them, so that no peak of the integrand lies outside order x P's centres.
        weights_q: Their probabilities, [l].
        noise: Standard deviation of every component, above 0, in the unit of the shifts.
        order: The order a, above 1.

    Returns:
        The divergence in nats; infinity where the grid would need more than `MAX_POINTS` points.

    Source:
        Mironov (2017), definition 3.
    """
    low = min(0.0, order * float(np.min(shifts_p))) - _REACH * noise
    high = max(0.0, order * float(np.max(shifts_p))) + _REACH * noise
    span = max(float(np.ptp(shifts_p)), float(np.ptp(shifts_q)), 1e-12)
    step = min(noise / 4, noise**2 / (span * (4 + math.sqrt(order))))
    n_points = math.ceil((high - low) / step) + 1
    if n_points > MAX_POINTS:
        return math.inf
    x = np.linspace(low, high, n_points)
    log_p, log_q = _log_density(x, shifts_p, weights_p, noise), _log_density(x, shifts_q, weights_q, noise)
    area = log_of_sum(order * log_p + (1 - order) * log_q) + math.log(x[1] - x[0])
    return max(area / (order - 1), 0.0)


def log_of_sum(logs: FloatArray) -> float:
    """log(sum(exp(logs))) without overflow, [n] to a number."""
    top = float(np.max(logs))
    return top + math.log(float(np.sum(np.exp(logs - top))))


def _log_density(x: FloatArray, shifts: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
    """Log density of the mixture at x, [n]; one component at a time, so that memory stays [n]."""
    total = np.full(len(x), -np.inf)
    for shift, weight in zip(shifts, weights, strict=True):
        if weight > 0:
            total = np.logaddexp(total, math.log(weight) - ((x - shift) / noise) ** 2 / 2)
    return total - math.log(noise * math.sqrt(2 * math.pi))
