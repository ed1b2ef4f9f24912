"""The nearest references of every query: exact, in blocks, with the distances of the definition."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.blocks import find_device, group_codes, open_tables, visit_tiles
from memorisk.scores.distances.bounds import arguments
from memorisk.scores.distances.fitted import FittedMeasure
from memorisk.scores.distances.rows import FloatArray


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest references of every query."""

    indices: NDArray[np.int64]
    """[n, k] rows of the references, nearest first, ties by the lower row; -1 where there are fewer than k."""
    distances: FloatArray
    """[n, k] as `pairwise` gives them; inf where there is no reference."""
    clipped: int = 0
    """Values of the queries below the references' minimum, with the domain "shift"."""


def nearest(
    queries: Any,
    references: Any,
    measure: FittedMeasure,
    k: int = 1,
    *,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> Neighbours:
    """The k nearest references of every query, the same as by sorting `pairwise`, ties by the lower row.

    Pairs are approximated in float32 with bounds on the error (``bounds``); those that may be among the nearest are
    evaluated by definition in float64. Blocks, threads and the order of rows change no distance. Memory is that of a
    few blocks, whatever the number of rows.

    Args:
        queries: [n, d]; an array, a memory map or a tensor.
        references: [m, d].
        measure: From `fit_measure`.
        k: Neighbours of each.
        exclude_same: Pair of [n] and [m] groups: references of the query's own group are left out.
        device: "cpu", "cuda", "cuda:1", ...; "auto" for the GPU that holds the queries or the references as a tensor,
            else the CPU. The result is the same, bit for bit.
        threads: Of the computation; None for NUMBA_NUM_THREADS, or the cores.
        block: Rows of a block; None for about 8 MiB, on a GPU for tiles of 1 GiB.

    Returns:
        Rows and distances, both [n, k].

    Raises:
        InputError: Shapes, types or rows that the measure does not take; a k below 1; groups that do not fit; a device
            that is not there, or is without Triton where the measure needs it.
    """
    from memorisk.scores.distances.direct import scan_nearest

    k, threads, block = _whole("k", k), _count(threads), _count(block)
    where = find_device(device, queries, references)
    left, right = open_tables(queries, references, measure, where)
    mine, theirs = group_codes(exclude_same, left, right)
    indices = np.full((left.n, k), -1, np.int64)
    distances = np.full((left.n, k), np.inf)
    if where is not None:
        from memorisk.scores.distances.gpu import open_search, search_nearest

        with open_search(left, right, measure, (mine, theirs), threads, block) as search:
            search_nearest(search, distances, indices)
        return Neighbours(indices, distances, measure.clipped(left))

    def visit(form, some, others, tile, betas, rows, columns) -> None:
        """Look through the pairs of a tile."""
        scan_nearest(
            tile, betas, some.exact, others.exact, columns.start, mine[rows], theirs[columns],
            distances[rows], indices[rows], *arguments(form),
        )  # fmt: skip

    visit_tiles(left, right, measure, visit, threads=threads, block=block)
    return Neighbours(indices, distances, measure.clipped(left))


def _whole(what: str, value: Any) -> int:
    """A whole number of at least 1."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"{what} is {value!r}; give a whole number, at least 1")
    return number


def _count(value: int | None) -> int | None:
    """A number of rows or threads, or None."""
    return None if value is None else _whole("a number of rows or threads", value)
