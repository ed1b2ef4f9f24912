"""What a filter writes: the kept set, whole or not at all, with nothing but pixels in it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.images import clean_set
from memorisk.images.pixels import PixelRule
from memorisk.images.plain_png import decode_png
from memorisk.images.sources.overlap import source_places
from memorisk.report.result import Result
from memorisk.runs.checksums import checksum
from memorisk.runs.errors import InputError, MemoriskError
from tests.audits.filter.conftest import run
from tests.audits.filter.making import COPIED, N_SET, OF, contents, digit_sets
from tests.commands import environment

KEPT = "kept"
VOLATILE = ("log.jsonl", ".lock")


def test_the_manifest_is_there_twice_and_the_last_file_tells_that_all_is_done(place: Path, filtered: Result) -> None:
    out = place / "out"
    saved = pd.read_parquet(out / "manifest.parquet")
    assert saved["image"].tolist() == pd.read_csv(out / "manifest.csv")["image"].tolist()
    told = json.loads((out / "filter.json").read_text())
    assert told["n_kept"] == int(saved["kept"].sum())
    assert told["kept"] == {"folder": "kept", "sha256": checksum(out / "kept").sha256}
    assert told["n_kept"] + told["n_rejected"] == told["n_synthetic"] == N_SET + 1
    assert sum(told["rejected"].values()) == told["n_rejected"]
    assert (out.stat().st_mode & 0o777) == 0o700
    assert "names training images" in (out / "report.html").read_text()


def test_what_is_kept_is_its_owners_until_it_is_shared(place: Path, filtered: Result) -> None:
    for path in (place / "out").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_what_changed_meanwhile_is_never_kept(place: Path, monkeypatch) -> None:
    read = PixelRule.read
    monkeypatch.setattr(
        clean_set,
        "row_blocks",
        lambda n: (monkeypatch.setattr(PixelRule, "read", lambda *a: read(*a) ^ 1), [(0, n)])[1],
    )
    with pytest.raises(MemoriskError, match="has changed since it was looked at"):
        run(place, "changed", families="noise:0.1")
    assert not (place / "changed" / KEPT).exists()
    assert not (place / "changed" / "filter.json").exists()


def test_kept_files_hold_the_pixels_of_their_images_and_nothing_else(place: Path, filtered: Result) -> None:
    table = pd.read_parquet(place / "out" / "manifest.parquet")
    kept = table[table["kept"]]
    folder = place / "out" / KEPT
    assert sorted([*kept["file"], "metadata.csv"]) == sorted(p.name for p in folder.iterdir())
    assert (table.loc[~table["kept"], "file"] == "").all()
    assert pd.read_csv(folder / "metadata.csv").columns.tolist() == ["file_name"]  # no training image has a label
    told = (place / "out" / "summary.json").read_text()
    assert f"{N_SET + 1} images have labels that no training image has: what is written leaves such labels out." in told
    for image, file in zip(kept["image"], kept["file"], strict=True):
        np.testing.assert_array_equal(
            np.asarray(Image.open(folder / file)), np.asarray(Image.open(place / "set" / image))
        )
        assert decode_png((folder / file).read_bytes()) is not None


@pytest.mark.usefixtures("filtered")
def test_folders_that_would_mix_with_the_inputs_are_refused(place: Path) -> None:
    for out, words in (("set/out", "lies inside SYNTHETIC"), ("train", "lies inside TRAIN"), (".", "holds TRAIN")):
        with pytest.raises(InputError, match=words):
            run(place, out)
    (place / "taken").mkdir()
    (place / "taken" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds files that are not a run"):
        run(place, "taken", families="noise:0.1")
    with pytest.raises(InputError, match="miss_rate"):
        run(place, "out", families="noise:0.1", miss_rate=0.1, plant_kinds=())


KILL = """
import os, signal, sys
from memorisk.audits.filter import run
from memorisk.audits.synthetic import analysis
from memorisk.images import clean_set
from tests.conftest import looked_at_nothing
analysis.look_again = looked_at_nothing
count = 0
def stop(*_, **__):
    global count
    count += 1
    if count == {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*_, **__)
real = getattr({module}, "{name}")
setattr({module}, "{name}", stop)
run.filter_synthetic({train!r}, {made!r}, {out!r}, calibration={new!r}, detector="pixels",
                           families="noise:0.1", gallery=True, group_from={group!r}, auditor={auditor!r})
"""


@pytest.mark.thorough
def test_a_killed_filter_goes_on_to_the_same_bytes(place: Path, filtered: Result, drawn: None) -> None:
    stages = {"copies": ("clean_set", "encode_png", 20), "end": ("run", "write_json", 1)}
    running = {}
    for out, (module, name, after) in stages.items():
        paths = {"train": str(place / "train"), "made": str(place / "set"), "new": str(place / "new")}
        code = KILL.format(
            module=module,
            name=name,
            after=after,
            group=OF["group_from"],
            auditor=OF["auditor"],
            out=str(place / out),
            **paths,
        )
        command, where = [sys.executable, "-c", code], environment(place / "cache")
        running[out] = subprocess.Popen(command, env=where, stderr=subprocess.PIPE)
    for out, process in running.items():
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said.decode()
        folder = place / out
        assert (folder / ".kept.building").is_dir() == (out == "copies")
        assert (folder / KEPT).is_dir() == (out == "end")
        assert not (folder / "filter.json").exists()
        run(place, out, families="noise:0.1", gallery=True, plant_kinds=())
        leave = (*VOLATILE, "config.yaml")
        assert contents(folder, leave) == contents(place / "out", leave)
        assert not (folder / ".kept.building").exists()


def test_images_of_arrays_and_of_stacks_are_kept_one_by_one(place: Path) -> None:
    images = digit_sets()["set"]
    np.savez(place / "set.npz", images=images, labels=np.arange(N_SET) % 3, note=np.array("made"))
    found = run(place, "array", made="set.npz", families="noise:0.1")
    kept = found.per_image["kept"].to_numpy(dtype=bool)
    assert not kept[: COPIED + 1].any()
    written = [np.asarray(Image.open(p)) for p in sorted((place / "array" / KEPT).glob("*.png"))]
    np.testing.assert_array_equal(written, images[kept][..., 0])
    assert (place / "array" / KEPT / "metadata.csv").read_text().splitlines()[0] == "file_name"
    sets = digit_sets()
    pages = [Image.fromarray(image[..., 0]) for image in (*sets["set"][30:40], sets["train"][3])]
    (place / "stacks").mkdir()
    pages[0].save(place / "stacks" / "a.tif", save_all=True, append_images=pages[1:4])
    pages[4].save(place / "stacks" / "b.tif", save_all=True, append_images=[pages[-1], pages[5]])
    found = run(place, "stacked", None, made="stacks", threshold=-0.05)
    table = found.per_image.set_index("image")
    assert table.loc[["b.tif#0", "b.tif#1", "b.tif#2"], "reason"].tolist() == ["", "same pixels", ""]
    assert len(list((place / "stacked" / KEPT).glob("*.png"))) == 6


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
    assert contents(place / "table" / KEPT, ("metadata.csv",)) == contents(place / "out" / KEPT, ("metadata.csv",))
    assert set(found.per_class["label"]) == {"a", "b"}
