"""The nearest references of every query, and histograms of distances: exact, in blocks, by the definition.

Every pair of a query and a reference is visited once, a tile at a time; `evaluate` is the one place that chooses
the evaluator of a whole tile. `nearest` finds neighbours. `histogram` counts the pairs at each distance without
holding the distances.
"""

import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, one_line
from memorisk.scores.distances.bounds import Block, Form, find_form, kernel_arguments
from memorisk.scores.distances.measures import FittedMeasure
from memorisk.scores.distances.rows import FloatArray, Rows, rows_per_block, team
from memorisk.scores.distances.sketch import MOST_KEPT

Ids = NDArray[np.int64]
Visit = Callable[[Form, Block, Block, NDArray[np.float32], np.ndarray, slice, slice], None]
"""Function of form, queries, references, room for a tile [m, n], betas [m] and the tables' rows of both."""
QUERIES = 1 << 22
"""Numbers of the queries held at once: 32 MiB in float64."""
TILE_ROWS = 128
"""Number of queries in a tile."""


def evaluate(form: Form, queries: Block, references: Block, tile: NDArray[np.float32]) -> None:
    """Fill a tile [m, n] with values that ``form`` bounds; `gpu.evaluate` does so on a GPU."""
    from memorisk.scores.distances import kernels

    name, x, y = form.measure.name, queries.short, references.short
    if form.family == "none":
        tile[:] = 0
    elif form.family == "product":
        np.matmul(x, y.T, out=tile)
        kernels.squares_from_products(queries.own, references.own, tile)
        if name == "dice":
            kernels.shares_from(queries.own, references.own, False, tile)
    elif form.family == "entropy":
        kernels.entropies(x, y, queries.own, references.own, tile)
    elif form.family == "share":
        kernels.shares(x, y, tile)
    elif form.family == "ratio" and form.measure.domain == "signed":
        kernels.shares_of_sums(x, y, tile)
    elif name == "chebyshev":
        kernels.largest(x, y, tile)
    elif name == "minkowski" and form.root > 1:
        if form.root == 3:
            kernels.cubes(x, y, tile)
        else:
            kernels.powers(x, y, int(form.root), tile)
    else:
        kernels.absolute_sums(x, y, tile)
        if form.family == "ratio":
            kernels.shares_from(queries.own, references.own, True, tile)


def visit_tiles(
    left: Rows,
    right: Rows,
    measure: FittedMeasure,
    visit: Visit,
    *,
    threads: int | None,
    block: int | None,
    k: int | None = None,
) -> None:
    """Call ``visit`` on every tile; tiles of the same query never at once, references in ascending order.

    Args:
        left: Queries, checked.
        right: References, checked.
        measure: Measure from `fit_measure`.
        visit: Function called on each tile, see `Visit`.
        threads: Number of threads; None for NUMBA_NUM_THREADS, or the cores.
        block: Number of rows of a block; None for as many as fit the memory.
        k: Number of neighbours wanted per query: blocks then have sketches where these save time.
    """
    with team(threads) as workers:
        form = find_form(measure, right, left.exact and right.exact)
        form = form if k is None else form.with_sketches(right, left.n, k)
        few = block or rows_per_block(right.d)
        many = block or rows_per_block(left.d, QUERIES)
        height = min(TILE_ROWS, many)
        tiles: SimpleQueue[NDArray[np.float32]] = SimpleQueue()
        for _ in range(workers.threads):
            tiles.put(np.empty((height, min(few, right.n)), np.float32))
        for first in range(0, left.n, many):
            queries = form.prepare(left, first, min(first + many, left.n), workers)
            for start in range(0, right.n, few):
                end = min(start + few, right.n)
                references = form.prepare(right, start, end, workers)
                betas = form.betas(queries, references)

                def task(
                    row: int, first=first, start=start, end=end, queries=queries, references=references, betas=betas
                ) -> None:
                    last = min(row + height, len(betas))
                    tile = tiles.get()
                    try:
                        some = queries.part(row, last)
                        values = tile.reshape(-1)[: (last - row) * (end - start)].reshape(last - row, end - start)
                        query_rows = slice(first + row, first + last)
                        visit(form, some, references, values, betas[row:last], query_rows, slice(start, end))
                    finally:
                        tiles.put(tile)

                workers.run(task, range(0, len(betas), height))


