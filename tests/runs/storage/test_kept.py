"""Runs kept at a URL, by a real FTP server on loopback: cut anywhere, the same bytes in the end; one at a time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import fsspec.config
import pytest

from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.storage import bookkeeping, filesystem, remote_run
from memorisk.runs.storage.bookkeeping import CLAIM, INDEX
from memorisk.runs.storage.remote_run import kept_run, read_run
from tests.runs.servers import PASSWORD, USER, FtpServer


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(filesystem, "WAITS", (0.01, 0.05, 0.1))
    monkeypatch.setattr(bookkeeping, "_SETTLE_SECONDS", 0.02)
    monkeypatch.setattr(bookkeeping, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(bookkeeping, "WATCH_SECONDS", 0.3)
    monkeypatch.setattr(remote_run, "UPLOAD_SECONDS", 0.05)
    monkeypatch.setitem(fsspec.config.conf, "ftp", {"username": USER, "password": PASSWORD, "timeout": 5})


@pytest.fixture
def ftp(tmp_path):
    (tmp_path / "served").mkdir()
    server = FtpServer(tmp_path / "served")
    yield server
    server.stop()


@pytest.fixture
def there(tmp_path) -> Path:
    """Where the server keeps the run."""
    return tmp_path / "served" / "runs" / "r"


def written(folder: Path) -> dict[str, bytes]:
    """The files of a run, without what is ours to remember."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def wait_for(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def work(out: Path, *, until: int = 3, then: type[Exception] | None = None) -> None:
    """A run of three steps that goes on with what is there."""
    out.mkdir(exist_ok=True)
    (out / "config.yaml").write_text("run: 1\n")
    (out / "weights").mkdir(exist_ok=True)
    for step in range(until):
        file = out / "weights" / f"{step}.npy"
        if not file.exists():
            file.with_name(f".{step}.part").write_bytes(b"half")
            file.with_name(f".{step}.part").replace(file)
            file.write_bytes(bytes([step]) * 1000)
    if until == 3:
        (out / "verdict.json").write_text("{}")
    if then is not None:
        raise then


def test_a_run_is_at_the_url_when_it_is_over_and_another_machine_reads_it(ftp, there, tmp_path):
    url = f"{ftp.url}/runs/r"
    with kept_run(url, tmp_path / "a") as out:
        assert json.loads((there / CLAIM).read_text())["pid"] == os.getpid()
        assert out.stat().st_mode & 0o077 == 0
        work(out)
    work(tmp_path / "local")
    assert written(there) == written(tmp_path / "local") == written(read_run(url, tmp_path / "b"))
    assert sorted(p.name for p in there.iterdir() if p.name.startswith(".")) == [INDEX]


def test_files_are_there_while_the_run_goes_on_and_go_when_it_removes_them(ftp, there, tmp_path):
    with kept_run(f"{ftp.url}/runs/r", tmp_path / "a") as out:
        work(out, until=2)
        wait_for(lambda: (there / "weights" / "1.npy").exists())
        assert not (there / "verdict.json").exists()
        with pytest.raises(InputError, match=r"/runs/r holds no finished run .*: issue the run's command again"):
            read_run(f"{ftp.url}/runs/r", tmp_path / "b")
        (out / "weights" / "0.npy").unlink()
        wait_for(lambda: not (there / "weights" / "0.npy").exists())
    assert sorted(written(there)) == ["config.yaml", "weights/1.npy"]


def test_a_run_that_broke_goes_on_from_another_machine(ftp, there, tmp_path):
    url = f"{ftp.url}/runs/r"
    with pytest.raises(ZeroDivisionError), kept_run(url, tmp_path / "a") as out:
        work(out, until=2, then=ZeroDivisionError)
    assert sorted(written(there)) == ["config.yaml", "weights/0.npy", "weights/1.npy"]
    with kept_run(url, tmp_path / "b") as out:
        assert written(out) == written(there)
        work(out)
    with kept_run(url, tmp_path / "a") as out:  # the first machine again: what it had is no longer the newest
        assert sorted(written(out)) == ["config.yaml", "verdict.json", *(f"weights/{n}.npy" for n in range(3))]
        (out / "verdict.json").write_text("[]")
    assert (read_run(url, tmp_path / "c") / "verdict.json").read_text() == "[]"


