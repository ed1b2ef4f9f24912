"""The definition, one pair at a time in float64, and the scans of tiles that use it.

A pair's logit has the same bits in every block, thread and order of rows, and both ways round. A scan keeps the pairs
that the whole numbers of a tile (`quantization`) cannot rule out and evaluates them by definition. All is in one file,
since numba's cache looks at the file of the outer function only.

Tiles are [m, n] of rows of u by rows of v; of row i the columns from ``i + offset`` on belong to it (all, where the
offset is at most -m), so that without a v every pair is seen once. ``ids_x`` and ``ids_y`` are groups, pairs of the
same are left out; empty where there are none.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from memorisk.scores.distances.kernels import compiled

MOST = 2**30
"""Limit of V: no V is as large; none is as small as its negative."""
GROUP = 32
"""Pairs in a group, of which a scan first checks whether any matters."""
CELLS = 1 << 13
"""Number of cells in the table from which a value's bin is read."""


@intrinsic
def _eights(typing, x, y, weight, count):
    """Compute ``sum weight |x - y|`` over the first 8 ``count`` numbers: eight running sums, added by halves.

    The vectors are spelt out: numba keeps the order, but not the vectors (`benchmarks/bench_llvm.py`). Products are
    not fused.
    """

    def generate(context, builder, signature, args):
        """Write the instructions, as numba asks an intrinsic to."""
        lanes, word = ir.VectorType(ir.DoubleType(), 8), ir.IntType(32)
        starts = [
            builder.bitcast(context.make_array(kind)(context, builder, value=value).data, lanes.as_pointer())
            for kind, value in zip(signature.args[:3], args[:3], strict=True)
        ]
        name = "llvm.fabs.v8f64"
        size = builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(lanes, [lanes]), name)
        total = cgutils.alloca_once_value(builder, ir.Constant(lanes, None))
        with cgutils.for_range(builder, args[3]) as loop:
            a, b, w = (builder.load(builder.gep(start, [loop.index]), align=8) for start in starts)
            term = builder.fmul(w, builder.call(size, [builder.fsub(a, b)]))
            builder.store(builder.fadd(builder.load(total), term), total)
        vector, nothing = builder.load(total), ir.Undefined
        for half in (4, 2, 1):
            low, high = (
                builder.shuffle_vector(
                    vector, ir.Constant(vector.type, nothing), ir.Constant(ir.VectorType(word, half), list(places))
                )
                for places in (range(half), range(half, 2 * half))
            )
            vector = builder.fadd(low, high)
        return builder.extract_element(vector, ir.Constant(word, 0))

    return types.float64(x, y, weight, types.int64), generate


@compiled()
def _reaching(row, floors, first, last):
    """Return how many of some whole numbers of a row reach their floors; vectors, since no place is below 0."""
    count = np.int32(0)
    for j in range(np.uint64(first), np.uint64(last)):
        count = np.int32(count + np.int32(row[j] >= floors[j]))
    return count


@compiled()
def _most(row, first, last):
    """Return the largest of some whole numbers of a row; vectors, since no place is below 0."""
    most = np.int32(-MOST)
    for j in range(np.uint64(first), np.uint64(last)):
        most = np.int32(max(most, row[j]))
    return most


@compiled()
def logit(x, y, weight, bias):
    """Compute ``bias + sum_k weight_k |x_k - y_k|`` of two rows [d], by additions in a fixed order."""
    count = len(x) // 8
    total = _eights(x, y, weight, count)  # pyright: ignore[reportCallIssue]
    for t in range(8 * count, len(x)):
        total += weight[t] * abs(x[t] - y[t])
    return bias + total


@compiled()
def all_pairs(x, y, weight, bias, out):
    """Write `logit` of every row of x with every row of y into ``out``, [m, n]."""
    for i in range(len(x)):
        for j in range(len(y)):
            out[i, j] = logit(x[i], y[j], weight, bias)


@compiled()
def row_pairs(x, y, weight, bias, out):
    """Write `logit` of every row of x with the same row of y into ``out``, [n]."""
    for i in range(len(x)):
        out[i] = logit(x[i], y[i], weight, bias)


@compiled()
def some_pairs(x, y, i, j, weight, bias, out):
    """Write `logit` of rows ``i`` of x with rows ``j`` of y, pair by pair, into ``out``, [p]."""
    for p in range(len(i)):
        out[p] = logit(x[i[p]], y[j[p]], weight, bias)


@compiled()
def least_sum(value, bias, step, slack):
    """Return the least V of a pair whose logit may be at least ``value``, between -MOST and MOST."""
    if value == np.inf:
        return MOST
    at = (value - bias) / step
    low = math.floor(at - slack - 2.0 - (abs(value) + abs(bias)) / step * 2.0**-48) if abs(at) < 2.0**60 else at
    if not low > -MOST:  # nan too
        return -MOST
    return MOST if low >= MOST else np.int64(low)


