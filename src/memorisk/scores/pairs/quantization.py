"""Head of LCMem, and vectors quantized to whole numbers for it with measured rounding errors.

The head (paper 004; METHODS section 4) is one linear layer over absolute differences of features:

    logit(u, v) = bias + sum_k weight_k |u_k - v_k|,   P(same identity) = 1 / (1 + exp(-logit))

With weights of both signs this is a signed weighted city-block distance: no network is needed per pair, and the
score is the same both ways round. A trained head has mostly negative weights (larger difference, less alike).

The compiled sums take whole numbers. With c_k the middle of a column, z_k = |w_k| (u_k - c_k) / (step |W_k|) and
q_k = z_k rounded, for two rows x and y

    |(logit - bias) / step - V| <= r(x) + r(y),   V = sum_k W_k |q_k(x) - q_k(y)|,   r = sum_k |W_k| |z_k - q_k|,

by the triangle inequality in every column. W_k is a small whole number of the sign of w_k: more for columns that
weigh more, so that all use their 16 bits. V is computed without error: |a - b| = 2 max(a, b) - a - b, and all sums
fit 32 bits. The program adds to r what float64 may lose in z and in the definition itself, less than (d + 64) 2^-49
sum_k |W_k z_k| in all. Bounds are as tight as those of sums in float32, which take twice as long. Vectors far from the
rest make the step, and so the work, larger; the answers stay exact.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.rows import LARGEST, FloatArray, Rows, Team, name_rows, rows_per_block

LANES = 32
"""Multiple in which columns come."""
ROOM = 1 << 27
"""Largest value of a row's own sum: sums of a few of them stay within 32 bits."""
SMALLEST_STEP = 2.0**-900
STAGES = (0.0625, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.75, 1.0)
"""Shares of the columns after which a pair may be given up."""
SAMPLE = 512
"""Number of rows from which the spread of columns is estimated."""


@dataclass(frozen=True, eq=False)
class Head:
    """A checked linear layer."""

    weight: FloatArray
    """Weights of both signs, [d]; zeros are ignored."""
    bias: float
    """Logit of a vector and itself."""


def check_head(weight: Any, bias: Any, d: int) -> Head:
    """Check the linear layer, and return it in float64.

    Args:
        weight: Weights of the layer, [d] or, as ``torch.nn.Linear`` has it, [1, d]; array or tensor.
        bias: Bias of the layer, a number or one in an array.
        d: Number of columns of the vectors.

    Raises:
        InputError: Another number of weights; NaN, inf or values beyond 1e100 among them.
    """
    weights, biases = _numbers(weight, "weights"), _numbers(bias, "bias")
    if weights.shape not in ((d,), (1, d)):
        raise InputError(f"the head has weights of shape {weights.shape} for vectors of {d} numbers; give one a column")
    if biases.size != 1:
        raise InputError(f"the head has {biases.size} biases; give one number")
    for numbers, what in ((weights, "weights"), (biases, "bias")):
        bad = np.flatnonzero(~(np.abs(numbers.reshape(-1)) <= LARGEST))
        if len(bad):
            raise InputError(
                f"the head's {what} hold NaN, inf or values beyond {LARGEST:g}, at {name_rows(bad)}; train it again"
            )
    return Head(np.ascontiguousarray(weights.reshape(d)), float(biases.reshape(())))


