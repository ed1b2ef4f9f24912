"""What is said of mixed images and of few held-out patients before a generator is trained on them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.training.engine.data import Division
from memorisk.training.generators import inputs as generator_inputs
from memorisk.training.generators.inputs import MIN_HELD_OUT, notes_on_inputs
from tests.images.dicom_making import dicom


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


def notes_of(folder: Path, held_out: int, **how) -> str:
    """Of a folder whose first images are trained on, with so many held-out patients in each of two parts."""
    options = ImageOptions(size=8, **how)
    store = build_store(load_manifest(folder, options), options)
    n = len(store.images) - 2 * held_out
    parts = np.split(np.arange(len(store.images)), [n, n + held_out])
    rows: dict[str, np.ndarray] = dict(zip(("training", "validation", "test"), parts, strict=True))
    return " ".join(notes_on_inputs(store, Division(rows, store.manifest.groups), options))


def images(folder: Path, kinds: list[tuple[tuple[int, int], str]], more: int) -> Path:
    """Noise of these sizes and modes, then so many grey squares."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i, ((width, height), mode) in enumerate([*kinds, *([((8, 8), "L")] * more)]):
        shape = (height, width, 3) if mode == "RGB" else (height, width)
        noise = rng.integers(0, 256, shape)
        pixels = (noise * 257).astype(np.uint16) if mode == "I;16" else noise.astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:03}.png")
    return folder


def test_images_of_one_kind_and_enough_patients_need_no_word(tmp_path: Path) -> None:
    assert notes_of(images(tmp_path / "i", [], 4 + 2 * MIN_HELD_OUT), MIN_HELD_OUT) == ""


def test_few_held_out_patients_are_told_by_what_they_are_too_few_for(tmp_path: Path) -> None:
    said = notes_of(images(tmp_path / "i", [], 4 + 2 * (MIN_HELD_OUT - 1)), MIN_HELD_OUT - 1)
    assert "No memorized share is possible while it trains with 18 validation patients" in said
    assert "No final audit with held-out patients is possible with 18 test patients" in said


@pytest.mark.parametrize("rule", ["squash", "crop", "pad"])
def test_shapes_colours_and_depths_that_are_mixed_are_counted(tmp_path: Path, rule: str) -> None:
    kinds = [((12, 8), "L"), ((8, 9), "RGB"), ((8, 8), "RGB"), ((8, 8), "RGB"), ((8, 8), "I;16"), ((8, 8), "L")]
    said = notes_of(images(tmp_path / "i", kinds, 2 * MIN_HELD_OUT), MIN_HELD_OUT, resize=rule)
    assert "2 of 6 training images are not square" in said
    assert f"(resize {rule})" in said
    assert "3 are grey and 3 coloured: the generator draws RGB" in said
    assert "1 of 6 training images have more than 8 bits a pixel, 5 have 8" in said


def test_of_many_images_some_are_looked_at_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_inputs, "MAX_INSPECTED", 3)
    kinds = [((12, 8), "L")] * 8
    assert "3 of 3 training images looked at are no" in notes_of(
        images(tmp_path / "i", kinds, 2 * MIN_HELD_OUT), MIN_HELD_OUT
    )


@pytest.mark.parametrize("several", [True, False])
def test_shapes_and_depths_of_dicom_and_arrays_are_told_too(tmp_path: Path, several: bool) -> None:
    rng, n = np.random.default_rng(0), 2 + 2 * MIN_HELD_OUT
    (tmp_path / "i").mkdir()
    if several:
        for i in range(n):
            deep, width = i == 0, 12 if i == 1 else 8
            stored = rng.integers(0, 200, (8, width)).astype(np.uint16 if deep else np.uint8)
            dicom(stored, PatientID=f"p{i}").save_as(tmp_path / "i" / f"{i:03}.dcm", enforce_file_format=True)
        said = notes_of(tmp_path / "i", MIN_HELD_OUT)
        assert "1 of 2 training images is not square" in said
        assert "1 of 2 training images have more than 8 bits a pixel, 1 have 8" in said
    else:
        np.save(tmp_path / "i" / "a.npy", rng.integers(0, 200, (n, 8, 12)).astype(np.uint8))
        assert "2 of 2 training images are not square" in notes_of(tmp_path / "i" / "a.npy", MIN_HELD_OUT)
