"""Nearest neighbours and histograms on a GPU: the same rows and the same bits as on the CPU.

Tiles of approximate values (`gpu_blocks.evaluate`) never leave the device. Of each only the least value of every 64
references is looked at; what a pair's bounds (`bounds`) do not exclude from the nearest, or leave on either side of an
edge, waits on the device as a pair of row numbers, and is evaluated by definition (`direct`) on the CPU's cores. Memory
is that of a few blocks on both sides.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorisk.scores.distances.bounds import Form, find_form
from memorisk.scores.distances.direct import ROOM, insert_pairs, some_pairs
from memorisk.scores.distances.fitted import FittedMeasure
from memorisk.scores.distances.gpu_blocks import (
    ELEMENTS,
    PADDED,
    QUERIES,
    TILE,
    DeviceBlock,
    DeviceRows,
    evaluate,
    full_products,
    prepare,
)
from memorisk.scores.distances.parallel import Team, team
from memorisk.scores.distances.rows import FloatArray, rows_per_block

Ids = NDArray[np.int64]
GROUP = 64
"""References of which the least value is looked at first."""
GATHERED = 1 << 18
"""Such groups whose values are looked at at once."""
WAITING = 1 << 22
"""Pairs that wait before they are looked through again; or four times the answer's."""
COUNTED = 1 << 24
"""Values that are sorted into bins at once."""
SETTLED = 4096
"""Pairs that one thread evaluates at a time."""


@dataclass(frozen=True, eq=False)
class Tile:
    """Values of some queries against some references, on the device."""

    values: Any
    """[m, N] float32, infinite where a pair is left out; `rest` is still to be added."""
    rest: Any
    """[m] float32."""
    betas: Any
    """[m] float64 absolute bounds."""
    rows: slice
    """Which queries of the block."""
    start: int
    """Number of the first reference."""


