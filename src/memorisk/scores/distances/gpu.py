"""Nearest neighbours and histograms on a GPU: the same rows and the same bits as on the CPU.

PyTorch makes the blocks of rows and the tiles of values on the device, as `kernels` and `neighbours` do on the CPU.
Tiles of approximate values (`evaluate`) never leave the device. The search looks only at the least value of every 64
references. A pair that the bounds (`bounds`) do not exclude from the nearest, or leave on either side of an edge,
waits on the device as a pair of row numbers, and is evaluated by definition (`definitions`) on the CPU's cores.
Memory is that of a few blocks on both sides.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.bounds import Form, find_form
from memorisk.scores.distances.definitions import ROOM, insert_pairs, some_pairs
from memorisk.scores.distances.kernels import NORMS, SMALLEST, largest_summable, relative_slacks
from memorisk.scores.distances.measures import FittedMeasure
from memorisk.scores.distances.rows import FloatArray, Rows, Team, rows_per_block, team

ELEMENTS = 1 << 24
"""Numbers in a block of rows: 128 MiB in float64, a few times that while they are prepared."""
QUERIES = 1 << 26
"""Numbers of the queries held at once: 256 MiB in float32."""
TILE = 1 << 28
"""Values in a tile: 1 GiB."""
PADDED = 128, 4
"""Multiples in which the rows and columns of a block come; see `gpu_kernels`."""
GROUP = 64
"""References in a group, of which the search looks at the least value first."""
GATHERED_GROUPS = 1 << 18
"""Number of such groups whose values are looked at in one step."""
PENDING_PAIRS = 1 << 22
"""Pairs that wait before the search prunes them; or four times the answer's."""
BINNED_VALUES = 1 << 24
"""Number of values that are sorted into bins in one step."""
PAIRS_PER_THREAD = 4096
"""Number of pairs that one thread evaluates at a time."""


class DeviceRows(Rows):
    """A table whose blocks are read onto a device; whole, once, where it takes less than a quarter of the free memory.

    Args:
        table: Table of vectors, as `Rows` takes it.
        what: "queries" or "references", for messages.
        device: Device that reads the blocks, a ``torch.device``.
    """

    elements = ELEMENTS

    def __init__(self, table: Any, what: str, device: Any) -> None:
        import torch

        super().__init__(table, what)
        self.device = device
        self._there: Any = None
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if self.n * self.d * self._table.dtype.itemsize < free // 4:
                self._there = self._moved(self._table)

    def block(self, first: int, last: int) -> Any:
        """Return the rows ``first`` to ``last`` in float64, a tensor on the device."""
        import torch

        part = self._moved(self._table[first:last]) if self._there is None else self._there[first:last]
        return part.to(torch.float64)

    def view(self, first: int, last: int) -> Any:
        """Return the same: no code writes to it."""
        return self.block(first, last)

    def _moved(self, part: Any) -> Any:
        import torch

        if not self._tensor:
            part = torch.from_numpy(np.require(part, part.dtype.newbyteorder("="), ["C", "W"]))
        return part.to(self.device)


@dataclass(frozen=True, eq=False)
class DeviceBlock:
    """Rows made ready on a device; padded with zeros."""

    short: Any
    """Columns of the rows, [D, N] float32."""
    own: Any
    """Own terms of the rows, [N] float32, see `bounds.Block`."""
    slack: Any
    """Slacks of the rows, [N] float64, see `bounds.Block`."""
    size: int
    """Number of rows without padding."""

    def part(self, first: int, last: int) -> "DeviceBlock":
        """Return some of the rows; multiples of the padding, or the end."""
        here = slice(first, last)
        return DeviceBlock(self.short[:, here], self.own[here], self.slack[here], min(last, self.size) - first)


