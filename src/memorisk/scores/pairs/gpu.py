"""One pass over all pairs on a GPU: the same answers, to the bit, as the CPU's.

Rows are whole numbers on the device, and tiles of their signed sums V (`evaluate`) never leave it; `quantization`
and `kernels` are the CPU's. The bounds of `quantization` may leave open whether a pair is above the threshold, among
the most similar or on one side of an edge. Such a pair comes back as two row numbers and is evaluated by definition
(`scans`) on the CPU's cores. For the most similar the search first looks at the largest V of every 64 pairs. No pair is
given up after few columns: a GPU's threads would wait for the others.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.scores.distances.gpu import GATHERED_GROUPS, GROUP, PAIRS_PER_THREAD
from memorisk.scores.distances.rows import FloatArray, Rows, Team, rows_per_block
from memorisk.scores.pairs.quantization import Grid
from memorisk.scores.pairs.queries import Ids, PairColumns, Survey, Work
from memorisk.scores.pairs.search import Pass

ROWS = 1 << 14
"""Rows in a block: tiles of 1 GiB."""
PADDED, CHUNK = 128, 16
"""Multiples in which the rows and columns of a block come; see `gpu_kernels`."""
NONE = -(2**31)
"""Value that marks a pair that is left out."""
EXACT_NUMBERS = 1 << 26
"""Numbers in a table that is held in float64 for the definition: 512 MiB."""
COMPARED_PAIRS = 1 << 24
"""Number of pairs that are compared with thresholds or edges in one step."""


@dataclass(frozen=True, eq=False)
class DeviceBlock:
    """Rows prepared on a device."""

    short: Any
    """Products |W| q, [D, N] float32, columns with a positive W first; padded with zeros."""
    slack: FloatArray
    """Slacks r of `quantization.Block`, [m], on the host."""
    first: int
    """Number of the first row."""

    @property
    def size(self) -> int:
        """Return the number of rows without padding."""
        return len(self.slack)

    def before(self, last: int) -> "DeviceBlock":
        """Return the rows of the block before ``last``."""
        size = min(self.size, last - self.first)
        return DeviceBlock(self.short[:, : padded(size, PADDED)], self.slack[:size], self.first)


def padded(size: int, step: int) -> int:
    """Round up to the next multiple."""
    return -(-size // step) * step


class DeviceTable:
    """Some rows of a table, made ready block by block; the device keeps them if they fit ``table_room`` bytes.

    Args:
        rows: Table of vectors, checked.
        first: Number of the first row.
        last: Number of the row after the last.
        grid: Grid that rounds vectors to whole numbers.
        workers: Threads that round the rows.
        device: Device that holds the blocks, a ``torch.device``.
        block: Number of rows of a block; None for ``ROWS``.
    """

    def __init__(
        self, rows: Rows, first: int, last: int, grid: Grid, workers: Team, device: Any, block: int | None
    ) -> None:
        self.rows, self.grid, self.workers, self.device = rows, grid, workers, device
        step = block or ROWS
        self.parts = [(at, min(at + step, last)) for at in range(first, last, step)]
        weights = grid.whole.astype(np.int64)
        self.columns = np.flatnonzero(weights > 0), np.flatnonzero(weights < 0)
        self.more, less = (padded(len(some), CHUNK) for some in self.columns)
        self.width = max(CHUNK, self.more + less)
        keeps = 4 * self.width * (last - first) < table_room(device)
        self._kept: dict[int, DeviceBlock] | None = {} if keeps else None

    def block(self, number: int) -> DeviceBlock:
        """Return a block by its number."""
        if self._kept is None:
            return self._prepared(number)
        if number not in self._kept:
            self._kept[number] = self._prepared(number)
        return self._kept[number]

    def _prepared(self, number: int) -> DeviceBlock:
        import torch

        first, last = self.parts[number]
        prepared = self.grid.prepare(self.rows, first, last, self.workers)
        block = torch.from_numpy(prepared.short).to(self.device)
        short = torch.zeros((self.width, padded(last - first, PADDED)), dtype=torch.float32, device=self.device)
        for start, some in zip((0, self.more), self.columns, strict=True):
            size = torch.from_numpy(np.abs(self.grid.whole[some].astype(np.float32))).to(self.device)
            chosen = block[:, torch.from_numpy(some).to(self.device)].float() * size
            short[start : start + len(some), : last - first] = chosen.T
        return DeviceBlock(short, prepared.slack, first)


def table_room(device: Any) -> float:
    """Return the bytes that a table may take: a quarter of what is free."""
    import torch

    return torch.cuda.mem_get_info(device)[0] / 4 if device.type == "cuda" else float("inf")


def evaluate(table: DeviceTable, some: DeviceBlock, others: DeviceBlock, space: Any) -> Any:
    """Compute V of every pair, [M, N] int32 of padded size in ``space``; ``NONE`` if a row or a column is padding.

    Raises:
        InputError: Triton is not installed.
    """
    try:
        from memorisk.scores.pairs.gpu_kernels import signed_sums
    except ImportError:
        raise InputError(
            "pairs on a GPU need Triton, which is not installed: python -m pip install triton, or give device='cpu'"
        ) from None
    m, n = some.short.shape[1], others.short.shape[1]
    tile = space[: m * n].view(m, n)
    signed_sums(some.short, others.short, table.more, tile)
    tile[:, others.size :] = NONE
    tile[some.size :] = NONE
    return tile


class Exact:
    """Rows for the definition: all in float64 where they are few, else those that the caller takes.

    Args:
        rows: Table of vectors.
        workers: Threads that read it.
    """

    def __init__(self, rows: Rows, workers: Team) -> None:
        self._rows = rows
        self._whole = whole = np.empty((rows.n, rows.d)) if rows.n * rows.d <= EXACT_NUMBERS else None
        if whole is not None:

            def read(part: slice) -> None:
                """Read a block."""
                whole[part] = rows.block(part.start, part.stop)

            workers.run_parts(read, rows.n, rows_per_block(rows.d))

    def take(self, numbers: Any) -> tuple[FloatArray, Any]:
        """Return a table [*, d] and the place of each of the numbers in it."""
        if self._whole is not None:
            return self._whole, numbers
        return self._rows.take_once(numbers)


@contextmanager
def on_device(device: Any) -> Iterator[None]:
    """Create tensors on this device, without gradients, while it is open."""
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
        yield


@dataclass(eq=False, kw_only=True)
class DevicePass(Pass):
    """One pass over the pairs of a job, on a device."""

    device: Any

    def run(self) -> Survey:
        """Search all tiles and return the answers."""
        import torch

        job, alone = self.job, self.right is None
        with on_device(self.device):
            v_table = self._table(self.right or self.left, job.first if alone else 0, (self.right or self.left).n)
            u_table = v_table if alone else self._table(self.left, job.first, job.last)
            exact = Exact(self.left, self.workers)
            self.exact = exact, exact if self.right is None else Exact(self.right, self.workers)
            self.codes = tuple(torch.from_numpy(codes).to(self.device) for codes in self.groups)
            sides = [max((padded(b - a, PADDED) for a, b in table.parts), default=0) for table in (u_table, v_table)]
            space = torch.empty(sides[0] * sides[1], dtype=torch.int32, device=self.device)
            for number, (first, _) in enumerate(u_table.parts):
                if first >= job.last:
                    break
                some = u_table.block(number).before(job.last)
                for other in range(number if alone else 0, len(v_table.parts)):
                    self._ask(evaluate(v_table, some, others := v_table.block(other), space), some, others)
        return self._answers()

    def _table(self, rows: Any, first: int, last: int) -> DeviceTable:
        block = self.block or min(ROWS, max(1, last - first))
        return DeviceTable(rows, first, last, self.grid, self.workers, self.device, block)

    def _ask(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> None:
        """Leave out the pairs of one tile [M, N] that do not count, and search the rest."""
        import torch

        m, n, diagonal = some.size, others.size, self.right is None and some.first == others.first
        if diagonal:  # only rows that follow
            places = torch.arange(tile.shape[1], device=self.device)
            tile.masked_fill_(places[None] <= places[: len(tile), None], NONE)
        if len(self.codes[0]):
            ids_u, ids_v = (
                codes[block.first : block.first + block.size]
                for codes, block in zip(self.codes, (some, others), strict=True)
            )
            tile[:m, :n].masked_fill_(ids_u[:, None] == ids_v[None], NONE)
        evaluated = self._above_there(tile, some, others)
        if self.query.k:
            evaluated += self._top_there(tile, some, others)
            evaluated += self._top_there(tile.T, others, some) if self.right is None else 0
        evaluated += self._histogram_there(tile, some, others)
        n_pairs = m * n - (m * (m + 1) // 2 if diagonal else 0)
        self.work += Work(n_pairs, n_pairs * int(self.grid.stages[-1]), evaluated)

    def _logits(self, first: Ids, second: Ids) -> FloatArray:
        """Compute logits of pairs of rows of u and v by definition, on the CPU's cores."""
        from memorisk.scores.pairs.scans import some_pairs

        out = np.empty(len(first))

        def task(part: slice) -> None:
            """Compute some of the pairs."""
            (x, i), (y, j) = (rows.take(ids[part]) for rows, ids in zip(self.exact, (first, second), strict=True))
            some_pairs(x, y, i, j, self.head.weight, self.head.bias, out[part])

        self.workers.run_parts(task, len(first), PAIRS_PER_THREAD)
        return out

    def _least(self, values: FloatArray, slack: FloatArray, most: float) -> Any:
        """Return the least V that may reach each row's value, [m] on the device."""
        import torch

        from memorisk.scores.pairs.scans import MOST, floors

        least = np.full(len(values), MOST, np.int32)
        floors(values, slack, most, self.head.bias, self.grid.step, least)
        return torch.from_numpy(least).to(self.device)

    def _above_there(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> int:
        """List pairs above the threshold, and return how many were evaluated by definition."""
        from memorisk.scores.pairs.scans import certain_sum

        threshold, evaluated = self.query.threshold, 0
        if threshold is None:
            return 0
        most = float(others.slack.max())
        sure = certain_sum(threshold, self.head.bias, self.grid.step, float(some.slack.max()) + most)
        step = max(1, COMPARED_PAIRS // tile.shape[1])
        for at in range(0, some.size, step):
            slack = some.slack[at : at + step]
            part = tile[at : at + len(slack)]
            hit = part >= self._least(np.full(len(slack), threshold), slack, most)[:, None]
            counted, bar = 0, float(self.wanted)  # pyright: ignore[reportArgumentType]
            if bar > threshold:
                plain = (part >= sure) & (part < self._least(np.full(len(slack), bar), slack, most)[:, None])
                counted, hit = int(plain.sum()), hit & ~plain
            i, j = (places.cpu().numpy() for places in hit.nonzero(as_tuple=True))
            first, second = some.first + at + i, others.first + j
            logits = self._logits(first, second)
            wanted_pairs = logits >= bar
            self._list(
                PairColumns(first[wanted_pairs], second[wanted_pairs], logits[wanted_pairs]),
                counted + int((logits >= threshold).sum()),
            )
            evaluated += len(logits)
        return evaluated

    def _top_there(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> int:
        """Enter most similar rows of the tile's rows, [M, N] or turned.

        Return how many pairs were evaluated by definition.
        """
        import torch

        from memorisk.scores.pairs.scans import MOST, insert_pairs, margin

        base, k, most = self.job.first, self.query.k, float(others.slack.max())
        here = slice(some.first - base, some.first - base + some.size)
        tile, group, evaluated = tile[: some.size], GROUP, 0
        while group > 1 and tile.shape[1] < 2 * k * group:
            group //= 2
        groups = tile.unflatten(1, (-1, group))
        largest = groups.amax(2)
        floor = self._least(self.logits[here, -1].copy(), some.slack, most)
        if largest.shape[1] >= k:
            gap = margin(float(some.slack.max()) + most, self.head.bias, self.grid.step)
            last = largest.topk(k, dim=1).values[:, -1].long()
            floor = torch.maximum(floor, (last - gap).clip(min=-MOST).int())
        for part in (largest >= floor[:, None]).nonzero().split(GATHERED_GROUPS):
            i, g = part.T
            at, lane = (groups[i, g] >= floor[i, None]).nonzero(as_tuple=True)
            rows, columns = (ids.cpu().numpy() for ids in (i[at], g[at] * group + lane))
            rows_u, rows_v = some.first + rows, others.first + columns
            turned = some.first > others.first and self.right is None
            logits = self._logits(rows_v, rows_u) if turned else self._logits(rows_u, rows_v)
            insert_pairs(rows_u - base, rows_v, logits, self.logits, self.indices)
            evaluated += len(logits)
        return evaluated

    def _histogram_there(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> int:
        """Count the tile's pairs by bin, and return how many were evaluated by definition."""
        import torch

        from memorisk.scores.pairs.scans import edge_sums

        edges, evaluated = self.query.edges, 0
        if edges is None:
            return 0
        bounds, slack = np.empty((2, len(edges)), np.int64), float(some.slack.max() + others.slack.max())
        edge_sums(edges, self.head.bias, self.grid.step, slack, *bounds)
        below, above = torch.from_numpy(bounds.astype(np.int32)).to(self.device)
        bins, step = len(edges) - 1, max(1, COMPARED_PAIRS // tile.shape[1])
        for at in range(0, some.size, step):
            part = tile[at : min(at + step, some.size)]
            place = torch.searchsorted(above, part, right=True, out_int32=True)
            unsure = (place <= bins) & (part >= below[place.clip(max=bins)])
            counts = torch.bincount(place.masked_fill_(unsure, 0).view(-1), minlength=bins + 2)
            self.counts[:-1] += counts[1 : bins + 1].cpu().numpy()
            i, j = (places.cpu().numpy() for places in unsure.nonzero(as_tuple=True))
            logits = self._logits(some.first + at + i, others.first + j)
            self.counts[:-1] += np.histogram(logits, edges)[0]
            evaluated += len(logits)
        return evaluated
