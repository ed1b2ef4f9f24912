"""Which images lie in the balls about others: what precision, recall, density and coverage are counted from.

The ball about an image reaches to its k-th nearest neighbour in its own set, itself not counted, and is closed: an
exact copy of a neighbour is inside. Distances are compared by matrix products in float64, block by block, and every
pair within rounding of a ball's edge again by definition, so that ties are ties.

Intervals need the same counts from parts of both sets. All parts are counted in one pass over the pairs; the
neighbours within a part come from one list, or are looked for again where the list is too short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memorisk.scores.distances import fit_measure, nearest, rowwise
from memorisk.statistics.quality.figures import Codes, FloatArray

Mask = NDArray[np.bool_]
_AT_ONCE = 1 << 22  # pairs in a block: 32 MiB
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Part:
    """Some images of two sets."""

    centres: Codes
    """Rows of the set with the balls."""
    others: Codes
    """Rows of the other set."""


@dataclass(frozen=True)
class Held:
    """How two parts lie to each other."""

    others: float
    """Share of the others that any ball holds."""
    balls: float
    """Share of the balls that hold any of the others."""
    pairs: float
    """Mean number of balls that hold one of the others."""


def count_held(centres: FloatArray, others: FloatArray, k: int, parts: Sequence[Part]) -> list[Held]:
    """Count the images of a set in the balls of another, once for each part of both.

    Args:
        centres: [n, d] images with balls that reach to their k-th neighbour.
        others: [m, d] images that may lie in them.
        k: Neighbours.
        parts: Rows of both, more than k of the centres in each; balls are those of the part.
    """
    radii = ball_radii(centres, k, [part.centres for part in parts])
    pairs = _Pairs(centres, others)
    n_held, n_pairs = np.zeros(len(parts)), np.zeros(len(parts))
    holding = [np.zeros(len(part.centres), bool) for part in parts]
    step = max(1, _AT_ONCE // len(centres))
    for start in range(0, len(others), step):
        stop = min(start + step, len(others))
        squared = pairs.squared(start, stop)
        for p, part in enumerate(parts):
            rows = part.others[(part.others >= start) & (part.others < stop)]
            if len(rows):
                inside = pairs.within(squared[np.ix_(rows - start, part.centres)], rows, part.centres, radii[p])
                n_held[p] += inside.any(axis=1).sum()
                n_pairs[p] += inside.sum()
                holding[p] |= inside.any(axis=0)
    return [
        Held(n_held[p] / len(part.others), float(holding[p].mean()), n_pairs[p] / len(part.others))
        for p, part in enumerate(parts)
    ]


def ball_radii(values: FloatArray, k: int, parts: Sequence[Codes]) -> list[FloatArray]:
    """Distance of every image of a part to its k-th neighbour in that part, itself not counted.

    Args:
        values: [n, d] images of all parts.
        k: Neighbours.
        parts: Rows, more than k in each.
    """
    n, measure, everyone = len(values), fit_measure("euclidean", values), np.arange(len(values))
    asked = min(4 * k + 8, n - 1)
    found = nearest(values, values, measure, asked, exclude_same=(everyone, everyone), device="cpu")
    radii = []
    for rows in parts:
        member = np.zeros(n, bool)
        member[rows] = True
        counted = np.cumsum(member[found.indices[rows]], axis=1)
        place = np.minimum((counted < k).sum(axis=1), asked - 1)
        radius = found.distances[rows, place]
        short = np.flatnonzero(counted[:, -1] < k)
        if len(short):
            again = nearest(
                values[rows[short]], values[rows], measure, k, exclude_same=(rows[short], rows), device="cpu"
            )
            radius[short] = again.distances[:, k - 1]
        radii.append(radius)
    return radii


class _Pairs:
    """Squared distances of the images of two sets, by matrix products, and comparisons that stand at ties."""

    def __init__(self, centres: FloatArray, others: FloatArray) -> None:
        self.centres, self.others = centres, others
        self.measure = fit_measure("euclidean", centres)
        middle = centres.mean(axis=0)
        self.x, self.y = centres - middle, others - middle
        self.x2, self.y2 = np.square(self.x).sum(axis=1), np.square(self.y).sum(axis=1)

    def squared(self, start: int, stop: int) -> FloatArray:
        """[b, n] of a block of the others."""
        return self.y2[start:stop, None] + self.x2[None, :] - 2 * (self.y[start:stop] @ self.x.T)

    def within(self, squared: FloatArray, rows: Codes, columns: Codes, radius: FloatArray) -> Mask:
        """[b, c] whether others lie in the balls of some centres; pairs at the edge by definition."""
        edge, unsure = np.square(radius), _ROUNDING * (self.y2.max(initial=0.0) + self.x2[columns])
        inside = squared <= edge - unsure
        i, j = np.nonzero(inside != (squared <= edge + unsure))
        if len(i):
            distance = rowwise(self.centres[columns[j]], self.others[rows[i]], self.measure)
            inside[i, j] = distance <= radius[j]
        return inside
