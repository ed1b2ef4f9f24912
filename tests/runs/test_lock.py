"""Who holds a folder: one process, by the kernel's lock or, where a file system has none, by a file that is judged."""

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import SoftFileLock

from memorisk.runs.errors import InputError
from memorisk.runs.folder import check_out_folder, open_run
from memorisk.runs.locks import folder_lock, refuse_held, this_process

CONFIG = {"run": {"kind": "test"}}


@pytest.fixture(params=["kernel", "marker"])
def locks(request, monkeypatch):
    """With the kernel's locks, and as on a file system without them."""
    if request.param == "marker":
        without_locks(monkeypatch)
    return request.param


def without_locks(monkeypatch, number: int = errno.ENOSYS) -> None:
    """As on a file system whose locks are refused with this error."""

    def refused(handle: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)


def marker(folder: Path, **changes: object) -> Path:
    """What a process without the kernel's locks leaves that is killed, with changes of what it says of itself."""
    held = SoftFileLock(folder / ".lock.held")
    held.acquire()
    left = (folder / ".lock.held").read_text().split()
    held.release()
    said = dict(zip(("pid", "host", "started"), left, strict=True)) | changes
    (folder / ".lock").write_text(json.dumps(this_process() | changes))
    path = folder / ".lock.held"
    path.write_text("".join(f"{value}\n" for value in said.values()))
    return path


def test_one_process_a_folder(tmp_path, locks):
    with folder_lock(tmp_path):
        with pytest.raises(InputError, match=f"in use by process {os.getpid()} on {socket.gethostname()}"):
            refuse_held(tmp_path)
        with pytest.raises(InputError, match="in use by process"), folder_lock(tmp_path):
            pass
    refuse_held(tmp_path)
    with folder_lock(tmp_path):
        pass
    assert {p.name for p in tmp_path.iterdir()} == {".lock"}


def test_a_run_folder_is_refused_before_any_work_and_before_it_is_opened(tmp_path, locks):
    with open_run(tmp_path / "run", CONFIG, identity=["run"]):
        before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "run").iterdir()}
        for again in (lambda: check_out_folder(tmp_path / "run", {}, identity=[]), lambda: enter(tmp_path / "run")):
            with pytest.raises(InputError, match="wait for it, or choose another folder"):
                again()
        assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "run").iterdir()} == before
    enter(tmp_path / "run")


def enter(folder: Path) -> None:
    with open_run(folder, CONFIG, identity=["run"]):
        pass


def test_who_waits_gets_the_folder_in_the_end(tmp_path, locks):
    order = []

    def second() -> None:
        with folder_lock(tmp_path, wait=True):
            order.append("second")

    with folder_lock(tmp_path):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.1)
        order.append("first")
    waiting.join(10)
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"\xff\xfe", b'{"pid": 1}', b"[" * 5000, b'{"pid": 1, "host": "\\u001b[31m", "since": 3}'],
)
def test_what_a_lock_file_says_is_only_shown(tmp_path, content):
    (tmp_path / ".lock").write_bytes(content)
    with (tmp_path / ".lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError) as refused:
            refuse_held(tmp_path)
        assert str(refused.value).isprintable()
    with folder_lock(tmp_path):  # nobody holds it: a file alone is no lock, whatever machine wrote it
        pass


@pytest.mark.parametrize(
    "stale",
    [
        {"pid": 2**22 + 7},  # no such process
        {"started": (7 << 64) + 1},  # another process has its number now, or the machine was started again
    ],
)
def test_a_marker_that_was_left_behind_is_no_lock(tmp_path, monkeypatch, stale):
    without_locks(monkeypatch)
    marker(tmp_path, **stale)
    with folder_lock(tmp_path):
        assert (tmp_path / ".lock.held").read_text().split()[0] == str(os.getpid())
    assert {p.name for p in tmp_path.iterdir()} == {".lock"}


def test_a_marker_of_another_machine_is_believed_and_what_to_remove_is_said(tmp_path, monkeypatch):
    without_locks(monkeypatch)
    path = marker(tmp_path, host="node7")
    with pytest.raises(InputError, match=r"on node7 .*remove .*\.lock\.held if that process is no more"), folder_lock(
        tmp_path
    ):  # fmt: skip
        pass
    path.unlink()
    with folder_lock(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOLCK, errno.EINVAL])
def test_whatever_a_file_system_without_locks_answers_a_marker_holds_the_folder(tmp_path, monkeypatch, number):
    without_locks(monkeypatch, number)
    with folder_lock(tmp_path):
        assert {p.name for p in tmp_path.iterdir()} == {".lock", ".lock.held"}
        with pytest.raises(InputError, match=f"in use by process {os.getpid()} .* another folder$"):
            refuse_held(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {".lock"}


def test_a_marker_of_a_killed_process_is_taken_over(tmp_path, monkeypatch):
    without_locks(monkeypatch)
    code = (
        "import fcntl, sys, time, pathlib\nfrom memorisk.runs.locks import folder_lock\n"
        "def refused(*_): raise OSError(38, 'Function not implemented')\nfcntl.flock = refused\n"
        "with folder_lock(pathlib.Path(sys.argv[1])):\n print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=f"process {other.pid}"), folder_lock(tmp_path):
        pass
    other.kill()
    other.wait()
    with folder_lock(tmp_path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]
