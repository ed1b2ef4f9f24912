"""Definitions of every reported distance, one pair of rows at a time in float64, and the scans that use them.

The same pair gives the same bits in every block, thread and order of rows (no fast-math). Differences are taken before
anything is squared or added, so that exact copies are at exactly 0. For every query a scan keeps the references that
may belong to the answer, by approximate values and their bounds, and evaluates those by definition. Both are in one
file since numba's cache looks at the file of the outer function only. Import this module where it is used, not at the
top of another: numba takes half a second.
"""

import math

import numpy as np

from memorisk.scores.distances.kernels import FAST, compiled

EUCLIDEAN, SQUARED, STANDARDISED, MAHALANOBIS, HALF_SQUARED, CITYBLOCK, CHEBYSHEV = range(7)
BRAYCURTIS, CANBERRA, MINKOWSKI, JENSEN_SHANNON, MATCHING, DICE = range(7, 13)
CODES = {
    "braycurtis": BRAYCURTIS, "canberra": CANBERRA, "chebyshev": CHEBYSHEV, "cityblock": CITYBLOCK,
    "correlation": HALF_SQUARED, "cosine": HALF_SQUARED, "dice": DICE, "euclidean": EUCLIDEAN,
    "jensenshannon": JENSEN_SHANNON, "mahalanobis": MAHALANOBIS, "matching": MATCHING, "minkowski": MINKOWSKI,
    "seuclidean": STANDARDISED, "sqeuclidean": SQUARED, "whitened": HALF_SQUARED,
}  # fmt: skip
LN2 = math.log(2.0)
ROOM = 1.0 + 2.0**-40
"""Factor of keys of distances: the definition's own rounding in float64, and that of its roots."""
LANES, DEPTH = 64, 16
"""Chunk sizes: a chunk is every ``LANES``-th of ``LANES * DEPTH`` references, so that minima need no register sum."""
SPARE = 8
"""Chunks in addition to k that are evaluated first."""


@compiled()
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


@compiled()
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


@compiled()
def _largest(x, y):
    most = 0.0
    for t in range(len(x)):
        most = max(most, abs(x[t] - y[t]))
    return most


@compiled()
def _weighted(x, y, weights):
    total = 0.0
    for t in range(len(x)):
        total += (x[t] - y[t]) * (x[t] - y[t]) * weights[t]
    return total


@compiled()
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


@compiled()
def _sum_absolute_sums(x, y):
    total = 0.0
    for t in range(len(x)):
        total += abs(x[t] + y[t])
    return total


@compiled()
def _canberra(x, y):
    total = 0.0
    for t in range(len(x)):
        below = abs(x[t]) + abs(y[t])
        if below > 0.0:
            total += abs(x[t] - y[t]) / below
    return total


@compiled()
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


@compiled()
def _binary_entropy_gap(t):
    """Compute ``((1 + t) log(1 + t) + (1 - t) log(1 - t)) / 2``: by its series where the two terms would cancel."""
    t = abs(t)
    if t >= 1.0:
        return LN2
    if t > 0.125:
        return 0.5 * ((1.0 + t) * math.log1p(t) + (1.0 - t) * math.log1p(-t))
    z, total = t * t, 0.0
    for n in range(9, 0, -1):
        total = total * z + 1.0 / (2.0 * n * (2 * n - 1))
    return total * z


@compiled()
def _jensen_shannon(x, y):
    total = 0.0
    for t in range(len(x)):
        both = x[t] + y[t]
        if x[t] != y[t]:
            total += 0.5 * both * _binary_entropy_gap((x[t] - y[t]) / both)
    return math.sqrt(total)