def group_codes(exclude_same: Any, left: Rows, right: Rows) -> tuple[Ids, Ids]:
    """Return groups of queries and references as numbers, the same for the same group; empty without groups.

    Raises:
        InputError: The groups are not one per row.
    """
    if exclude_same is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if not isinstance(exclude_same, tuple | list) or len(exclude_same) != 2:
        raise InputError("exclude_same is not a pair; give (groups of the queries, groups of the references)")
    groups = [np.asarray(ids) for ids in exclude_same]
    for ids, rows in zip(groups, (left, right), strict=True):
        if ids.shape != (rows.n,):
            raise InputError(
                f"exclude_same has {one_line(ids.shape, 40)} groups for {rows.n} {rows.what}; give one a row"
            )
    kinds = {ids.dtype.kind for ids in groups}
    if len(kinds & {"U", "S", "O"}) and len(kinds) > 1:
        raise InputError("exclude_same holds text for one side and numbers for the other, so that none would agree")
    codes = np.unique(np.concatenate(groups), return_inverse=True)[1].reshape(-1).astype(np.int64)
    return codes[: left.n].copy(), codes[left.n :].copy()


def find_device(device: str, queries: Any, references: Any) -> Any:
    """Return the GPU to search on, a ``torch.device``; None for the CPU.

    Args:
        device: "cpu", "cuda", "cuda:1", ...; "auto" for that of a table that is a tensor on a GPU, else the CPU.
        queries: Table of queries.
        references: Table of references.

    Raises:
        InputError: The device is unknown or not available.
    """
    if device == "auto":
        places = (getattr(table, "device", None) for table in (references, queries))
        device = next((str(place) for place in places if getattr(place, "type", None) == "cuda"), "cpu")
    if device == "cpu":
        return None
    from memorisk.runs.environment import check_device

    chosen = check_device(device)
    return chosen if chosen.type == "cuda" else None


def open_tables(queries: Any, references: Any, measure: FittedMeasure, device: Any = None) -> tuple[Any, Any]:
    """Open both tables and check them; where a GPU is named, read them onto it (`gpu.DeviceRows`).

    Raises:
        InputError: The measure does not take one of them, or the references are empty.
    """
    if device is None:
        query_rows, reference_rows = Rows(queries, "queries"), Rows(references, "references")
    else:
        from memorisk.scores.distances.gpu import DeviceRows

        query_rows, reference_rows = (
            DeviceRows(queries, "queries", device),
            DeviceRows(references, "references", device),
        )
    for rows in (query_rows, reference_rows):
        measure.check_rows(rows)
    if not reference_rows.n:
        raise InputError("the references are empty")
    return query_rows, reference_rows


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Nearest references of every query, with their distances."""

    indices: NDArray[np.int64]
    """Rows of the references, [n, k], nearest first, ties by the lower row; -1 where there are fewer than k."""
    distances: FloatArray
    """Distances as `pairwise` gives them, [n, k]; inf where a reference is missing."""
    clipped: int = 0
    """Number of values of the queries below the references' minimum, with the domain "shift"."""


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
    """Find the k nearest references of every query, the same as by sorting `pairwise`, ties by the lower row.

    Pairs are approximated in float32 with bounds on the error (``bounds``), Euclidean ones and cosines from sketches
    first (``sketch``); the program evaluates those that may be among the nearest by definition in float64. Blocks,
    threads
    and the order of rows change no distance. Memory is that of a few blocks, whatever the number of rows.

    Args:
        queries: Vectors of the queries, [n, d]; an array, a memory map or a tensor.
        references: Vectors of the references, [m, d].
        measure: Measure from `fit_measure`.
        k: Number of neighbours per query.
        exclude_same: Pair of [n] and [m] groups: references of the query's own group are left out.
        device: "cpu", "cuda", "cuda:1", ...; "auto" for the GPU that holds the queries or the references as a tensor,
            else the CPU. The result is the same, bit for bit.
        threads: Number of threads; None for NUMBA_NUM_THREADS, or the cores.
        block: Number of rows of a block; None for about 8 MiB, on a GPU for tiles of 1 GiB.

    Returns:
        Rows and distances, both [n, k].

    Raises:
        InputError: Shapes, types or rows that the measure does not take; a k below 1; groups that do not fit; a device
            that is not available, or is without Triton where the measure needs it.
    """
    from memorisk.scores.distances.definitions import evaluate_near, scan_nearest
    from memorisk.scores.distances.kernels import squares_from_products

    k, threads, block = _whole("k", k), _count(threads), _count(block)
    where = find_device(device, queries, references)
    query_rows, reference_rows = open_tables(queries, references, measure, where)
    query_ids, reference_ids = group_codes(exclude_same, query_rows, reference_rows)
    indices = np.full((query_rows.n, k), -1, np.int64)
    distances = np.full((query_rows.n, k), np.inf)
    if where is not None:
        from memorisk.scores.distances.gpu import open_search, search_nearest

        with open_search(query_rows, reference_rows, measure, (query_ids, reference_ids), threads, block) as search:
            search_nearest(search, distances, indices)
        return Neighbours(indices, distances, measure.clipped(query_rows))

    n_evaluated = n_pairs = 0

    def visit(form, some, others, tile, betas, rows, columns) -> None:
        """Look through the pairs of a tile."""
        nonlocal n_evaluated, n_pairs
        limits, ids = np.full(len(tile), np.inf, np.float32), (query_ids[rows], reference_ids[columns])
        if some.sketch is None or n_evaluated > MOST_KEPT * n_pairs:
            evaluate(form, some, others, tile)
        else:
            lower_rho, lower_betas, slacks = form.sketch_bounds(some.sketch, others.sketch)
            np.matmul(some.sketch.short, others.sketch.short.T, out=tile)
            squares_from_products(some.sketch.own, others.sketch.own, tile)
            n_evaluated += evaluate_near(
                tile, some.short, others.short, some.own, others.own, betas, lower_betas, slacks, distances[rows], *ids,
                form.multiplier, form.power, form.rho, lower_rho, limits,
            )  # fmt: skip
            n_pairs += tile.size
        scan_nearest(
            tile, betas, limits, some.exact, others.exact, columns.start, *ids, distances[rows], indices[rows],
            *kernel_arguments(form),
        )  # fmt: skip

    visit_tiles(query_rows, reference_rows, measure, visit, threads=threads, block=block, k=k)
    return Neighbours(indices, distances, measure.clipped(query_rows))


