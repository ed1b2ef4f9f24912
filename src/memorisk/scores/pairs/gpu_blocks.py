"""Rows as whole numbers on a device, and tiles of their signed sums there; `grid` and `kernels` are the CPU's."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.scores.distances.parallel import Team
from memorisk.scores.distances.rows import FloatArray, Rows, rows_per_block
from memorisk.scores.pairs.grid import Grid

ROWS = 1 << 14
"""Rows of a block: tiles of 1 GiB."""
PADDED, CHUNK = 128, 16
"""Multiples that rows and columns of a block come in; see `gpu_kernels`."""
NONE = -(2**31)
"""Stands for a pair that is left out."""
KEPT = 1 << 26
"""Numbers of a table that is held in float64 for the definition: 512 MiB."""


@dataclass(frozen=True, eq=False)
class DeviceBlock:
    """Rows made ready on a device."""

    short: Any
    """[D, N] float32: |W| q, columns with a positive W first; padded with zeros."""
    slack: FloatArray
    """[m] r of `grid.Block`, on the host."""
    first: int
    """Number of the first row."""

    @property
    def size(self) -> int:
        """Rows without padding."""
        return len(self.slack)

    def before(self, last: int) -> "DeviceBlock":
        """The rows before this one."""
        size = min(self.size, last - self.first)
        return DeviceBlock(self.short[:, : padded(size, PADDED)], self.slack[:size], self.first)


def padded(size: int, step: int) -> int:
    """The next multiple."""
    return -(-size // step) * step


class DeviceTable:
    """Some rows of a table, made ready block by block; kept on the device where they take less than ``room`` bytes.

    Args:
        rows: Checked.
        first: First row.
        last: The row after the last.
        grid: How vectors become whole numbers.
        workers: That round them.
        device: A ``torch.device``.
        block: Rows of a block; None for ``ROWS``.
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
        keeps = 4 * self.width * (last - first) < room(device)
        self._kept: dict[int, DeviceBlock] | None = {} if keeps else None

    def block(self, number: int) -> DeviceBlock:
        """A block by its number."""
        if self._kept is None:
            return self._prepared(number)
        if number not in self._kept:
            self._kept[number] = self._prepared(number)
        return self._kept[number]

    def _prepared(self, number: int) -> DeviceBlock:
        import torch

        first, last = self.parts[number]
        made = self.grid.prepare(self.rows, first, last, self.workers)
        there = torch.from_numpy(made.short).to(self.device)
        short = torch.zeros((self.width, padded(last - first, PADDED)), dtype=torch.float32, device=self.device)
        for start, some in zip((0, self.more), self.columns, strict=True):
            size = torch.from_numpy(np.abs(self.grid.whole[some].astype(np.float32))).to(self.device)
            chosen = there[:, torch.from_numpy(some).to(self.device)].float() * size
            short[start : start + len(some), : last - first] = chosen.T
        return DeviceBlock(short, made.slack, first)


def room(device: Any) -> float:
    """Bytes that a table may take: a quarter of what is free."""
    import torch

    return torch.cuda.mem_get_info(device)[0] / 4 if device.type == "cuda" else float("inf")


def evaluate(table: DeviceTable, some: DeviceBlock, others: DeviceBlock, space: Any) -> Any:
    """V of every pair, [M, N] int32 of padded size in ``space``; ``NONE`` where a row or a column is padding.

    Raises:
        InputError: There is no Triton.
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
    """Rows for the definition: all in float64 where they are few, else those that are asked for.

    Args:
        rows: The table.
        workers: That read it.
    """

    def __init__(self, rows: Rows, workers: Team) -> None:
        self._rows = rows
        self._whole = whole = np.empty((rows.n, rows.d)) if rows.n * rows.d <= KEPT else None
        if whole is not None:
            step = rows_per_block(rows.d)

            def read(first: int) -> None:
                """A block."""
                whole[first : first + step] = rows.block(first, min(first + step, rows.n))

            workers.run(read, range(0, rows.n, step))

    def take(self, numbers: Any) -> tuple[FloatArray, Any]:
        """A table [*, d] and where in it each of the numbers is."""
        if self._whole is not None:
            return self._whole, numbers
        unique, places = np.unique(numbers, return_inverse=True)
        return np.ascontiguousarray(self._rows.take(unique)), places.reshape(-1)


@contextmanager
def on_device(device: Any) -> Iterator[None]:
    """What is made there is made on this device and records no gradients."""
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
        yield
