"""Images in a program's memory: tables of pandas with a column of files, and arrays."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import memorisk
from memorisk.audits.classifier.twins.data_context import shared_image_note
from memorisk.images.options import ImageOptions
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[Path, np.ndarray]:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
    for i, one in enumerate(pixels):
        path = tmp_path / "scans" / str(i % 2) / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(path)
    return tmp_path / "scans", pixels


def table_of(root: Path) -> pd.DataFrame:
    files = [str(root / str(i % 2) / f"{i}.png") for i in range(6)]
    return pd.DataFrame({"file": files, "dx": ["a", "b"] * 3, "patient_id": [7, 7, 8, 8, None, 9], "age": range(6)})


def test_a_table_names_files_anywhere(pictures: tuple[Path, np.ndarray], cache: Path) -> None:
    root, pixels = pictures
    manifest = memorisk.load_manifest(table_of(root))
    assert (manifest.root, manifest.table["path"].tolist()[:2]) == (root, ["0/0.png", "1/1.png"])
    assert manifest.labels.tolist() == ["a", "b"] * 3
    assert manifest.groups.tolist()[:4] == ["7", "7", "8", "8"]
    assert manifest.images.tolist() == table_of(root)["file"].tolist()  # ids as they were typed
    assert manifest.table["age"].tolist() == list(range(6))
    store = build_store(manifest, ImageOptions())
    assert (store.images == pixels).all()
    written = list((cache / "tables").rglob("*.parquet"))
    assert len(written) == 1
    memorisk.load_manifest(table_of(root).set_index("file"))
    assert len(list((cache / "tables").rglob("*.parquet"))) == 1  # the same content is written once


def test_relative_files_are_below_the_current_folder_or_image_root(
    pictures: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = pictures
    table = table_of(root).assign(file=[f"{i % 2}/{i}.png" for i in range(6)])
    with pytest.raises(InputError, match="have no file below"):
        memorisk.check_images(table)
    assert memorisk.check_images(table, image_root=root).n == 6
    monkeypatch.chdir(root)
    assert memorisk.load_manifest(table).images.tolist()[0] == "0/0.png"
    mixed = table.assign(file=[str(root / "0" / "0.png"), *table["file"][1:]])
    monkeypatch.chdir(root / "0")
    with pytest.raises(InputError, match="have no file"):
        memorisk.load_manifest(mixed)


def test_arrays_are_images_labels_and_groups() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (4, 6, 6), dtype=np.uint8)
    patients = pd.Series(["p", "p", "q", "q"], index=[9, 8, 7, 6])
    manifest = memorisk.load_manifest((pixels, np.array([0, 1, 0, 1]), patients))
    assert (manifest.labels.tolist(), manifest.groups.tolist()) == (["0", "1", "0", "1"], ["p", "p", "q", "q"])
    assert (build_store(manifest, ImageOptions()).images[..., 0] == pixels).all()
    alone = memorisk.load_manifest(torch.from_numpy(pixels))
    assert (build_store(alone, ImageOptions()).images[..., 0] == pixels).all()


@pytest.mark.parametrize(
    ("images", "match"),
    [
        (pd.DataFrame({"weight": [1]}), "name one with path_column"),
        (pd.DataFrame({"path": []}), "no rows"),
        (pd.DataFrame([["a", "b"]], columns=["path", "path"]), "several columns are called 'path'"),
        ((np.zeros((2, 4, 4), np.uint8), [1]), "X has 2 images, and there are 1 labels"),
        ((np.zeros((2, 4, 4), np.uint8), None, "p"), "there are 1 groups"),
        (
            ([np.zeros((4, 4), np.uint8)] * 2, [0, 1]),
            r"X must be an array of \[n, h, w\].*it is a list of 2: numpy.stack",
        ),
        ([np.zeros((4, 4), np.uint8)] * 2, "X must be an array"),
        ((np.zeros((4, 4), np.uint8), [0]), "X must be an array.*it is an array of 2 dimensions"),
    ],
)
def test_what_is_no_source_is_refused_in_a_line(images: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        memorisk.check_images(images)


def test_a_plan_says_how_many_images_lack_a_patient(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 6, 6), dtype=np.uint8)
    groups = np.repeat(np.arange(20.0), 2)
    groups[3] = np.nan
    plan = memorisk.audit_classifier((pixels, np.arange(40) % 2, groups), out=tmp_path / "run", models=4, dry_run=True)
    assert "cannot pass: 1 image has no patient id" in str(plan)
    assert "no patient ids were given" not in str(plan)


def test_one_pair_of_groups_is_told_in_the_singular() -> None:
    assert shared_image_note(1) == "1 pair of groups shares an identical image; it counts as one group here."
    assert shared_image_note(2) == "2 pairs of groups share an identical image; each pair counts as one group here."