def _whole(what: str, value: Any) -> int:
    """Return a whole number of at least 1, or refuse it."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"{what} is {value!r}; give a whole number, at least 1")
    return number


def _count(value: int | None) -> int | None:
    """Return a number of rows or threads, or None."""
    return None if value is None else _whole("a number of rows or threads", value)


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
    """Count pairs by distance, exact at the edges: ``numpy.histogram(pairwise(...), edges)[0]`` in little memory.

    Bins hold their lower edge, the last one its upper edge too. A pair whose approximate distance may lie on either
    side of an edge is evaluated by definition on the CPU, also where a GPU approximates.

    Args:
        queries: Vectors of the queries, [n, d]; an array, a memory map or a tensor.
        references: Vectors of the references, [m, d].
        measure: Measure from `fit_measure`.
        edges: Edges of the bins, [b + 1], increasing.
        exclude_same: Pair of [n] and [m] groups: pairs of the same group are left out.
        device: Device that searches, as for `nearest`.
        threads: Number of threads; None for NUMBA_NUM_THREADS, or the cores.
        block: Number of rows of a block, as for `nearest`.

    Returns:
        Number of pairs in each bin, [b]; pairs outside the edges are in none.

    Raises:
        InputError: Shapes, types or rows that the measure does not take; edges that do not increase; a device that is
            not available, or is without Triton where the measure needs it.
    """
    from memorisk.scores.distances.definitions import scan_histogram

    bounds = np.array(edges, dtype=np.float64)
    if bounds.ndim != 1 or len(bounds) < 2 or not (np.diff(bounds) > 0).all():
        raise InputError("the edges of a histogram must increase; give at least two")
    threads, block = _count(threads), _count(block)
    where = find_device(device, queries, references)
    query_rows, reference_rows = open_tables(queries, references, measure, where)
    query_ids, reference_ids = group_codes(exclude_same, query_rows, reference_rows)
    if where is not None:
        from memorisk.scores.distances.gpu import count_pairs, open_search

        with open_search(query_rows, reference_rows, measure, (query_ids, reference_ids), threads, block) as search:
            return count_pairs(search, bounds)
    total, lock = np.zeros(len(bounds), np.int64), threading.Lock()

    def visit(form, some, others, tile, betas, rows, columns) -> None:
        """Count the pairs of a tile."""
        counts = np.zeros(len(bounds), np.int64)
        evaluate(form, some, others, tile)
        scan_histogram(
            tile,
            betas,
            some.exact,
            others.exact,
            query_ids[rows],
            reference_ids[columns],
            bounds,
            counts,
            *kernel_arguments(form),
        )
        with lock:
            np.add(total, counts, out=total)

    visit_tiles(query_rows, reference_rows, measure, visit, threads=threads, block=block)
    return total[:-1].copy()