@compiled()
def certain_sum(value, bias, step, slack):
    """Return the least V of which every pair's logit is above ``value``; MOST where there is none."""
    if value == -np.inf:
        return -MOST
    at = (value - bias) / step
    high = math.ceil(at + slack + 2.0 + (abs(value) + abs(bias)) / step * 2.0**-48) if abs(at) < 2.0**60 else at
    if not high < MOST:
        return MOST
    return -MOST if high <= -MOST else np.int64(high)


@compiled()
def floors(values, slack, most, bias, step, lowest):
    """Take `least_sum` of every row's own value and slack, where it is lower than ``lowest`` before."""
    for i in range(len(values)):
        lowest[i] = min(lowest[i], least_sum(values[i], bias, step, slack[i] + most))


@compiled()
def margin(slack, bias, step):
    """Return by how much V must be smaller for the logit to be surely smaller."""
    return np.int64(min(2.0 * slack + abs(bias) / step * 2.0**-48 + 4.0, 2.0 * MOST))


@compiled()
def _same(ids_x, ids_y, i, j):
    return len(ids_x) > 0 and ids_x[i] == ids_y[j]


@compiled()
def _before(value, index, other, other_index):
    """Return whether a logit comes before another: larger, or the same in a lower row."""
    return value > other or (value == other and (other_index < 0 or index < other_index))


@compiled()
def _insert(value, index, logits, indices):
    """Keep the largest in descending order, ties by the lower row."""
    place = len(logits) - 1
    if not _before(value, index, logits[place], indices[place]):
        return
    while place > 0 and _before(value, index, logits[place - 1], indices[place - 1]):
        logits[place], indices[place] = logits[place - 1], indices[place - 1]
        place -= 1
    logits[place], indices[place] = value, index


@compiled()
def insert_rows(queries, rows, logits, indices):
    """Take the most similar of a part, [m, k], into those of the whole."""
    for i in range(len(queries)):
        for c in range(queries.shape[1]):
            if rows[i, c] >= 0:
                _insert(queries[i, c], rows[i, c], logits[i], indices[i])


@compiled()
def insert_pairs(rows, columns, queries, logits, indices):
    """Take pairs, [p], into the most similar of their rows."""
    for p in range(len(rows)):
        _insert(queries[p], columns[p], logits[rows[p]], indices[rows[p]])


@compiled()
def _raise(value, highest):
    """Take a value into the highest, which descend."""
    place = len(highest) - 1
    while place > 0 and value > highest[place - 1]:
        highest[place] = highest[place - 1]
        place -= 1
    highest[place] = value


@compiled()
def scan_rows(tile, x, y, slack_x, most, base, offset, ids_x, ids_y, weight, bias, step, logits, indices):
    """Take a tile into the most similar of its rows, and return how many pairs were evaluated.

    Args:
        tile: Sums V of the pairs, [m, n] int32.
        x: Rows of x for the definition, [m, d].
        y: Rows of y for the definition, [n, d].
        slack_x: Slacks r of the rows, [m].
        most: Largest r of y.
        base: Number of y's first row.
        offset: Offset of the columns that belong to row 0, see the module.
        ids_x: Groups of the rows, [m] or empty.
        ids_y: Groups of the columns, [n] or empty.
        weight: Weights of the head, [d].
        bias: Bias of the head.
        step: Step of the grid.
        logits: Largest logits of each row, [m, k] descending, updated.
        indices: Rows of y that have them, [m, k], updated.
    """
    n, k, evaluated = tile.shape[1], logits.shape[1], 0
    highest = np.empty(k, np.int64)
    for i in range(len(tile)):
        row, slack = tile[i], slack_x[i] + most
        gap = margin(slack, bias, step)
        floor = np.int32(least_sum(logits[i, k - 1], bias, step, slack))
        highest[:] = -MOST
        start = max(0, i + offset)
        for second in range(2):
            for first in range(start, n, GROUP):
                last = min(first + GROUP, n)
                if _most(row, first, last) < floor:
                    continue
                for j in range(first, last):
                    if row[j] < floor or _same(ids_x, ids_y, i, j):
                        continue
                    if second:
                        _insert(logit(x[i], y[j], weight, bias), base + j, logits[i], indices[i])
                        evaluated += 1
                    elif row[j] > highest[k - 1]:
                        _raise(row[j], highest)
                        floor = np.int32(max(floor, highest[k - 1] - gap))
    return evaluated


@compiled()
def scan_columns(tile, x, y, most, slack_y, base, low, high, offset, ids_x, ids_y, weight, bias, step, logits, indices):
    """Take a tile's columns from ``low`` to ``high`` into their most similar, as `scan_rows` does with rows.

    ``most`` is the largest r of x, ``slack_y`` [n], ``base`` the number of x's first row; logits and indices
    [high - low, k].
    """
    k, evaluated = logits.shape[1], 0
    floors, margins = np.empty(tile.shape[1], np.int32), np.empty(tile.shape[1], np.int64)
    highest = np.full((high - low, k), -MOST, np.int64)
    for j in range(low, high):
        slack = slack_y[j] + most
        margins[j] = margin(slack, bias, step)
        floors[j] = least_sum(logits[j - low, k - 1], bias, step, slack)
    for second in range(2):
        for i in range(len(tile)):
            row = tile[i]
            for first in range(max(low, i + offset), high, GROUP):
                last = min(first + GROUP, high)
                if not _reaching(row, floors, first, last):
                    continue
                for j in range(first, last):
                    if row[j] < floors[j] or _same(ids_x, ids_y, i, j):
                        continue
                    c = j - low
                    if second:
                        _insert(logit(x[i], y[j], weight, bias), base + i, logits[c], indices[c])
                        evaluated += 1
                    elif row[j] > highest[c, k - 1]:
                        _raise(row[j], highest[c])
                        floors[j] = np.int32(max(floors[j], highest[c, k - 1] - margins[j]))
    return evaluated


