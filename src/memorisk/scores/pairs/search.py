"""Search over all pairs: each visited once, a tile at a time, with all queries answered in that one pass.

``evaluate`` fills a tile on the CPU; on a GPU another pass (`gpu.DevicePass`) fills and scans tiles of the same
whole numbers there, and gives the same answers. `survey` answers several queries in one pass. `above`, `top` and
`histogram` answer one each: pairs above a threshold, most similar rows, histograms. `score` and `rowwise` give
logits.
"""

import threading
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.neighbours import find_device, group_codes
from memorisk.scores.distances.rows import FloatArray, Rows, Team, rows_per_block, team
from memorisk.scores.pairs.quantization import Block, Grid, Head, check_head, find_grid
from memorisk.scores.pairs.queries import (
    Job,
    PairColumns,
    Pairs,
    Queries,
    Survey,
    Top,
    Work,
    check_job,
    check_queries,
    concatenate_pairs,
    most_similar,
    open_vectors,
)

Tile = NDArray[np.int32]
FIRST_NUMBERS = 1 << 22
"""Numbers of the first rows held at once: 32 MiB in float64 and 8 MiB rounded."""
TILE_ROWS = 128
SUM_COST = 48
"""Cost of ending a sum, in columns."""
ROWS_PER_LOCK = 1024
"""Number of rows whose most similar are guarded by one lock."""


def evaluate(grid: Grid, first: Block, second: Block, floors: tuple[Tile, Tile] | None, tile: Tile) -> int:
    """Fill a tile [m, n] with V of every pair, or of those only that may reach the floor of their row or column.

    For every tile the program chooses how many columns decide that: the number that is cheapest for a few of its pairs.

    Returns:
        Number of columns of pairs that were added up.
    """
    from memorisk.scores.pairs.kernels import shares_needed, signed_sums

    tables = first.short, second.short, first.own, second.own, first.rest, grid.whole, grid.stages
    stage, d = len(grid.stages) - 1, int(grid.stages[-1])
    if floors is None:
        floors = (np.empty(tile.shape[0], np.int32), np.empty(tile.shape[1], np.int32))
    elif stage:
        shares = np.empty(stage + 1)
        shares_needed(*tables, *floors, shares)
        cost = grid.stages + SUM_COST + shares * (d - grid.stages + SUM_COST)
        cost[stage] = d + SUM_COST
        stage = int(np.argmin(cost))
    used = int(grid.stages[stage])
    needed = signed_sums(*tables, stage, *floors, tile)
    return tile.size * used + needed * (d - used)