def prepare(form: Form, rows: DeviceRows, first: int, last: int) -> DeviceBlock:
    """Prepare the rows ``first`` to ``last``; see `bounds.Form.prepare`."""
    import torch

    n, d = (-(-size // step) * step for size, step in zip((last - first, rows.d), PADDED, strict=True))
    short = torch.zeros((d, n), dtype=torch.float32, device=rows.device)
    own, slack = torch.zeros_like(short[0]), torch.zeros_like(short[0], dtype=torch.float64)
    step = rows_per_block(rows.d, rows.elements)
    for start in range(first, last, step):
        end = min(start + step, last)
        here = slice(start - first, end - first)
        near, own[here], slack[here] = _round_rows(form, form.measure.rows(rows.block(start, end)))
        short[: rows.d, here] = near.T
    return DeviceBlock(short, own, slack, last - first)


def _round_rows(form: Form, exact: Any) -> tuple[Any, Any, Any]:
    """Return rows in float32, their own terms and their slacks: `kernels.round_to_float32` in PyTorch."""
    import torch

    moved, lost = form.moved(exact)
    value = moved * form.scale
    norm, inside = NORMS[form.family], abs(value) <= largest_summable(value.shape[1], form.root)
    near = torch.where(inside & (abs(value) >= (SMALLEST if norm == 3 else 0.0)), value, 0.0).float()
    off = abs(value - near)
    if norm == 2:
        own = near.double().square().sum(1)
        slack = off.square().sum(1).sqrt() + 2.0**-50 * own.sqrt() + form.drift() * form.scale
    elif norm == 3:
        own = torch.full_like(off[:, 0], value.shape[1])
        slack = torch.where(off > 0, torch.where(near != 0, 2.0**-24, 1.0), 0.0).sum(1) + form.drift() * own
    elif norm == 4:
        own = torch.xlogy(value, 2.0 * value).sum(1)
        slack = (1.0 - 2.0 * value).clip(0).sum(1) + own.clip(0)
    else:
        own = abs(value).sum(1)
        slack = off.sum(1) + (2.0**-50 * bool(len(form.centre)) + form.drift()) * own
    inside = inside.all(1) & (own < 1e36)  # a value is infinite only where its pair is left out
    own, slack = torch.where(inside, own, 0.0), torch.where(inside, slack, torch.inf)
    return near, own, (relative_slacks(slack, own) if form.family == "ratio" else slack) + lost


def evaluate(form: Form, queries: DeviceBlock, references: DeviceBlock, tile: Any) -> Any:
    """Fill a tile [M, N] of padded size, and return one number per row that is still to be added, [M].

    It does what `neighbours.evaluate` does on the CPU.

    Raises:
        InputError: The measure is not a product, and Triton is not installed.
    """
    import torch

    rest = torch.zeros_like(queries.own)
    if form.family == "none":
        tile.zero_()
    elif form.family == "product":
        torch.addmm(references.own, queries.short.T, references.short, alpha=-2, out=tile)
        if form.measure.name == "dice":
            own = queries.own[:, None]
            tile.add_(own).div_((own + references.own).clip_(1e-31))
        else:
            rest = queries.own
    else:
        try:
            from memorisk.scores.distances.gpu_kernels import fill
        except ImportError:
            raise InputError(
                f"{form.measure.name} on a GPU needs Triton, which is not installed: python -m pip install triton, or "
                "give device='cpu'"
            ) from None
        fill(form, queries, references, tile)
    tile[:, references.size :] = torch.inf
    return rest


@contextmanager
def full_products(device: Any) -> Iterator[None]:
    """Compute products of float32 in float32, whatever the caller has set, and restore the settings on leaving.

    Raises:
        InputError: The environment forces shorter ones (NVIDIA_TF32_OVERRIDE).
    """
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
            matmul = torch.backends.cuda.matmul
            try:
                stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            except RuntimeError:  # set by PyTorch's newer names, which the older ones cannot tell
                stack.callback(setattr, matmul, "fp32_precision", matmul.fp32_precision)
            torch.set_float32_matmul_precision("highest")
            fine = torch.full((128, 128), 1 + 2.0**-20, device=device)
            if float((fine @ torch.eye(128, device=device)).min()) == 1:
                raise InputError("this GPU multiplies in TF32 against PyTorch's setting; unset NVIDIA_TF32_OVERRIDE")
        yield


Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tile:
    """Values of some queries against some references, on the device."""

    values: Any
    """Values of the pairs, [m, N] float32, infinite where a pair is left out; `rest` is still to be added."""
    rest: Any
    """Number still to be added to each row, [m] float32."""
    betas: Any
    """Absolute bounds of the values, [m] float64."""
    rows: slice
    """Range of the queries in the block."""
    start: int
    """Number of the first reference."""


@dataclass(frozen=True, eq=False)
class Search:
    """Search over two tables on a device, with the form that approximates their pairs there."""

    left: DeviceRows
    right: DeviceRows
    groups: tuple[Ids, Ids]
    """Codes of the groups, [n] and [m]; pairs of the same are left out. Empty without groups."""
    form: Form
    workers: Team
    block: int | None
    """Number of rows of a block, or None."""

    def queries(self) -> Iterator[tuple[slice, DeviceBlock]]:
        """Prepare the queries block by block."""
        many = self.block or rows_per_block(self.left.d, QUERIES)
        for first in range(0, self.left.n, many):
            rows = slice(first, min(first + many, self.left.n))
            yield rows, prepare(self.form, self.left, rows.start, rows.stop)

    def tiles(self, rows: slice, queries: DeviceBlock) -> Iterator[Tile]:
        """Yield every tile of a block of queries in turn; each overwrites the one before."""
        import torch

        device, few = self.left.device, self.block or rows_per_block(self.right.d, ELEMENTS)
        query_ids, reference_ids = (torch.from_numpy(ids).to(device) for ids in self.groups)
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
                if len(query_ids):
                    same = query_ids[rows][part, None] == reference_ids[start : start + references.size]
                    values[:, : references.size].masked_fill_(same, torch.inf)
                yield Tile(values, rest[: some.size], betas[part], part, start)

    def distances(self, rows: Ids, columns: Ids) -> FloatArray:
        """Compute distances of pairs by definition, on the CPU's cores."""
        code, weights, whitening, p = self.form.definition
        out = np.empty(len(rows))

        def task(part: slice) -> None:
            """Compute some of the pairs, each row of them read once."""
            x, i = self.left.take_once(rows[part])
            y, j = self.right.take_once(columns[part])
            x, y = (np.ascontiguousarray(self.form.measure.rows(some)) for some in (x, y))
            some_pairs(code, x, y, i, j, weights, whitening, p, out[part])

        self.workers.run_parts(task, len(rows), PAIRS_PER_THREAD)
        return out

    def keys(self, distances: FloatArray) -> FloatArray:
        """Compute `direct.key_of` of many distances."""
        if self.form.power == 0:
            return np.divide(distances, 1 + distances, out=np.ones_like(distances), where=distances < np.inf)
        return (self.form.multiplier * distances) ** self.form.power

    def limit(self, keys: Any, betas: Any) -> Any:
        """Return the largest values, in float32, whose keys may be at most these; see `definitions`."""
        return (((keys * ROOM + betas) / (1 - self.form.rho)) ** self.form.root * (1 + 1e-6) + 1e-37).float()


class _Nearest:
    """Nearest references of a block of queries, as far as they have been seen."""

    def __init__(self, search: Search, first: int, distances: FloatArray, indices: Ids) -> None:
        import torch

        self.search, self.first, self.distances, self.indices = search, first, distances, indices
        self.k = distances.shape[1]
        self.most = torch.full(distances.shape, torch.inf, dtype=torch.float64, device=search.left.device)
        """Upper bounds of the keys of the k nearest, [m, k]."""
        self.room = max(PENDING_PAIRS, 4 * distances.size)
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
        for part in (least <= limits[:, None]).nonzero().split(GATHERED_GROUPS):
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
        """Evaluate the waiting pairs by definition."""
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
    """Prepare two checked tables for a search on their device."""
    with full_products(left.device), team(threads) as workers:
        form = find_form(measure, right, left.exact and right.exact).on_device()
        yield Search(left, right, groups, form, workers, block)


def search_nearest(search: Search, distances: FloatArray, indices: Ids) -> None:
    """Write the nearest of every query to ``distances`` and ``indices``, [n, k], as `neighbours.nearest` does."""
    for rows, queries in search.queries():
        neighbours = _Nearest(search, rows.start, distances[rows], indices[rows])
        for tile in search.tiles(rows, queries):
            neighbours.take(tile)
        neighbours.settle()


def count_pairs(search: Search, edges: FloatArray) -> Ids:
    """Count pairs by bin, [bins]; see `neighbours.histogram` and `definitions.scan_histogram`."""
    import torch

    keys = torch.from_numpy(np.where(edges >= 0, search.keys(edges.clip(0)), -1.0)).to(search.left.device)
    counts = np.zeros(len(edges) - 1, np.int64)
    for rows, queries in search.queries():
        for tile in search.tiles(rows, queries):
            step = max(1, BINNED_VALUES // tile.values.shape[1])
            for first in range(0, len(tile.values), step):
                part = slice(first, first + step)
                values, betas = tile.values[part] + tile.rest[part, None], tile.betas[part, None]
                sure, unsure = _count(search, keys, values, betas)
                i, j = (at.cpu().numpy() for at in unsure.nonzero(as_tuple=True))
                near = search.distances(i + (rows.start + tile.rows.start + first), j + tile.start)
                counts += sure.cpu().numpy() + np.histogram(near, edges)[0]
    return counts


def _count(search: Search, keys: Any, values: Any, betas: Any) -> tuple[Any, Any]:
    """Count the values that are surely in a bin, and mark, [s, N], those that may be on either side of an edge."""
    import torch

    form, last = search.form, len(keys)
    above = torch.where(keys >= 0, search.limit(keys, betas), -torch.inf)
    under = (keys / ROOM - betas) / (1 + form.rho)
    below = torch.where(under > 0, under**form.root * (1 - 1e-6) - 1e-37, -torch.inf).float()
    place, counted = torch.searchsorted(above, values), values < torch.inf
    unsure = counted & (place < last) & (values >= below.gather(1, place.clip(max=last - 1)))
    return torch.bincount(place[counted & ~unsure], minlength=last + 1)[1:last], unsure
