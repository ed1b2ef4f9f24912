"""All pairs once, a tile at a time, and all that is asked of them in that one pass.

``evaluate`` fills a tile on the CPU; on a GPU another pass (`gpu.DevicePass`) fills and scans tiles of the same whole
numbers there, and gives the same answers.
"""

import threading
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.scores.distances.blocks import find_device, group_codes
from memorisk.scores.distances.parallel import Team, team
from memorisk.scores.distances.rows import Rows, rows_per_block
from memorisk.scores.pairs.answers import Job, Listed, Pairs, Survey, Top, Work, joined, most_similar
from memorisk.scores.pairs.checks import Questions, check_job, check_questions, open_vectors
from memorisk.scores.pairs.grid import Block, Grid, find_grid
from memorisk.scores.pairs.head import Head, check_head

Tile = NDArray[np.int32]
FIRST = 1 << 22
"""Numbers of the first rows held at once: 32 MiB in float64 and 8 MiB rounded."""
TILE_ROWS = 128
SUMMING = 48
"""What it costs to end a sum, in columns."""
LOCKED = 1024
"""Rows whose most similar are guarded by one lock."""


def evaluate(grid: Grid, first: Block, second: Block, floors: tuple[Tile, Tile] | None, tile: Tile) -> int:
    """Fill a tile [m, n] with V of every pair, or of those only that may reach the floor of their row or column.

    How many columns decide that is chosen for every tile, by the cheapest for a few of its pairs.

    Returns:
        Columns of pairs that were added up.
    """
    from memorisk.scores.pairs.kernels import shares_needed, signed_sums

    tables = first.short, second.short, first.own, second.own, first.rest, grid.whole, grid.stages
    stage, d = len(grid.stages) - 1, int(grid.stages[-1])
    if floors is None:
        floors = (np.empty(tile.shape[0], np.int32), np.empty(tile.shape[1], np.int32))
    elif stage:
        shares = np.empty(stage + 1)
        shares_needed(*tables, *floors, shares)
        cost = grid.stages + SUMMING + shares * (d - grid.stages + SUMMING)
        cost[stage] = d + SUMMING
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
    """Pairs above a threshold, the most similar rows and a histogram in one pass over all pairs.

    Vectors are rounded to whole numbers, whose signed sums bound the logit (``grid``); pairs of which that does not
    decide a question are evaluated by definition in float64. Blocks, threads and the order of rows change no result.
    Memory is that of a few blocks and of the answer, whatever the number of rows.

    Args:
        u: [n, d] features; an array, a memory map or a tensor, float16 to float64.
        v: [m, d]; None for all pairs of u with itself, each once (half the work).
        weight: [d] or [1, d], of both signs.
        bias: The logit of a vector and itself.
        threshold: Pairs of at least this logit are listed; None for no list.
        limit: Of the list; None for all. All are counted.
        k: Most similar rows of v to every row of u (of u, without itself, where there is no v).
        edges: [b + 1] increasing, of a histogram of the logits.
        exclude_same: Pair of [n] and [m] groups, or [n] groups where there is no v: pairs of a group are left out.
        job: A part of the work (`jobs`); None for all. `merge` puts parts together.
        device: "cpu", "cuda", "cuda:1", ...; "auto" for the GPU that holds u or v as a tensor, else the CPU. The
            answers are the same, bit for bit.
        threads: Of the computation; None for NUMBA_NUM_THREADS, or the cores.
        block: Rows of a block; None for about 8 MiB, on a GPU for tiles of 1 GiB.

    Returns:
        The answers to what was asked.

    Raises:
        InputError: Shapes, types, rows or numbers that cannot be taken; nothing asked; no such device.
    """
    place = find_device(device, u, v)
    asked = check_questions(threshold, limit, k, edges, threads, block)
    left, right = open_vectors(u, v)
    head = check_head(weight, bias, left.d)
    if right is None and exclude_same is not None and not isinstance(exclude_same, tuple):
        exclude_same = (exclude_same, exclude_same)
    groups = group_codes(exclude_same, left, right or left)
    part = check_job(job, left.n)
    kind = Pass
    if place is not None:
        from memorisk.scores.pairs.gpu import DevicePass

        kind = partial(DevicePass, device=place)
    with team(threads) as workers:
        grid = find_grid(head, (left,) if right is None else (left, right), workers)
        return kind(left, right, head, grid, groups, asked, part, workers, block).run()


