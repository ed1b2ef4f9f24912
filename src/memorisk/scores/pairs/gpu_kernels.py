"""Signed sums of whole numbers by Triton: `kernels.signed_sums` on a GPU, the same numbers.

Rows come transposed, [D, m] and [D, n], as float32 that hold whole numbers, ``|W| q`` of `grid`; columns with a
positive W first, then those with a negative one, both padded with columns of zeros, rows with zeros. A program takes
128 x 128 pairs, a thread 8 x 8 of them in registers (as `distances.gpu_kernels`). A subtraction and the addition of its
absolute value are two instructions a column; sums of ``CHUNK`` columns are exact in float32, since no term is larger
than 16 x 65,534, and go to 32 whole bits. Import this module where it is used.
"""

from typing import Any

import triton
import triton.language as tl

from memorisk.scores.distances.gpu_kernels import EACH, PAIRS, SIDE

CHUNK = 16
"""Columns added up in float32, to multiples of which both kinds of columns are padded."""


@triton.jit
def _apart(left, right, step, n, CHUNK: tl.constexpr, EACH: tl.constexpr, SIDE: tl.constexpr):
    """Add up the differences of some columns, exactly."""
    total = tl.full((EACH, EACH, SIDE, SIDE), 0.0, tl.float32)
    for u in tl.static_range(CHUNK):  # pyright: ignore[reportGeneralTypeIssues]
        a = tl.load(left + u * step)[:, None, :, None]
        b = tl.load(right + u * n)[None, :, None, :]
        total += tl.abs(a - b)
    return total.to(tl.int32)


@triton.jit
def _signed_sums(x, y, tile, more, less, step, n, wide, CHUNK: tl.constexpr, EACH: tl.constexpr, SIDE: tl.constexpr):
    """Compute one program's pairs of ``tile``: ``more`` chunks are added, then ``less`` subtracted."""
    place = tl.arange(0, EACH)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    rows = tl.program_id(1) * EACH * SIDE + place
    columns = tl.program_id(0) * EACH * SIDE + place
    total = tl.full((EACH, EACH, SIDE, SIDE), 0, tl.int32)
    x_at, y_at = x + rows, y + columns
    for _ in range(0, more):
        total += _apart(x_at, y_at, step, n, CHUNK, EACH, SIDE)
        x_at += CHUNK * step
        y_at += CHUNK * n
    for _ in range(0, less):
        total -= _apart(x_at, y_at, step, n, CHUNK, EACH, SIDE)
        x_at += CHUNK * step
        y_at += CHUNK * n
    where = rows[:, None, :, None].to(tl.int64) * wide + columns[None, :, None, :]
    tl.store(tile + where, total)


def signed_sums(x: Any, y: Any, more: int, tile: Any) -> None:
    """Compute ``V = sum W |q(x) - q(y)|`` of every pair.

    Args:
        x: First rows, [D, m] float32 on a device; m a multiple of ``PAIRS``, D of ``CHUNK``; rows of contiguous
            numbers.
        y: Second rows, [D, n], with the same conditions.
        more: Number of columns with a positive W, a multiple of ``CHUNK``; they come first.
        tile: Sums V of the pairs, [m, n] int32, contiguous, filled.
    """
    (m, n), chunks = tile.shape, len(x) // CHUNK
    kernel: Any = _signed_sums
    kernel[n // PAIRS, m // PAIRS](
        x, y, tile, more // CHUNK, chunks - more // CHUNK, x.stride(0), y.stride(0), n,
        CHUNK=CHUNK, EACH=EACH, SIDE=SIDE, num_warps=SIDE * SIDE // 32, enable_fp_fusion=False,
    )  # fmt: skip
