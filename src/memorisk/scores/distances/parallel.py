"""Work by threads: compiled kernels and matrix products both run outside Python's lock.

Python threads, not numba's own, which are never started: these end with the work, so that a process may fork before
and after.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import threadpool_limits

Task = TypeVar("Task")


class Team:
    """Runs a function over tasks with a fixed number of threads.

    Args:
        threads: Of them.
        pool: Where they run; None for the caller's own thread.
    """

    def __init__(self, threads: int, pool: ThreadPoolExecutor | None) -> None:
        self.threads, self._pool = threads, pool

    def run(self, function: Callable[[Task], None], tasks: Sequence[Task]) -> None:
        """The function of every task; the first error is raised."""
        if self._pool is None:
            for task in tasks:
                function(task)
        else:
            for _ in self._pool.map(function, tasks):
                pass


@contextmanager
def team(threads: int | None) -> Iterator[Team]:
    """A team of the given number of threads, or of as many as numba is set to; each multiplies matrices alone.

    BLAS is held to one thread in the whole process meanwhile and has its own number again afterwards.
    """
    from numba import config

    number = int(getattr(config, "NUMBA_NUM_THREADS", 1)) if threads is None else threads
    with threadpool_limits(1, user_api="blas"):
        if number == 1:
            yield Team(1, None)
            return
        with ThreadPoolExecutor(number) as pool:
            yield Team(number, pool)