def survey(
    u: Any,
    v: Any,
    weight: Any,
    bias: Any,
    *,
    threshold: float | None = None,
    limit: int | None = 1_000_000,
    k: int | None = None,
    edges: ArrayLike | None = None,
    exclude_same: Any = None,
    job: Job | None = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> Survey:
    """Find pairs above a threshold, the most similar rows and a histogram in one pass over all pairs.

    Vectors are rounded to whole numbers, whose signed sums bound the logit (`quantization`); pairs whose bounds leave a
    question open are evaluated by definition in float64. Blocks, threads and the order of rows change no result.
    Memory is that of a few blocks and of the answer, whatever the number of rows.

    Args:
        u: Features of the first rows, [n, d]; an array, a memory map or a tensor, float16 to float64.
        v: Features of the second rows, [m, d]; None for all pairs of u with itself, each once (half the work).
        weight: Weights of the head, [d] or [1, d], of both signs.
        bias: Logit of a vector and itself.
        threshold: Least logit of the pairs that are listed; None for no list.
        limit: Length of the list; None for all. All pairs are counted.
        k: Number of most similar rows of v per row of u (of u, without itself, if v is None).
        edges: Edges of a histogram of the logits, [b + 1], increasing.
        exclude_same: Pair of [n] and [m] groups, or [n] groups if v is None: pairs of a group are left out.
        job: Part of the work (`jobs`); None for all. `merge` puts parts together.
        device: "cpu", "cuda", "cuda:1", ...; "auto" for the GPU that holds u or v as a tensor, else the CPU. The
            answers are the same, bit for bit.
        threads: Number of threads; None for NUMBA_NUM_THREADS, or the cores.
        block: Number of rows of a block; None for about 8 MiB, on a GPU for tiles of 1 GiB.

    Returns:
        Answers to the queries.

    Raises:
        InputError: Shapes, types, rows or numbers that the search does not take; no query; no such device.
    """
    place = find_device(device, u, v)
    request = check_queries(threshold, limit, k, edges, threads, block)
    u_rows, v_rows = open_vectors(u, v)
    head = check_head(weight, bias, u_rows.d)
    if v_rows is None and exclude_same is not None and not isinstance(exclude_same, tuple):
        exclude_same = (exclude_same, exclude_same)
    groups = group_codes(exclude_same, u_rows, v_rows or u_rows)
    part = check_job(job, u_rows.n)
    kind = Pass
    if place is not None:
        from memorisk.scores.pairs.gpu import DevicePass

        kind = partial(DevicePass, device=place)
    with team(threads) as workers:
        grid = find_grid(head, (u_rows,) if v_rows is None else (u_rows, v_rows), workers)
        return kind(u_rows, v_rows, head, grid, groups, request, part, workers, block).run()


@dataclass(eq=False)
class Pass:
    """One pass over the pairs of a job."""

    left: Rows
    right: Rows | None
    head: Head
    grid: Grid
    groups: tuple[Any, Any]
    query: Queries
    job: Job
    workers: Team
    block: int | None
    work: Work = field(default_factory=Work)
    lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        request, job = self.query, self.job
        rows = (self.left.n if self.right is None else job.last) - job.first
        if request.k:
            self.logits = np.full((rows, request.k), -np.inf)
            self.indices = np.full((rows, request.k), -1, np.int64)
            self.locks = [threading.Lock() for _ in range(rows // ROWS_PER_LOCK + 1)]
        if request.edges is not None:
            self.counts = np.zeros(len(request.edges), np.int64)
        self.count, self.listed, self.size = 0, [], 0
        self.wanted = np.inf if request.limit == 0 else request.threshold

    def run(self) -> Survey:
        """Search all tiles and return the answers."""
        right = self.right or self.left
        many = self.block or rows_per_block(self.left.d, FIRST_NUMBERS)
        few = self.block or rows_per_block(right.d)
        height = min(TILE_ROWS, many)
        room: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        size = height * min(few, max(right.n, 1))
        for _ in range(self.workers.threads):
            lists = (
                (np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))
                if self.query.threshold is not None
                else ()
            )
            room.put((np.empty(size, np.int32), *lists))
        for first in range(self.job.first, self.job.last, many):
            queries = self.grid.prepare(self.left, first, min(first + many, self.job.last), self.workers)
            for start in range(first if self.right is None else 0, right.n, few):
                others = self.grid.prepare(right, start, min(start + few, right.n), self.workers)

                def task(row: int, first=first, start=start, queries=queries, others=others) -> None:
                    """Search the pairs of some rows with the block."""
                    space = room.get()
                    try:
                        self._visit(queries.part(row, row + height), others, first + row, start, space)
                    finally:
                        room.put(space)

                self.workers.run(task, range(0, len(queries.slack), height))
        return self._answers()

    def _visit(self, some: Block, others: Block, first: int, start: int, space: tuple[Any, ...]) -> None:
        """Evaluate one tile and search it."""
        if self.right is None and start < first + 1:  # only rows that follow
            others, start = others.part(first + 1 - start, len(others.slack)), first + 1
        m, n = len(some.slack), len(others.slack)
        if not n:
            return
        tile = space[0][: m * n].reshape(m, n)
        columns = evaluate(self.grid, some, others, self._floors(some, others, first, start), tile)
        offset = -m if self.right is not None else first + 1 - start
        ids_u, ids_v = (
            codes[at : at + size] for codes, at, size in zip(self.groups, (first, start), (m, n), strict=True)
        )
        shared = (ids_u, ids_v, self.head.weight, self.head.bias, self.grid.step)
        evaluated = self._above(tile, some, others, first, start, offset, shared, space[1:])
        evaluated += self._top(tile, some, others, first, start, offset, shared)
        evaluated += self._histogram(tile, some, others, offset, shared)
        n_pairs = sum(n - min(max(0, i + offset), n) for i in range(m))
        with self.lock:
            self.work += Work(n_pairs, columns, evaluated)

    def _floors(self, some: Block, others: Block, first: int, start: int) -> tuple[Tile, Tile] | None:
        """Return the least V of every row and of every column that may matter; None where all do."""
        from memorisk.scores.pairs.scans import MOST, floors

        request, head, step, base = self.query, self.head, self.grid.step, self.job.first
        if request.edges is not None:
            return None
        rows, columns = np.full(len(some.slack), MOST, np.int32), np.full(len(others.slack), MOST, np.int32)
        if request.threshold is not None:
            least = np.full(len(rows), request.threshold)
            floors(least, some.slack, float(others.slack.max()), head.bias, step, rows)
        if request.k:
            worst = self.logits[first - base : first - base + len(rows), -1].copy()
            floors(worst, some.slack, float(others.slack.max()), head.bias, step, rows)
            if self.right is None:
                worst = self.logits[start - base : start - base + len(columns), -1].copy()
                floors(worst, others.slack, float(some.slack.max()), head.bias, step, columns)
        return rows, columns

    def _above(self, tile, some, others, first, start, offset, shared, space) -> int:
        """List pairs above the threshold, and return how many were evaluated by definition."""
        from memorisk.scores.pairs.scans import scan_above

        if self.query.threshold is None:
            return 0
        most = float(others.slack.max())
        count, n_listed, evaluated = scan_above(
            tile, some.exact, others.exact, some.slack, most, offset, *shared, self.query.threshold, self.wanted, *space
        )
        rows, columns, logits = (listed[:n_listed] for listed in space)
        self._list(PairColumns(rows + first, columns + start, logits.copy()), count)
        return evaluated

    def _list(self, pairs: PairColumns, count: int) -> None:
        """Take pairs into the list, which is cut at twice the length wanted, and count all that pass."""
        limit = self.query.limit
        with self.lock:
            self.count += count
            if len(pairs.logit):
                self.listed.append(pairs)
                self.size += len(pairs.logit)
            if limit and self.size > 2 * limit:
                self.listed = [most_similar(concatenate_pairs(self.listed), limit)]
                self.size, self.wanted = limit, float(self.listed[0].logit[-1])

    def _top(self, tile, some, others, first, start, offset, shared) -> int:
        """Enter most similar rows, and return how many pairs were evaluated by definition."""
        from memorisk.scores.pairs.scans import scan_columns, scan_rows

        if not self.query.k:
            return 0
        ids_u, ids_v, *head = shared
        evaluated, base = 0, self.job.first
        for low, high in self._locked(first, len(some.slack)):
            part, rows = slice(low - first, high - first), slice(low - base, high - base)
            with self.locks[(low - base) // ROWS_PER_LOCK]:
                evaluated += scan_rows(
                    tile[part], some.exact[part], others.exact, some.slack[part], float(others.slack.max()), start,
                    offset + low - first, ids_u[part], ids_v, *head, self.logits[rows], self.indices[rows],
                )  # fmt: skip
        for low, high in self._locked(start, len(others.slack)) if self.right is None else ():
            rows = slice(low - base, high - base)
            with self.locks[(low - base) // ROWS_PER_LOCK]:
                evaluated += scan_columns(
                    tile, some.exact, others.exact, float(some.slack.max()), others.slack, first, low - start,
                    high - start, offset, ids_u, ids_v, *head, self.logits[rows], self.indices[rows],
                )  # fmt: skip
        return evaluated

    def _locked(self, first: int, size: int):
        """Yield runs of rows under one lock."""
        low = first
        while low < first + size:
            high = min(first + size, self.job.first + ((low - self.job.first) // ROWS_PER_LOCK + 1) * ROWS_PER_LOCK)
            yield low, high
            low = high

    def _histogram(self, tile, some, others, offset, shared) -> int:
        """Count the tile's pairs by bin, and return how many were evaluated by definition."""
        from memorisk.scores.pairs.scans import scan_histogram

        if self.query.edges is None:
            return 0
        counts = np.zeros(len(self.query.edges), np.int64)
        slack = float(some.slack.max() + others.slack.max())
        evaluated = scan_histogram(tile, some.exact, others.exact, slack, offset, *shared, self.query.edges, counts)
        with self.lock:
            self.counts += counts
        return evaluated

    def _answers(self) -> Survey:
        """Return the answers to the queries."""
        pairs = top = counts = None
        if self.query.threshold is not None:
            listed = most_similar(concatenate_pairs(self.listed), self.query.limit)
            pairs = Pairs(*listed, count=self.count, limit=self.query.limit)
        if self.query.k:
            top = Top(self.indices, self.logits, self.job.first)
        if self.query.edges is not None:
            counts = self.counts[:-1].copy()
        return Survey(pairs, top, counts, self.work)


def score(u: Any, v: Any, weight: Any, bias: Any) -> FloatArray:
    """Compute logits of every row of u with every row of v, by definition in float64.

    Tests compare all other answers with ``bias + sum_k weight_k |u_k - v_k|``; for small blocks.

    Args:
        u: Features of the first rows, [n, d]; an array, a memory map or a tensor.
        v: Features of the second rows, [m, d]; None for u itself.
        weight: Weights of the head, [d] or [1, d], of both signs.
        bias: Logit of a vector and itself.

    Returns:
        Logits, [n, m] float64; exactly symmetric where v is u.

    Raises:
        InputError: Shapes, types, rows or weights that cannot be taken.
    """
    from memorisk.scores.pairs.scans import all_pairs

    u_rows, v_rows = open_vectors(u, v)
    head = check_head(weight, bias, u_rows.d)
    for rows in (u_rows, v_rows or u_rows):
        rows.check()
    x = u_rows.block(0, u_rows.n)
    y = x if v_rows is None else v_rows.block(0, v_rows.n)
    out = np.empty((len(x), len(y)))
    all_pairs(x, y, head.weight, head.bias, out)
    return out


def rowwise(u: Any, v: Any, weight: Any, bias: Any) -> FloatArray:
    """Compute the logit of each row of u with the same row of v: the diagonal of `score`.

    Args:
        u: Features of the first rows, [n, d]; an array, a memory map or a tensor.
        v: Features of the second rows, [n, d].
        weight: Weights of the head, [d] or [1, d], of both signs.
        bias: Logit of a vector and itself.

    Returns:
        Logit of each pair, [n] float64; ``rowwise(u, v)`` and ``rowwise(v, u)`` are the same to the bit.

    Raises:
        InputError: Shapes, types, rows or weights that cannot be taken.
    """
    from memorisk.scores.pairs.scans import row_pairs

    u_rows, v_rows = open_vectors(u, v)
    if v_rows is None or u_rows.n != v_rows.n:
        raise InputError("u and v have different numbers of rows; give as many, pair by pair")
    head = check_head(weight, bias, u_rows.d)
    for rows in (u_rows, v_rows):
        rows.check()
    out = np.empty(u_rows.n)
    step = rows_per_block(u_rows.d)
    for start in range(0, u_rows.n, step):
        stop = min(start + step, u_rows.n)
        x, y = (np.ascontiguousarray(rows.block(start, stop)) for rows in (u_rows, v_rows))
        row_pairs(x, y, head.weight, head.bias, out[start:stop])
    return out


def above(
    u: Any,
    v: Any,
    weight: Any,
    bias: Any,
    threshold: float,
    *,
    limit: int | None = 1_000_000,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> Pairs:
    """Find all pairs whose logit is at least a threshold; see `survey`.

    Returns:
        Pairs, the most similar ``limit`` of them, and how many there are.
    """
    survey_result = survey(
        u,
        v,
        weight,
        bias,
        threshold=threshold,
        limit=limit,
        exclude_same=exclude_same,
        device=device,
        threads=threads,
        block=block,
    )
    assert survey_result.pairs is not None
    return survey_result.pairs


def top(
    u: Any,
    v: Any,
    weight: Any,
    bias: Any,
    k: int = 1,
    *,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> Top:
    """Find the k most similar rows of v to every row of u (of u, without itself, where v is None); see `survey`."""
    survey_result = survey(
        u, v, weight, bias, k=k, exclude_same=exclude_same, device=device, threads=threads, block=block
    )
    assert survey_result.top is not None
    return survey_result.top


def histogram(
    u: Any,
    v: Any,
    weight: Any,
    bias: Any,
    edges: ArrayLike,
    *,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> NDArray[np.int64]:
    """Count pairs by logit, ``numpy.histogram(score(...), edges)[0]``, each pair once where v is None; see `survey`."""
    survey_result = survey(
        u, v, weight, bias, edges=edges, exclude_same=exclude_same, device=device, threads=threads, block=block
    )
    assert survey_result.counts is not None
    return survey_result.counts
