"""Compiled sums that LCMem's head needs of every pair, in whole numbers, and the rounding of rows to them.

``sum W |a - b| = 2 sum W max(a, b) - sum W a - sum W b`` takes two instructions of a processor with AVX-512
(maximum; products of 16 bits added in 32) for 32 columns, where float32 takes three for 16. The vectors are spelt
out, since what numba makes of whole numbers of 16 bits takes longer (`benchmarks/bench_llvm.py`); on other processors
the same code becomes what they have.

`round_rows` measures what the rounding took from each row; the bound is in `quantization`.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from memorisk.scores.distances.kernels import compiled

SHARED = 1 << 15
"""Numbers in a block of second rows that stays near the processor: 64 KiB."""
LANES = 32
NONE, MOST = -(2**31), 2**30
"""Value that marks a V that reaches no floor; and a floor that none reaches."""
SAMPLED_ROWS, SAMPLED_COLUMNS = 8, 24
_LONG = ir.IntType(64)
_WORD = ir.IntType(32)
_SHORTS = ir.VectorType(ir.IntType(16), LANES)


def _pick(builder, one, other, places):
    """Select some lanes of two vectors of 32 bits."""
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_WORD, len(places)), places))


def _joined(builder, one, other):
    """Add neighbouring lanes of two vectors into one."""
    places = range(0, 2 * one.type.count, 2)
    return builder.add(
        _pick(builder, one, other, list(places)), _pick(builder, one, other, [place + 1 for place in places])
    )


def _folded(builder, vector):
    """Add neighbouring lanes of a vector."""
    places = range(0, vector.type.count, 2)
    even, odd = (_pick(builder, vector, vector, [place + side for place in places]) for side in (0, 1))
    return builder.add(even, odd)


def _data(context, builder, signature, args, place):
    """Return a pointer to the start of an array."""
    return context.make_array(signature.args[place])(context, builder, value=args[place]).data


@intrinsic
def _larger(typing, x, i, i2, y, j, j2, j3, j4, whole, first, last, out):
    """Add ``sum W max`` of two rows of x by four of y over columns from ``first`` to ``last`` into ``out`` [8].

    Columns are multiples of ``LANES``; nothing is checked.
    """

    def generate(context, builder, signature, args):
        """Write the instructions, as numba asks an intrinsic to."""
        arrays = {
            place: context.make_array(signature.args[place])(context, builder, value=args[place])
            for place in (0, 3, 8, 11)
        }

        def rows(place, numbers):
            """Pointers to rows, as vectors."""
            array = arrays[place]
            stride = builder.extract_value(array.strides, 0)
            start = builder.ptrtoint(array.data, _LONG)
            return [
                builder.inttoptr(builder.add(start, builder.mul(args[n], stride)), _SHORTS.as_pointer())
                for n in numbers
            ]

        x_rows, y_rows = rows(0, (1, 2)), rows(3, (4, 5, 6, 7))
        signs = builder.bitcast(arrays[8].data, _SHORTS.as_pointer())
        half, wide = ir.VectorType(_WORD, LANES // 2), ir.VectorType(_WORD, LANES)
        sums = [cgutils.alloca_once_value(builder, ir.Constant(half, None)) for _ in range(8)]
        lanes = ir.Constant(_LONG, LANES)
        begin, end = builder.udiv(args[9], lanes), builder.udiv(args[10], lanes)
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(_LONG, 1)) as (column, _):
            load = [builder.load(builder.gep(p, [column]), align=2) for p in (*x_rows, *y_rows, signs)]
            weight = builder.sext(load[6], wide)
            for a in range(2):
                for b in range(4):
                    larger = builder.select(builder.icmp_signed(">", load[a], load[2 + b]), load[a], load[2 + b])
                    product = builder.mul(builder.sext(larger, wide), weight)
                    total = sums[4 * a + b]
                    builder.store(builder.add(builder.load(total), _folded(builder, product)), total)
        vectors = [builder.load(total) for total in sums]
        while len(vectors) > 1:
            vectors = [_joined(builder, *vectors[place : place + 2]) for place in range(0, len(vectors), 2)]
        vector = _folded(builder, vectors[0])
        builder.store(vector, builder.bitcast(arrays[11].data, vector.type.as_pointer()), align=4)
        return context.get_dummy_value()

    long = types.int64
    return types.void(x, long, long, y, long, long, long, long, whole, long, long, out), generate


@intrinsic
def _needed(typing, sums, own_y, floors_y, j, floor_x, floor_x2, own_x, own_x2):
    """Return if ``2 sums - own_y`` reaches the row's floor or ``2 sums - own_x`` the column's, in any of eight pairs.

    Floors have the other own sum added to them; ``own_y`` and ``floors_y`` have 3 numbers beyond the last.
    """

    def generate(context, builder, signature, args):
        """Write the instructions, as numba asks an intrinsic to."""
        eight, four = ir.VectorType(_WORD, 8), ir.VectorType(_WORD, 4)
        start = builder.bitcast(_data(context, builder, signature, args, 0), eight.as_pointer())
        double = builder.load(start, align=4)
        double = builder.add(double, double)

        def columns(place):
            """Load four numbers for both rows."""
            where = builder.gep(_data(context, builder, signature, args, place), [args[3]])
            vector = builder.load(builder.bitcast(where, four.as_pointer()), align=4)
            return _pick(builder, vector, vector, [0, 1, 2, 3, 0, 1, 2, 3])

        def rows(place):
            """Load one number for each of the two rows."""
            vector = ir.Constant(eight, ir.Undefined)
            for lane in range(8):
                vector = builder.insert_element(vector, args[place + lane // 4], ir.Constant(_WORD, lane))
            return vector

        by_row = builder.icmp_signed(">=", builder.sub(double, columns(1)), rows(4))
        by_column = builder.icmp_signed(">=", builder.sub(double, rows(6)), columns(2))
        bits = builder.bitcast(builder.or_(by_row, by_column), ir.IntType(8))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(8), 0))

    word = types.int32
    return types.boolean(sums, own_y, floors_y, types.int64, word, word, word, word), generate


@compiled()
def _prepared(own_x, own_y, rest, floors_x, floors_y):
    """Return floors with the other own sum added, less what is to come; columns have 4 more places."""
    m, n = len(own_x), len(own_y)
    row, column = np.empty(m, np.int32), np.empty(m, np.int32)
    own, floors = np.zeros(n + 4, np.int32), np.full(n + 4, MOST, np.int32)
    for i in range(m):
        row[i], column[i] = floors_x[i] + own_x[i] - rest[i], own_x[i] - rest[i]
    for j in range(n):
        own[j], floors[j] = own_y[j], floors_y[j] + own_y[j]
    return row, column, own, floors


@compiled()
def signed_sums(x, y, own_x, own_y, rest, whole, stages, stage, floors_x, floors_y, tile):
    """Compute ``V = sum W |x - y|`` of every pair, two rows by four; ``NONE`` where none of the eight reaches a floor.

    Args:
        x: First rows, [m, D] int16, of contiguous numbers, D a multiple of 32.
        y: Second rows, [n, D] int16, with the same conditions.
        own_x: Sums of W x up to every stage, [m, S] int32.
        own_y: Sums of W y up to every stage, [n, S] int32.
        rest: Most that later columns may add, [m, S] int32.
        whole: Weights W, [D] int16.
        stages: Numbers of columns, [S].
        stage: Stage after which pairs are looked at; the last for none.
        floors_x: Floors of the rows, [m] int32.
        floors_y: Floors of the columns, [n] int32.
        tile: Sums V of the pairs, [m, n] int32, filled.

    Returns:
        Number of pairs whose later columns were needed.
    """
    m, d, n = len(x), x.shape[1], len(y)
    step = max(4, SHARED // d // 4 * 4)
    sums, more = np.empty(8, np.int32), np.zeros(8, np.int32)
    first, early, needed = stages[stage], stage < len(stages) - 1, 0
    sums_x, sums_y = own_x[:, -1], own_y[:, -1]
    if early:
        row, column, own, floors = _prepared(own_x[:, stage], own_y[:, stage], rest[:, stage], floors_x, floors_y)
        tile[:] = NONE
    for start in range(0, n, step):
        for i in range(0, m, 2):
            o = min(i + 1, m - 1)
            for j in range(start, min(start + step, n), 4):
                j2, j3, j4 = min(j + 1, n - 1), min(j + 2, n - 1), min(j + 3, n - 1)
                _larger(x, i, o, y, j, j2, j3, j4, whole, 0, first, sums)  # pyright: ignore[reportCallIssue]
                if early:
                    if not _needed(  # pyright: ignore[reportCallIssue]
                        sums, own, floors, j, row[i], row[o], column[i], column[o]
                    ):
                        continue
                    _larger(x, i, o, y, j, j2, j3, j4, whole, first, d, more)  # pyright: ignore[reportCallIssue]
                needed += 8
                for c in range(min(4, n - j)):
                    tile[o, j + c] = 2 * (sums[c + 4] + more[c + 4]) - sums_x[o] - sums_y[j + c]
                    tile[i, j + c] = 2 * (sums[c] + more[c]) - sums_x[i] - sums_y[j + c]
    return needed


@compiled()
def shares_needed(x, y, own_x, own_y, rest, whole, stages, floors_x, floors_y, shares):
    """Measure, on a few cells of eight pairs, the share whose later columns are needed after every stage, into [S]."""
    m, n, cells = len(x), len(y), 0
    sums = np.empty(8, np.int32)
    shares[:] = 0.0
    for i in range(0, m - 1, max(2, m // SAMPLED_ROWS // 2 * 2)):
        for j in range(0, n - 3, max(4, n // SAMPLED_COLUMNS // 4 * 4)):
            cells += 1
            for s in range(len(stages)):
                _larger(  # pyright: ignore[reportCallIssue]
                    x, i, i + 1, y, j, j + 1, j + 2, j + 3, whole, 0, stages[s], sums
                )
                some, others = slice(i, i + 2), slice(j, j + 4)
                row, column, own, floors = _prepared(
                    own_x[some, s], own_y[others, s], rest[some, s], floors_x[some], floors_y[others]
                )
                if not _needed(  # pyright: ignore[reportCallIssue]
                    sums, own, floors, 0, row[0], row[1], column[0], column[1]
                ):
                    break
                shares[s] += 1
    if cells:
        shares /= cells
    else:
        shares[:] = 1.0


@compiled()
def round_rows(x, order, centre, size, whole, inverse, half, widest, stages, short, own, rest, slack):
    """Fill a block's whole numbers, own sums, rests and slacks; see `quantization.Block`.

    Args:
        x: Rows of the table, [m, d].
        order: Columns in order, [c], of `quantization.Grid`.
        centre: Middles of the columns, [c].
        size: Absolute weights, [c].
        whole: Whole weights W, [D].
        inverse: 1 / step.
        half: Largest whole number.
        widest: Largest |q| of every column, [c].
        stages: Numbers of columns, [S].
        short: Whole numbers q, [m, D] of zeros, filled.
        own: Sums of W q up to every stage, [m, S], filled.
        rest: Most that later columns may add, [m, S], filled.
        slack: Rounding errors r, [m], filled.
    """
    room = (x.shape[1] + 64) * 2.0**-49
    for i in range(len(x)):
        lost = most = 0.0
        total = later = stage = 0
        for t in range(len(order)):
            if t == stages[stage]:
                own[i, stage] = total
                rest[i, stage] = later
                stage += 1
            times = abs(np.int64(whole[t]))
            value = ((x[i, order[t]] - centre[t]) * size[t]) * inverse / times
            near = min(max(np.floor(value + 0.5), -half), half)
            short[i, t] = np.int16(near)
            lost += times * abs(value - near)
            most += times * abs(value)
            total += np.int64(near) * whole[t]
            if whole[t] > 0:
                later += times * (np.int64(abs(near)) + widest[t])
        for last in range(stage, len(stages)):
            own[i, last] = total
            rest[i, last] = later
        for last in range(len(stages)):
            rest[i, last] = later - rest[i, last]
        slack[i] = lost * (1.0 + 2.0**-20) + most * room + 2.0**-60
