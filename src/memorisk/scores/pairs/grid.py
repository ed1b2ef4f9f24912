"""Vectors as whole numbers: what the compiled sums take, with what the rounding took from each row, measured.

With c_k the middle of a column, z_k = |w_k| (u_k - c_k) / step and q_k = z_k rounded, for two rows x and y

    |(logit - bias) / step - V| <= r(x) + r(y),   V = sum_k sign(w_k) |q_k(x) - q_k(y)|,   r = sum_k |z_k - q_k|,

by the triangle inequality in every column. V is computed without error: |a - b| = 2 max(a, b) - a - b, and step
is such that q fits 16 bits and all sums 32. To r is added what float64 may lose in z and in the definition itself, less
than (d + 64) 2^-49 sum_k |z_k| in all. Rounded to 16 bits, r is about d / 4 steps a row, of sums of about 10^4 d steps:
as tight as bounds in float32, and twice as fast. Vectors far from the rest make the step, and so the work, larger; the
answers stay exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memorisk.scores.distances.compiling import compiled
from memorisk.scores.distances.parallel import Team
from memorisk.scores.distances.rows import LARGEST, FloatArray, Rows
from memorisk.scores.pairs.head import Head

LANES = 32
"""Columns come in multiples of these."""
SMALLEST_STEP = 2.0**-900
SAMPLE = 512
"""Rows from which the spread of columns is taken."""


@dataclass(frozen=True, eq=False)
class Block:
    """Rows made ready."""

    exact: FloatArray
    """[m, d] for the definition."""
    short: NDArray[np.int16]
    """[m, D] q, the columns that matter most first, zeros beyond the last."""
    own: NDArray[np.int32]
    """[m] sum of sign q."""
    slack: FloatArray
    """[m] r, in steps."""

    def part(self, first: int, last: int) -> "Block":
        """Some of the rows."""
        return Block(self.exact[first:last], self.short[first:last], self.own[first:last], self.slack[first:last])


@dataclass(frozen=True, eq=False)
class Grid:
    """How vectors become whole numbers in one call."""

    head: Head
    step: float
    """Of the logit."""
    order: NDArray[np.int64]
    """[c] columns with a weight that vary, by weight times spread."""
    centre: FloatArray
    """[c] middles of the columns."""
    size: FloatArray
    """[c] absolute weights."""
    sign: NDArray[np.int16]
    """[D] of the weights, 0 beyond the last."""
    half: int
    """Whole numbers lie between -half and half."""

    def prepare(self, rows: Rows, first: int, last: int, workers: Team) -> Block:
        """Rows ``first`` to ``last`` made ready, some of them by each thread."""
        m, width = last - first, len(self.sign)
        block = Block(
            np.empty((m, rows.d)), np.zeros((m, width), np.int16), np.empty(m, np.int32), np.empty(m)
        )  # fmt: skip
        step = max(1, min(256, -(-m // workers.threads)))

        def fill(start: int) -> None:
            """One part of the rows."""
            part = block.part(start, min(start + step, m))
            part.exact[:] = rows.block(first + start, first + min(start + step, m))
            _round(
                part.exact, self.order, self.centre, self.size, self.sign, 1.0 / self.step, self.half,
                part.short, part.own, part.slack,
            )  # fmt: skip

        workers.run(fill, range(0, m, step))
        return block


def find_grid(head: Head, tables: tuple[Rows, ...]) -> Grid:
    """Ranges of the columns, one pass over all rows, which are checked by it.

    Args:
        head: The linear layer.
        tables: u, or u and v.

    Raises:
        InputError: A row holds NaN, inf or values beyond 1e100.
    """
    low, high = np.full(len(head.weight), np.inf), np.full(len(head.weight), -np.inf)
    for rows in tables:
        for _, x in rows.blocks():
            np.minimum(low, x.min(axis=0), out=low)
            np.maximum(high, x.max(axis=0), out=high)
        if rows.n and not max(float(np.abs(low).max()), float(np.abs(high).max())) <= LARGEST:
            rows.check()
    size = np.abs(head.weight)
    wide = size * (high - low) if any(rows.n for rows in tables) else np.zeros(len(size))
    used = np.flatnonzero(wide > 0)
    used = used[np.argsort(-(size * _spread(tables))[used], kind="stable")]
    width = max(1, -(-len(used) // LANES)) * LANES
    half = int(min(2**15 - 1, (2**30 - 1) // width))
    sign = np.zeros(width, np.int16)
    sign[: len(used)] = np.sign(head.weight[used])
    step = max(float(wide.max(initial=0.0)) / (2 * half), SMALLEST_STEP) if len(used) else 1.0
    return Grid(head, step, used, low[used] / 2 + high[used] / 2, size[used], sign, half)


def _spread(tables: tuple[Rows, ...]) -> FloatArray:
    """Mean absolute deviation of every column over some rows: decides an order, never a result."""
    total = np.zeros(tables[0].d)
    for rows in tables:
        if rows.n:
            x = rows.take(np.unique(np.linspace(0, rows.n - 1, SAMPLE).astype(np.int64)))
            total += np.abs(x - x.mean(axis=0)).mean(axis=0)
    return total


@compiled()
def _round(x, order, centre, size, sign, inverse, half, short, own, slack):
    """Fill the whole numbers of a block."""
    room = (x.shape[1] + 64) * 2.0**-49
    for i in range(len(x)):
        lost = whole = 0.0
        total = 0
        for t in range(len(order)):
            value = ((x[i, order[t]] - centre[t]) * size[t]) * inverse
            near = min(max(np.floor(value + 0.5), -half), half)
            short[i, t] = np.int16(near)
            lost += abs(value - near)
            whole += abs(value)
            total += np.int64(near) * sign[t]
        own[i] = total
        slack[i] = lost * (1.0 + 2.0**-20) + whole * room + 2.0**-60
