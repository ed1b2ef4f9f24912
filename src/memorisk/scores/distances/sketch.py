"""Lower bounds of Euclidean distances from a few directions: most pairs need no product over all columns.

The sketch of a row x is phi(x) = (P'x, |x - P P'x|), with P [d, c] the leading principal directions of some references
(a range finder, Halko, Martinsson and Tropp 2011, algorithm 4.4). For P of orthonormal columns |phi(x) - phi(y)| is at
most |x - y|, by Pythagoras and the triangle inequality of what is left, whatever the directions are: they decide how
many pairs are left out, never which neighbours are found.

Rounding: with v = 2^-53, a computed P'x is off by at most 8 (d + 64) v |x| and the squares of what is left by at most
e |x|^2, e = 64 (d + 64) v, so that its root is off by at most e^(1/2) |x|; float32 then takes 2^-24 of each number.
`drift` is their sum. Sketches are rows of c + 1 columns to which the bound of the family "product" (`bounds`) applies,
with `drift` times the norm added to the slack of each row.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memorisk.scores.distances.rows import FloatArray, Rows

if TYPE_CHECKING:
    from memorisk.scores.distances.bounds import Form

DIRECTIONS = 32
"""Columns of P."""
SAMPLE = 128
"""References that the directions are found from."""
FEWEST_COLUMNS = 4 * DIRECTIONS
"""A row of fewer columns is as quickly multiplied whole."""
FEWEST_REFERENCES = 16
"""References a neighbour below which too many of them are kept."""
COST = 6 * DIRECTIONS
"""Pairs a row, queries and references counted alike, below which sketches cost more than they save."""
MOST_KEPT = 0.125
"""Share of the pairs kept above which the product over all columns is quicker."""
NO_DIRECTIONS = np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class Sketch:
    """Sketches of the rows of a block."""

    short: NDArray[np.float32]
    """[m, c + 1] phi of each row, rounded."""
    own: NDArray[np.float32]
    """[m] squared norms."""
    slack: FloatArray
    """[m] distance of each from phi of the definition's row."""

    def part(self, first: int, last: int) -> "Sketch":
        """Return some of the rows."""
        return Sketch(self.short[first:last], self.own[first:last], self.slack[first:last])


def empty_sketch(size: int, directions: FloatArray) -> Sketch | None:
    """Room for the sketches of a block, or None where there are no directions."""
    if not directions.size:
        return None
    short = np.empty((size, directions.shape[1] + 1), np.float32)
    return Sketch(short, np.empty(size, np.float32), np.empty(size))


def find_directions(form: "Form", references: Rows, queries: int, k: int) -> FloatArray:
    """Leading principal directions of at most ``SAMPLE`` references, [d, c]; empty where they would not pay.

    Args:
        form: Of the family "product".
        references: Checked.
        queries: How many rows are searched.
        k: Neighbours of each.
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
    error = np.linalg.norm(basis.T @ basis - np.eye(basis.shape[1]))
    return np.ascontiguousarray(basis) if error < 2.0**-45 else NO_DIRECTIONS


def drift(d: int) -> float:
    """Bound the distance of a sketch in float32 from that of the same row in exact arithmetic, a share of its norm."""
    return (64 * (d + 64) * 2.0**-53) ** 0.5 + 2.0**-22


def sketch_rows(directions: FloatArray, short: NDArray[np.float32], slack: FloatArray, out: Sketch) -> None:
    """Fill the sketches of some rows.

    Args:
        directions: [d, c].
        short: [m, d] rows in float32.
        slack: [m] distances of these from the rows of the definition.
        out: [m] of them, written.
    """
    rows = short.astype(np.float64)
    along = rows @ directions
    squares = np.einsum("ij,ij->i", rows, rows)
    out.short[:, :-1] = along
    out.short[:, -1] = np.sqrt(np.maximum(squares - np.einsum("ij,ij->i", along, along), 0.0))
    rounded = out.short.astype(np.float64)
    out.own[:] = np.einsum("ij,ij->i", rounded, rounded)
    out.slack[:] = slack + drift(len(directions)) * np.sqrt(squares)
