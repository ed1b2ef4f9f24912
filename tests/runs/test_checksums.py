"""Checksums held to sha256sum itself."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from memorisk.runs.checksums import SEAL, changed_files, checksum, refuse_damaged, write_seal
from memorisk.runs.errors import DamagedError, InputError

LISTING = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
NAMES = ("b.png", "a/z.png", "a/a b.png", "a-b.png", ".hidden", "ü.png", "back\\slash", "line\nbreak", "a.png")


def fill(folder: Path) -> Path:
    for number, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes([number]) * number)
    return folder


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
def test_a_folder_has_the_checksum_of_its_listing(tmp_path: Path) -> None:
    folder = fill(tmp_path / "set")
    said = subprocess.run(["bash", "-c", LISTING], cwd=folder, capture_output=True, text=True, check=True).stdout
    found = checksum(folder)
    assert found.sha256 == said[:64]
    assert (found.files, found.bytes) == (len(NAMES), sum(range(len(NAMES))))


def test_a_file_has_that_of_its_bytes_and_nothing_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    assert checksum(tmp_path / "f").sha256 == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("absent", "empty", "dangling"):
        with pytest.raises(InputError):
            checksum(tmp_path / name)


@pytest.mark.parametrize(
    ("add", "what"),
    [
        (lambda place: place.symlink_to(place.parent.parent), "a link"),
        (lambda place: place.symlink_to(place.parent.parent.parent / "others.png"), "a link"),
        (lambda place: place.symlink_to(place.parent.parent / "a.png"), "a link"),  # its text names folders
        (lambda place: place.symlink_to("/dev/zero"), "a link"),
        (os.mkfifo, "a pipe, a socket or a device"),
        (Path.mkdir, "an empty folder"),
    ],
    ids=["linked folder", "link out", "link within", "link to a device", "pipe", "empty folder"],
)
def test_what_has_no_bytes_of_its_own_is_refused_by_name(tmp_path: Path, add, what: str) -> None:
    (tmp_path / "others.png").write_bytes(b"others")
    folder = fill(tmp_path / "set")
    add(folder / "a" / "more")
    with pytest.raises(InputError, match=rf"holds {what} \(a/more\): "):
        checksum(folder)


def test_every_change_of_a_folder_changes_its_checksum(tmp_path: Path) -> None:
    folder = fill(tmp_path / "set")
    seen = {checksum(folder).sha256}
    (folder / "a.png").rename(folder / "c.png")
    seen.add(checksum(folder).sha256)
    (folder / "c.png").write_bytes(b"other")
    seen.add(checksum(folder).sha256)
    (folder / "more.png").write_bytes(b"")
    seen.add(checksum(folder).sha256)
    (folder / "b.png").unlink()
    seen.add(checksum(folder).sha256)
    assert len(seen) == 5


def test_a_seal_tells_what_was_changed_or_taken_away(tmp_path: Path) -> None:
    for name in ("verdict.json", "tables/a.parquet", "tables/b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    write_seal(tmp_path, ["verdict.json", "tables/a.parquet", "tables/b.parquet"])
    assert changed_files(tmp_path) == []
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--quiet", "--check", SEAL], cwd=tmp_path, check=True)
    (tmp_path / "verdict.json").write_text("pass")
    (tmp_path / "tables" / "b.parquet").unlink()
    assert changed_files(tmp_path) == ["tables/b.parquet", "verdict.json"]


@pytest.mark.parametrize("name", ["verdict.json", "tables/a.parquet"])
def test_a_file_of_a_sealed_result_is_refused_where_it_changed(tmp_path: Path, name: str) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / name).write_text("a")
    refuse_damaged(tmp_path / name)  # before there is a seal
    write_seal(tmp_path, [name])
    refuse_damaged(tmp_path / name)
    (tmp_path / name).write_text("b")
    with pytest.raises(DamagedError, match=rf"{name} is damaged: it is not what {SEAL} says"):
        refuse_damaged(tmp_path / name)
    (tmp_path / "unsealed.json").write_text("a")
    refuse_damaged(tmp_path / "unsealed.json")


def test_a_flipped_bit_anywhere_in_a_seal_is_noticed(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.json"):
        (tmp_path / name).write_bytes(name.encode())
    write_seal(tmp_path, ["a.parquet", "b.json"])
    whole = (tmp_path / SEAL).read_bytes()
    assert changed_files(tmp_path) == []
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / SEAL).write_bytes(flipped)
        try:
            assert changed_files(tmp_path) != []  # another name, or another hash
        except DamagedError:
            continue
