"""Jobs on a real Dask cluster on loopback: workers killed and stopped, the scheduler's wire cut, wrong ones refused."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import memorisk
from memorisk.cli.settings import with_executor
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.executors.placement import ClusterOptions, Placement, parse_bytes
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.worker import LifeSigns, Outcome, WorkerRequirements, result_versions
from tests.runs.clusters import DaskCluster, Wire, dask_cluster, fatal_below_zero, first_stopped, slow_square

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    """Three workers with one thread each, and one with two."""
    with dask_cluster(3, "--nthreads", "1") as made:
        yield made


def run(cluster: DaskCluster, folder: Path, numbers: list[int], seconds: float = 0.0, **more) -> list[int]:
    """Squares, made on the cluster."""
    place = Placement("dask", more.pop("address", cluster.address), folders=(folder,), **more)
    done: list[Outcome] = []
    found = run_jobs(slow_square, [(n, str(folder), seconds) for n in numbers], place=place, on_done=done.append)
    assert len(done) == len(numbers)
    assert not list(folder.glob(".seen-*"))
    return found


def test_values_come_back_in_order_and_a_failure_loses_nothing(cluster: DaskCluster, tmp_path: Path) -> None:
    assert run(cluster, tmp_path, [3, 1, 2]) == [9, 1, 4]
    with pytest.raises(MemoriskError, match="1 of 3 jobs failed, the first with: ValueError: below 0"):
        run(cluster, tmp_path, [4, -1, 5])
    assert {file.name for file in tmp_path.glob("done-*")} == {f"done-{n}" for n in (3, 1, 2, 4, -1, 5)}
    assert run_jobs(slow_square, [], place=Placement("dask", "tcp://nowhere:1")) == []


@pytest.mark.thorough
def test_a_killed_worker_a_stopped_one_and_a_cut_wire_change_nothing(tmp_path: Path) -> None:
    with dask_cluster(3, "--nthreads", "1") as cluster:
        wire = Wire(cluster.port)
        wire.start()
        cut = []

        def hurt() -> None:
            """Kill one, stop another for a second, cut the wire."""
            while not list(tmp_path.glob("began-*")):
                time.sleep(0.05)
            busy = [int(file.name.split("-")[2]) for file in tmp_path.glob("began-*")]
            killed = next(worker for worker in cluster.workers if worker.pid in busy)
            killed.kill()
            stopped = next(worker for worker in cluster.workers if worker is not killed)
            stopped.send_signal(signal.SIGSTOP)
            cut.append(wire.cut())
            time.sleep(1)
            stopped.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=hurt)
        thread.start()
        found = run(cluster, tmp_path, list(range(8)), 0.4, address=f"tcp://127.0.0.1:{wire.port}")
        thread.join()
        assert found == [n**2 for n in range(8)]
        assert cut[0] >= 1
        again = [file.name.split("-")[1] for file in tmp_path.glob("began-*")]
        assert len(again) > len(set(again)) == 8  # the killed worker's job began twice


@pytest.mark.thorough  # as test_a_pool_whose_worker_was_killed_is_replaced of local processes
def test_a_job_that_kills_its_workers_fails_alone() -> None:
    done: list[Outcome] = []
    with dask_cluster(5, "--nthreads", "1") as cluster:
        place = Placement("dask", cluster.address)
        with pytest.raises(MemoriskError, match="1 of 3 jobs failed, the first with: its worker died 4 times"):
            run_jobs(fatal_below_zero, [1, -1, 2], place=place, on_done=done.append)
    assert sorted(of.value for of in done if of.error is None) == [1, 2]


def test_a_worker_with_several_threads_runs_one_job_at_a_time(tmp_path: Path) -> None:
    with dask_cluster(1, "--nthreads", "4") as cluster:
        began = time.monotonic()
        assert run(cluster, tmp_path, [1, 2, 3, 4], 0.3) == [1, 4, 9, 16]
        assert time.monotonic() - began > 4 * 0.3


def test_a_cluster_that_cannot_do_the_work_is_refused_in_one_line(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"no worker at .* offers GPU 1: start workers with --resources 'GPU=1'"):
        run(cluster, tmp_path, [1], gpus=1)
    with pytest.raises(InputError, match="offers memory 8e"):
        run(cluster, tmp_path, [1], memory=8 * 10**9)
    monkeypatch.setattr("memorisk.runs.executors.dask.CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"no scheduler of Dask answers at tcp://127.0.0.1:1"):
        run(cluster, tmp_path, [1], address="tcp://127.0.0.1:1")
    monkeypatch.setattr("memorisk.runs.executors.worker.result_versions", lambda: {**result_versions(), "torch": "1.0"})
    with pytest.raises(InputError, match=r"worker .*: it has torch .*, and where the command was given it is 1.0"):
        run(cluster, tmp_path, [1])
    assert not list(tmp_path.iterdir())


def test_a_wrong_address_is_told_at_once_and_nothing_after_it() -> None:
    script = """
