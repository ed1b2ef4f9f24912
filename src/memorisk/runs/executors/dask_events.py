"""Workers of a Dask cluster that are looked after while jobs of ours run: one that says nothing loses its jobs.

Dask notices by itself a worker that dies, or whose machine is cut off. One that is stopped keeps its connections, and
its jobs; Dask's own limit (``worker-ttl``) is a setting of the scheduler that may be switched off.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from memorisk.runs.errors import one_line
from memorisk.runs.executors.heartbeats import Signs, silence

WATCH_SECONDS = 5.0
ANSWER_SECONDS = 30
END_SECONDS = 10
"""For which the nanny of a silent worker has time to end it."""
_MISSED = 4
"""Heartbeats that a worker must have missed: each comes once in 1 + n/200 seconds at the most, n workers."""


@contextmanager
def watched(
    client: Any, cluster: str, futures: Iterable[Any], only: Sequence[str] | None, patience: float
) -> Iterator[None]:
    """Look after the workers of jobs.

    The jobs of one that gave no sign of life are given to others, and it is taken off the cluster, so that what it
    answers later is not heard. Where none gives one, nobody could take them over: it is said once, and they wait.
    When all workers that jobs are for are gone, the jobs are taken back, so that they are handed out again.

    Args:
        client: Of the cluster.
        cluster: Its address, for messages.
        futures: The jobs.
        only: Addresses that jobs are for; None for any worker.
        patience: Seconds without a sign of life.
    """
    keys = {future.key for future in futures}
    signs, over, told = Signs(), threading.Event(), False
    every = min(WATCH_SECONDS, patience / 4)
    log = logging.getLogger(__name__)

    def look() -> None:
        """Once."""
        nonlocal told
        workers = workers_of(client)
        quiet = signs.quiet({address: worker["last_seen"] for address, worker in workers.items()}, every)
        limit = max(patience, _MISSED * (1 + len(workers) / 200))
        silent = [address for address, seconds in quiet.items() if seconds > limit]
        if only is not None and not set(only) & set(workers):
            client.cancel(list(futures), force=True)
            over.set()
        elif len(silent) < len(workers):
            busy, told = client.processing() if silent else {}, False
            taken = [address for address in silent if keys.intersection(busy.get(address, ()))]
            for address in taken:
                log.warning("%s", silence(address, quiet[address]))
            if taken:
                _take_off(client, taken)
        elif not told:
            log.warning("no worker at %s gives a sign of life: jobs wait for one", one_line(cluster, 80))
            told = True

    def watch() -> None:
        """Look now and then."""
        while not over.wait(every):
            with suppress(OSError, TimeoutError, ValueError, RuntimeError):  # the wire is cut: that is seen elsewhere
                look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def workers_of(client: Any) -> dict[str, Any]:
    """What the scheduler tells of each worker, by address.

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