@dataclass(frozen=True, eq=False)
class Search:
    """Two tables on a device and how their pairs are approximated there."""

    left: DeviceRows
    right: DeviceRows
    groups: tuple[Ids, Ids]
    """[n] and [m] codes; pairs of the same are left out. Empty where there are none."""
    form: Form
    workers: Team
    block: int | None
    """Rows of a block, or None."""

    def queries(self) -> Iterator[tuple[slice, DeviceBlock]]:
        """Blocks of queries made ready."""
        many = self.block or rows_per_block(self.left.d, QUERIES)
        for first in range(0, self.left.n, many):
            rows = slice(first, min(first + many, self.left.n))
            yield rows, prepare(self.form, self.left, rows.start, rows.stop)

    def tiles(self, rows: slice, queries: DeviceBlock) -> Iterator[Tile]:
        """Every tile of a block of queries in turn; each overwrites the one before."""
        import torch

        device, few = self.left.device, self.block or rows_per_block(self.right.d, ELEMENTS)
        mine, theirs = (torch.from_numpy(ids).to(device) for ids in self.groups)
        room = torch.empty(0, device=device)
        for start in range(0, self.right.n, few):
            references = prepare(self.form, self.right, start, min(start + few, self.right.n))
            betas, wide = self.form.betas(queries, references), len(references.own)
            high = max(1, TILE // wide // PADDED[0]) * PADDED[0]
            for first in range(0, queries.size, high):
                some = queries.part(first, min(first + high, len(queries.own)))
                if len(room) < wide * len(some.own):
                    room = torch.empty(wide * len(some.own), device=device)
                values = room[: wide * len(some.own)].view(-1, wide)
                rest = evaluate(self.form, some, references, values)
                part = slice(first, first + some.size)
                values = values[: some.size]
                if len(mine):
                    same = mine[rows][part, None] == theirs[start : start + references.size]
                    values[:, : references.size].masked_fill_(same, torch.inf)
                yield Tile(values, rest[: some.size], betas[part], part, start)

    def distances(self, rows: Ids, columns: Ids) -> FloatArray:
        """Distances of pairs by definition, on the CPU's cores."""
        code, weights, whitening, p = self.form.definition
        out = np.empty(len(rows))

        def task(first: int) -> None:
            """Some of the pairs, each row of them read once."""
            part = slice(first, first + SETTLED)
            x, i = self._exact(self.left, rows[part])
            y, j = self._exact(self.right, columns[part])
            some_pairs(code, x, y, i, j, weights, whitening, p, out[part])

        self.workers.run(task, range(0, len(rows), SETTLED))
        return out

    def keys(self, distances: FloatArray) -> FloatArray:
        """`direct.key_of` of many distances."""
        if self.form.power == 0:
            return np.divide(distances, 1 + distances, out=np.ones_like(distances), where=distances < np.inf)
        return (self.form.multiplier * distances) ** self.form.power

    def limit(self, keys: Any, betas: Any) -> Any:
        """The largest values, in float32, whose keys may be at most these; see ``direct``."""
        return (((keys * ROOM + betas) / (1 - self.form.rho)) ** self.form.root * (1 + 1e-6) + 1e-37).float()

    def _exact(self, table: DeviceRows, numbers: Ids) -> tuple[FloatArray, Ids]:
        """Rows as the definition takes them, each once, and where those of the numbers are."""
        unique, places = np.unique(numbers, return_inverse=True)
        return np.ascontiguousarray(self.form.measure.rows(table.take(unique))), places.reshape(-1)


class _Nearest:
    """The nearest references of a block of queries, as far as they have been seen."""

    def __init__(self, search: Search, first: int, distances: FloatArray, indices: Ids) -> None:
        import torch

        self.search, self.first, self.distances, self.indices = search, first, distances, indices
        self.k = distances.shape[1]
        self.most = torch.full(distances.shape, torch.inf, dtype=torch.float64, device=search.left.device)
        """[m, k] upper bounds of the keys of the k nearest."""
        self.room = max(WAITING, 4 * distances.size)
        self.waiting: list[tuple[Any, Any, Any]] = []
        """Rows of the block, of the references, and lower bounds of their keys."""

    def take(self, tile: Tile) -> None:
        """Lower the bounds by a tile; pairs that may still be among the nearest wait."""
        import torch

        form, group = self.search.form, GROUP
        while group > 1 and tile.values.shape[1] < 2 * self.k * group:
            group //= 2
        groups = tile.values.view(len(tile.values), -1, group)
        least = groups.amin(2) + tile.rest[:, None]
        lowest = least.topk(min(self.k, least.shape[1]), largest=False).values
        upper = self._rooted(lowest) * (1 + form.rho) + tile.betas[:, None]
        most = self.most[tile.rows] = torch.cat([self.most[tile.rows], upper], 1).topk(self.k, largest=False).values
        limits = self.search.limit(most[:, -1], tile.betas)
        for part in (least <= limits[:, None]).nonzero().split(GATHERED):
            i, g = part.T
            values = groups[i, g] + tile.rest[i, None]
            at, j = ((values <= limits[i, None]) & (values < torch.inf)).nonzero(as_tuple=True)
            lower = self._rooted(values[at, j]) * (1 - form.rho) - tile.betas[i[at]]
            self.waiting.append((tile.rows.start + i[at], tile.start + g[at] * group + j, lower))
            if sum(len(rows) for rows, _, _ in self.waiting) > self.room:
                if len(self._prune()[0]) > self.room // 2:
                    self.settle()
                limits = self.search.limit(self.most[tile.rows, -1], tile.betas)

    def settle(self) -> None:
        """Evaluate those that wait by definition."""
        import torch

        if not self.waiting:
            return
        rows, columns, _ = (part.cpu().numpy() for part in self._prune())
        insert_pairs(rows, columns, self.search.distances(rows + self.first, columns), self.distances, self.indices)
        self.most = torch.from_numpy(self.search.keys(self.distances)).to(self.most.device)
        self.waiting.clear()

    def _prune(self) -> tuple[Any, Any, Any]:
        """Keep those waiting that may still be among the nearest."""
        import torch

        rows, columns, lower = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        near = lower <= self.most[rows, -1] * ROOM
        self.waiting = [(rows[near], columns[near], lower[near])]
        return self.waiting[0]

    def _rooted(self, values: Any) -> Any:
        return values.double().clip(0) ** (1 / self.search.form.root)


@contextmanager
def open_search(
    left: DeviceRows,
    right: DeviceRows,
    measure: FittedMeasure,
    groups: tuple[Ids, Ids],
    threads: int | None,
    block: int | None,
) -> Iterator[Search]:
    """Two checked tables made ready to be searched on their device."""
    with full_products(left.device), team(threads) as workers:
        form = find_form(measure, right, left.exact and right.exact).on_device()
        yield Search(left, right, groups, form, workers, block)


def search_nearest(search: Search, distances: FloatArray, indices: Ids) -> None:
    """The nearest of every query into ``distances`` and ``indices``, [n, k], ascending; see `neighbours.nearest`."""
    for rows, queries in search.queries():
        found = _Nearest(search, rows.start, distances[rows], indices[rows])
        for tile in search.tiles(rows, queries):
            found.take(tile)
        found.settle()


def count_pairs(search: Search, edges: FloatArray) -> Ids:
    """Pairs by bin, [bins]; see `histograms.histogram` and `direct.scan_histogram`."""
    import torch

    keys = torch.from_numpy(np.where(edges >= 0, search.keys(edges.clip(0)), -1.0)).to(search.left.device)
    counts = np.zeros(len(edges) - 1, np.int64)
    for rows, queries in search.queries():
        for tile in search.tiles(rows, queries):
            step = max(1, COUNTED // tile.values.shape[1])
            for first in range(0, len(tile.values), step):
                part = slice(first, first + step)
                values, betas = tile.values[part] + tile.rest[part, None], tile.betas[part, None]
                sure, unsure = _count(search, keys, values, betas)
                i, j = (at.cpu().numpy() for at in unsure.nonzero(as_tuple=True))
                near = search.distances(i + (rows.start + tile.rows.start + first), j + tile.start)
                counts += sure.cpu().numpy() + np.histogram(near, edges)[0]
    return counts


def _count(search: Search, keys: Any, values: Any, betas: Any) -> tuple[Any, Any]:
    """Values that are surely in a bin, counted; and which, [s, N], may be on either side of an edge."""
    import torch

    form, last = search.form, len(keys)
    above = torch.where(keys >= 0, search.limit(keys, betas), -torch.inf)
    under = (keys / ROOM - betas) / (1 + form.rho)
    below = torch.where(under > 0, under**form.root * (1 - 1e-6) - 1e-37, -torch.inf).float()
    place, counted = torch.searchsorted(above, values), values < torch.inf
    unsure = counted & (place < last) & (values >= below.gather(1, place.clip(max=last - 1)))
    return torch.bincount(place[counted & ~unsure], minlength=last + 1)[1:last], unsure
