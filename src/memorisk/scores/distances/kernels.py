"""Compiled kernels of approximate values in float32, [m, n] at a time, for measures other than matrix products.

`compiled` compiles a function by numba at its first call; it runs outside Python's lock and is kept on the disk
where that is allowed.

`bounds` bounds what each kernel leaves in ``tile``; sums may be added in any order (``reassoc``), since the
bound of a sum of terms of one sign holds for any. One query meets four references at a time, and blocks of
references small enough to stay near the processor meet all queries in turn.

Rows are rounded to float32 first. The program measures what the rounding took from each row.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from memorisk.scores.distances.rows import FloatArray, array_library

if TYPE_CHECKING:
    from memorisk.scores.distances.bounds import Block

FAST = {"reassoc", "nsz", "nnan", "ninf", "contract"}
"""Flags that allow any order and fused products, but no reciprocals and no approximate functions."""
SHARED = 1 << 16
"""Numbers in a block of references that stays near the processor: 256 KiB."""
LOG = tuple(
    np.float32(c)
    for c in (
        1.0000038536909452, -0.5000220823149556, 0.3330050446055722, -0.2487384276625391,
        0.20629130288967437, -0.18961882084253165, 0.11825300007800685,
    )
)  # fmt: skip
"""Coefficients of ``log(1 + z) = z (c0 + c1 z + ...)`` on [2^-1/2 - 1, 2^1/2 - 1], minimax, off by at most 1.8e-7."""
C0, C1, C2, C3, C4, C5, C6 = LOG
LN2, ONE, LEAST = np.float32(np.log(2.0)), np.float32(1.0), np.float32(1e-31)
_ROOT_HALF_BITS = 0x3F3504F3
SMALLEST = 1e-30
"""Least number that counts: smaller ones are 0 in Canberra's shares, and each may be off by 1."""
NORMS = {"product": 2, "sum": 1, "ratio": 1, "share": 3, "entropy": 4, "none": 0}


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: ``numba.njit`` with a cache, or without one where no folder can be written."""

    def decorate(function: Callable[..., Any]) -> Any:
        """Compile a function at its first call."""
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # numba's word for "no locator available": a read-only installation without a home
            return njit(nogil=True, **options)(function)

    return decorate


@compiled(inline="always")
def _number(bits):
    """Return the float32 of these bits."""
    return np.int32(bits).view(np.float32)


@compiled(inline="always")
def _larger(size, number):
    """Return the larger of ``size``, the bits of a float32 that is not negative, and the bits of another.

    Such bits are ordered as the numbers are. LLVM turns a maximum of whole numbers into a reduction over vectors, but
    none of float32 that numba can write.
    """
    return np.int32(max(size, np.float32(number).view(np.int32)))


@compiled(inline="always")
def _log(m):
    """Compute the logarithm of ``m = 2^e f``, f between 2^-1/2 and 2^1/2: e is read from the bits."""
    bits = np.float32(m).view(np.int32)
    exponent = np.int32(np.int32(bits - np.int32(_ROOT_HALF_BITS)) >> 23)
    z = _number(bits - np.int32(exponent << 23)) - ONE
    return np.float32(exponent) * LN2 + z * (C0 + z * (C1 + z * (C2 + z * (C3 + z * (C4 + z * (C5 + z * C6))))))


@compiled(fastmath=FAST)
def logarithms(values, out):
    """Compute the logarithm that `entropies` uses, of many positive float32: for the test of its bound."""
    for t in range(len(values)):
        out[t] = _log(values[t])


@compiled(inline="always")
def _put(tile, i, j, n, s0, s1, s2, s3):
    tile[i, j] = s0
    if j + 1 < n:
        tile[i, j + 1] = s1
    if j + 2 < n:
        tile[i, j + 2] = s2
    if j + 3 < n:
        tile[i, j + 3] = s3


@compiled(fastmath=FAST)
def absolute_sums(x, y, tile):
    """Compute ``sum |x - y|``, two queries by four references."""
    m, d, n = len(x), x.shape[1], len(y)
    step = max(4, SHARED // d // 4 * 4)
    for start in range(0, n, step):
        for i in range(0, m, 2):
            q, o = x[i], x[min(i + 1, m - 1)]
            for j in range(start, min(start + step, n), 4):
                r0, r1, r2, r3 = y[j], y[min(j + 1, n - 1)], y[min(j + 2, n - 1)], y[min(j + 3, n - 1)]
                s0 = s1 = s2 = s3 = u0 = u1 = u2 = u3 = np.float32(0)
                for t in range(d):
                    s0 += abs(q[t] - r0[t])
                    s1 += abs(q[t] - r1[t])
                    s2 += abs(q[t] - r2[t])
                    s3 += abs(q[t] - r3[t])
                    u0 += abs(o[t] - r0[t])
                    u1 += abs(o[t] - r1[t])
                    u2 += abs(o[t] - r2[t])
                    u3 += abs(o[t] - r3[t])
                _put(tile, i, j, n, s0, s1, s2, s3)
                if i + 1 < m:
                    _put(tile, i + 1, j, n, u0, u1, u2, u3)


@compiled(fastmath=FAST)
def largest(x, y, tile):
    """Compute ``max |x - y|`` of every pair."""
    d, n = x.shape[1], len(y)
    step = max(4, SHARED // d // 4 * 4)
    for start in range(0, n, step):
        for i in range(len(x)):
            q = x[i]
            for j in range(start, min(start + step, n), 4):
                r0, r1, r2, r3 = y[j], y[min(j + 1, n - 1)], y[min(j + 2, n - 1)], y[min(j + 3, n - 1)]
                s0 = s1 = s2 = s3 = np.int32(0)
                for t in range(d):
                    s0 = _larger(s0, abs(q[t] - r0[t]))
                    s1 = _larger(s1, abs(q[t] - r1[t]))
                    s2 = _larger(s2, abs(q[t] - r2[t]))
                    s3 = _larger(s3, abs(q[t] - r3[t]))
                _put(tile, i, j, n, _number(s0), _number(s1), _number(s2), _number(s3))


@compiled(fastmath=FAST)
def cubes(x, y, tile):
    """Compute ``sum |x - y|^3`` of every pair."""
    d, n = x.shape[1], len(y)
    step = max(4, SHARED // d // 4 * 4)
    for start in range(0, n, step):
        for i in range(len(x)):
            q = x[i]
            for j in range(start, min(start + step, n), 4):
                r0, r1, r2, r3 = y[j], y[min(j + 1, n - 1)], y[min(j + 2, n - 1)], y[min(j + 3, n - 1)]
                s0 = s1 = s2 = s3 = np.float32(0)
                for t in range(d):
                    d0, d1, d2, d3 = q[t] - r0[t], q[t] - r1[t], q[t] - r2[t], q[t] - r3[t]
                    s0 += d0 * d0 * abs(d0)
                    s1 += d1 * d1 * abs(d1)
                    s2 += d2 * d2 * abs(d2)
                    s3 += d3 * d3 * abs(d3)
                _put(tile, i, j, n, s0, s1, s2, s3)


@compiled(fastmath=FAST)
def powers(x, y, power, tile):
    """Compute ``sum |x - y|^power`` for a whole power of at least 1."""
    d, n = x.shape[1], len(y)
    terms = np.empty(64, np.float32)
    for i in range(len(x)):
        for j in range(n):
            total = np.float32(0)
            for first in range(0, d, 64):
                size = min(64, d - first)
                q, r = x[i, first : first + size], y[j, first : first + size]
                for t in range(size):
                    terms[t] = abs(q[t] - r[t])
                for _ in range(power - 1):
                    for t in range(size):
                        terms[t] *= abs(q[t] - r[t])
                for t in range(size):
                    total += terms[t]
            tile[i, j] = total


@compiled(fastmath=FAST)
def shares_of_sums(x, y, tile):
    """Compute ``N / (N + D)`` of ``N = sum |x - y|`` and ``D = sum |x + y|``; 0 for two zero rows."""
    d, n = x.shape[1], len(y)
    step = max(2, SHARED // d // 2 * 2)
    for start in range(0, n, step):
        for i in range(len(x)):
            q = x[i]
            for j in range(start, min(start + step, n), 2):
                r0, r1 = y[j], y[min(j + 1, n - 1)]
                s0 = s1 = u0 = u1 = np.float32(0)
                for t in range(d):
                    s0 += abs(q[t] - r0[t])
                    s1 += abs(q[t] - r1[t])
                    u0 += abs(q[t] + r0[t])
                    u1 += abs(q[t] + r1[t])
                tile[i, j] = s0 / max(s0 + u0, LEAST)
                if j + 1 < n:
                    tile[i, j + 1] = s1 / max(s1 + u1, LEAST)


@compiled(fastmath=FAST)
def shares(x, y, tile):
    """Compute ``sum |x - y| / (|x| + |y|)``; 0/0 is 0."""
    d, n = x.shape[1], len(y)
    step = max(4, SHARED // d // 4 * 4)
    for start in range(0, n, step):
        for i in range(len(x)):
            q = x[i]
            for j in range(start, min(start + step, n), 4):
                r0, r1, r2, r3 = y[j], y[min(j + 1, n - 1)], y[min(j + 2, n - 1)], y[min(j + 3, n - 1)]
                s0 = s1 = s2 = s3 = np.float32(0)
                for t in range(d):
                    size = abs(q[t])
                    s0 += abs(q[t] - r0[t]) / max(size + abs(r0[t]), LEAST)
                    s1 += abs(q[t] - r1[t]) / max(size + abs(r1[t]), LEAST)
                    s2 += abs(q[t] - r2[t]) / max(size + abs(r2[t]), LEAST)
                    s3 += abs(q[t] - r3[t]) / max(size + abs(r3[t]), LEAST)
                _put(tile, i, j, n, s0, s1, s2, s3)


@compiled(fastmath=FAST)
def entropies(x, y, own_x, own_y, tile):
    """Compute ``(own_x + own_y - sum m log m) / d`` with ``m = x + y``."""
    d, n = x.shape[1], len(y)
    step = max(2, SHARED // d // 2 * 2)
    part = ONE / np.float32(d)
    for start in range(0, n, step):
        for i in range(len(x)):
            q = x[i]
            for j in range(start, min(start + step, n), 2):
                r0, r1 = y[j], y[min(j + 1, n - 1)]
                s0 = s1 = np.float32(0)
                for t in range(d):
                    m0, m1 = max(q[t] + r0[t], LEAST), max(q[t] + r1[t], LEAST)
                    s0 += m0 * _log(m0)
                    s1 += m1 * _log(m1)
                tile[i, j] = (own_x[i] + own_y[j] - s0) * part
                if j + 1 < n:
                    tile[i, j + 1] = (own_x[i] + own_y[j + 1] - s1) * part


@compiled()
def squares_from_products(own_x, own_y, tile):
    """Compute ``own_x + own_y - 2 tile`` in place: squared distances from products."""
    two = np.float32(2)
    for i in range(len(tile)):
        own, row = own_x[i], tile[i]
        for j in range(len(row)):
            row[j] = (own_y[j] - two * row[j]) + own


@compiled()
def shares_from(own_x, own_y, both, tile):
    """Compute ``tile / (own_x + own_y)``, or with ``both`` ``tile / (tile + own_x + own_y)``, in place; 0/0 is 0."""
    for i in range(len(tile)):
        own, row = own_x[i], tile[i]
        for j in range(len(row)):
            below = own + own_y[j] + (row[j] if both else np.float32(0))
            row[j] = row[j] / max(below, LEAST)


@compiled(fastmath={"reassoc", "nsz"})
def _round_squares(x, centre, scale, limit, short):
    """Round a row of the family "product", and return its slack and its squared norm."""
    lost, size, far = 0.0, 0.0, 0
    for t in range(len(x)):
        value = (x[t] - centre[t] if len(centre) else x[t]) * scale
        inside = abs(value) <= limit
        near = np.float32(value) if inside else np.float32(0)
        short[t] = near
        off = value - near
        lost += off * off
        size += np.float64(near) * near
        far += not inside
    return np.inf if far else np.sqrt(lost) + 2.0**-50 * np.sqrt(size), size


@compiled()
def _round_rows(x, centre, scale, norm, limit, short, own, slack):
    """Round ``scale (x - centre)``.

    ``norm`` decides ``own`` and ``slack``: 1 sums, 2 squares, 3 counts, 4 entropies.
    """
    centred = len(centre) > 0
    for i in range(len(x)):
        if norm == 2:
            slack[i], own[i] = _round_squares(x[i], centre, scale, limit, short[i])
            continue
        lost, size, entropy, far = 0.0, 0.0, 0.0, False
        for t in range(x.shape[1]):
            value = (x[i, t] - centre[t] if centred else x[i, t]) * scale
            far = far or not abs(value) <= limit
            near = np.float32(value) if abs(value) <= limit else np.float32(0)
            if norm == 3 and abs(value) < SMALLEST:
                near = np.float32(0)
            short[i, t] = near
            off = abs(value - near)
            if norm == 3:
                if off > 0:
                    lost += 2.0**-24 if near != 0 else 1.0
            elif norm == 4:
                entropy += value * np.log(2.0 * value) if value > 0 else 0.0
                lost += max(1.0 - 2.0 * value, 0.0)
            else:
                lost += off
                size += abs(value)
        if norm == 1 and centred:
            lost += 2.0**-50 * size
        elif norm == 4:
            lost += max(entropy, 0.0)
        slack[i] = np.inf if far else lost
        own[i] = entropy if norm == 4 else size


def round_to_float32(x: FloatArray, centre: FloatArray, scale: float, family: str, root: float, out: "Block") -> None:
    """Fill the float32 parts of a block.

    Args:
        x: Rows of the definition, [m, d], contiguous.
        centre: Centre that is subtracted first, [d] or empty.
        scale: Factor of what is left.
        family: Family of the form, which decides the norm of ``out.slack`` and what ``out.own`` is.
        root: Root of the form: values whose powers would leave float32 are left out, and their rows marked.
        out: Block whose ``short``, ``own`` and ``slack`` are written.
    """
    _round_rows(x, centre, scale, NORMS[family], largest_summable(x.shape[1], root), out.short, out.own, out.slack)
    if family == "ratio":
        out.slack[:] = relative_slacks(out.slack, out.own.astype(np.float64))


def largest_summable(d: int, root: float) -> float:
    """Return the largest number whose power, added ``d`` times, stays in float32."""
    return 1e18 if root == 1 else 0.5 * (1e36 / d) ** (1 / root)


def relative_slacks(slack: Any, own: Any) -> Any:
    """Return slacks as shares of the rows' sums; 0 for zero rows, infinite where the sum is too small to divide by."""
    xp = array_library(slack)
    usable, zero = (own > 1e-24) & xp.isfinite(slack), (slack == 0) & (own == 0)
    return xp.where(zero, 0.0, xp.where(usable, slack / xp.where(usable, own, 1.0), np.inf))
