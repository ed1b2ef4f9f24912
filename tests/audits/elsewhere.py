"""A command whose searches and passes of images run on a cluster, and here: are the bytes the same?"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memorisk.runs.executors.pool import run_jobs
from memorisk.training.features import compute_backend as feature_jobs
from memorisk.training.features import search_jobs
from tests.audits.test_on_cluster import results
from tests.runs.clusters import DaskCluster

Both = Callable[..., Counter[str]]


def both_places(where: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """What runs a command there and here, each with a cache of its own, and compares all files; counts the jobs there.

    Args:
        where: Settings of the cluster.
        tmp_path: Folder of both runs.
        monkeypatch: So that small searches and passes leave this machine, too.
    """
    monkeypatch.setattr(search_jobs, "MIN_DISTRIBUTED_WORK", 0)
    monkeypatch.setattr(search_jobs, "_PER_JOB", 64 * 64 * 64)
    monkeypatch.setattr(feature_jobs, "_MAX_LOCAL_BATCHES", 0)
    monkeypatch.setattr("memorisk.training.features.extraction.MAX_BATCH", 32)
    sent: Counter[str] = Counter()

    def counted(function: Any, jobs: list[Any], **how: Any) -> list[Any]:
        """Count what leaves this machine."""
        assert how["place"].remote
        sent[function.__name__] += len(jobs)
        return run_jobs(function, jobs, **how)

    for module in (search_jobs, feature_jobs):
        monkeypatch.setattr(module, "run_jobs", counted)

    def run(command: Callable[..., Any], *given: Any, out: str = "", **settings: Any) -> Counter[str]:
        """The numbers of jobs."""
        sent.clear()
        there, here = tmp_path / f"there{out}", tmp_path / f"here{out}"
        command(*given, out=there, store=tmp_path / "there-store", **settings, **where)
        gone = Counter(sent)
        command(*given, out=here, store=tmp_path / "here-store", **settings)
        assert sent == gone
        made = results(here)
        assert results(there) == made
        assert {"report.html"} <= set(made)
        assert [file.name for file in (tmp_path / "there-store" / "searches").iterdir() if file.is_dir()] == []
        return gone

    return run


class Killer:
    """Kills one worker as soon as it has a job."""

    def __init__(self, busy: Callable[[], list[int]]) -> None:
        self.killed: list[int] = []
        self._busy, self._over = busy, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(20)

    def _watch(self) -> None:
        while not self._over.is_set() and not self.killed:
            for process in self._busy()[:1]:
                os.kill(process, signal.SIGKILL)
                self.killed.append(process)
            time.sleep(0.002)


@contextmanager
def busy_on_dask(cluster: DaskCluster) -> Iterator[Callable[[], list[int]]]:
    """Says which processes have a job, by the scheduler."""
    from distributed import Client

    client: Any
    with Client(cluster.address, set_as_default=False) as client:
        processes = client.run(os.getpid)
        yield lambda: [processes[worker] for worker, jobs in client.processing().items() if jobs]
