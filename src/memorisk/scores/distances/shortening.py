"""Rows rounded to float32, with what the rounding took from each, measured."""

from typing import TYPE_CHECKING, Any

import numpy as np

from memorisk.scores.distances.compiling import compiled
from memorisk.scores.distances.rows import FloatArray, library

if TYPE_CHECKING:
    from memorisk.scores.distances.bounds import Block

SMALLEST = 1e-30
"""Smaller numbers count as 0 in Canberra's shares: each may be off by 1."""
NORMS = {"product": 2, "sum": 1, "ratio": 1, "share": 3, "entropy": 4, "none": 0}


@compiled()
def _shorten(x, centre, scale, norm, limit, short, own, slack):
    """Round ``scale (x - centre)``; ``own`` and ``slack`` by ``norm``: 1 sums, 2 squares, 3 counts, 4 entropies."""
    centred = len(centre) > 0
    for i in range(len(x)):
        lost, size, entropy, far = 0.0, 0.0, 0.0, False
        for t in range(x.shape[1]):
            value = (x[i, t] - centre[t] if centred else x[i, t]) * scale
            far = far or not abs(value) <= limit
            near = np.float32(value) if abs(value) <= limit else np.float32(0)
            if norm == 3 and abs(value) < SMALLEST:
                near = np.float32(0)
            short[i, t] = near
            off = abs(value - near)
            if norm == 2:
                lost += off * off
                size += np.float64(near) * near
            elif norm == 3:
                if off > 0:
                    lost += 2.0**-24 if near != 0 else 1.0
            elif norm == 4:
                entropy += value * np.log(2.0 * value) if value > 0 else 0.0
                lost += max(1.0 - 2.0 * value, 0.0)
            else:
                lost += off
                size += abs(value)
        if norm == 2:
            lost = np.sqrt(lost) + 2.0**-50 * np.sqrt(size)
        elif norm == 1 and centred:
            lost += 2.0**-50 * size
        elif norm == 4:
            lost += max(entropy, 0.0)
        slack[i] = np.inf if far else lost
        own[i] = entropy if norm == 4 else size


def shorten(x: FloatArray, centre: FloatArray, scale: float, family: str, root: float, out: "Block") -> None:
    """Fill the float32 parts of a block.

    Args:
        x: [m, d] contiguous.
        centre: [d] or empty.
        scale: Multiplies what is left.
        family: The form's: decides the norm of ``out.slack`` and what ``out.own`` is.
        root: The form's: values whose powers would leave float32 are left out, and their rows marked.
        out: Its ``short``, ``own`` and ``slack`` are written.
    """
    _shorten(x, centre, scale, NORMS[family], largest(x.shape[1], root), out.short, out.own, out.slack)
    if family == "ratio":
        out.slack[:] = relative(out.slack, out.own.astype(np.float64))


def largest(d: int, root: float) -> float:
    """The largest number whose power, added ``d`` times, stays in float32."""
    return 1e18 if root == 1 else 0.5 * (1e36 / d) ** (1 / root)


def relative(slack: Any, own: Any) -> Any:
    """Slacks as shares of the rows' sums; 0 for zero rows, infinite where the sum is too small to tell."""
    xp = library(slack)
    known, zero = (own > 1e-24) & xp.isfinite(slack), (slack == 0) & (own == 0)
    return xp.where(zero, 0.0, xp.where(known, slack / xp.where(known, own, 1.0), np.inf))