from memorisk.runs.executors.dask import check_dask
from memorisk.runs.executors.placement import Placement
try:
    check_dask(Placement("dask", "foo"))
except Exception as error:
    kept = error  # with the client that never connected, until Python ends
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=15, check=True)
    assert done.stdout.startswith("no scheduler of Dask answers at foo: ")
    assert done.stdout.endswith("; start one with dask scheduler, which prints its address\n")
    assert done.stderr == ""


@pytest.mark.thorough
def test_a_worker_that_says_nothing_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("memorisk.runs.executors.worker.INSPECTION_SECONDS", 4.0)
    monkeypatch.setattr("memorisk.runs.executors.dask.WATCH_SECONDS", 0.2)
    with dask_cluster(2, "--nthreads", "1") as cluster:
        cluster.workers[0].send_signal(signal.SIGSTOP)
        assert run(cluster, tmp_path, [1, 2, 3]) == [1, 4, 9]
        assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
            "no answer in time of worker tcp"
        ]
        assert len({file.name.split("-")[2] for file in tmp_path.glob("began-*")}) == 1
        threading.Timer(1.0, cluster.workers[1].kill).start()
        with pytest.raises(InputError, match=r"none of 1 workers at tcp://.* answers in time"):
            run(cluster, tmp_path, [4, 5, 6], 3.0)  # the only one that answered is lost: no job waits for it forever


@pytest.mark.thorough
@pytest.mark.parametrize("nanny", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_job_of_a_worker_that_is_stopped_for_good_runs_elsewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, nanny: bool
) -> None:
    monkeypatch.setattr("memorisk.runs.executors.dask._MISSED", 1)
    with dask_cluster(2, "--nthreads", "1", nanny=nanny) as cluster:
        with first_stopped(tmp_path) as stopped:
            assert run(cluster, tmp_path, list(range(6)), 0.3, silence=2.0) == [n**2 for n in range(6)]
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1
        assert said[0].startswith("no sign of life of worker tcp://127.0.0.1:")
        assert said[0].endswith(" seconds: its jobs are given to others")
        again = Counter(file.name.split("-")[1] for file in tmp_path.glob("began-*"))
        assert sorted(again.values()) == [1, 1, 1, 1, 1, 2]
        if not nanny:  # which ends it, and begins another
            os.kill(stopped[0], signal.SIGCONT)
            worker = next(one for one in cluster.workers if one.pid == stopped[0])
            assert worker.wait(20) is not None  # it learns that it was taken off, and ends
        assert run(cluster, tmp_path, [7, 8], 0.1) == [49, 64]


