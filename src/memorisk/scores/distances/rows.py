"""Tables of vectors, read a block of rows at a time, and threads that work on the blocks.

Rows come from arrays, memory maps and tensors, in float64; rows that no measure takes are named.

Compiled kernels and matrix products both run outside Python's lock. The threads are Python's, not numba's own,
which are never started: they end with the work, so that a process may fork before and after.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from memorisk.runs.errors import InputError, one_line

FloatArray = NDArray[np.float64]

LARGEST = 1e100
"""Largest value allowed: greater ones overflow when squared or raised to a power."""
ELEMENTS = 1 << 20
"""Numbers in a block: 8 MiB in float64."""
_LISTED = 5
_EXACT = frozenset(("bfloat16", "float16", "float32", "bool", "int8", "uint8", "int16", "uint16"))
_TAKEN = _EXACT | {"float64", "int32", "uint32", "int64", "uint64"}


def name_rows(rows: NDArray[np.int64]) -> str:
    """Write row numbers for a message: the first few and how many in all."""
    listed = ", ".join(str(int(r)) for r in rows[:_LISTED])
    if len(rows) > _LISTED:
        return f"rows {listed}, ... ({len(rows):,} in all)"
    return f"row {listed}" if len(rows) == 1 else f"rows {listed}"


def array_library(x: Any) -> Any:
    """Return NumPy or PyTorch, whichever holds an array; code that uses functions of both runs where its rows are."""
    return sys.modules[type(x).__module__.partition(".")[0]]


def convert_like(x: Any, array: Any) -> Any:
    """Convert an array to the library and the device of ``x``."""
    return array_library(x).asarray(array, device=x.device)


class Rows:
    """An [n, d] table that is read in blocks.

    Args:
        table: A NumPy array or memory map, a PyTorch tensor on any device (bfloat16 too), or data that becomes an
            array.
        what: "queries" or "references", for messages.

    Attributes:
        n: Number of rows.
        d: Number of columns.
        exact: Whether the type's values are all float32 values.
        elements: Number of numbers in a block.

    Raises:
        InputError: The table does not hold real numbers.
    """

    elements = ELEMENTS

    def __init__(self, table: Any, what: str) -> None:
        self.what = what
        self._tensor = hasattr(table, "detach") and hasattr(table, "device")
        self._table: Any = table.detach() if self._tensor else (
            table if isinstance(table, np.ndarray) else np.asarray(table)
        )  # fmt: skip
        kind = getattr(self._table.dtype, "name", str(self._table.dtype)).removeprefix("torch.")
        if kind not in _TAKEN:
            raise InputError(f"{what} are of type {one_line(kind, 40)}; give real numbers, float64 or shorter")
        if len(self._table.shape) != 2 or self._table.shape[1] == 0:
            raise InputError(f"{what} have shape {tuple(self._table.shape)}; give [n, d], one row per image")
        self._half = kind == "bfloat16"
        self.exact = kind in _EXACT
        self.n, self.d = (int(size) for size in self._table.shape)

    def block(self, first: int, last: int) -> FloatArray:
        """Return rows ``first`` to ``last`` in float64, a copy."""
        return self._float64(self._table[first:last], copy=True)

    def view(self, first: int, last: int) -> FloatArray:
        """Return rows ``first`` to ``last`` in float64, not to be written to: the table's own if it is float64."""
        part = self._float64(self._table[first:last], copy=None)
        part.flags.writeable = False
        return part

    def own(self, first: int, last: int) -> FloatArray | None:
        """Return rows ``first`` to ``last`` of the table itself, not to be written to.

        Return None where compiled code needs a copy.

        A table that may not be written to is another type to a compiled function, which would be compiled once more.
        """
        table = self._table
        if self._tensor or table.dtype != np.float64 or not (table.flags.c_contiguous and table.flags.writeable):
            return None
        return table[first:last]

    def take(self, numbers: NDArray[np.int64]) -> FloatArray:
        """Return rows of these numbers in float64, a copy."""
        return self._float64(self._table[numbers])

    def take_once(self, numbers: NDArray[np.int64]) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return rows of these numbers in float64, each once, and the place of each of the numbers among them."""
        unique, places = np.unique(numbers, return_inverse=True)
        return np.ascontiguousarray(self.take(unique)), places.reshape(-1)

    def columns(self, first: int, last: int) -> FloatArray:
        """Return columns ``first`` to ``last`` in float64, a copy."""
        return self._float64(self._table[:, first:last])

    def _float64(self, part: Any, copy: bool | None = True) -> FloatArray:
        if self._tensor:
            part = part.cpu()
            part = (part.float() if self._half else part).numpy()
        return np.array(part, dtype=np.float64, order="C", copy=copy)

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield the first row and the rows of every block in turn, not to be written to."""
        step = rows_per_block(self.d, self.elements)
        for first in range(0, self.n, step):
            yield first, self.view(first, min(first + step, self.n))

    def refuse(self, reason: str, bad: Callable[[FloatArray], Any]) -> None:
        """Refuse the table where any row is bad.

        Args:
            reason: End of the sentence "rows 1, 2 of the queries ...".
            bad: Function from rows [m, d] to [m], whether each row is bad.

        Raises:
            InputError: A row is bad; the message names the first few and counts all.
        """
        bad_rows = [np.flatnonzero(rows.tolist()) + first for first, x in self.blocks() if (rows := bad(x)).any()]
        numbers = np.concatenate(bad_rows) if bad_rows else np.empty(0, np.int64)
        if len(numbers):
            raise InputError(f"{name_rows(numbers)} of the {self.what} {reason}")

    def check(self) -> None:
        """Refuse NaN, inf and values beyond ``LARGEST``.

        Raises:
            InputError: The table holds such values.
        """
        self.refuse(f"hold NaN, inf or values beyond {LARGEST:g}; leave them out", _too_large)


