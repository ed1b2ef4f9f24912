"""Pool of jobs: in this process, side by side in processes of this machine, or on the workers of a cluster.

A job is a function and a picklable argument; it leaves its result in the run folder, written atomically, and returns
only a small value. Failures are collected: one broken job does not take the finished ones with it.

Processes are forked from Python's fork server, a small process that has imported what jobs need and nothing else:
importing PyTorch takes longer than a small network takes to train, and so happens once and not in every worker
(benchmarks/results/demo.json; joblib's loky, used before, imports it in each, and again where a worker's memory grew).
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from threadpoolctl import threadpool_limits

from memorisk.runs.errors import RESUME_HINT, InputError, MemoriskError, plural
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.worker import Outcome, attempt, worker_requirements
from memorisk.runs.processes import SAFE_ENVIRONMENT, safe_start, start_server

__all__ = ["Outcome", "prepare_workers", "run_jobs", "worker_pool"]

_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_preloaded: list[str] = []


def prepare_workers(*modules: str) -> None:
    """Start the fork server, which imports these modules while this process continues.

    Worth calling before heavy imports of one's own. The first call of a process counts; later ones change nothing.
    """
    if _preloaded or _METHOD != "forkserver":
        return
    _preloaded.extend(modules)
    start_server(modules)


def run_jobs(
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    *,
    processes: int = 1,
    threads: int = 1,
    on_done: Callable[[Outcome], None] | None = None,
    place: Placement | None = None,
) -> list[Any]:
    """Run ``function(job)`` for every job and return the values in order.

    Args:
        function: Function that is importable by name, since other processes import it.
        jobs: Picklable arguments of the function, one per job.
        processes: Number of processes that run side by side.
        threads: Number of threads that each may use in native code.
        on_done: Called in this process as each job ends, in the order they end.
        place: A cluster, and what a job needs of it; None, or one that is local: this machine.

    Raises:
        InputError: A job was given bad input, or the cluster cannot take jobs.
        MemoriskError: Some jobs failed, or a worker was killed; the others ran to their end and what they wrote stays.
            Where the user's own function failed before any job had succeeded, the others are not begun, or ended.
    """
    outcomes: list[Outcome] = []
    source: Generator[Outcome, None, None]
    if place is not None and place.remote:
        source = _on_cluster(function, jobs, place, threads)
    elif processes <= 1 or len(jobs) <= 1:
        source = (attempt(function, job, i) for i, job in enumerate(jobs))
    else:
        source = _side_by_side(function, jobs, processes, threads)
    stopped = False
    with closing(source):
        for outcome in source:
            outcomes.append(outcome)
            if on_done:
                on_done(outcome)
            stopped = outcome.user_code and all(other.error is not None for other in outcomes)
            if stopped:
                break
    failed = sorted((o for o in outcomes if o.error is not None), key=lambda o: o.index)
    if failed:
        if failed[0].bad_input:
            raise InputError(failed[0].error)
        hint = f"; {RESUME_HINT}" if len(jobs) > 1 else ""
        if stopped and len(outcomes) < len(jobs):
            others = plural(len(jobs) - len(outcomes), "other job was", "other jobs were")
            raise MemoriskError(f"the first job failed: {failed[0].error}; {others} not finished")
        raise MemoriskError(f"{len(failed)} of {len(jobs)} jobs failed, the first with: {failed[0].error}{hint}")
    return [o.value for o in sorted(outcomes, key=lambda o: o.index)]


@contextmanager
def worker_pool(processes: int, threads: int, warm_up: Callable[[int], Any]) -> Iterator[None]:
    """Start workers now, while this process prepares their jobs.

    They serve every `run_jobs` inside that uses as many processes with as many threads.

    Args:
        processes: Number of processes; with one, nothing is started.
        threads: Number of threads that each may use in native code.
        warm_up: Function that is called once in each worker, with its number.
    """
    if processes <= 1:
        yield
        return
    pool = _Pool(processes, threads, (warm_up.__module__,))
    pool.submit(warm_up, range(processes))
    _open.append(pool)
    try:
        yield
    finally:
        pool.close()


class _Pool:
    """Processes that wait for jobs.

    They hold the reading end of a pipe whose writing end is here alone. When it closes, because this process ended
    (however it ended) or because their work is no longer needed, they end at once, also in the middle of a job.
    """

    def __init__(self, processes: int, threads: int, modules: Sequence[str]) -> None:
        prepare_workers(*modules)
        self.key = (processes, threads)
        context = multiprocessing.get_context(_METHOD)
        with safe_start():  # the queues of an executor start Python's resource tracker
            self._reading, self._writing = context.Pipe(duplex=False)
            arguments = (self._reading, threads)
            self._executor = ProcessPoolExecutor(processes, context, initializer=_begin_worker, initargs=arguments)

    def submit(self, function: Callable[..., Any], *arguments: Iterable[Any]) -> list[Future[Any]]:
        """Hand out ``function(*given)`` for each set of arguments."""
        with safe_start():
            return [self._executor.submit(function, *values) for values in zip(*arguments, strict=True)]

    def close(self) -> None:
        """End the workers, whatever they do; what waits is never begun."""
        if self in _open:
            _open.remove(self)
        self._writing.close()
        self._executor.shutdown(cancel_futures=True)
        self._reading.close()


_open: list[_Pool] = []


def _side_by_side(
    function: Callable[[Any], Any], jobs: Sequence[Any], processes: int, threads: int
) -> Generator[Outcome, None, None]:
    """Yield outcomes in the order in which jobs end; an open pool is used and stays open, except after errors.

    Raises:
        MemoriskError: A worker ended without an answer.
    """
    open_pool = next((pool for pool in _open if pool.key == (processes, threads)), None)
    pool = open_pool or _Pool(min(processes, len(jobs)), threads, (function.__module__,))
    well = False
    try:
        indices = iter(range(len(jobs)))
        running: set[Future[Outcome]] = set()
        while True:
            # Two per process: none waits for its next job, and where the first one fails no more than these have begun.
            for index in islice(indices, 2 * processes - len(running)):
                running.update(pool.submit(attempt, [function], [jobs[index]], [index]))
            if not running:
                break
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()
        well = True
    except BrokenProcessPool as error:
        raise MemoriskError(
            "a worker process was killed, as the system does when memory runs out: fewer at a time (--processes) "
            f"need less; {RESUME_HINT}"
        ) from error
    finally:
        if not (well and open_pool):
            pool.close()


def _on_cluster(
    function: Callable[[Any], Any], jobs: Sequence[Any], place: Placement, threads: int
) -> Generator[Outcome, None, None]:
    """Yield the outcomes of jobs on a cluster, in the order in which they end."""
    if not jobs:
        return
    from memorisk.runs.executors.dask import dask_outcomes

    with worker_requirements(place.folders, place.files) as needs:
        yield from dask_outcomes(function, jobs, place, threads, needs)


def _begin_worker(parent: Connection, threads: int) -> None:
    """Limit the threads of native libraries; leave Ctrl-C to the parent; end when the parent's pipe closes.

    What a job starts is as safe as the worker itself.
    """
    gc.freeze()  # what was imported before the fork is shared: a collection would touch, and so copy, all of it
    threadpool_limits(threads)
    os.environ.update(SAFE_ENVIRONMENT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        """End this process when its parent is gone."""
        parent.poll(None)  # nothing is ever sent: it returns when the other end is closed
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