@dataclass(eq=False)
class Pass:
    """One pass over the pairs of a job."""

    left: Rows
    right: Rows | None
    head: Head
    grid: Grid
    groups: tuple[Any, Any]
    asked: Questions
    job: Job
    workers: Team
    block: int | None
    work: Work = field(default_factory=Work)
    lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        asked, job = self.asked, self.job
        rows = (self.left.n if self.right is None else job.last) - job.first
        if asked.k:
            self.logits = np.full((rows, asked.k), -np.inf)
            self.indices = np.full((rows, asked.k), -1, np.int64)
            self.locks = [threading.Lock() for _ in range(rows // LOCKED + 1)]
        if asked.edges is not None:
            self.counts = np.zeros(len(asked.edges), np.int64)
        self.count, self.found, self.size = 0, [], 0
        self.wanted = np.inf if asked.limit == 0 else asked.threshold

    def run(self) -> Survey:
        """Every tile, and the answers."""
        right = self.right or self.left
        many = self.block or rows_per_block(self.left.d, FIRST)
        few = self.block or rows_per_block(right.d)
        height = min(TILE_ROWS, many)
        room: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        size = height * min(few, max(right.n, 1))
        for _ in range(self.workers.threads):
            lists = (
                (np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))
                if self.asked.threshold is not None
                else ()
            )
            room.put((np.empty(size, np.int32), *lists))
        for first in range(self.job.first, self.job.last, many):
            queries = self.grid.prepare(self.left, first, min(first + many, self.job.last), self.workers)
            for start in range(first if self.right is None else 0, right.n, few):
                others = self.grid.prepare(right, start, min(start + few, right.n), self.workers)

                def task(row: int, first=first, start=start, queries=queries, others=others) -> None:
                    """The pairs of some rows with the block."""
                    space = room.get()
                    try:
                        self._visit(queries.part(row, row + height), others, first + row, start, space)
                    finally:
                        room.put(space)

                self.workers.run(task, range(0, len(queries.slack), height))
        return self._answers()

    def _visit(self, some: Block, others: Block, first: int, start: int, space: tuple[Any, ...]) -> None:
        """One tile: evaluate it and ask it."""
        if self.right is None and start < first + 1:  # only rows that follow
            others, start = others.part(first + 1 - start, len(others.slack)), first + 1
        m, n = len(some.slack), len(others.slack)
        if not n:
            return
        tile = space[0][: m * n].reshape(m, n)
        columns = evaluate(self.grid, some, others, self._floors(some, others, first, start), tile)
        offset = -m if self.right is not None else first + 1 - start
        mine, theirs = (
            codes[at : at + size] for codes, at, size in zip(self.groups, (first, start), (m, n), strict=True)
        )
        shared = (mine, theirs, self.head.weight, self.head.bias, self.grid.step)
        evaluated = self._above(tile, some, others, first, start, offset, shared, space[1:])
        evaluated += self._top(tile, some, others, first, start, offset, shared)
        evaluated += self._histogram(tile, some, others, offset, shared)
        seen = sum(n - min(max(0, i + offset), n) for i in range(m))
        with self.lock:
            self.work += Work(seen, columns, evaluated)

    def _floors(self, some: Block, others: Block, first: int, start: int) -> tuple[Tile, Tile] | None:
        """The least V of every row and of every column that may matter; None where all do."""
        from memorisk.scores.pairs.scans import MOST, floors

        asked, head, step, base = self.asked, self.head, self.grid.step, self.job.first
        if asked.edges is not None:
            return None
        rows, columns = np.full(len(some.slack), MOST, np.int32), np.full(len(others.slack), MOST, np.int32)
        if asked.threshold is not None:
            least = np.full(len(rows), asked.threshold)
            floors(least, some.slack, float(others.slack.max()), head.bias, step, rows)
        if asked.k:
            worst = self.logits[first - base : first - base + len(rows), -1].copy()
            floors(worst, some.slack, float(others.slack.max()), head.bias, step, rows)
            if self.right is None:
                worst = self.logits[start - base : start - base + len(columns), -1].copy()
                floors(worst, others.slack, float(some.slack.max()), head.bias, step, columns)
        return rows, columns

    def _above(self, tile, some, others, first, start, offset, shared, space) -> int:
        """Pairs above the threshold; how many were evaluated by definition."""
        from memorisk.scores.pairs.scans import scan_above

        if self.asked.threshold is None:
            return 0
        most = float(others.slack.max())
        count, kept, evaluated = scan_above(
            tile, some.exact, others.exact, some.slack, most, offset, *shared, self.asked.threshold, self.wanted, *space
        )
        rows, columns, logits = (listed[:kept] for listed in space)
        self._list(Listed(rows + first, columns + start, logits.copy()), count)
        return evaluated

    def _list(self, found: Listed, count: int) -> None:
        """Take pairs into the list, which is cut where it is twice as long as asked for, and count all that pass."""
        limit = self.asked.limit
        with self.lock:
            self.count += count
            if len(found.logit):
                self.found.append(found)
                self.size += len(found.logit)
            if limit and self.size > 2 * limit:
                self.found = [most_similar(joined(self.found), limit)]
                self.size, self.wanted = limit, float(self.found[0].logit[-1])

    def _top(self, tile, some, others, first, start, offset, shared) -> int:
        """Most similar rows; how many pairs were evaluated by definition."""
        from memorisk.scores.pairs.scans import scan_columns, scan_rows

        if not self.asked.k:
            return 0
        mine, theirs, *head = shared
        evaluated, base = 0, self.job.first
        for low, high in self._locked(first, len(some.slack)):
            part, rows = slice(low - first, high - first), slice(low - base, high - base)
            with self.locks[(low - base) // LOCKED]:
                evaluated += scan_rows(
                    tile[part], some.exact[part], others.exact, some.slack[part], float(others.slack.max()), start,
                    offset + low - first, mine[part], theirs, *head, self.logits[rows], self.indices[rows],
                )  # fmt: skip
        for low, high in self._locked(start, len(others.slack)) if self.right is None else ():
            rows = slice(low - base, high - base)
            with self.locks[(low - base) // LOCKED]:
                evaluated += scan_columns(
                    tile, some.exact, others.exact, float(some.slack.max()), others.slack, first, low - start,
                    high - start, offset, mine, theirs, *head, self.logits[rows], self.indices[rows],
                )  # fmt: skip
        return evaluated

    def _locked(self, first: int, size: int):
        """Runs of rows under one lock."""
        low = first
        while low < first + size:
            high = min(first + size, self.job.first + ((low - self.job.first) // LOCKED + 1) * LOCKED)
            yield low, high
            low = high

    def _histogram(self, tile, some, others, offset, shared) -> int:
        """Bins of the tile's pairs; how many were evaluated by definition."""
        from memorisk.scores.pairs.scans import scan_histogram

        if self.asked.edges is None:
            return 0
        counts = np.zeros(len(self.asked.edges), np.int64)
        slack = float(some.slack.max() + others.slack.max())
        evaluated = scan_histogram(tile, some.exact, others.exact, slack, offset, *shared, self.asked.edges, counts)
        with self.lock:
            self.counts += counts
        return evaluated

    def _answers(self) -> Survey:
        """What was asked."""
        pairs = top = counts = None
        if self.asked.threshold is not None:
            listed = most_similar(joined(self.found), self.asked.limit)
            pairs = Pairs(*listed, count=self.count, limit=self.asked.limit)
        if self.asked.k:
            top = Top(self.indices, self.logits, self.job.first)
        if self.asked.edges is not None:
            counts = self.counts[:-1].copy()
        return Survey(pairs, top, counts, self.work)
