"""Jobs on the workers of a Dask cluster, and the watch over these workers.

Dask's scheduler gives a job whose worker was lost to another one. A lost connection to the scheduler is ours to
mend: the client is opened again, and what is not done is handed out once more; a job that runs twice leaves the
same files.

Dask notices by itself a worker that dies, or whose machine is cut off. A worker that is stopped keeps its
connections and its jobs; Dask's own limit (``worker-ttl``) is a setting of the scheduler that may be switched off.
Workers are therefore watched while jobs of ours run: one that says nothing loses its jobs.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from memorisk.runs.errors import RESUME_HINT, InputError, MemoriskError, MissingExtraError, one_line
from memorisk.runs.executors import worker as remote
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.worker import (
    LifeSigns,
    Outcome,
    WorkerRequirements,
    attempt_remotely,
    check_workers,
    inspect_machine,
    silence_message,
    worker_loss,
)

WATCH_SECONDS = 5.0
ANSWER_SECONDS = 30
END_SECONDS = 10
"""Seconds that the nanny of a silent worker has to end it."""
_MISSED = 4
"""Heartbeats that a worker must have missed: each comes once in 1 + n/200 seconds at the most, n workers."""
CONNECT_SECONDS = 10
RECONNECT_SECONDS = 120.0
"""Seconds for which a scheduler that was there before is called again."""
SILENT_WORKER_SECONDS = 2.0
"""Seconds to wait for a worker that was silent the last time."""


@contextmanager
def watch_workers(
    client: Any, cluster: str, futures: Iterable[Any], only: Sequence[str] | None, patience: float
) -> Iterator[None]:
    """Watch the workers of jobs.

    The jobs of a worker that gave no sign of life are given to others, and the worker is taken off the cluster, so
    that its later answers are ignored. Where no worker gives a sign, none could take them over: a warning is logged
    once, and the jobs wait.
    When all workers that jobs are for are gone, the jobs are taken back, so that they are handed out again.

    Args:
        client: Client of the cluster.
        cluster: Address of the cluster, for messages.
        futures: Futures of the jobs.
        only: Addresses that jobs are for; None for any worker.
        patience: Seconds without a sign of life.
    """
    keys = {future.key for future in futures}
    signs, over, warned = LifeSigns(), threading.Event(), False
    every = min(WATCH_SECONDS, patience / 4)
    log = logging.getLogger(__name__)

    def look() -> None:
        """Look at all workers once."""
        nonlocal warned
        workers = workers_of(client)
        quiet = signs.quiet({address: worker["last_seen"] for address, worker in workers.items()}, every)
        limit = max(patience, _MISSED * (1 + len(workers) / 200))
        silent = [address for address, seconds in quiet.items() if seconds > limit]
        if only is not None and not set(only) & set(workers):
            client.cancel(list(futures), force=True)
            over.set()
        elif len(silent) < len(workers):
            busy, warned = client.processing() if silent else {}, False
            hung = [address for address in silent if keys.intersection(busy.get(address, ()))]
            for address in hung:
                log.warning("%s", silence_message(address, quiet[address]))
            if hung:
                _take_off(client, hung)
        elif not warned:
            log.warning("no worker at %s gives a sign of life: jobs wait for one", one_line(cluster, 80))
            warned = True

    def watch() -> None:
        """Look at the workers now and then."""
        while not over.wait(every):
            with suppress(OSError, TimeoutError, ValueError, RuntimeError):  # the lost connection is handled elsewhere
                look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def workers_of(client: Any) -> dict[str, Any]:
    """Return the scheduler's record of each worker, by address.

    Raises:
        OSError: It does not answer.
    """
    if client.scheduler is None:
        raise OSError("the scheduler is called again")
    return client.sync(client.scheduler.identity, callback_timeout=ANSWER_SECONDS)["workers"]


def _take_off(client: Any, addresses: Sequence[str]) -> None:
    """Take workers off their cluster, as the scheduler does when ``worker-ttl`` is over: a nanny begins a new one."""
    client.sync(
        client.scheduler.restart_workers,
        workers=list(addresses),
        timeout=END_SECONDS,
        wait_for_workers=False,
        on_error="return",
        stimulus_id="memorisk-worker-silent",
    )


_silent_workers: set[str] = set()


def dask_outcomes(
    function: Callable[[Any], Any], jobs: Sequence[Any], place: Placement, threads: int, needs: WorkerRequirements
) -> Iterator[Outcome]:
    """Yield outcomes in the order in which jobs end.

    Args:
        function: Function that is importable by name on every worker.
        jobs: Picklable arguments of the function, one per job.
        place: Cluster, with what a job needs.
        threads: Number of threads of native code of each job.
        needs: Requirements that workers must meet.

    Raises:
        InputError: The cluster does not exist, no worker may take jobs, or none has what they need.
        MemoriskError: The scheduler was lost, and did not come back.
    """
    waiting, run, again = dict(enumerate(jobs)), secrets.token_hex(6), None
    while waiting:
        with _open(place.cluster, again) as client:
            answered, silent = client.sync(_ask, client, needs, list(workers_of(client)))
            check_workers(
                list(answered.values()), place.cluster, silent, new=[a for a in silent if a not in _silent_workers]
            )
            _silent_workers.difference_update(answered)
            _silent_workers.update(silent)
            submit = {"pure": False, "resources": _resources(client, place)}
            if silent:  # silent workers look idle, so Dask would give them jobs
                submit["workers"] = list(answered)
            futures = {
                client.submit(
                    attempt_remotely, function, job, i, threads, needs, key=f"{function.__name__}-{run}-{i}", **submit
                ): i
                for i, job in waiting.items()
            }
            try:
                only = list(answered) if silent else None
                with watch_workers(client, place.cluster, list(futures), only, place.silence):
                    for outcome in _ended(client, futures):
                        del waiting[outcome.index]
                        yield outcome
            finally:
                client.cancel(list(futures), force=True)
        again = time.monotonic() + RECONNECT_SECONDS


def check_dask(place: Placement) -> None:
    """Ask whether there is a scheduler, with a worker that offers what a job needs.

    Raises:
        InputError: No scheduler answers, or no worker offers it.
    """
    with _open(place.cluster, None) as client:
        if not workers_of(client):
            check_workers([], place.cluster)
        _resources(client, place)


async def _ask(
    client: Any, needs: WorkerRequirements, addresses: list[str]
) -> tuple[dict[str, tuple[str, str | None]], list[str]]:
    """Ask each worker for its versions; return answers by address, and the silent ones. One that dies is left out.

    One request to all of them would wait for a stopped worker.
    """

    async def one(address: str) -> Any:
        """Return the answer of one worker; None if it comes too late."""
        seconds = (
            min(SILENT_WORKER_SECONDS, remote.INSPECTION_SECONDS)
            if address in _silent_workers
            else remote.INSPECTION_SECONDS
        )
        try:
            answers = await asyncio.wait_for(
                client.run(inspect_machine, needs, workers=[address], on_error="return"), seconds
            )
        except TimeoutError:
            return None
        except (OSError, ValueError) as error:  # lost during the request
            return error
        return answers.get(address)

    answers = dict(zip(addresses, await asyncio.gather(*map(one, addresses)), strict=True))
    marks_seen = {address: answer for address, answer in answers.items() if isinstance(answer, tuple)}
    return marks_seen, [address for address, answer in answers.items() if answer is None]


def _ended(client: Any, futures: dict[Any, int]) -> Iterator[Outcome]:
    """Return the outcomes of jobs as they end; those that a broken connection took are left out."""
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    for future in as_completed(list(futures), loop=client.loop, raise_errors=False):
        if future.status == "finished":
            yield future.result()
        elif future.status == "error":
            error = future.exception()
            if not isinstance(error, KilledWorker):
                raise MemoriskError(f"a job did not reach its worker: {one_line(error, 200)}; {RESUME_HINT}") from error
            yield worker_loss(futures[future], error.allowed_failures + 1)


@contextmanager
def _open(address: str, again: float | None) -> Iterator[Any]:
    """Open a client; for a cluster that existed before, retry until the given moment.

    Raises:
        InputError: The cluster does not exist.
        MemoriskError: The cluster did not come back.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("dask.distributed", "cluster", "executor dask") from None

    class _Quiet(Client):
        """A client that is not closed again by Python's collector: one that never connected has nothing to wait for."""

        def __del__(self) -> None:
            """Leave it: `_open` closes those that did connect."""

    for name in ("distributed", "distributed.client"):  # of which each has a level of its own
        logging.getLogger(name).setLevel(logging.CRITICAL)
    scheduler = one_line(address, 80)
    while True:
        try:
            client = _Quiet(address, timeout=CONNECT_SECONDS, set_as_default=False)
            break
        except (OSError, TimeoutError, ValueError) as error:
            if again is None:
                raise InputError(
                    f"no scheduler of Dask answers at {scheduler}: {one_line(error, 120)}; start one with dask "
                    "scheduler, which prints its address"
                ) from None
            if time.monotonic() > again:
                raise MemoriskError(
                    f"the scheduler at {scheduler} was lost and does not come back; {RESUME_HINT}"
                ) from None
            time.sleep(1)
    try:
        yield client
    finally:
        client.close()


def _resources(client: Any, place: Placement) -> dict[str, float] | None:
    """Return the resources that a job requests from a worker.

    Raises:
        InputError: No worker offers it.
    """
    amounts = {name: float(n) for name, n in (("GPU", place.gpus), ("memory", place.memory or 0)) if n}
    for name, n in amounts.items():
        offered = [worker["resources"].get(name, 0) for worker in workers_of(client).values()]
        if max(offered, default=0) < n:
            raise InputError(
                f"no worker at {one_line(place.cluster, 80)} offers {name} {n:g}: start workers with "
                f"--resources '{name}={n:g}'"
            )
    return amounts or None
