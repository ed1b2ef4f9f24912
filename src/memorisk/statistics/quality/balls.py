"""Balls about images to their nearest neighbours, from which manifold figures are counted.

The ball about an image reaches to its k-th nearest neighbour in its own set, itself not counted, and is closed: an
exact copy of a neighbour is inside. Distances are compared by matrix products in float32, block by block, and every
pair within rounding of a ball's edge again by definition in float64, so that ties are ties.

Intervals need the same counts from parts of both sets. All parts are counted in one pass over the pairs; the
neighbours within a part come from one list, or a second search where the list is too short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memorisk.scores.distances import fit_measure, nearest, rowwise
from memorisk.scores.distances.bounds import gamma
from memorisk.statistics.quality.figures import (
    Codes,
    FloatArray,
)

Mask = NDArray[np.bool_]
_AT_ONCE = 1 << 22  # pairs in a block: 32 MiB


@dataclass(frozen=True, eq=False)
class ImageSubset:
    """Some images of each of two sets."""

    centres: Codes
    """Rows in the set with the balls."""
    others: Codes
    """Rows in the other set."""


@dataclass(frozen=True)
class BallCounts:
    """Counts of each part's images in the balls of the other."""

    others: float
    """Share of the others that any ball holds."""
    balls: float
    """Share of the balls that hold any of the others."""
    pairs: float
    """Mean number of balls that hold one of the others."""


def count_in_balls(centres: FloatArray, others: FloatArray, k: int, parts: Sequence[ImageSubset]) -> list[BallCounts]:
    """Count the images of a set in the balls of another, once for each part of both.

    Args:
        centres: Features of the images with balls that reach to their k-th neighbour, [n, d].
        others: Features of the images that may lie in them, [m, d].
        k: Number of the neighbour that a ball reaches to.
        parts: Rows of both, more than k of the centres in each; balls are those of the part.
    """
    radii = ball_radii(centres, k, [part.centres for part in parts])
    pairs = _Pairs(centres, others)
    everyone, n_held, n_pairs = np.arange(len(centres)), np.zeros(len(parts)), np.zeros(len(parts))
    holding = [np.zeros(len(part.centres), bool) for part in parts]
    step = max(1, _AT_ONCE // len(centres))
    for start in range(0, len(others), step):
        stop = min(start + step, len(others))
        squared = pairs.squared(start, stop)
        for p, part in enumerate(parts):
            rows = part.others[(part.others >= start) & (part.others < stop)]
            if len(rows):
                whole = len(rows) == len(squared) and np.array_equal(part.centres, everyone)
                squares = squared if whole else squared[np.ix_(rows - start, part.centres)]
                inside = pairs.within(squares, rows, part.centres, radii[p])
                n_held[p] += inside.any(axis=1).sum()
                n_pairs[p] += inside.sum()
                holding[p] |= inside.any(axis=0)
    return [
        BallCounts(n_held[p] / len(part.others), float(holding[p].mean()), n_pairs[p] / len(part.others))
        for p, part in enumerate(parts)
    ]


def ball_radii(values: FloatArray, k: int, parts: Sequence[Codes]) -> list[FloatArray]:
    """Compute the distance of every image of a part to its k-th neighbour in that part, itself not counted.

    Args:
        values: Features of the images of all parts, [n, d].
        k: Number of the neighbour.
        parts: Rows of each part, more than k in each.
    """
    n, measure, everyone = len(values), fit_measure("euclidean", values), np.arange(len(values))
    n_neighbours = k if all(len(rows) == n for rows in parts) else min(4 * k + 8, n - 1)
    neighbours = nearest(values, values, measure, n_neighbours, exclude_same=(everyone, everyone), device="cpu")
    radii = []
    for rows in parts:
        member = np.zeros(n, bool)
        member[rows] = True
        counted = np.cumsum(member[neighbours.indices[rows]], axis=1)
        place = np.minimum((counted < k).sum(axis=1), n_neighbours - 1)
        radius = neighbours.distances[rows, place]
        short = np.flatnonzero(counted[:, -1] < k)
        if len(short):
            again = nearest(
                values[rows[short]], values[rows], measure, k, exclude_same=(rows[short], rows), device="cpu"
            )
            radius[short] = again.distances[:, k - 1]
        radii.append(radius)
    return radii


class _Pairs:
    """Squared distances of the images of two sets, by matrix products, and comparisons that are exact at ties."""

    def __init__(self, centres: FloatArray, others: FloatArray) -> None:
        self.centres, self.others = centres, others
        self.measure = fit_measure("euclidean", centres)
        middle = centres.mean(axis=0)
        most = max(float(abs(values - middle).max(initial=0.0)) for values in (centres, others))
        self.scale = 2.0 ** -np.floor(np.log2(most)) if most > 0 else 1.0
        self.x, self.y = (((values - middle) * self.scale).astype(np.float32) for values in (centres, others))
        self.x2, self.y2 = (np.square(values, dtype=np.float64).sum(axis=1) for values in (self.x, self.y))
        # Off by at most gamma(d) (x^2 + y^2) for the product, 4 units for the rounding of both rows, 5 for the sums.
        self.rounding = gamma(centres.shape[1] + 16)

    def squared(self, start: int, stop: int) -> NDArray[np.float32]:
        """Compute squared distances of a block of the others, [b, n], of rows that are scaled."""
        values = self.y[start:stop] @ self.x.T
        values *= np.float32(-2.0)
        values += self.y2[start:stop, None].astype(np.float32)
        values += self.x2.astype(np.float32)
        return values

    def within(self, squared: NDArray[np.float32], rows: Codes, columns: Codes, radius: FloatArray) -> Mask:
        """Return whether others lie in the balls of some centres, [b, c]; pairs at the edge by definition."""
        edge, unsure = np.square(radius * self.scale), self.rounding * self.x2[columns] + 2.0**-100
        low, high = ((edge - unsure).astype(np.float32), (edge + unsure).astype(np.float32))
        own = (self.rounding * (1 + 2.0**-10) * self.y2[rows, None]).astype(np.float32)
        inside = squared + own <= np.nextafter(low, np.float32(-np.inf))
        i, j = np.nonzero(inside != (squared - own <= np.nextafter(high, np.float32(np.inf))))
        if len(i):
            distance = rowwise(self.centres[columns[j]], self.others[rows[i]], self.measure)
            inside[i, j] = distance <= radius[j]
        return inside
