"""What stands for a detector: read, named, told apart, and the baselines that are not at hand."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from memorisk.runs.errors import InputError
from memorisk.studies.pairs import detectors
from memorisk.studies.pairs.detectors import (
    FOUNDATION,
    PIXELS,
    SPECIFIC,
    TABLE_2,
    UNSUPERVISED,
    read_detector,
    read_detectors,
)
from memorisk.studies.pairs.options import BenchReidOptions


def test_names_sections_and_ways_to_compare(headed: Path) -> None:
    mse, random = read_detector("MSE"), read_detector("random")
    assert (mse.name, mse.pixel, mse.section) == ("MSE", "mse", PIXELS)
    assert (random.name, random.section, random.text) == ("Random", UNSUPERVISED, "random")
    assert random.detector is not None
    assert random.detector.source.text == "inception_v3@none"
    assert random.detector.measure == "cosine"
    own = read_detector(f"{headed}=Mine")
    assert (own.name, own.section, own.has_head) == ("Mine", SPECIFIC, True)
    assert read_detector(str(headed)).name == headed.name
    assert read_detector("small_cnn@none").section == UNSUPERVISED
    assert not read_detector("pixels:4", measure="cityblock").has_head


def test_a_file_with_an_equals_sign_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a=b.safetensors"
    save_file({"x": np.zeros(1, np.float32)}, file)
    assert read_detector(f"resnet18@{file}").name == "resnet18@a=b.safetensors"
    assert read_detector(f"resnet18@{file}=BYOL").name == "BYOL"
    assert read_detector(f"resnet18@{file}=BYOL").section == FOUNDATION


def test_keys_follow_the_content(tmp_path: Path, headed: Path) -> None:
    options = BenchReidOptions()
    file, twin = tmp_path / "w.safetensors", tmp_path / "v.safetensors"
    for path, value in ((file, 0), (twin, 0)):
        save_file({"x": np.full(1, value, np.float32)}, path)
    keys = [read_detector(f"resnet18@{path}").key(options, "cpu") for path in (file, twin)]
    assert keys[0] == keys[1]
    save_file({"x": np.ones(1, np.float32)}, twin)
    assert read_detector(f"resnet18@{twin}").key(options, "cpu") != keys[0]
    every = [read_detector(t).key(options, "cpu") for t in ("mse", "ncc", "small_cnn@none", "pixels:4", str(headed))]
    assert len(set(every)) == 5
    other = BenchReidOptions(measure="cityblock")
    assert read_detector("pixels:4").key(other, "cpu") != every[3]


def test_every_baseline_of_the_table_is_measured_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detectors, "_in_cache", lambda repository: repository.endswith("lvd142m"))
    options = BenchReidOptions(detectors=("mse", "small_cnn@none=BYOL"), baselines="table2")
    monkeypatch.setattr(
        "memorisk.studies.pairs.detectors.read_detector",
        lambda text, measure: read_detector(text.replace("lvd142m", "none"), measure=measure),
    )
    found, missing = read_detectors(options)
    assert {c.name for c in found} | set(missing) == {b.name for b in TABLE_2}
    assert [c.name for c in found] == ["MSE", "BYOL", "NCC", "SSIM", "Random", "DINOv2"]
    assert "--download" in missing["CLIP"]
    assert "=SwAV" in missing["SwAV"]
    assert "--download" not in missing["SwAV"]


def test_two_of_one_name_and_an_unknown_reference_are_refused(headed: Path) -> None:
    with pytest.raises(InputError, match="two detectors would be called siamese"):
        read_detectors(BenchReidOptions(detectors=(str(headed), f"detector:{headed}")))
    with pytest.raises(InputError, match="it must be one of"):
        read_detectors(BenchReidOptions(detectors=("mse",), reference="NCC"))
    with pytest.raises(InputError, match="Did you mean"):
        read_detector("pixel")