SCRIPT = """
import sys, time
from pathlib import Path
import fsspec.config
fsspec.config.conf["ftp"] = {"username": sys.argv[3], "password": sys.argv[4]}
from memorisk.runs.files import atomic_path
from memorisk.runs.storage import bookkeeping, remote_run
remote_run.UPLOAD_SECONDS, bookkeeping._SETTLE_SECONDS = 0.01, 0.02
from memorisk.runs.storage.remote_run import kept_run
with kept_run(sys.argv[1], Path(sys.argv[2])) as out:
    (out / "config.yaml").write_text("run: 1\\n")
    (out / "weights").mkdir()
    for step in range(3):
        with atomic_path(out / "weights" / f"{step}.npy") as part:  # as runs do: a file with its own name is whole
            part.write_bytes(bytes([step]) * 4_000_000)
        time.sleep(0.05)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    "seen",
    [
        "weights/.1.npy.part",
        pytest.param("config.yaml", marks=pytest.mark.slow),
        pytest.param("weights/2.npy", marks=pytest.mark.slow),
    ],
)
def test_killed_in_the_middle_of_pushing_another_machine_ends_with_the_same_bytes(seen, ftp, there, tmp_path):
    url = f"{ftp.url}/runs/r"
    command = [sys.executable, "-c", SCRIPT, url, str(tmp_path / "a"), USER, PASSWORD]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: (there / seen).exists() or (there / "weights" / "2.npy").exists())
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert (there / CLAIM).exists()
    with kept_run(url, tmp_path / "b") as out:  # its process is gone, so that nobody waits
        for name, data in written(out).items():
            assert name == "config.yaml" or data == bytes([int(name[8])]) * 4_000_000
        (out / "weights").mkdir(exist_ok=True)
        for step in range(3):
            (out / "weights" / f"{step}.npy").write_bytes(bytes([step]) * 4_000_000)
        (out / "config.yaml").write_text("run: 1\n")
    assert written(there) == {
        "config.yaml": b"run: 1\n", **{f"weights/{n}.npy": bytes([n]) * 4_000_000 for n in range(3)}
    }  # fmt: skip
    assert not [p for p in there.rglob(".*") if p.name != INDEX]


def test_one_process_at_a_time_here_and_on_other_machines(ftp, there, tmp_path):
    url = f"{ftp.url}/runs/r"
    with kept_run(url, tmp_path / "a") as out:
        work(out)
        for cache in ("a", "b"):
            with (
                pytest.raises(InputError, match=rf"in use by process {os.getpid()} on .* since"),
                kept_run(url, tmp_path / cache),
            ):
                raise AssertionError
    others = {
        "token": "x",
        "host": "node7",
        "pid": 7,
        "since": "2026-01-01",
        "machine": "other",
        "beat": bookkeeping._now(),
    }
    (there / CLAIM).write_text(json.dumps(others))
    with (
        pytest.raises(InputError, match=r"process 7 on node7 .* the same command goes on in 5 minutes"),
        kept_run(url, tmp_path / "a"),
    ):
        raise AssertionError
    assert json.loads((there / CLAIM).read_text()) == others


@pytest.mark.parametrize("beat", ["2020-01-01T00:00:00+00:00", "2100-01-01T00:00:00+00:00"])
def test_an_old_claim_of_another_machine_is_watched_and_taken_over_only_if_it_is_silent(beat, ftp, there, tmp_path):
    url = f"{ftp.url}/runs/r"
    with kept_run(url, tmp_path / "a") as out:
        work(out)
    others = {"token": "x", "host": "node7", "pid": 7, "since": "2020", "machine": "other", "beat": beat}
    (there / CLAIM).write_text(json.dumps(others))
    renewed = threading.Timer(0.1, lambda: (there / CLAIM).write_text(json.dumps(others | {"beat": "later"})))
    renewed.start()
    with pytest.raises(InputError, match="whose clock differs"), kept_run(url, tmp_path / "a"):
        raise AssertionError
    renewed.join()
    with kept_run(url, tmp_path / "a") as out:
        assert json.loads((there / CLAIM).read_text())["pid"] == os.getpid()
    assert not (there / CLAIM).exists()


def test_a_claim_is_renewed_and_whoever_lost_it_pushes_nothing_more(ftp, there, tmp_path, monkeypatch):
    monkeypatch.setattr(bookkeeping, "_now", lambda: str(time.monotonic()))
    other = json.dumps({"token": "x", "host": "node7", "pid": 7, "since": "2026"})

    def lose() -> None:
        with kept_run(f"{ftp.url}/runs/r", tmp_path / "a") as out:
            first = (there / CLAIM).read_text()
            wait_for(lambda: (there / CLAIM).exists() and (there / CLAIM).read_text() not in ("", first))
            for _ in range(3):  # again where a renewal of ours had been under way
                (there / CLAIM).write_text(other)
                time.sleep(0.1)
            work(out)

    with pytest.raises(MemoriskError, match="taken over by process 7 on node7") as caught:
        lose()
    out = next((tmp_path / "a" / "runs").glob("*/tree/r"))
    assert str(out) in str(caught.value)
    assert "verdict.json" in written(out)
    assert "verdict.json" not in written(there)
    assert (there / CLAIM).read_text() == other


def test_a_server_that_goes_away_loses_nothing(ftp, there, tmp_path):
    url = f"{ftp.url}/runs/r"

    def cut() -> None:
        with kept_run(url, tmp_path / "a") as out:
            work(out, until=1)
            wait_for(lambda: (there / "weights" / "0.npy").exists())
            ftp.stop()
            work(out)

    with pytest.raises(MemoriskError, match=r"what is done lies in .*; what is done is kept") as caught:
        cut()
    assert PASSWORD not in str(caught.value)
    ftp.start()
    with kept_run(url, tmp_path / "a") as out:
        work(out)
    assert written(there) == written(out)
    assert "verdict.json" in written(there)


def test_transfers_that_are_cut_are_made_again(ftp, there, tmp_path):
    with kept_run(f"{ftp.url}/runs/r", tmp_path / "a") as out:
        ftp.cuts = 2
        work(out)
    assert written(there) == written(out)
    ftp.cuts = 2
    assert written(read_run(f"{ftp.url}/runs/r", tmp_path / "b")) == written(out)
    assert ftp.cuts == 0


def test_what_was_damaged_there_is_named(ftp, there, tmp_path):
    url = f"{ftp.url}/runs/r"
    with kept_run(url, tmp_path / "a") as out:
        work(out)
    (there / "weights" / "1.npy").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match=r"weights/1\.npy is not what was put there"):
        read_run(url, tmp_path / "b")
    with pytest.raises(InputError, match=r"weights/1\.npy is not what was put there"), kept_run(url, tmp_path / "b"):
        raise AssertionError
    (there / "weights" / "1.npy").unlink()
    with pytest.raises(InputError, match=r"weights/1\.npy is gone"), kept_run(url, tmp_path / "c"):
        raise AssertionError
    (there / INDEX).write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        read_run(url, tmp_path / "b")


def test_other_files_stay_as_they_are(ftp, there, tmp_path):
    there.mkdir(parents=True)
    (there / "thesis.docx").write_bytes(b"mine")
    with pytest.raises(InputError, match="no run of memorisk"), kept_run(f"{ftp.url}/runs/r", tmp_path / "a"):
        raise AssertionError
    assert [p.name for p in there.iterdir()] == ["thesis.docx"]
    with pytest.raises(InputError, match="is a file"), kept_run(f"{ftp.url}/runs/r/thesis.docx", tmp_path / "a"):
        raise AssertionError
    (there / "thesis.docx").rename(tmp_path / "thesis.docx")
    with kept_run(f"{ftp.url}/runs/r", tmp_path / "a") as out:
        work(out)
    (tmp_path / "thesis.docx").rename(there / "thesis.docx")
    with kept_run(f"{ftp.url}/runs/r", tmp_path / "b") as out:
        assert "thesis.docx" not in written(out)
    assert (there / "thesis.docx").read_bytes() == b"mine"


def test_a_run_that_was_copied_there_by_other_means_is_read_and_gone_on_with(ftp, there, tmp_path):
    there.mkdir(parents=True)
    work(there, until=2)
    url = f"{ftp.url}/runs/r"
    assert written(read_run(url, tmp_path / "a")) == written(there)
    with kept_run(url, tmp_path / "a") as out:
        assert written(out) == written(there)
        work(out)
    assert written(there) == written(out)
