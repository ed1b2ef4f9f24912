"""What a filter writes: the kept set as it was given, whole or not at all, beside nobody's files, and told by name."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.filter import kept as kept_module
from memorisk.images.overlap import source_places
from memorisk.report.result import Result
from memorisk.runs.checksums import checksum
from memorisk.runs.errors import InputError, MemoriskError
from tests.audits.filter_set.conftest import run
from tests.audits.filter_set.making import COPIED, N_SET, OF, contents, digit_sets
from tests.commands import environment

KEPT = "kept"
VOLATILE = ("log.jsonl", ".lock")


def test_the_manifest_is_there_twice_and_the_last_file_tells_that_all_is_done(place: Path, filtered: Result) -> None:
    out = place / "out"
    saved = pd.read_parquet(out / "manifest.parquet")
    assert saved["image"].tolist() == pd.read_csv(out / "manifest.csv")["image"].tolist()
    told = json.loads((out / "filter.json").read_text())
    assert told["n_kept"] == int(saved["kept"].sum())
    listing = checksum(out / "kept")
    of_kept = {"folder": "kept", "files": told["n_kept"], "links": 0, "symbolic": 0, "sha256": listing.sha256}
    assert told["kept"] == of_kept
    assert told["n_kept"] + told["n_rejected"] == told["n_synthetic"] == N_SET + 1
    assert sum(told["rejected"].values()) == told["n_rejected"]
    assert (out.stat().st_mode & 0o777) == 0o700
    assert "names training images" in (out / "report.html").read_text()


def test_links_are_hard_or_symbolic_and_inputs_stay_as_they_were(place: Path, filtered: Result, monkeypatch) -> None:
    before = contents(place / "set")
    for file in (place / "set").iterdir():
        file.chmod(0o644)
    run(place, "linked", families="noise:0.1", keep="link")
    name = next(iter(contents(place / "linked" / KEPT)))
    assert (place / "linked" / KEPT / name).stat().st_ino == (place / "set" / name).stat().st_ino

    def refused(*_: object) -> None:
        """No hard links here."""
        raise OSError(18, "other file system")

    monkeypatch.setattr(kept_module.os, "link", refused)
    run(place, "linked", families="noise:0.1", keep="link")
    assert (place / "linked" / KEPT / name).is_symlink()
    assert contents(place / "linked" / KEPT) == contents(place / "out" / KEPT)
    assert json.loads((place / "linked" / "filter.json").read_text())["kept"]["symbolic"] > 0
    assert contents(place / "set") == before
    assert {file.stat().st_mode & 0o777 for file in (place / "set").iterdir()} == {0o644}


def test_what_is_kept_is_its_owners_until_it_is_shared(place: Path, filtered: Result) -> None:
    for path in (place / "out").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_what_changed_meanwhile_is_never_kept(place: Path, monkeypatch) -> None:
    copied = kept_module.shutil.copyfile

    def changed(source: Path, target: Path) -> None:
        """Copy something else."""
        copied(source, target)
        target.write_bytes(target.read_bytes() + b"more")

    monkeypatch.setattr(kept_module.shutil, "copyfile", changed)
    with pytest.raises(MemoriskError, match="changed while they were filtered"):
        run(place, "changed", families="noise:0.1")
    assert not (place / "changed" / KEPT).exists()
    assert not (place / "changed" / "filter.json").exists()


def test_folders_that_would_mix_with_the_inputs_are_refused(place: Path) -> None:
    for out, words in (("set/out", "lies inside SYNTHETIC"), ("train", "lies inside TRAIN"), (".", "holds TRAIN")):
        with pytest.raises(InputError, match=words):
            run(place, out)
    (place / "taken").mkdir()
    (place / "taken" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds files that are no run"):
        run(place, "taken", families="noise:0.1")
    with pytest.raises(InputError, match="miss_rate"):
        run(place, "out", families="noise:0.1", miss_rate=0.1)


KILL = """
import os, signal, sys
from memorisk.audits.filter import filtering, kept
count = 0
def stop(*_, **__):
    global count
    count += 1
    if count == {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*_, **__)
real = getattr({module}, "{name}")
setattr({module}, "{name}", stop)
filtering.filter_synthetic({train!r}, {made!r}, {out!r}, calibration={new!r}, detector="pixels",
                           families="noise:0.1", gallery=True, group_from={group!r})
