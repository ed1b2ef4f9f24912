"""Signed sums of larger values, in whole numbers: the sums that LCMem's head needs of every pair.

``sum sign |a - b| = 2 sum sign max(a, b) - sum sign a - sum sign b`` takes two instructions of a processor with AVX-512
(maximum; products of 16 bits added in 32) for 32 columns, where float32 takes three for 16. The vectors are spelt out
since numba widens whole numbers to 64 bits, which no such instruction has; on other processors the same code becomes
what they have.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from memorisk.scores.distances.compiling import compiled

SHARED = 1 << 15
"""Numbers of a block of second rows that stays near: 64 KiB."""
LANES = 32
_LONG = ir.IntType(64)
_WORD = ir.IntType(32)
_SHORTS = ir.VectorType(ir.IntType(16), LANES)


def _pick(builder, vector, places):
    """Some lanes of a vector of 32 bits."""
    nothing = ir.Constant(vector.type, ir.Undefined)
    return builder.shuffle_vector(vector, nothing, ir.Constant(ir.VectorType(_WORD, len(places)), places))


def _halves(builder, vector):
    """Sum of all lanes, by halves."""
    count = LANES // 2
    while count > 1:
        count //= 2
        low, high = list(range(count)), list(range(count, 2 * count))
        vector = builder.add(_pick(builder, vector, low), _pick(builder, vector, high))
    return builder.extract_element(vector, ir.Constant(_WORD, 0))


@intrinsic
def _larger(typing, x, i, i2, y, j, j2, j3, j4, sign, first, last, out):
    """``sum sign max`` of two rows of x by four of y over columns from ``first`` to ``last``, into ``out`` [8].

    Columns are multiples of ``LANES``; nothing is checked.
    """

    def generate(context, builder, signature, args):
        made = {
            place: context.make_array(signature.args[place])(context, builder, value=args[place])
            for place in (0, 3, 8, 11)
        }

        def rows(place, numbers):
            """Pointers to rows, as vectors."""
            array = made[place]
            stride = builder.extract_value(array.strides, 0)
            start = builder.ptrtoint(array.data, _LONG)
            return [
                builder.inttoptr(builder.add(start, builder.mul(args[n], stride)), _SHORTS.as_pointer())
                for n in numbers
            ]

        left, right = rows(0, (1, 2)), rows(3, (4, 5, 6, 7))
        signs = builder.bitcast(made[8].data, _SHORTS.as_pointer())
        half, whole = ir.VectorType(_WORD, LANES // 2), ir.VectorType(_WORD, LANES)
        sums = [cgutils.alloca_once_value(builder, ir.Constant(half, None)) for _ in range(8)]
        lanes = ir.Constant(_LONG, LANES)
        begin, end = builder.udiv(args[9], lanes), builder.udiv(args[10], lanes)
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(_LONG, 1)) as (column, _):
            load = [builder.load(builder.gep(p, [column]), align=2) for p in (*left, *right, signs)]
            weight = builder.sext(load[6], whole)
            for a in range(2):
                for b in range(4):
                    larger = builder.select(builder.icmp_signed(">", load[a], load[2 + b]), load[a], load[2 + b])
                    product = builder.mul(builder.sext(larger, whole), weight)
                    pairs = (_pick(builder, product, list(range(side, LANES, 2))) for side in (0, 1))
                    total = sums[4 * a + b]
                    builder.store(builder.add(builder.load(total), builder.add(*pairs)), total)
        for place, total in enumerate(sums):
            where = builder.gep(made[11].data, [ir.Constant(_LONG, place)])
            builder.store(_halves(builder, builder.load(total)), where)
        return context.get_dummy_value()

    long = types.int64
    return types.void(x, long, long, y, long, long, long, long, sign, long, long, out), generate


@compiled()
def signed_sums(x, y, own_x, own_y, sign, tile):
    """``V = sum sign |x - y|`` of every pair, two rows by four.

    Args:
        x: [m, D] int16, rows of contiguous numbers, D a multiple of 32.
        y: [n, D] likewise.
        own_x: [m] int32, sums of sign x.
        own_y: [n] int32.
        sign: [D] int16.
        tile: [m, n] int32, filled.
    """
    m, d, n = len(x), x.shape[1], len(y)
    step = max(4, SHARED // d // 4 * 4)
    out = np.empty(8, np.int32)
    for start in range(0, n, step):
        for i in range(0, m, 2):
            o = min(i + 1, m - 1)
            for j in range(start, min(start + step, n), 4):
                j2, j3, j4 = min(j + 1, n - 1), min(j + 2, n - 1), min(j + 3, n - 1)
                _larger(x, i, o, y, j, j2, j3, j4, sign, 0, d, out)  # pyright: ignore[reportCallIssue]
                for c in range(min(4, n - j)):
                    tile[i, j + c] = 2 * out[c] - own_x[i] - own_y[j + c]
                    tile[o, j + c] = 2 * out[c + (4 if o > i else 0)] - own_x[o] - own_y[j + c]
