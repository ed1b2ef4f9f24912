"""Jobs on a real Ray cluster on loopback: a worker killed, another stopped, a machine lost, wrong needs refused."""

import os
import re
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.executors import ray as ray_jobs
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.pool import connection, run_jobs
from tests.runs.clusters import first_stopped, ray_cluster, slow_square

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    """Three machines with a core each."""
    with ray_cluster(3) as made:
        yield made


def place(cluster, folder: Path, **more) -> Placement:
    """On that cluster."""
    return Placement("ray", cluster.address, folders=(folder,), **more)


@pytest.fixture
def machine():
    """One machine: a cluster of three takes three times as long to start."""
    with ray_cluster(1) as made:
        yield made


def test_failures_and_needs_are_told_in_one_line(machine, tmp_path: Path) -> None:
    with pytest.raises(MemoriskError, match="1 of 2 jobs failed, the first with: ValueError: below 0"):
        run_jobs(slow_square, [(2, str(tmp_path), 0.0), (-3, str(tmp_path), 0.0)], place=place(machine, tmp_path))
    assert (tmp_path / "done-2").read_text() == "4"
    with pytest.raises(InputError, match=r"no machine of the Ray cluster at .* has CPU 1, GPU 1, which a job needs"):
        run_jobs(slow_square, [(2, str(tmp_path), 0.0)], place=place(machine, tmp_path, gpus=1))
    with pytest.raises(InputError, match=r"no Ray cluster answers at 127.0.0.1:1"):
        run_jobs(slow_square, [(2, str(tmp_path), 0.0)], place=Placement("ray", "127.0.0.1:1", folders=(tmp_path,)))


@pytest.mark.thorough
def test_a_killed_worker_a_stopped_one_and_a_lost_machine_change_nothing(cluster, tmp_path: Path) -> None:
    began, hurt_by = set(), []

    def hurt() -> None:
        """Kill one, stop another for a second, take a machine away."""
        while len(began) < 2:
            time.sleep(0.05)
            began.update(int(file.name.split("-")[2]) for file in tmp_path.glob("began-*"))
        killed, stopped = sorted(began)[:2]
        os.kill(killed, signal.SIGKILL)
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(1)
        with suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGCONT)
        cluster.remove_node(cluster.worker_nodes.pop() if isinstance(cluster.worker_nodes, list)
                            else next(iter(cluster.worker_nodes)), allow_graceful=False)  # fmt: skip
        hurt_by.append((killed, stopped))

    thread = threading.Thread(target=hurt)
    thread.start()
    jobs = [(n, str(tmp_path), 1.0) for n in range(8)]
    assert run_jobs(slow_square, jobs, place=place(cluster, tmp_path)) == [n**2 for n in range(8)]
    thread.join()
    assert hurt_by
    again = [file.name.split("-")[1] for file in tmp_path.glob("began-*")]
    assert len(again) > len(set(again)) == 8
    assert not list(tmp_path.glob(".seen-*"))


@pytest.mark.thorough
def test_the_job_of_a_worker_that_is_stopped_for_good_runs_elsewhere(
    cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [(n, str(tmp_path), 0.3) for n in range(6)]
    with first_stopped(tmp_path) as stopped:
        assert run_jobs(slow_square, jobs, place=place(cluster, tmp_path, silence=2.0)) == [n**2 for n in range(6)]
    said = [record.getMessage() for record in caplog.records]
    of_it = [one for one in said if f" (process {stopped[0]}) for " in one]
    assert len(of_it) == 1
    assert of_it[0].startswith("no sign of life of worker ")
    silent = re.search(r"for (\d+) seconds: its jobs are given to others$", of_it[0])
    assert silent is not None
    assert int(silent[1]) >= 2  # more where the machine has other work
    began = [file.name.split("-")[1:3] for file in tmp_path.glob("began-*")]
    assert {int(job) for job, _ in began} == set(range(6))
    lost = {job for job, process in began if int(process) == stopped[0]}
    again = Counter(job for job, _ in began)
    assert any(again[job] > 1 for job in lost)  # whoever the worker had when it was stopped
    if len(said) == 1:  # nobody else was too slow to show a sign of life
        assert sorted(again.values()) == [1, 1, 1, 1, 1, 2]
    assert not list(tmp_path.glob(".seen-*"))
    with suppress(ProcessLookupError):
        os.kill(stopped[0], signal.SIGCONT)
    assert run_jobs(slow_square, [(7, str(tmp_path), 0.0)], place=place(cluster, tmp_path)) == [49]
    assert not list(tmp_path.glob(".seen-*"))


@pytest.mark.slow
def test_jobs_that_are_given_to_stopped_workers_are_handed_out_again(
    cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ray_jobs, "BEGIN_SECONDS", 5.0)
    monkeypatch.setattr(ray_jobs, "START_SECONDS", 10.0)
    where = place(cluster, tmp_path, silence=2.0)
    with connection(where):
        assert run_jobs(slow_square, [(n, str(tmp_path), 0.2) for n in range(4)], place=where) == [0, 1, 4, 9]
        stopped = {int(next(tmp_path.glob("began-*")).name.split("-")[2])}
        for process in stopped:  # one that Ray has ready; its core is lost until it ends
            os.kill(process, signal.SIGSTOP)
        jobs = [(n, str(tmp_path), 0.2) for n in range(10, 14)]
        assert run_jobs(slow_square, jobs, place=where) == [n**2 for n in range(10, 14)]
    assert caplog.records
    again = {int(file.name.split("-")[2]) for file in tmp_path.glob("began-1?-*")}
    assert not again & stopped
    for process in stopped:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
