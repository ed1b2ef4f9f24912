"""Records of files that are read again: written before the file, compared when it is opened."""

import logging
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.runs.checksums import is_intact, move_recorded, record_of, refuse_damaged, remove_recorded
from memorisk.runs.errors import DamagedError
from memorisk.runs.files import read_array, read_json, read_table, write_array, write_bytes, write_json, write_table


def flip(path: Path, at: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_recorded_file_is_intact_until_a_bit_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "logits.npy"
    assert not is_intact(path)
    write_array(path, np.arange(6.0), recorded=True)
    assert is_intact(path)
    assert caplog.records == []
    flip(path, -1)
    with caplog.at_level(logging.WARNING):
        assert not is_intact(path)
    assert f"{path} is not what was written" in caplog.text
    flip(path, -1)
    assert is_intact(path)
    record_of(path).unlink()
    assert not is_intact(path)  # nothing says what it was


@pytest.mark.parametrize("kind", ["array", "table", "json"])
def test_readers_refuse_a_changed_file_by_name(tmp_path: Path, kind: str) -> None:
    write = {"array": write_array, "table": write_table, "json": write_json}[kind]
    read = {"array": read_array, "table": read_table, "json": read_json}[kind]
    content = {"array": np.arange(6), "table": pd.DataFrame({"x": [1.5, 2.5]}), "json": {"x": 1.25}}[kind]
    path = tmp_path / "kept"
    write(path, content, recorded=True)
    read(path)
    size = path.stat().st_size
    for at in (0, size // 2, size - 1):
        flip(path, at)
        with pytest.raises(DamagedError, match=r"kept is damaged: it is not what kept\.checksum says"):
            read(path)
        flip(path, at)
    record_of(path).unlink()
    read(path)  # a file from elsewhere has no record


def test_a_file_that_is_replaced_is_the_old_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    write_bytes(path, b"old", recorded=True)
    replace = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if Path(target) == path:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_bytes(path, b"new", recorded=True)
    assert path.read_bytes() == b"old"
    assert is_intact(path)
    write_bytes(path, b"new", recorded=True)
    assert is_intact(path)
    path.write_bytes(b"old")
    assert not is_intact(path)  # a replaced version is no longer valid


def test_a_record_goes_with_its_file(tmp_path: Path) -> None:
    path, target = tmp_path / "a b", tmp_path / "c"
    write_bytes(path, b"x", recorded=True)
    move_recorded(path, target)
    refuse_damaged(target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "c.checksum"]
    remove_recorded(target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
def test_sha256sum_reads_records(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a b", b"x", recorded=True)
    command = ["sha256sum", "--check", "--strict", "a b.checksum"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "a b").write_bytes(b"y")
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 1
