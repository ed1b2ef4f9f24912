"""A copy detector that begins as another one: its backbone and linear layer, and whom that one has seen."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import memorisk
from memorisk.audits.comparison.knowledge import known_patients
from memorisk.images.store import ImageStore
from memorisk.models.copy_detectors import Detector
from memorisk.runs.errors import InputError
from memorisk.training.detectors.contrastive.fit import fit_detector
from memorisk.training.detectors.contrastive.inputs import build_initial_detector
from memorisk.training.detectors.options import DetectorOptions
from tests.training.small_detectors import TINY, scans

pytest.importorskip("kornia")
pytest.importorskip("pytorch_metric_learning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("going_on")


@pytest.fixture(scope="module")
def store(place: Path) -> ImageStore:
    return scans(place)


@pytest.fixture(scope="module")
def first(store: ImageStore, place: Path) -> Path:
    return fit(store, place / "first", (0, 16, 24))


@pytest.fixture(scope="module")
def second(store: ImageStore, first: Path, place: Path) -> Path:
    return fit(store, place / "second", (24, 40, 48), f"detector:{first}")


def fit(store: ImageStore, folder: Path, bounds: tuple[int, int, int], backbone: str = TINY.backbone) -> Path:
    """A folder of a detector, trained on the first rows and chosen on the last."""
    begin, middle, end = bounds
    options = replace(TINY, backbone=backbone, epochs=1, frozen_epochs=0, batch_size=8)
    rows = np.arange(begin, middle), np.arange(middle, end)
    fit_detector(store, *rows, store.manifest.groups, options, folder)
    return folder


def opened(folder: Path | str) -> Detector:
    found = memorisk.load_detector(folder)
    assert isinstance(found, Detector)
    return found


def begun(store: ImageStore, **options: object) -> Detector:
    start = build_initial_detector(store, replace(TINY, **options))
    return Detector(start.network, start.config, opened("default").seen, start.earlier)


def test_it_begins_as_the_other_one_is(store: ImageStore, first: Path) -> None:
    before, after = opened(first), begun(store, backbone=f"detector:{first}")
    images = store.images[:6]
    np.testing.assert_array_equal(after.embed(images, device="cpu"), before.embed(images, device="cpu"))
    assert all(parameter.requires_grad for parameter in after.network.trained())
    assert (after.config.backbone, after.config.weights) == ("small_cnn", "detector:first")
    assert after.config.preprocessing == before.config.preprocessing


def test_whom_the_earlier_one_has_seen_stays_with_it(store: ImageStore, second: Path) -> None:
    found = opened(second)
    seen = found.seen_parts(store)
    expected = ["training"] * 16 + ["validation"] * 8 + ["training"] * 16 + ["validation"] * 8 + [""] * 12
    assert seen.part.tolist() == expected
    known = known_patients(found, store)
    assert known is not None
    assert (known.patients, known.of) == (24, 30)
    found.save(second.parent / "again")
    for file in sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file()):
        if file.name != "history.json" and file.suffix != ".checksum":
            assert (second.parent / "again" / file).read_bytes() == (second / file).read_bytes()


def test_without_patients_the_pixels_of_both_are_known(store: ImageStore, second: Path) -> None:
    found = opened(second)
    alone = replace(found, config=replace(found.config, groups_given=False))
    known = known_patients(alone, store)
    assert known is not None
    assert known.patients == 24


def test_three_in_a_row(store: ImageStore, second: Path, place: Path) -> None:
    third = opened(fit(store, place / "third", (48, 54, 60), f"detector:{second}"))
    assert (third.seen_parts(store).part != "").all()
    assert third.config.weights == "detector:second"


def test_the_one_that_comes_with_memorisk_leaves_nobody_behind(store: ImageStore, place: Path) -> None:
    default = opened("default")
    start = begun(store, backbone="default")
    np.testing.assert_array_equal(
        start.embed(store.images[:3], device="cpu"), default.embed(store.images[:3], device="cpu")
    )
    found = opened(fit(store, place / "from-default", (0, 8, 16), "default"))
    assert (found.config.backbone, found.config.weights, found.earlier) == ("copy_resnet", "default", None)
    assert (found.config.published, found.config.earlier) == ({}, False)
    assert found.config.preprocessing.size == (64, 64)
    assert found.config.measure == default.config.measure == "whitened"
    assert not (place / "from-default" / "earlier").exists()
    moved = np.abs(found.embed(store.images[:3], device="cpu") - default.embed(store.images[:3], device="cpu"))
    assert moved.max() > 0
    assert (found.seen_parts(store).part != "").tolist() == [True] * 16 + [False] * 44


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dimension": 64}, "dimension is 64, and default gives 128 numbers"),
        ({"network_size": 32}, "a detector has its own size and normalisation"),
        ({"normalise": "0.5/0.5"}, "a detector has its own size and normalisation"),
    ],
)
def test_another_form_is_refused(store: ImageStore, changed: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_initial_detector(store, DetectorOptions(backbone="default", **changed))


def test_the_name_of_its_folder_decides_nothing() -> None:
    assert DetectorOptions(backbone="detector:runs/dino").images_a_step == 128


def test_a_folder_that_lost_what_was_seen_earlier_is_refused(second: Path, place: Path) -> None:
    shutil.copytree(second, place / "lost")
    shutil.rmtree(place / "lost" / "earlier")
    with pytest.raises(InputError, match=r"no whole detector: there is no earlier/origin.json"):
        memorisk.load_detector(place / "lost")
