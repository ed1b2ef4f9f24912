"""Lower bounds of Euclidean distances from a few directions: most pairs need no product over all columns.

The sketch of a row x is P'x, with P [d, c] leading principal directions of some references (a range finder, Halko,
Martinsson and Tropp 2011, algorithm 4.4). No direction is longer than 1 and none is counted twice, |P'z| <= |z| for all
z, so that sketches are at most as far apart as their rows, whatever the directions are. The directions decide how many
pairs are left out, never which neighbours are found.

A sketch is computed in float32. It is off by at most gamma(d) c^(1/2) |x| in any order of addition (`bounds`), and by
what the row itself lost when it was rounded: ``slack``. With s the slacks of both rows, two rows of key K have sketches
of squared distance at most (K^(1/2) + s)^2.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memorisk.scores.distances.rows import FloatArray, Rows

if TYPE_CHECKING:
    from memorisk.scores.distances.bounds import Form

DIRECTIONS = 32
"""Number of columns of P."""
SAMPLE = 128
"""Number of references from which the directions are computed."""
FEWEST_COLUMNS = 4 * DIRECTIONS
"""Number of columns below which multiplying whole rows is as quick."""
FEWEST_REFERENCES = 16
"""Number of references per neighbour below which too many of them are kept."""
COST = 6 * DIRECTIONS
"""Number of pairs per row, queries and references counted alike, below which sketches cost more than they save."""
MOST_KEPT = 0.125
"""Share of the pairs kept above which the product over all columns is quicker."""
SHRINKAGE = 2.0**-18
"""Share taken from the length of each direction: more than what rounding them to float32 can add."""
NO_DIRECTIONS = np.empty((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Sketches of the rows of a block."""

    short: NDArray[np.float32]
    """Sketch P'x of each row, [m, c]."""
    own: NDArray[np.float32]
    """Squared norms of the sketches, [m]."""
    slack: FloatArray
    """Distance of each from the sketch of the definition's row in exact arithmetic, [m]."""

    def part(self, first: int, last: int) -> "Sketch":
        """Return some of the rows."""
        return Sketch(self.short[first:last], self.own[first:last], self.slack[first:last])


def empty_sketch(size: int, directions: NDArray[np.float32]) -> Sketch | None:
    """Allocate room for the sketches of a block, or return None without directions."""
    if not directions.size:
        return None
    short = np.empty((size, directions.shape[1]), np.float32)
    return Sketch(short, np.empty(size, np.float32), np.empty(size))


def find_directions(form: "Form", references: Rows, queries: int, k: int) -> NDArray[np.float32]:
    """Find the leading principal directions of at most ``SAMPLE`` references, [d, c]; empty if they save no time.

    Args:
        form: Form of the family "product".
        references: Table of references, checked.
        queries: Number of rows whose neighbours are searched.
        k: Number of neighbours per row.
    """
    n, d = references.n, form.measure.dimension
    if d < FEWEST_COLUMNS or queries * n < COST * (queries + n) or n < FEWEST_REFERENCES * k:
        return NO_DIRECTIONS
    rows = np.unique(np.linspace(0, n - 1, SAMPLE).round().astype(np.int64))
    sample, _ = form.moved(form.measure.rows(references.take(rows)))
    sample = sample * form.scale
    if not np.isfinite(sample).all() or abs(sample).max() > 1e18:
        return NO_DIRECTIONS
    sample = sample.astype(np.float32)
    basis = sample.T @ np.random.default_rng(0).normal(size=(len(sample), DIRECTIONS)).astype(np.float32)
    basis, _ = np.linalg.qr((sample.T @ (sample @ basis)).astype(np.float64))
    directions = ((1.0 - SHRINKAGE) * basis).astype(np.float32)
    wide = directions.astype(np.float64)
    excess = np.linalg.norm(wide.T @ wide - (1.0 - SHRINKAGE) ** 2 * np.eye(wide.shape[1]))
    return directions if excess < SHRINKAGE else NO_DIRECTIONS


def sketch_rows(
    directions: NDArray[np.float32],
    short: NDArray[np.float32],
    own: NDArray[np.float32],
    slack: FloatArray,
    out: Sketch,
) -> None:
    """Fill the sketches of some rows.

    Args:
        directions: Directions of the sketches, [d, c].
        short: Rows in float32, [m, d].
        own: Squared norms of the rows, [m].
        slack: Distances of these from the rows of the definition, [m].
        out: Sketches of the m rows, written.
    """
    from memorisk.scores.distances.bounds import UNIT

    d, c = directions.shape
    np.matmul(short, directions, out=out.short)
    out.own[:] = np.square(out.short, dtype=np.float64).sum(axis=1)
    # gamma(d), with room for the rounding of the norm
    out.slack[:] = slack + (d + 8) * UNIT / (1 - (d + 8) * UNIT) * (1 + 2.0**-10) * np.sqrt(c * own.astype(np.float64))
