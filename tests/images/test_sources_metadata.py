"""Folders with ``metadata.csv`` or ``.jsonl``, as the ``datasets`` library calls an image folder."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.making import write


def pictures(root: Path, *names: str) -> Path:
    for i, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(path, "PNG")
    return root


def test_metadata_of_each_split_name_label_and_patient(tmp_path: Path) -> None:
    root = pictures(tmp_path / "set", "train/a.png", "train/deep/b.png", "test/c.png")
    write(root / "train/metadata.csv", b"file_name,label,patient_id,age\na.png,nv,007,50\n./deep/b.png,mel,8,\n")
    write(root / "test/metadata.csv", b"file_name,label,patient_id,site\nc.png,nv,9,x\n")
    manifest = load_manifest(root)
    of = manifest.table.set_index("image")
    assert of["label"].to_dict() == {"train/a.png": "nv", "train/deep/b.png": "mel", "test/c.png": "nv"}
    assert of["group"].to_dict() == {"train/a.png": "007", "train/deep/b.png": "8", "test/c.png": "9"}
    assert of["split"].to_dict() == {"train/a.png": "train", "train/deep/b.png": "train", "test/c.png": "test"}
    assert of["age"]["train/a.png"] == "50"
    assert len(manifest.skipped) == 0
    assert any("3 of 3 images have a row, 3 of 3 rows an image" in note for note in manifest.notes)


def test_json_lines_and_options(tmp_path: Path) -> None:
    root = pictures(tmp_path / "set", "cat/a.png", "dog/b.png", "dog/c.png")
    lines = [
        {"file_name": "cat/a.png", "patient_id": 1, "caption": "x", "objects": {"bbox": [1]}},
        {"file_name": "dog/b.png", "patient_id": 1},
        {"file_name": "dog/missing.png", "patient_id": 2, "who": "n"},
    ]
    write(root / "metadata.jsonl", "\n".join(map(json.dumps, lines)).encode())
    manifest = load_manifest(root)
    assert manifest.labels.tolist() == ["cat", "dog", "dog"]  # the folders', since the metadata say nothing of it
    assert manifest.groups.tolist() == ["1", "1", "dog/c.png"]
    assert any("2 of 3 images have a row, 2 of 3 rows an image" in note for note in manifest.notes)
    named = load_manifest(root, ImageOptions(label_column="caption"))
    assert named.labels.tolist() == ["x", "", ""]
    with pytest.raises(InputError, match=r"label column of metadata.jsonl"):
        load_manifest(root, ImageOptions(label_column="captoin"))
    table = load_manifest(root / "metadata.jsonl", ImageOptions(skip_missing=True, group_column="file_name"))
    assert table.images.tolist() == ["cat/a.png", "dog/b.png"]


def test_metadata_that_cannot_be_used(tmp_path: Path) -> None:
    root = pictures(tmp_path / "set", "a.png", "b.png")
    for content, what in [
        ("file_name,label\n../a.png,x\n", "1 path leads out of the folder .*file_name is a path below"),
        ("file_name,label\n/etc/passwd,x\n", "leads out of the folder"),
        ("file_name,label\na.png,x\na.png,y\n", r"1 image has several rows with different labels \(a.png: x and y\)"),
        ("file_name,patient\na.png,\nb.png,\n", "group.*|column patient is empty"),
        ('file_name,label\n"a.png,x\n', "cannot be read as a table"),
    ]:
        write(root / "metadata.csv", content.encode())
        with pytest.raises(InputError, match=what) as error:
            load_manifest(root)
        assert "\n" not in str(error.value)
    write(root / "metadata.csv", b"something,else\n1,2\n")  # another table of that name: not for us
    assert load_manifest(root).skipped["path"].tolist() == ["metadata.csv"]
    with pytest.raises(InputError, match="label_column name columns of a table, and there is none"):
        load_manifest(root, ImageOptions(label_column="else"))
    write(root / "metadata.jsonl", b'{"file_name": "a.png"}\n[1, 2]\n')
    with pytest.raises(InputError, match="line 2 is not a JSON object"):
        load_manifest(root)
    write(root / "labels.csv", b"image,label\na.png,x\nb.png,y\n")
    given = load_manifest(root, ImageOptions(labels_csv=root / "labels.csv"))  # in place of all metadata
    assert given.labels.tolist() == ["x", "y"]
