"""From approximate values with their bounds to exact answers: the compiled scans of `nearest` and `histogram`.

A scan keeps of every query the references that may belong to the answer, and evaluates those by definition
(`direct.direct`); what the bounds exclude is never evaluated.
"""

import numpy as np
from numba import njit

from memorisk.scores.distances.direct import direct

ROOM = 1.0 + 2.0**-40
"""Multiplies keys of distances: the definition's own rounding in float64, and that of its roots."""


@njit(cache=True, nogil=True)
def key_of(distance, multiplier, power):
    """The key of a distance: ``(multiplier distance)^power``, or ``distance / (1 + distance)`` for power 0."""
    if power == 0.0:
        return distance / (1.0 + distance) if distance < np.inf else 1.0
    key = multiplier * distance
    return key * key if power == 2.0 else key


@njit(cache=True, nogil=True)
def _limit(key, rho, beta, root):
    """The largest value whose key may be at most this one, rounded up to float32."""
    limit = (key * ROOM + beta) / (1.0 - rho)
    if root != 1.0:
        limit = limit**root
    return np.float32(limit * (1.0 + 1e-6) + 1e-37)


@njit(cache=True, nogil=True)
def _upper(value, rho, beta, root):
    """The largest key that a value allows."""
    value = max(np.float64(value), 0.0)
    if root != 1.0:
        value = value ** (1.0 / root)
    return value * (1.0 + rho) + beta


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _least(row, first, last):
    least = np.float32(np.inf)
    for j in range(first, last):
        least = row[j] if row[j] < least else least
    return least


@njit(cache=True, nogil=True)
def _insert(distance, index, distances, indices):
    """Keep the nearest in ascending order, ties by the lower index."""
    place = len(distances) - 1
    if distance > distances[place] or (distance == distances[place] and (index > indices[place] >= 0)):
        return
    while place > 0 and (
        distance < distances[place - 1] or (distance == distances[place - 1] and not index > indices[place - 1] >= 0)
    ):
        distances[place], indices[place] = distances[place - 1], indices[place - 1]
        place -= 1
    distances[place], indices[place] = distance, index


@njit(cache=True, nogil=True)
def scan_nearest(  # one row of a tile after another
    tile, betas, x, y, base, ids_x, ids_y, distances, indices, code, weights, whitening, p, multiplier, power, root, rho
):
    """Take a block of references into the nearest of every query.

    Args:
        tile: [m, n] values.
        betas: [m] their absolute bounds.
        x: [m, d] rows for the definition.
        y: [n, d] those of the references.
        base: Number of the first reference.
        ids_x: [m], or empty: references of the same number are left out.
        ids_y: [n], or empty.
        distances: [m, k] ascending, updated.
        indices: [m, k], updated; -1 where there is none.
        code: Of `direct.direct`, and so the next three.
        weights: [d] or empty.
        whitening: [d, d] or empty.
        p: Minkowski's power.
        multiplier: Of `bounds.Form`, and so the next three.
        power: Of the key.
        root: Of the value.
        rho: Relative bound.
    """
    n, k = tile.shape[1], distances.shape[1]
    excluding = len(ids_x) > 0
    room = max(64, 2 * k)
    waiting, values = np.empty(room, np.int64), np.empty(room, np.float32)
    lowest = np.empty(k, np.float32)
    for i in range(len(tile)):
        row, beta = tile[i], betas[i]
        lowest[:] = np.inf
        count = 0
        limit = _limit(key_of(distances[i, k - 1], multiplier, power), rho, beta, root)
        for first in range(0, n, 64):
            last = min(first + 64, n)
            if beta < np.inf and _least(row, first, last) > limit:
                continue
            for j in range(first, last):
                value = row[j]
                if value > limit or (excluding and ids_x[i] == ids_y[j]):
                    continue
                if value < lowest[k - 1]:
                    place = k - 1
                    while place > 0 and value < lowest[place - 1]:
                        lowest[place] = lowest[place - 1]
                        place -= 1
                    lowest[place] = value
                    if lowest[k - 1] < np.inf:
                        limit = min(limit, _limit(_upper(lowest[k - 1], rho, beta, root), rho, beta, root))
                waiting[count], values[count] = j, value
                count += 1
                if count == room:
                    count = _drop(waiting, values, count, limit)
                    if 4 * count > 3 * room:
                        for c in range(count):
                            r = waiting[c]
                            _insert(direct(code, x[i], y[r], weights, whitening, p), base + r, distances[i], indices[i])
                        count = 0
                        limit = min(limit, _limit(key_of(distances[i, k - 1], multiplier, power), rho, beta, root))
        for c in range(count):
            if not values[c] > limit:
                r = waiting[c]
                _insert(direct(code, x[i], y[r], weights, whitening, p), base + r, distances[i], indices[i])


@njit(cache=True, nogil=True)
def _drop(waiting, values, count, limit):
    """Those that may still be among the nearest, moved to the front; how many."""
    kept = 0
    for c in range(count):
        if not values[c] > limit:
            waiting[kept], values[kept] = waiting[c], values[c]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _bin(distance, edges):
    """The bin of a distance as `numpy.histogram` has it, -1 outside."""
    if distance == edges[-1]:
        return len(edges) - 2
    place = np.searchsorted(edges, distance, side="right") - 1
    return place if place < len(edges) - 1 else -1


@njit(cache=True, nogil=True)
def scan_histogram(
    tile, betas, x, y, ids_x, ids_y, edges, counts, code, weights, whitening, p, multiplier, power, root, rho
):
    """Count the pairs of a tile by bin into ``counts``, [bins + 1]; the last is for pairs outside. See `scan_nearest`.

    A value that lies between what is surely below an edge and what is surely not is evaluated by definition.
    """
    bins = len(edges) - 1
    excluding = len(ids_x) > 0
    below, above = np.empty(bins + 1, np.float32), np.empty(bins + 1, np.float32)
    for i in range(len(tile)):
        beta = betas[i]
        for e in range(bins + 1):
            key = key_of(edges[e], multiplier, power) if edges[e] >= 0.0 else -1.0
            above[e] = _limit(key, rho, beta, root) if key >= 0.0 else -np.inf
            under = (key / ROOM - beta) / (1.0 + rho)
            under = under**root if under > 0.0 else -np.inf
            below[e] = np.float32(under * (1.0 - 1e-6) - 1e-37)
        for j in range(tile.shape[1]):
            if excluding and ids_x[i] == ids_y[j]:
                continue
            value = tile[i, j]
            place = np.searchsorted(above, value, side="left") if value > above[0] else 0
            if place <= bins and not value < below[place]:
                found = _bin(direct(code, x[i], y[j], weights, whitening, p), edges)
            else:
                found = place - 1 if place <= bins else -1
            counts[found] += 1
