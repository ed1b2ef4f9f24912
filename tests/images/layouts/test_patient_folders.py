"""A folder per patient that is taken for a class: noticed, never published, and confirmed where it is a class."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.release.export import release
from memorisk.images.manifest import Manifest, require_labels
from memorisk.images.options import ImageOptions
from memorisk.images.set_check.check import DOUBTS, check_images
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError

FOLDER = "([^/]+)/[^/]+$"
"""Pattern of the folder that an image lies in."""


def _images(root: Path, folders: list[str], each: int) -> Path:
    for folder in folders:
        (root / folder).mkdir(parents=True)
        for number in range(each):
            Image.fromarray(np.full((4, 4), number, np.uint8)).save(root / folder / f"{number}.png")
    return root


def _codes(manifest: Manifest) -> list[str]:
    return [doubt.code for doubt in manifest.id_doubts]


@pytest.mark.parametrize(
    ("folders", "each"),
    [
        pytest.param([f"p{number:03}" for number in range(30)], 9, id="numbers"),
        pytest.param([f"Doe-{chr(97 + number)}{chr(99 + number)}" for number in range(22)], 2, id="few images each"),
    ],
)
def test_folders_that_look_like_patients_are_no_classes(tmp_path: Path, folders: list[str], each: int) -> None:
    root = _images(tmp_path / "set", folders, each)
    manifest = load_manifest(root)
    assert _codes(manifest) == ["patient-folders"]
    assert manifest.classes == []
    with pytest.raises(InputError, match=r"folders look like patients.*--group-from.*--label-from"):
        require_labels(manifest)
    exported = release(root, tmp_path / "clean")
    assert "look like patients" in exported.labels_left_out
    assert pd.read_csv(tmp_path / "clean" / "metadata.csv").columns.tolist() == ["file_name"]
    confirmed = load_manifest(root, ImageOptions(label_from=FOLDER))
    assert _codes(confirmed) == []
    assert confirmed.classes == sorted(folders)


def test_labels_that_are_the_patients_are_left_out(tmp_path: Path) -> None:
    root = _images(tmp_path / "set", ["P-7", "P-8", "P-9"], 3)
    manifest = load_manifest(root, ImageOptions(group_from=FOLDER))
    assert manifest.classes == []
    assert _codes(manifest) == []
    assert manifest.patients == {"P-7", "P-8", "P-9"}
    with pytest.raises(InputError, match=r"labels name the patients.*--labels-csv"):
        require_labels(manifest)
    release(root, tmp_path / "clean", group_from=FOLDER)
    assert "P-7" not in (tmp_path / "clean" / "metadata.csv").read_text()


def test_many_labels_of_one_patient_each_are_left_out(tmp_path: Path) -> None:
    names = [f"study {chr(97 + number)}" for number in range(24)]
    _images(tmp_path, names, 8)
    files = [f"{name}/{number}.png" for name in names for number in range(8)]
    patients = [f"P{names.index(file.split('/')[0]) // 2}" for file in files]
    table = pd.DataFrame({"file": files, "patient": patients, "study": [file.split("/")[0] for file in files]})
    table.to_csv(tmp_path / "table.csv", index=False)
    manifest = load_manifest(tmp_path / "table.csv", ImageOptions(label_column="study"))
    assert manifest.classes == []
    assert "left out" in manifest.labels_left_out


@pytest.mark.parametrize(
    "folders",
    [
        pytest.param([str(number) for number in range(10)], id="ten digits"),
        pytest.param([f"n{number:08}" for number in range(30)], id="WordNet"),
        pytest.param([f"{chr(97 + number)} cyst" for number in range(26)], id="words"),
    ],
)
def test_classes_stay_classes(tmp_path: Path, folders: list[str]) -> None:
    manifest = load_manifest(_images(tmp_path, folders, 8))
    assert manifest.classes == sorted(folders)
    assert _codes(manifest) == []


def test_classes_with_patients_of_the_same_numbers_stay_classes(tmp_path: Path) -> None:
    _images(tmp_path, ["all"], 24)
    labels, patients = [str(n % 3) for n in range(24)], [str(n // 2) for n in range(24)]
    table = pd.DataFrame({"file": [f"all/{n}.png" for n in range(24)], "label": labels, "patient": patients})
    table.to_csv(tmp_path / "table.csv", index=False)
    assert load_manifest(tmp_path / "table.csv").classes == ["0", "1", "2"]


def test_a_check_of_the_images_calls_the_doubt_a_problem(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(44):
        (folder := tmp_path / "set" / f"p{number // 2:03}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / f"{number}.png")
    check = check_images(tmp_path / "set")
    assert (check.ok, {what: n for what, n in check.problems.items() if n}) == (False, {DOUBTS: 1})
    assert check_images(tmp_path / "set", group_from=FOLDER).problems[DOUBTS] == 0
