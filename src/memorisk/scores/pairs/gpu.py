"""One pass over all pairs on a GPU: the same answers, to the bit, as the CPU's.

Tiles of the same whole numbers V (`gpu_blocks.evaluate`) never leave the device. What `grid`'s bounds do not decide, a
pair that may be above the threshold, among the most similar or on either side of an edge, comes back as two row numbers
and is evaluated by definition (`scans`) on the CPU's cores. Of the most similar only the largest V of every 64 pairs is
looked at first. No pair is given up after few columns: a GPU's threads would wait for the others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.scores.distances.rows import FloatArray
from memorisk.scores.pairs.answers import Ids, Listed, Survey, Work
from memorisk.scores.pairs.gpu_blocks import (
    NONE,
    PADDED,
    ROWS,
    DeviceBlock,
    DeviceTable,
    Exact,
    evaluate,
    on_device,
    padded,
)
from memorisk.scores.pairs.one_pass import Pass

COUNTED = 1 << 24
"""Pairs that are compared with thresholds or edges at once."""
GROUP = 64
"""Pairs of which the largest V is looked at first."""
GATHERED = 1 << 18
"""Such groups whose pairs are looked at at once."""
SETTLED = 4096
"""Pairs that one thread evaluates at a time."""


@dataclass(eq=False, kw_only=True)
class DevicePass(Pass):
    """One pass over the pairs of a job, on a device."""

    device: Any

    def run(self) -> Survey:
        """Every tile, and the answers."""
        import torch

        job, alone = self.job, self.right is None
        with on_device(self.device):
            right = self._table(self.right or self.left, job.first if alone else 0, (self.right or self.left).n)
            left = right if alone else self._table(self.left, job.first, job.last)
            exact = Exact(self.left, self.workers)
            self.exact = exact, exact if self.right is None else Exact(self.right, self.workers)
            self.codes = tuple(torch.from_numpy(codes).to(self.device) for codes in self.groups)
            sides = [max((padded(b - a, PADDED) for a, b in table.parts), default=0) for table in (left, right)]
            space = torch.empty(sides[0] * sides[1], dtype=torch.int32, device=self.device)
            for number, (first, _) in enumerate(left.parts):
                if first >= job.last:
                    break
                some = left.block(number).before(job.last)
                for other in range(number if alone else 0, len(right.parts)):
                    self._ask(evaluate(right, some, others := right.block(other), space), some, others)
        return self._answers()

    def _table(self, rows: Any, first: int, last: int) -> DeviceTable:
        block = self.block or min(ROWS, max(1, last - first))
        return DeviceTable(rows, first, last, self.grid, self.workers, self.device, block)

    def _ask(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> None:
        """One tile [M, N]: leave out the pairs that do not count, and ask the rest."""
        import torch

        m, n, diagonal = some.size, others.size, self.right is None and some.first == others.first
        if diagonal:  # only rows that follow
            places = torch.arange(tile.shape[1], device=self.device)
            tile.masked_fill_(places[None] <= places[: len(tile), None], NONE)
        if len(self.codes[0]):
            mine, theirs = (
                codes[block.first : block.first + block.size]
                for codes, block in zip(self.codes, (some, others), strict=True)
            )
            tile[:m, :n].masked_fill_(mine[:, None] == theirs[None], NONE)
        evaluated = self._above_there(tile, some, others)
        if self.asked.k:
            evaluated += self._top_there(tile, some, others)
            evaluated += self._top_there(tile.T, others, some) if self.right is None else 0
        evaluated += self._histogram_there(tile, some, others)
        seen = m * n - (m * (m + 1) // 2 if diagonal else 0)
        self.work += Work(seen, seen * int(self.grid.stages[-1]), evaluated)

    def _logits(self, first: Ids, second: Ids) -> FloatArray:
        """Logits of pairs of rows of u and v by definition, on the CPU's cores."""
        from memorisk.scores.pairs.scans import some_pairs

        out = np.empty(len(first))

        def task(at: int) -> None:
            """Some of the pairs."""
            part = slice(at, at + SETTLED)
            (x, i), (y, j) = (rows.take(ids[part]) for rows, ids in zip(self.exact, (first, second), strict=True))
            some_pairs(x, y, i, j, self.head.weight, self.head.bias, out[part])

        self.workers.run(task, range(0, len(first), SETTLED))
        return out

    def _least(self, values: FloatArray, slack: FloatArray, most: float) -> Any:
        """The least V that may reach each row's value, [m] on the device."""
        import torch

        from memorisk.scores.pairs.scans import MOST, floors

        found = np.full(len(values), MOST, np.int32)
        floors(values, slack, most, self.head.bias, self.grid.step, found)
        return torch.from_numpy(found).to(self.device)

    def _above_there(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> int:
        """Pairs above the threshold; how many were evaluated by definition."""
        from memorisk.scores.pairs.scans import surely

        threshold, evaluated = self.asked.threshold, 0
        if threshold is None:
            return 0
        most = float(others.slack.max())
        sure = surely(threshold, self.head.bias, self.grid.step, float(some.slack.max()) + most)
        step = max(1, COUNTED // tile.shape[1])
        for at in range(0, some.size, step):
            slack = some.slack[at : at + step]
            part = tile[at : at + len(slack)]
            hit = part >= self._least(np.full(len(slack), threshold), slack, most)[:, None]
            counted, wanted = 0, float(self.wanted)  # pyright: ignore[reportArgumentType]
            if wanted > threshold:
                plain = (part >= sure) & (part < self._least(np.full(len(slack), wanted), slack, most)[:, None])
                counted, hit = int(plain.sum()), hit & ~plain
            i, j = (places.cpu().numpy() for places in hit.nonzero(as_tuple=True))
            first, second = some.first + at + i, others.first + j
            logits = self._logits(first, second)
            kept = logits >= wanted
            self._list(Listed(first[kept], second[kept], logits[kept]), counted + int((logits >= threshold).sum()))
            evaluated += len(logits)
        return evaluated

    def _top_there(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> int:
        """Most similar rows of the tile's rows, [M, N] or turned; how many pairs were evaluated by definition."""
        import torch

        from memorisk.scores.pairs.scans import MOST, insert_pairs, margin

        base, k, most = self.job.first, self.asked.k, float(others.slack.max())
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
        for part in (largest >= floor[:, None]).nonzero().split(GATHERED):
            i, g = part.T
            at, lane = (groups[i, g] >= floor[i, None]).nonzero(as_tuple=True)
            rows, columns = (ids.cpu().numpy() for ids in (i[at], g[at] * group + lane))
            mine, theirs = some.first + rows, others.first + columns
            turned = some.first > others.first and self.right is None
            logits = self._logits(theirs, mine) if turned else self._logits(mine, theirs)
            insert_pairs(mine - base, theirs, logits, self.logits, self.indices)
            evaluated += len(logits)
        return evaluated

    def _histogram_there(self, tile: Any, some: DeviceBlock, others: DeviceBlock) -> int:
        """Bins of the tile's pairs; how many were evaluated by definition."""
        import torch

        from memorisk.scores.pairs.scans import around

        edges, evaluated = self.asked.edges, 0
        if edges is None:
            return 0
        bounds, slack = np.empty((2, len(edges)), np.int64), float(some.slack.max() + others.slack.max())
        around(edges, self.head.bias, self.grid.step, slack, *bounds)
        below, above = torch.from_numpy(bounds.astype(np.int32)).to(self.device)
        bins, step = len(edges) - 1, max(1, COUNTED // tile.shape[1])
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