"""


def test_a_killed_filter_goes_on_to_the_same_bytes(place: Path, filtered: Result) -> None:
    stages = {"copies": ("kept.shutil", "copyfile", 20), "end": ("filtering", "write_json", 1)}
    running = {}
    for out, (module, name, after) in stages.items():
        paths = {"train": str(place / "train"), "made": str(place / "set"), "new": str(place / "new")}
        code = KILL.format(module=module, name=name, after=after, group=OF["group_from"], out=str(place / out), **paths)
        command, where = [sys.executable, "-c", code], environment(place / "cache")
        running[out] = subprocess.Popen(command, env=where, stderr=subprocess.PIPE)
    for out, process in running.items():
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said.decode()
        folder = place / out
        assert (folder / ".kept.building").is_dir() == (out == "copies")
        assert (folder / KEPT).is_dir() == (out == "end")
        assert not (folder / "filter.json").exists()
        run(place, out, families="noise:0.1", gallery=True)
        leave = (*VOLATILE, "config.yaml")
        assert contents(folder, leave) == contents(place / "out", leave)
        assert not (folder / ".kept.building").exists()


def test_arrays_keep_their_rows_with_what_stands_beside_them(place: Path) -> None:
    images = digit_sets()["set"]
    np.savez(place / "set.npz", images=images, labels=np.arange(N_SET) % 3, note=np.array("made"))
    found = run(place, "array", made="set.npz", families="noise:0.1")
    kept = found.per_image["kept"].to_numpy(dtype=bool)
    with np.load(place / "array" / KEPT / "set.npz") as written:
        np.testing.assert_array_equal(written["images"], images[kept])
        np.testing.assert_array_equal(written["labels"], (np.arange(N_SET) % 3)[kept])
        assert str(written["note"]) == "made"
    assert not kept[: COPIED + 1].any()
    np.save(place / "set.npy", images)
    run(place, "plain", made="set.npy", families="noise:0.1")
    np.testing.assert_array_equal(np.load(place / "plain" / KEPT / "set.npy"), images[kept])


def test_a_file_of_several_images_is_kept_whole_or_not_at_all(place: Path) -> None:
    sets = digit_sets()
    pages = [Image.fromarray(image[..., 0]) for image in (*sets["set"][30:40], sets["train"][3])]
    (place / "stacks").mkdir()
    pages[0].save(place / "stacks" / "a.tif", save_all=True, append_images=pages[1:4])
    pages[4].save(place / "stacks" / "b.tif", save_all=True, append_images=pages[5:8])
    pages[8].save(place / "stacks" / "c.tif", save_all=True, append_images=[pages[-1], pages[9]])
    found = run(place, "stacked", None, made="stacks", threshold=-0.05)
    assert sorted(contents(place / "stacked" / KEPT)) == ["a.tif", "b.tif"]
    table = found.per_image.set_index("image")
    assert table.loc[["c.tif#0", "c.tif#1", "c.tif#2"], "reason"].tolist() == ["file", "same pixels", "file"]


def test_ids_are_hidden_where_that_was_asked(place: Path, filtered: Result) -> None:
    key = place / "key"
    key.touch(mode=0o600)
    key.write_bytes(b"0123456789abcdef")
    run(place, "hidden", families="noise:0.1", pseudonymise=True, pseudonym_key=key, redact=True)
    again = (place / "hidden" / "manifest.csv").read_bytes()
    run(place, "hidden", families="noise:0.1", pseudonymise=True, pseudonym_key=key, redact=True)  # it goes on
    assert (place / "hidden" / "manifest.csv").read_bytes() == again
    for name, data in contents(place / "hidden", ()).items():
        if not name.startswith(KEPT):
            assert str(place).encode() not in data, name
            assert b"t020" not in data, name
            assert b"s010" not in data, name
    run(place, "redacted", families="noise:0.1", redact=True, gallery=True)
    page = (place / "redacted" / "report.html").read_text()
    assert "t020" not in page
    assert "data:image/png" not in page
    assert "pass on this file alone" in page
    assert "pass on this file alone" not in (place / "out" / "report.html").read_text()
    assert "data:image/png" in (place / "out" / "report.html").read_text()


def test_several_sources_and_named_ones_are_places_too(tmp_path: Path) -> None:
    for name in ("a", "b,c"):
        (tmp_path / name).mkdir()
    assert source_places(f"{tmp_path}/a,nih:{tmp_path}/b") == [tmp_path / "a", tmp_path / "b"]
    assert source_places(f"{tmp_path}/b,c") == [tmp_path / "b,c"]
    assert source_places("digits") == source_places(None) == []


def test_files_that_a_table_names_and_nobody_has_are_listed(place: Path, filtered: Result) -> None:
    names = sorted(contents(place / "set"))
    table = pd.DataFrame({"path": [*names, "c0/absent.png"], "label": ["a", *["b"] * len(names)]})
    table.to_csv(place / "set" / "table.csv", index=False)
    found = run(place, "table", made="set/table.csv", families="noise:0.1")
    (place / "set" / "table.csv").unlink()
    rows = found.per_image.set_index("image")
    assert len(rows) == found.verdict["n_synthetic"] == N_SET + 2
    assert (rows.loc["c0/absent.png", "reason"], rows.loc["c0/absent.png", "kept"]) == ("unreadable", False)
    assert rows.loc["c0/absent.png", "detail"] != ""
    assert found.verdict["rejected"]["unreadable"] == 2
    assert contents(place / "table" / KEPT) == contents(place / "out" / KEPT)
    assert set(found.per_class["label"]) == {"a", "b"}