def test_signs_of_life_are_told_by_change_and_not_by_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("memorisk.runs.executors.worker.time.monotonic", lambda: now[0])
    signs, told = LifeSigns(), []
    both = {"a": 7, "b": 5}
    looks = [(0, {"a": 5, "b": 5}), (1, {"a": 6, "b": 5}), (1, both), (3600, both), (1, {"a": 9, "c": 5}),
             (1, {"a": 9, "b": 5, "c": 5})]  # fmt: skip
    for seconds, shown in looks:
        now[0] += seconds
        told.append(signs.quiet(shown, 1.0))
    assert told == [
        {"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 0, "b": 2}, {"a": 2, "b": 4},  # one look of an hour is one look
        {"a": 0, "c": 0}, {"a": 1, "b": 0, "c": 1},
    ]  # fmt: skip


def test_a_worker_that_does_not_see_the_folders_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorisk.runs.executors.worker._PATIENCE", 0.0)
    there = tmp_path / "there"
    there.touch()
    assert WorkerRequirements((str(there),), result_versions()).refuses() is None
    missing = WorkerRequirements((str(there), str(tmp_path / "not" / "there")), result_versions()).refuses()
    assert missing is not None
    assert f"does not see {tmp_path / 'not'}" in missing


@pytest.mark.parametrize(("text", "size"), [("8GB", 8e9), ("512 MiB", 2**29), ("1.5kb", 1500), ("7", 7)])
def test_sizes(text: str, size: float) -> None:
    assert parse_bytes(text) == size


def test_settings_of_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ClusterOptions().placement(tmp_path) == Placement()
    with pytest.raises(InputError, match="--cluster is for a cluster, and --executor is local"):
        ClusterOptions(cluster="tcp://x:1").check_cluster()
    with pytest.raises(InputError, match="job_memory is many; give a size such as 8GB"):
        ClusterOptions(executor="dask", cluster="tcp://x:1", job_memory="many").check_cluster()
    for seconds in (4.9, float("inf"), float("nan")):
        with pytest.raises(InputError, match=r"--worker-silence is .*: give 5 seconds or more"):
            ClusterOptions(executor="dask", cluster="tcp://x:1", worker_silence=seconds).check_cluster()
    with pytest.raises(InputError, match="--worker-silence is for a cluster, and --executor is local"):
        ClusterOptions(worker_silence=60.0).check_cluster()
    with pytest.raises(InputError, match=r"^unknown executor 'ray'. Known: local, dask"):
        ClusterOptions(executor="ray").check_cluster()  # pyright: ignore[reportArgumentType]
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    with pytest.raises(InputError, match="executor dask needs the address of a cluster"):
        ClusterOptions(executor="dask").placement(tmp_path)
    with pytest.raises(InputError, match="needs the address of a cluster"):
        memorisk.audit_classifier("digits", out=tmp_path / "run", executor="dask")
    nobody = {"executor": "dask", "cluster": "tcp://127.0.0.1:1"}
    monkeypatch.setattr("memorisk.runs.executors.dask.CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"no scheduler of Dask answers at tcp://127.0.0.1:1"):
        memorisk.audit_classifier("digits", out=tmp_path / "run", **nobody)
    study = {"settings": nobody, "architectures": {"MLP": {"model": "mlp1"}}, "datasets": {"d": {"images": "digits"}}}
    with pytest.raises(InputError, match=r"no scheduler of Dask answers"):
        memorisk.study_rare_distinctive(study, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://there:8786")
    made = ClusterOptions(executor="dask", job_memory="1GB").placement(tmp_path / ".")
    assert made == Placement("dask", "tcp://there:8786", 10**9, 0, (tmp_path,))
    assert os.environ["DASK_SCHEDULER_ADDRESS"] == made.cluster
    assert made.silence == 120
    assert ClusterOptions(executor="dask", worker_silence=30.0).placement().silence == 30


def test_a_study_runs_where_the_command_says_whatever_its_file_says() -> None:
    file = {"settings": {"epochs": 1, "executor": "local"}, "datasets": {}}
    assert with_executor(file, None, None) == file
    there = with_executor(file, "dask", "tcp://x:1")["settings"]
    assert there == {"epochs": 1, "executor": "dask", "cluster": "tcp://x:1"}
    assert file["settings"] == {"epochs": 1, "executor": "local"}
    assert with_executor({"settings": None}, "local", None) == {"settings": {"executor": "local"}}
