"""Run folders, locks, executors, atomic files, fingerprints, errors."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import SafetensorError

from memorisk.runs.errors import RESUME_HINT, InputError, MemoriskError, one_line, unknown_name
from memorisk.runs.executors.pool import run_jobs, worker_pool
from memorisk.runs.files import (
    atomic_path,
    file_fingerprint,
    fingerprint,
    json_value,
    read_array,
    read_json,
    write_array,
    write_json,
    write_table,
)
from memorisk.runs.folder import check_out_folder, open_run
from memorisk.runs.locks import folder_lock


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    with pytest.raises(ZeroDivisionError), atomic_path(path) as temporary:
        temporary.write_text(f"half {1 // 0}")
    assert read_json(path) == {"x": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("content", [b"", b'{"x": ', b"\xff", b"[" * 100_000])
def test_a_damaged_file_of_a_run_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json is damaged \(.*restore it, or begin in a new folder") as found:
        read_json(tmp_path / "a.json")
    assert isinstance(found.value, ValueError)


def full_safetensors(path):
    """A job that writes weights to a full disk, as safetensors tells of it."""
    with atomic_path(path):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def test_a_full_disk_under_weights_is_named_in_plain_words(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(OSError, match="No space left on device") as found:
        full_safetensors(path)
    assert (found.value.errno, found.value.filename) == (errno.ENOSPC, str(path))
    with pytest.raises(MemoriskError, match="2 of 2 jobs failed, the first with: no space left on the disk") as found:
        run_jobs(full_safetensors, [path, path])
    assert str(found.value).endswith(f" for {path}: free some; {RESUME_HINT}")
    with pytest.raises(SafetensorError), atomic_path(path):
        raise SafetensorError("Error while serializing: (os error 5)")
    assert not list(tmp_path.iterdir())


def test_same_table_same_bytes(tmp_path):
    table = pd.DataFrame({"a": [1.5, np.nan], "b": ["x", "é\u202e"]})
    write_table(tmp_path / "1", table)
    write_table(tmp_path / "2", table.copy())
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert (tmp_path / "1").stat().st_mode & 0o077 == 0


def test_arrays_of_objects_are_refused(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        write_array(tmp_path / "a.npy", np.array([{}], dtype=object))
    assert not list(tmp_path.iterdir())
    write_array(tmp_path / "b.npy", np.arange(3))
    assert (read_array(tmp_path / "b.npy", mmap=True) == [0, 1, 2]).all()


def test_json_holds_numpy_and_nan():
    assert (
        type(json_value({"torch": torch.__version__})["torch"]) is str
    )  # a kind of text of its own, which YAML refuses
    assert json_value({"a": np.float64("nan"), "b": np.arange(2), 3: np.bool_(True)}) == {
        "a": None,
        "b": [0, 1],
        "3": True,
    }


def test_fingerprints_tell_content_apart(tmp_path):
    a = np.arange(4)
    assert fingerprint(a) == fingerprint(a.copy())
    assert len({fingerprint(a), fingerprint(a.astype(float)), fingerprint(a.reshape(2, 2)), fingerprint({"a": 1})}) == 4
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    (tmp_path / "g").write_bytes(b"x" * 2_999_999 + b"y")
    assert file_fingerprint(tmp_path / "f") != file_fingerprint(tmp_path / "g")


def test_unknown_names_come_with_the_nearest():
    assert "Did you mean 'resnet50'?" in str(unknown_name("model", "resent50", ["resnet50", "vit"]))
    assert one_line("a\nb\u202e") == "a\\nb\\u202e"


def test_a_run_folder_resumes_only_the_same_run(tmp_path):
    out = tmp_path / "run"
    with open_run(out, {"model": "a", "seeds": [1]}, identity=["model"]) as run:
        run.log("started")
    assert out.stat().st_mode & 0o777 == 0o700
    with open_run(out, {"model": "a", "seeds": [1, 2]}, identity=["model"]) as run:
        assert run.config()["seeds"] == [1, 2]
    with pytest.raises(InputError, match="model = a"), open_run(out, {"model": "b"}, identity=["model"]):
        pass
    assert [json.loads(x)["event"] for x in (out / "log.jsonl").read_text().splitlines()] == ["started"]


def test_a_linked_log_is_refused_and_its_target_not_written_to(tmp_path):
    out, target = tmp_path / "run", tmp_path / "target"
    with open_run(out, {"model": "a"}, identity=["model"]) as run:
        run.log("started")
    target.write_text("of somebody")
    (out / "log.jsonl").unlink()
    (out / "log.jsonl").symlink_to(target)
    with (
        pytest.raises(InputError, match=r"log\.jsonl in it is a link"),
        open_run(out, {"model": "a"}, identity=["model"]),
    ):
        pass
    with pytest.raises(OSError, match="symbolic links"):
        run.log("finished")
    assert target.read_text() == "of somebody"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"data_hash": "1", "epochs": 2}, "holds a run with epochs = 1, now asked: 2"),
        ({"data_hash": "2", "epochs": 1}, "holds a run of other data, or of the same read with other settings"),
        ({"audit": "feature", "mark": "A"}, "holds another kind of run"),
    ],
)
def test_what_differs_is_told_in_words(tmp_path, asked, told):
    with open_run(tmp_path / "run", {"run": {"data_hash": "1", "epochs": 1}}, identity=["run"]):
        pass
    with pytest.raises(InputError, match=told), open_run(tmp_path / "run", {"run": asked}, identity=["run"]):
        pass


def test_of_other_data_the_settings_that_differ_are_told(tmp_path):
    with open_run(tmp_path / "run", {"size": None, "seeds": [1], "run": {"data_hash": "1"}}, identity=["run"]):
        pass
    asked = {"size": 32, "seeds": (1,), "new": True, "run": {"data_hash": "2"}}
    with pytest.raises(InputError) as refused:
        check_out_folder(tmp_path / "run", asked, identity=["run"])
    assert "the same read with other settings (size was not given, now 32). Choose" in str(refused.value)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    with pytest.raises(InputError, match="not a run of memorisk"), open_run(tmp_path, {}, identity=[]):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["photo.jpg"]


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701, 0o2775])
def test_other_users_lose_their_access_to_a_run_folder_that_was_there(tmp_path, mode, caplog):
    out = tmp_path / "run"
    for _ in ("empty", "to go on with"):
        out.mkdir(exist_ok=True)
        out.chmod(mode)
        caplog.clear()
        with open_run(out, {}, identity=[]) as run:
            run.log("started")
        assert stat.S_IMODE(out.stat().st_mode) == mode & ~0o077
        assert f"other users may no longer enter {out}" in caplog.text
        assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in out.iterdir())
    caplog.clear()
    with open_run(out, {}, identity=[]), open_run(tmp_path / "new", {}, identity=[]):
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert not caplog.text


def test_an_open_folder_of_another_user_is_refused_before_any_work(tmp_path, monkeypatch):
    out = tmp_path / "run"
    out.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: out.stat().st_uid + 1)
    check_out_folder(out, {}, identity=[])  # nobody else may enter it
    out.chmod(0o777)
    with pytest.raises(InputError, match="belongs to another user and is open to others"):
        check_out_folder(out, {}, identity=[])


def test_a_file_system_without_permissions_is_refused(tmp_path, monkeypatch):
    out = tmp_path / "run"
    out.mkdir()
    out.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", lambda *_, **__: None)  # as on a share that keeps none
    with pytest.raises(InputError, match="does not keep permissions"), open_run(out, {}, identity=[]):
        pass
    assert list(out.iterdir()) == []


def test_two_processes_do_not_share_a_folder_and_a_dead_one_does_not_block(tmp_path):
    code = (
        "import sys,time,pathlib\nfrom memorisk.runs.locks import folder_lock\n"
        "with folder_lock(pathlib.Path(sys.argv[1])):\n print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=f"in use by process {other.pid}"), folder_lock(tmp_path):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    with folder_lock(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


def _job(x):
    if x == 2:
        raise MemoriskError("two is not trained")
    return x * x, os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_jobs_keep_their_order_and_one_failure_does_not_stop_the_others(processes):
    values = run_jobs(_job, [5, 4, 3], processes=processes)
    assert [v[0] for v in values] == [25, 16, 9]
    done = []
    with pytest.raises(MemoriskError, match="1 of 4 jobs failed, the first with: two is not trained"):
        run_jobs(_job, [1, 2, 3, 4], processes=processes, on_done=done.append)
    assert sorted(o.index for o in done if o.error is None) == [0, 2, 3]


def _module(folder, text):
    """A module that other processes can import, and the environment in which they can."""
    (folder / "work_here.py").write_text(text)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_workers_end_with_the_process_that_started_them(tmp_path):
    environment = _module(
        tmp_path,
        "import os, time\ndef work(path):\n open(path + str(os.getpid()), 'w').close()\n time.sleep(60)\n",
    )
    code = (
        "import sys\nfrom memorisk.runs.executors.pool import run_jobs\nfrom work_here import work\n"
        "run_jobs(work, [sys.argv[1] + '/w'] * 2, processes=2)\n"
    )
    main = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment)
    deadline = time.monotonic() + 60
    while len(pids := [int(p.name[1:]) for p in tmp_path.glob("w[0-9]*")]) < 2:
        assert time.monotonic() < deadline, "the workers did not start"
        time.sleep(0.1)
    main.kill()
    main.wait()
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < deadline + 30, "a worker outlived its parent"
        time.sleep(0.1)


def test_an_idle_worker_and_the_fork_server_end_with_their_parent_too():
    code = (
        "import os, signal, time\nfrom memorisk.runs.executors.pool import run_jobs\n"
        "def done(outcome):\n os.kill(os.getpid(), signal.SIGKILL)\n"
        "run_jobs(time.sleep, [0.0, 0.0], processes=2, on_done=done)\n"
    )
    # the pipes close when the last process is gone
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL


def test_a_script_without_a_guard_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import time\nfrom memorisk.runs.executors.pool import run_jobs\n"
        "print('once', run_jobs(time.sleep, [0, 0, 0], processes=2))\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "once [None, None, None]\n"
    assert run.stderr == ""


def test_a_worker_that_is_killed_is_told_in_one_line():
    with pytest.raises(MemoriskError, match=r"a worker process was killed.*the same command resumes"):
        run_jobs(os._exit, [1, 1], processes=2)
    assert run_jobs(abs, [-1, -2], processes=2) == [1, 2], "a later run has workers of its own"


def _who(_job):
    return os.getpid()


def test_an_open_pool_serves_the_runs_inside_it_and_survives_a_failing_job():
    with worker_pool(2, 1, abs):
        first = run_jobs(_who, range(8), processes=2)
        with pytest.raises(MemoriskError, match="1 of 4 jobs failed"):
            run_jobs(_job, [1, 2, 3, 4], processes=2)
        again, others = run_jobs(_who, range(8), processes=2), run_jobs(_who, range(8), processes=3)
    assert len({*first, *again}) <= 2, "the same two processes"
    assert not {*first, *again} & set(others), "a run of three has its own"
    assert not {*first, *again} & set(run_jobs(_who, range(8), processes=2)), "closed at the end"


def test_a_pool_whose_worker_was_killed_is_replaced():
    with worker_pool(2, 1, abs):
        with pytest.raises(MemoriskError, match="a worker process was killed"):
            run_jobs(os._exit, [1, 1], processes=2)
        assert run_jobs(abs, [-1, -2], processes=2) == [1, 2]


def test_jobs_that_nobody_waits_for_any_more_are_stopped(tmp_path):
    """The caller gives up: what runs is ended, what waits is never begun."""
    environment = _module(
        tmp_path,
        "import sys, time\ndef work(job):\n path, seconds = job\n open(path, 'w').close()\n time.sleep(seconds)\n",
    )
    code = (
        "import sys\nfrom memorisk.runs.executors.pool import run_jobs\nfrom work_here import work\n"
        "def done(outcome):\n raise KeyboardInterrupt\n"
        "jobs = [(f'{sys.argv[1]}/job{i}', 60.0 if i else 0.0) for i in range(9)]\n"
        "try:\n run_jobs(work, jobs, processes=2, on_done=done)\n"
        "except KeyboardInterrupt:\n print('given up')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=50, check=True)
    assert run.stdout == "given up\n"
    assert len(list(tmp_path.glob("job*"))) < 9


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_command_ends_its_workers_and_leaves_no_semaphore(tmp_path: Path, number: int, code: int) -> None:
    """Python's resource tracker would warn of them on standard error."""
    environment = _module(tmp_path, "import time\ndef work(path):\n open(path, 'w').close()\n time.sleep(60)\n")
    program = (
        "import sys\nfrom memorisk.cli import main, program\nfrom memorisk.runs.executors.pool import run_jobs\n"
        "from work_here import work\n"
        "main._run = lambda words: run_jobs(work, [f'{sys.argv[1]}/job{i}' for i in range(4)], processes=2)\n"
        "sys.exit(main.main([]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    until = time.monotonic() + 60
    while not list(tmp_path.glob("job*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == code
    assert err == "memorisk: stopped; what is done is kept, the same command resumes\n"


def test_an_interrupt_that_a_library_swallows_still_ends_the_process():
    code = (
        "import time\nfrom memorisk.runs.processes import prompt_interrupt\n"
        "with prompt_interrupt('stopped\\n', grace=0.5):\n"
        " for _ in range(2):\n"
        "  try:\n"
        "   print('ready', flush=True)\n"
        "   time.sleep(60)\n"
        "  except KeyboardInterrupt: pass\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    assert err == "stopped\n"


def test_what_a_kill_leaves_before_the_settings_are_written_is_a_run_to_go_on_with(tmp_path: Path) -> None:
    for name in (".stage.json.a1b2c3.part", ".config.yaml.d4e5f6.part"):
        (tmp_path / name).write_bytes(b"{")
    check_out_folder(tmp_path, {}, identity=[])
    below = tmp_path / "full" / "checkpoints"  # of a training of several regimes
    with open_run(tmp_path, {"run": "a"}, identity=["run"]):
        below.mkdir(parents=True)
        for name in (".a.safetensors.b.part", ".tmpA1b2C3"):
            (below / name).touch()
    assert not [*tmp_path.glob(".*.part")]
    with open_run(tmp_path, {"run": "a"}, identity=["run"]):
        assert not [*below.iterdir()]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / ".thesis.part").touch()
    with pytest.raises(InputError, match="holds files that are not a run"):
        check_out_folder(mine, {}, identity=[])
