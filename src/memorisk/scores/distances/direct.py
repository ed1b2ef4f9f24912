"""The definitions, one pair of rows at a time in float64: what every reported distance is.

Compiled with numba, without fast-math: the same pair gives the same bits in every block, thread and order of rows.
Differences are taken before anything is squared or added, so that exact copies are at exactly 0. Import this module
where it is used, not at the top of another: numba takes half a second.
"""

import math

import numpy as np
from numba import njit

EUCLIDEAN, SQUARED, STANDARDISED, MAHALANOBIS, HALF_SQUARED, CITYBLOCK, CHEBYSHEV = range(7)
BRAYCURTIS, CANBERRA, MINKOWSKI, JENSEN_SHANNON, MATCHING, DICE = range(7, 13)
CODES = {
    "braycurtis": BRAYCURTIS, "canberra": CANBERRA, "chebyshev": CHEBYSHEV, "cityblock": CITYBLOCK,
    "correlation": HALF_SQUARED, "cosine": HALF_SQUARED, "dice": DICE, "euclidean": EUCLIDEAN,
    "jensenshannon": JENSEN_SHANNON, "mahalanobis": MAHALANOBIS, "matching": MATCHING, "minkowski": MINKOWSKI,
    "seuclidean": STANDARDISED, "sqeuclidean": SQUARED,
}  # fmt: skip
LN2 = math.log(2.0)


@njit(cache=True, nogil=True)
def _sum_squares(x, y):
    a = b = c = e = 0.0
    whole = len(x) // 4 * 4
    for t in range(0, whole, 4):
        d0, d1, d2, d3 = x[t] - y[t], x[t + 1] - y[t + 1], x[t + 2] - y[t + 2], x[t + 3] - y[t + 3]
        a += d0 * d0
        b += d1 * d1
        c += d2 * d2
        e += d3 * d3
    for t in range(whole, len(x)):
        a += (x[t] - y[t]) * (x[t] - y[t])
    return (a + b) + (c + e)


@njit(cache=True, nogil=True)
def _sum_absolute(x, y):
    a = b = c = e = 0.0
    whole = len(x) // 4 * 4
    for t in range(0, whole, 4):
        a += abs(x[t] - y[t])
        b += abs(x[t + 1] - y[t + 1])
        c += abs(x[t + 2] - y[t + 2])
        e += abs(x[t + 3] - y[t + 3])
    for t in range(whole, len(x)):
        a += abs(x[t] - y[t])
    return (a + b) + (c + e)


@njit(cache=True, nogil=True)
def _largest(x, y):
    most = 0.0
    for t in range(len(x)):
        most = max(most, abs(x[t] - y[t]))
    return most


@njit(cache=True, nogil=True)
def _weighted(x, y, weights):
    total = 0.0
    for t in range(len(x)):
        total += (x[t] - y[t]) * (x[t] - y[t]) * weights[t]
    return total


@njit(cache=True, nogil=True)
def _whitened(x, y, whitening):
    d = len(x)
    image = np.zeros(d)
    for t in range(d):
        difference = x[t] - y[t]
        if difference != 0.0:
            for c in range(d):
                image[c] += difference * whitening[t, c]
    total = 0.0
    for c in range(d):
        total += image[c] * image[c]
    return total


@njit(cache=True, nogil=True)
def _sum_absolute_sums(x, y):
    total = 0.0
    for t in range(len(x)):
        total += abs(x[t] + y[t])
    return total


@njit(cache=True, nogil=True)
def _canberra(x, y):
    total = 0.0
    for t in range(len(x)):
        below = abs(x[t]) + abs(y[t])
        if below > 0.0:
            total += abs(x[t] - y[t]) / below
    return total


@njit(cache=True, nogil=True)
def _minkowski(x, y, p):
    most = _largest(x, y)
    if most == 0.0:
        return 0.0
    total, power = 0.0, int(p)
    for t in range(len(x)):
        share = abs(x[t] - y[t]) / most
        if power == p and power <= 16:
            term = share
            for _ in range(power - 1):
                term *= share
            total += term
        else:
            total += share**p
    return most * total ** (1.0 / p)


@njit(cache=True, nogil=True)
def _binary_entropy_gap(t):
    """``((1 + t) log(1 + t) + (1 - t) log(1 - t)) / 2``: by its series where the two terms would cancel."""
    t = abs(t)
    if t >= 1.0:
        return LN2
    if t > 0.125:
        return 0.5 * ((1.0 + t) * math.log1p(t) + (1.0 - t) * math.log1p(-t))
    z, total = t * t, 0.0
    for n in range(9, 0, -1):
        total = total * z + 1.0 / (2.0 * n * (2 * n - 1))
    return total * z


@njit(cache=True, nogil=True)
def _jensen_shannon(x, y):
    total = 0.0
    for t in range(len(x)):
        both = x[t] + y[t]
        if x[t] != y[t]:
            total += 0.5 * both * _binary_entropy_gap((x[t] - y[t]) / both)
    return math.sqrt(total)


@njit(cache=True, nogil=True)
def direct(code, x, y, weights, whitening, p):
    """Distance of two rows by a measure's code.

    Args:
        code: One of ``CODES``.
        x: [d] float64, as `FittedMeasure.rows` gives it.
        y: [d].
        weights: [d] of the standardised Euclidean distance.
        whitening: [d, d] of the Mahalanobis distance.
        p: Minkowski's power.
    """
    if code == EUCLIDEAN or (code == MINKOWSKI and p == 2.0):
        return math.sqrt(_sum_squares(x, y))
    if code == SQUARED:
        return _sum_squares(x, y)
    if code == HALF_SQUARED:
        return 0.5 * _sum_squares(x, y)
    if code == STANDARDISED:
        return math.sqrt(_weighted(x, y, weights))
    if code == MAHALANOBIS:
        return math.sqrt(_whitened(x, y, whitening))
    if code == CITYBLOCK or (code == MINKOWSKI and p == 1.0):
        return _sum_absolute(x, y)
    if code == CHEBYSHEV:
        return _largest(x, y)
    if code == MATCHING:
        return _sum_absolute(x, y) / len(x)
    if code in (BRAYCURTIS, DICE):
        above = _sum_absolute(x, y)
        below = _sum_absolute_sums(x, y)
        if above == 0.0:
            return 0.0
        return above / below if below > 0.0 else math.inf
    if code == CANBERRA:
        return _canberra(x, y)
    if code == MINKOWSKI:
        return _minkowski(x, y, p)
    return _jensen_shannon(x, y)


@njit(cache=True, nogil=True)
def all_pairs(code, queries, references, weights, whitening, p, out):
    """`direct` of every query with every reference into ``out``, [m, n]."""
    for i in range(len(queries)):
        for j in range(len(references)):
            out[i, j] = direct(code, queries[i], references[j], weights, whitening, p)