def _too_large(x: Any) -> Any:
    """Mark rows with NaN, inf or values beyond ``LARGEST``, [m].

    The sum of all squares clears most blocks without a copy.
    """
    if isinstance(x, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):
            if np.vdot(x, x) <= LARGEST**2:
                return np.zeros(len(x), dtype=bool)
    return ~(abs(x) <= LARGEST).all(axis=1)


def rows_per_block(d: int, elements: int = ELEMENTS) -> int:
    """Return the number of rows of ``d`` numbers in a block."""
    return max(1, elements // d)


Task = TypeVar("Task")


class Team:
    """Runs a function over tasks with a fixed number of threads.

    Args:
        threads: Number of threads.
        pool: Pool in which the threads run; None for the caller's own thread.
    """

    def __init__(self, threads: int, pool: ThreadPoolExecutor | None) -> None:
        self.threads, self._pool = threads, pool

    def run(self, function: Callable[[Task], None], tasks: Sequence[Task]) -> None:
        """Call the function on every task; the first error is raised."""
        if self._pool is None:
            for task in tasks:
                function(task)
        else:
            for _ in self._pool.map(function, tasks):
                pass

    def run_parts(self, function: Callable[[slice], None], n: int, size: int) -> None:
        """Call the function on every part of n things, ``size`` of them at a time."""
        self.run(lambda first: function(slice(first, min(first + size, n))), range(0, n, size))


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> ThreadpoolController:
    """Find the BLAS libraries of this process again when modules were imported since: the search takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def team(threads: int | None) -> Iterator[Team]:
    """Open a team of the given number of threads, or of as many as numba is set to; each multiplies matrices alone.

    BLAS is limited to one thread in the whole process meanwhile and has its own number again afterwards.
    """
    from numba import config

    number = int(getattr(config, "NUMBA_NUM_THREADS", 1)) if threads is None else threads
    with _thread_pools(len(sys.modules)).limit(limits=1, user_api="blas"):
        if number == 1:
            yield Team(1, None)
            return
        with ThreadPoolExecutor(number) as pool:
            yield Team(number, pool)
