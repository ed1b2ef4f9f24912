"""How many pairs lie at which distance, without holding the distances."""

import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.blocks import find_device, group_codes, open_tables, visit_tiles
from memorisk.scores.distances.bounds import arguments
from memorisk.scores.distances.fitted import FittedMeasure
from memorisk.scores.distances.neighbours import _count


def histogram(
    queries: Any,
    references: Any,
    measure: FittedMeasure,
    edges: ArrayLike,
    *,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> NDArray[np.int64]:
    """Pairs by distance, exact at the edges: ``numpy.histogram(pairwise(...), edges)[0]`` in little memory.

    Bins hold their lower edge, the last one its upper edge too. A pair whose approximate distance may lie on either
    side of an edge is evaluated by definition, by the CPU also where a GPU approximates.

    Args:
        queries: [n, d]; an array, a memory map or a tensor.
        references: [m, d].
        measure: From `fit_measure`.
        edges: [b + 1] increasing.
        exclude_same: Pair of [n] and [m] groups: pairs of the same group are left out.
        device: As for `nearest`.
        threads: Of the computation; None for NUMBA_NUM_THREADS, or the cores.
        block: As for `nearest`.

    Returns:
        [b] counts; pairs outside the edges are in none.

    Raises:
        InputError: Shapes, types or rows that the measure does not take; edges that do not increase; a device that is
            not there, or is without Triton where the measure needs it.
    """
    from memorisk.scores.distances.direct import scan_histogram

    bounds = np.array(edges, dtype=np.float64)
    if bounds.ndim != 1 or len(bounds) < 2 or not (np.diff(bounds) > 0).all():
        raise InputError("the edges of a histogram must increase; give at least two")
    threads, block = _count(threads), _count(block)
    where = find_device(device, queries, references)
    left, right = open_tables(queries, references, measure, where)
    mine, theirs = group_codes(exclude_same, left, right)
    if where is not None:
        from memorisk.scores.distances.gpu import count_pairs, open_search

        with open_search(left, right, measure, (mine, theirs), threads, block) as search:
            return count_pairs(search, bounds)
    total, lock = np.zeros(len(bounds), np.int64), threading.Lock()

    def visit(form, some, others, tile, betas, rows, columns) -> None:
        """Count the pairs of a tile."""
        counts = np.zeros(len(bounds), np.int64)
        scan_histogram(
            tile, betas, some.exact, others.exact, mine[rows], theirs[columns], bounds, counts, *arguments(form)
        )
        with lock:
            np.add(total, counts, out=total)

    visit_tiles(left, right, measure, visit, threads=threads, block=block)
    return total[:-1].copy()