def _numbers(values: Any, what: str) -> FloatArray:
    """Return an array or tensor in float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the head's {what} are not numbers; give an array or a tensor") from None


@dataclass(frozen=True, eq=False)
class Block:
    """Rows prepared for the search."""

    exact: FloatArray
    """Rows for the definition, [m, d]."""
    short: NDArray[np.int16]
    """Whole numbers q, [m, D], the columns that matter most first, zeros beyond the last."""
    own: NDArray[np.int32]
    """Sums of W q up to every stage, [m, S]."""
    rest: NDArray[np.int32]
    """Most that columns from a stage on may add to V, [m, S]: sum W (|q| + the largest |q|) of positive W."""
    slack: FloatArray
    """Rounding errors r of the rows, [m], in steps."""

    def part(self, first: int, last: int) -> "Block":
        """Quantize some of the rows."""
        rows = slice(first, last)
        return Block(self.exact[rows], self.short[rows], self.own[rows], self.rest[rows], self.slack[rows])


@dataclass(frozen=True, eq=False)
class Grid:
    """Mapping of vectors to whole numbers in one call."""

    head: Head
    step: float
    """Step of the logit."""
    order: NDArray[np.int64]
    """Columns with a weight that vary, [c], by weight times spread."""
    centre: FloatArray
    """Middles of the columns, [c]."""
    size: FloatArray
    """Absolute weights of the columns, [c]."""
    whole: NDArray[np.int16]
    """Whole weights W, [D], 0 beyond the last."""
    half: int
    """Largest whole number: all lie between -half and half."""
    widest: NDArray[np.int64]
    """Largest |q| of each column, [c]."""
    stages: NDArray[np.int64]
    """Numbers of columns after which a pair may be given up, [S]; the last is D."""

    def prepare(self, rows: Rows, first: int, last: int, workers: Team) -> Block:
        """Prepare the rows ``first`` to ``last``, some of them by each thread."""
        from memorisk.scores.pairs.kernels import round_rows

        m, width = last - first, len(self.whole)
        own, rest = np.zeros((2, m, len(self.stages)), np.int32)
        block = Block(np.empty((m, rows.d)), np.zeros((m, width), np.int16), own, rest, np.empty(m))
        step = max(1, min(256, -(-m // workers.threads)))

        def fill(start: int) -> None:
            """Fill one part of the rows."""
            part = block.part(start, min(start + step, m))
            part.exact[:] = rows.block(first + start, first + min(start + step, m))
            round_rows(
                part.exact, self.order, self.centre, self.size, self.whole, 1.0 / self.step, self.half, self.widest,
                self.stages, part.short, part.own, part.rest, part.slack,
            )  # fmt: skip

        workers.run(fill, range(0, m, step))
        return block


def find_grid(head: Head, tables: tuple[Rows, ...], workers: Team) -> Grid:
    """Find the ranges of the columns and the grid in one pass over all rows, which also checks them.

    Args:
        head: Linear layer of the detector.
        tables: Table u, or tables u and v.
        workers: Threads that read the tables.

    Raises:
        InputError: A row holds NaN, inf or values beyond 1e100.
    """
    low, high = np.full(len(head.weight), np.inf), np.full(len(head.weight), -np.inf)
    for rows in tables:
        for lowest, highest in _ranges(rows, workers):
            np.minimum(low, lowest, out=low)
            np.maximum(high, highest, out=high)
        if rows.n and not max(float(np.abs(low).max()), float(np.abs(high).max())) <= LARGEST:
            rows.check()
    size = np.abs(head.weight)
    wide = size * (high - low) if any(rows.n for rows in tables) else np.zeros(len(size))
    used = np.flatnonzero(wide > 0)
    used = used[np.argsort(-(size * _spread(tables))[used], kind="stable")]
    width = max(1, -(-len(used) // LANES)) * LANES
    whole, half = np.zeros(width, np.int16), int(min(2**15 - 1, max(ROOM // width, 1)))
    step = 1.0
    if len(used):
        share = wide[used] / wide[used].max()
        levels = next(
            number for number in (16, 8, 4, 2, 1) if number == 1 or _levels(share, number).sum() * half <= ROOM
        )
        whole[: len(used)] = _levels(share, levels) * np.sign(head.weight[used])
        step = max(float(wide.max()) / (2 * half * levels), SMALLEST_STEP)
    centre = low[used] / 2 + high[used] / 2
    far = np.maximum(high[used] - centre, centre - low[used]) * size[used] / (step * abs(whole[: len(used)]))
    widest = np.minimum(np.ceil(far * (1 + 1e-9) + 1.0), half).astype(np.int64)
    stages = np.unique(-(-width * np.array(STAGES) // LANES)).astype(np.int64) * LANES
    return Grid(head, step, used, centre, size[used], whole, half, widest, stages)


def _ranges(rows: Rows, workers: Team) -> FloatArray:
    """Return the least and the largest number of every column of each block of rows, [blocks, 2, d]."""
    step = rows_per_block(rows.d)
    ranges = np.empty((-(-rows.n // step), 2, rows.d))

    def look(number: int) -> None:
        """Find the ranges of one block."""
        x = rows.block(number * step, min((number + 1) * step, rows.n))
        x.min(axis=0, out=ranges[number, 0])
        x.max(axis=0, out=ranges[number, 1])

    workers.run(look, range(len(ranges)))
    return ranges


def _levels(share: FloatArray, number: int) -> FloatArray:
    """Choose whole numbers for columns, by their share of the widest, so that none needs more than its 16 bits."""
    return np.maximum(np.ceil(share * number * (1 - 2.0**-40)), 1.0)


def _spread(tables: tuple[Rows, ...]) -> FloatArray:
    """Compute the mean absolute deviation of every column over some rows: it decides an order, never a result."""
    total = np.zeros(tables[0].d)
    for rows in tables:
        if rows.n:
            x = rows.take(np.unique(np.linspace(0, rows.n - 1, SAMPLE).astype(np.int64)))
            total += np.abs(x - x.mean(axis=0)).mean(axis=0)
    return total
