"""All distances of small blocks, by the definitions."""

from typing import Any, NamedTuple

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.scores.distances.fitted import FittedMeasure
from memorisk.scores.distances.rows import FloatArray, Rows, rows_per_block


class Definition(NamedTuple):
    """What `direct.direct` takes beside two rows."""

    code: int
    weights: FloatArray
    whitening: FloatArray
    p: float


def definition(measure: FittedMeasure) -> Definition:
    """A measure in the words of `direct.direct`."""
    from memorisk.scores.distances.direct import CODES

    weights, whitening = np.zeros(0), np.zeros((0, 0))
    if measure.variance is not None:
        weights = np.divide(1.0, measure.variance, out=np.zeros(measure.dimension), where=measure.variance > 0)
    if measure.whitening is not None:
        whitening = np.array(measure.whitening, order="C")
    return Definition(CODES[measure.name], weights, whitening, measure.p or 0.0)


def pairwise(queries: Any, references: Any, measure: FittedMeasure) -> FloatArray:
    """Distances of every query to every reference, by definition in float64.

    The form that `nearest` and `histogram` are held to; one thread, one pair at a time.

    Args:
        queries: [m, d]; an array, a memory map or a tensor.
        references: [n, d].
        measure: From `fit_measure`.

    Returns:
        [m, n] float64; ``registry.MEASURES[measure.name].formula``.

    Raises:
        InputError: Shapes, types or rows that the measure does not take.
    """
    from memorisk.scores.distances.direct import all_pairs

    left, right = Rows(queries, "queries"), Rows(references, "references")
    for rows in (left, right):
        measure.check_rows(rows)
    out = np.empty((left.n, right.n))
    x, y = measure.rows(left.block(0, left.n)), measure.rows(right.block(0, right.n))
    code, weights, whitening, p = definition(measure)
    all_pairs(code, np.ascontiguousarray(x), np.ascontiguousarray(y), weights, whitening, p, out)
    return out


def rowwise(first: Any, second: Any, measure: FittedMeasure) -> FloatArray:
    """Distance of each row to the row beside it, by definition in float64: the diagonal of `pairwise`.

    Args:
        first: [n, d]; an array, a memory map or a tensor.
        second: [n, d].
        measure: From `fit_measure`.

    Returns:
        [n] float64.

    Raises:
        InputError: Shapes, types or rows that the measure does not take.
    """
    from memorisk.scores.distances.direct import some_pairs

    left, right = Rows(first, "first rows"), Rows(second, "second rows")
    if left.n != right.n:
        raise InputError(f"{left.n:,} rows are compared with {right.n:,}; give as many, pair by pair")
    for rows in (left, right):
        measure.check_rows(rows)
    out = np.empty(left.n)
    step = rows_per_block(left.d)
    for start in range(0, left.n, step):
        stop = min(start + step, left.n)
        x, y = (np.ascontiguousarray(measure.rows(rows.block(start, stop))) for rows in (left, right))
        place = np.arange(stop - start)
        code, weights, whitening, p = definition(measure)
        some_pairs(code, x, y, place, place, weights, whitening, p, out[start:stop])
    return out