@compiled()
def direct(code, x, y, weights, whitening, p):
    """Compute the distance of two rows by a measure's code.

    Args:
        code: One of ``CODES``.
        x: First row, [d] float64, as `FittedMeasure.rows` gives it.
        y: Second row, [d].
        weights: Weights of the standardised Euclidean distance, [d].
        whitening: Whitening of the Mahalanobis distance, [d, d].
        p: Power of the Minkowski distance.
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


@compiled()
def all_pairs(code, queries, references, weights, whitening, p, out):
    """Write `direct` of every query with every reference into ``out``, [m, n]."""
    for i in range(len(queries)):
        for j in range(len(references)):
            out[i, j] = direct(code, queries[i], references[j], weights, whitening, p)


@compiled()
def some_pairs(code, queries, references, rows, columns, weights, whitening, p, out):
    """Write `direct` of some pairs, by the numbers of their rows, into ``out``."""
    for c in range(len(rows)):
        out[c] = direct(code, queries[rows[c]], references[columns[c]], weights, whitening, p)


@compiled()
def key_of(distance, multiplier, power):
    """Compute the key of a distance: ``(multiplier distance)^power``, or ``distance / (1 + distance)`` for power 0."""
    if power == 0.0:
        return distance / (1.0 + distance) if distance < np.inf else 1.0
    key = multiplier * distance
    return key * key if power == 2.0 else key


@compiled()
def _limit(key, rho, beta, root):
    """Return the largest value whose key may be at most this one, rounded up to float32."""
    limit = (key * ROOM + beta) / (1.0 - rho)
    if root != 1.0:
        limit = limit**root
    return np.float32(limit * (1.0 + 1e-6) + 1e-37)


@compiled()
def _upper(value, rho, beta, root):
    """Return the largest key that a value allows."""
    value = max(np.float64(value), 0.0)
    if root != 1.0:
        value = value ** (1.0 / root)
    return value * (1.0 + rho) + beta


@compiled()
def _n_chunks(n):
    """Return the number of chunks of n references."""
    return -(-n // (LANES * DEPTH)) * LANES


@compiled()
def _first_of(chunk):
    """Return the first reference of a chunk; the next ones are ``LANES`` apart, up to `_last_of`."""
    return chunk // LANES * (LANES * DEPTH) + chunk % LANES


@compiled()
def _last_of(chunk, n):
    """Return the end of a chunk among n references."""
    return min((chunk // LANES + 1) * (LANES * DEPTH), n)


@compiled(fastmath={"nnan", "nsz"})
def _minima(row, least):
    """Find the least value of every chunk; infinite where it holds none."""
    n = len(row)
    for first in range(0, n, LANES * DEPTH):
        some = least[first // DEPTH : first // DEPTH + LANES]
        some[:] = np.inf
        for start in range(first, min(first + LANES * DEPTH, n), LANES):
            values = row[start : min(start + LANES, n)]
            for j in range(len(values)):
                some[j] = values[j] if values[j] < some[j] else some[j]


@compiled()
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


@compiled()
def scan_nearest(  # one row of a tile after another
    tile,
    betas,
    limits,
    x,
    y,
    base,
    ids_x,
    ids_y,
    distances,
    indices,
    code,
    weights,
    whitening,
    p,
    multiplier,
    power,
    root,
    rho,
):
    """Take a block of references into the nearest of every query.

    Args:
        tile: Values of the pairs, [m, n].
        betas: Absolute bounds of the values, [m].
        limits: Values above which a pair is surely not among the nearest, as far as is known before, [m].
        x: Rows of the queries for the definition, [m, d].
        y: Rows of the references, [n, d].
        base: Number of the first reference.
        ids_x: Groups of the queries, [m], or empty: references of the same number are left out.
        ids_y: Groups of the references, [n], or empty.
        distances: Distances of the nearest, [m, k] ascending, updated.
        indices: Rows of the nearest, [m, k], updated; -1 where there is none.
        code: Code of the measure in `definitions.direct`.
        weights: Weights of `definitions.direct`, [d] or empty.
        whitening: Whitening of `definitions.direct`, [d, d] or empty.
        p: Power of the Minkowski distance.
        multiplier: Multiplier of `bounds.Form`.
        power: Power of the key in `bounds.Form`.
        root: Power of the value in `bounds.Form`.
        rho: Relative bound of `bounds.Form`.
    """
    n, k = tile.shape[1], distances.shape[1]
    excluding = len(ids_x) > 0
    room, chunks = max(64, 2 * k), _n_chunks(n)
    waiting, values = np.empty(room, np.int64), np.empty(room, np.float32)
    lowest, least = np.empty(k, np.float32), np.empty(chunks, np.float32)
    for i in range(len(tile)):
        row, beta, near, who = tile[i], betas[i], distances[i], indices[i]
        count = 0
        limit = min(limits[i], _limit(key_of(near[k - 1], multiplier, power), rho, beta, root))
        _minima(row, least)
        if beta < np.inf and not excluding:  # k chunks with such minima hold k pairs
            lowest[:] = np.inf
            for c in range(chunks):
                if least[c] < lowest[k - 1]:
                    _lower(least[c], lowest)
            if lowest[k - 1] < np.inf:
                limit = min(limit, _limit(_upper(lowest[k - 1], rho, beta, root), rho, beta, root))
        lowest[:] = np.inf
        for c in range(chunks):
            if beta < np.inf and least[c] > limit:
                continue
            for j in range(_first_of(c), _last_of(c, n), LANES):
                value = row[j]
                if value > limit or (excluding and ids_x[i] == ids_y[j]):
                    continue
                if value < lowest[k - 1]:
                    _lower(value, lowest)
                    if lowest[k - 1] < np.inf:
                        limit = min(limit, _limit(_upper(lowest[k - 1], rho, beta, root), rho, beta, root))
                waiting[count], values[count] = j, value
                count += 1
                if count == room:
                    count = _drop(waiting, values, count, limit)
                    if 4 * count > 3 * room:
                        _settle(waiting[:count], near, who, base, code, x[i], y, weights, whitening, p)
                        count = 0
                        limit = min(limit, _limit(key_of(near[k - 1], multiplier, power), rho, beta, root))
        count = _drop(waiting, values, count, limit)
        _settle(waiting[:count], near, who, base, code, x[i], y, weights, whitening, p)


@compiled(fastmath=FAST)
def _product(x, y):
    total = np.float32(0)
    for t in range(len(x)):
        total += x[t] * y[t]
    return total


@compiled()
def evaluate_near(
    tile, x, y, own_x, own_y, betas, lower_betas, slacks, distances, ids_x, ids_y,
    multiplier, power, rho, lower_rho, limits,
):  # fmt: skip
    """Turn squared distances of sketches into values of the family "product" where a pair may be among the nearest.

    The reference of the nearest sketch represents each chunk. The nearest of these are evaluated first: the k-th of
    their keys bounds those of all that can be among the nearest.

    Args:
        tile: Squared distances of sketches, [m, n]; then values, infinite where the pair is surely not among the k
            nearest.
        x: Queries in float32, [m, d].
        y: References in float32, [n, d].
        own_x: Squared norms of the queries, [m].
        own_y: Squared norms of the references, [n].
        betas: Absolute bounds of the values, [m].
        lower_betas: Absolute bounds of the squared distances of sketches, [m].
        slacks: Greatest amount by which sketches may be farther apart than their rows, [m].
        distances: Distances of the nearest up to here, [m, k], ascending.
        ids_x: Groups of the queries, as in `scan_nearest`.
        ids_y: Groups of the references, as in `scan_nearest`.
        multiplier: Multiplier of `bounds.Form`.
        power: Power of the key in `bounds.Form`.
        rho: Relative bound of the values.
        lower_rho: Relative bound of the squared distances of sketches.
        limits: Limits of `scan_nearest`, [m], written.

    Returns:
        Number of pairs that were evaluated.
    """
    n, k = tile.shape[1], distances.shape[1]
    excluding, chunks = len(ids_x) > 0, _n_chunks(n)
    least, lowest = np.empty(chunks, np.float32), np.empty(k, np.float32)
    sketched, where = np.empty(k + SPARE, np.float32), np.empty(k + SPARE, np.int64)
    n_evaluated, two = 0, np.float32(2)
    for i in range(len(tile)):
        row = tile[i]
        key = key_of(distances[i, k - 1], multiplier, power)
        _minima(row, least)
        sketched[:] = np.inf
        where[:] = -1
        for c in range(chunks):
            if least[c] < sketched[-1]:
                place = _lower(least[c], sketched)
                for higher in range(len(where) - 1, place, -1):
                    where[higher] = where[higher - 1]
                where[place] = c
        lowest[:] = np.inf
        for c in where:
            if c < 0:
                break
            nearest = -1
            for j in range(_first_of(c), _last_of(c, n), LANES):
                if not (excluding and ids_x[i] == ids_y[j]) and (nearest < 0 or row[j] < row[nearest]):
                    nearest = j
            if nearest >= 0:
                value = (own_y[nearest] - two * _product(x[i], y[nearest])) + own_x[i]
                if value < lowest[k - 1]:
                    _lower(value, lowest)
        key = min(key, _upper(lowest[k - 1], rho, betas[i], 1.0))
        reach = math.sqrt(key * ROOM) + slacks[i]
        bound = _limit(reach * reach, lower_rho, lower_betas[i], 1.0)
        limits[i] = _limit(key, rho, betas[i], 1.0)
        for j in range(n):
            row[j] = row[j] if row[j] <= bound else np.float32(np.inf)
        for c in range(chunks):
            if least[c] <= bound:
                for j in range(_first_of(c), _last_of(c, n), LANES):
                    if row[j] <= bound and row[j] < np.inf:
                        row[j] = (own_y[j] - two * _product(x[i], y[j])) + own_x[i]
                        n_evaluated += 1
    return n_evaluated


@compiled()
def _lower(value, lowest):
    """Take a value into the lowest, which ascend, and return its place there."""
    place = len(lowest) - 1
    while place > 0 and value < lowest[place - 1]:
        lowest[place] = lowest[place - 1]
        place -= 1
    lowest[place] = value
    return place


@compiled()
def _settle(waiting, near, who, base, code, x, y, weights, whitening, p):
    """Evaluate the waiting pairs by definition and keep the nearest."""
    for r in waiting:
        _insert(direct(code, x, y[r], weights, whitening, p), base + r, near, who)


@compiled()
def insert_pairs(rows, columns, queries, distances, indices):
    """Take pairs with known distances into the nearest of every query, [m, k]."""
    for c in range(len(rows)):
        _insert(queries[c], columns[c], distances[rows[c]], indices[rows[c]])


@compiled()
def _drop(waiting, values, count, limit):
    """Move the pairs that may still be among the nearest to the front, and return their number."""
    n_left = 0
    for c in range(count):
        if not values[c] > limit:
            waiting[n_left], values[n_left] = waiting[c], values[c]
            n_left += 1
    return n_left


@compiled()
def _bin(distance, edges):
    """Return the bin of a distance as `numpy.histogram` has it, -1 outside."""
    if distance == edges[-1]:
        return len(edges) - 2
    place = np.searchsorted(edges, distance, side="right") - 1
    return place if place < len(edges) - 1 else -1


@compiled()
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
                bin_index = _bin(direct(code, x[i], y[j], weights, whitening, p), edges)
            else:
                bin_index = place - 1 if place <= bins else -1
            counts[bin_index] += 1