@compiled()
def scan_above(
    tile, x, y, slack_x, most, offset, ids_x, ids_y, weight, bias, step, threshold, wanted, rows, columns, logits
):
    """Count pairs of a tile that reach the threshold, those of them that reach ``wanted``, and those evaluated.

    Those that reach ``wanted``, at least the threshold, are written to ``rows``, ``columns`` and ``logits`` [m n].
    """
    n, count, n_listed, evaluated = tile.shape[1], 0, 0, 0
    for i in range(len(tile)):
        row, slack = tile[i], slack_x[i] + most
        floor = np.int32(least_sum(threshold, bias, step, slack))
        sure = np.int32(certain_sum(threshold, bias, step, slack))
        keep = np.int32(least_sum(wanted, bias, step, slack))
        for first in range(max(0, i + offset), n, GROUP):
            last = min(first + GROUP, n)
            if _most(row, first, last) < floor:
                continue
            for j in range(first, last):
                if row[j] < floor or _same(ids_x, ids_y, i, j):
                    continue
                if row[j] >= sure and row[j] < keep:
                    count += 1
                    continue
                value = logit(x[i], y[j], weight, bias)
                evaluated += 1
                if value >= threshold:
                    count += 1
                    if value >= wanted:
                        rows[n_listed], columns[n_listed], logits[n_listed] = i, j, value
                        n_listed += 1
    return count, n_listed, evaluated


@compiled()
def _bin(value, edges):
    """Return the bin of a logit as `numpy.histogram` has it; the number of bins outside."""
    bins = len(edges) - 1
    if value == edges[bins]:
        return bins - 1
    place = np.searchsorted(edges, value, side="right") - 1
    return place if 0 <= place < bins else bins


@compiled()
def edge_sums(edges, bias, step, slack, below, above):
    """Find V below which, and from which on, a logit is surely on that side of each edge: [bins + 1], ascending."""
    for e in range(len(edges)):
        below[e] = least_sum(edges[e], bias, step, slack)
        above[e] = max(certain_sum(edges[e], bias, step, slack), above[e - 1] if e else -MOST)
    for e in range(len(edges) - 2, -1, -1):
        below[e] = min(below[e], below[e + 1])


@compiled()
def _cells(below, above, low, shift, table):
    """Place cells of V among the edges: 0 below all, ``len(below)`` above all, -1 where an edge may be inside."""
    place = 0
    for c in range(len(table)):
        first = low + (c << shift)
        last = first + (1 << shift) - 1
        while place < len(above) and above[place] <= first:
            place += 1
        whole = place == len(below) or last < below[place]
        table[c] = place if whole else -1


@compiled()
def scan_histogram(tile, x, y, slack, offset, ids_x, ids_y, weight, bias, step, edges, counts):
    """Count the pairs of a tile by bin into ``counts``, [bins + 1], the last for those outside; see `scan_rows`.

    ``slack`` is the largest r(x) + r(y) of the tile. A value that may lie on either side of an edge is evaluated by
    definition; the function returns how many were.
    """
    n, bins, evaluated = tile.shape[1], len(edges) - 1, 0
    below, above = np.empty(bins + 1, np.int64), np.empty(bins + 1, np.int64)
    edge_sums(edges, bias, step, slack, below, above)
    shift = 0
    while ((CELLS - 2) << shift) < above[bins] - below[0]:
        shift += 1
    low = below[0] - (1 << shift)
    table = np.empty(CELLS, np.int32)
    _cells(below, above, low, shift, table)
    places, cells = np.zeros(4 * (bins + 2), np.int64), np.empty(64, np.uint32)
    for i in range(len(tile)):
        row = tile[i]
        for first in range(max(0, i + offset), n, 64):
            size = min(64, n - first)
            for c in range(size):
                cells[c] = min(max((np.int64(row[first + c]) - low) >> shift, 0), CELLS - 1)
            for c in range(size):
                if _same(ids_x, ids_y, i, first + c):
                    continue
                place = table[cells[c]]
                if place < 0:
                    place = np.searchsorted(above, row[first + c], side="right")
                    if place <= bins and row[first + c] >= below[place]:
                        counts[_bin(logit(x[i], y[first + c], weight, bias), edges)] += 1
                        evaluated += 1
                        continue
                places[np.uint32(4 * place + (c & 3))] += 1
    for place in range(bins + 2):
        counts[place - 1 if 1 <= place <= bins else bins] += places[4 * place : 4 * place + 4].sum()
    return evaluated
