"""What a run shows at its start: what it does, how long it takes, whether it can pass, in five lines at most."""

from pathlib import Path

import numpy as np
import pytest

import memorisk
from memorisk.runs.workload import Opening
from tests.commands import class_folders


def noise(root: Path, name: str, n: int) -> Path:
    """A file of grey images of noise."""
    pixels = np.random.default_rng(len(name)).integers(0, 255, (n, 8, 8), dtype=np.uint8)
    np.save(root / f"{name}.npy", pixels)
    return root / f"{name}.npy"


def openings(function, *sources, **settings) -> list[str]:
    """The openings that a run shows."""
    stages = []
    function(*sources, progress=lambda stage, done, total: stages.append(stage), **settings)
    return [stage for stage in stages if isinstance(stage, Opening)]


@pytest.mark.parametrize("name", ["audit_synthetic", "filter_synthetic", "assess_quality"])
def test_a_run_on_a_generated_set_shows_images_work_and_what_forbids_a_pass(tmp_path: Path, name: str) -> None:
    train, made, held = (noise(tmp_path, *what) for what in (("train", 30), ("made", 20), ("held_out", 31)))
    of_audit = {"held_out": held, "features": "pixels:8", "out": tmp_path / "run"}
    settings = {
        "audit_synthetic": of_audit | {"plants": 4},
        "assess_quality": of_audit,
        "filter_synthetic": {"out": tmp_path / "run", "detector": "pixels:8", "calibration": held},
    }
    (shown,) = openings(getattr(memorisk, name), train, made, **settings[name])
    lines = shown.splitlines()
    assert 3 <= len(lines) <= 5
    assert lines[0].startswith("images: training 30, synthetic 20")
    assert any(line.startswith("work: ") and "pairs of images compared" in line for line in lines)
    forbids = [line for line in lines if line.startswith("no pass: ")]
    assert bool(forbids) == (name != "assess_quality")


def test_an_audit_of_a_classifier_shows_its_plan_once_and_not_where_all_is_trained(tmp_path: Path) -> None:
    images = class_folders(tmp_path / "set", ["a", "b"], [f"{k}.png" for k in range(14)])
    settings = {"out": tmp_path / "run", "models": 2, "epochs": 1, "fail_on": "never"}
    (shown,) = openings(memorisk.audit_classifier, images, **settings)
    lines = shown.splitlines()
    assert len(lines) <= 5
    assert lines[0].startswith("models: 2 models (as named): 2 trainings, about ")
    assert lines[1].startswith("images: canary ")
    assert lines[2] == "could pass: no"
    assert openings(memorisk.audit_classifier, images, **settings) == []


def test_a_training_shows_parts_and_work_once_and_not_where_all_is_trained(tmp_path: Path) -> None:
    images = class_folders(tmp_path / "set", ["a", "b"], [f"{k}.png" for k in range(14)])
    settings = {"out": tmp_path / "run", "epochs": 1}
    (shown,) = openings(memorisk.train_classifier, images, **settings)
    parts, work, *_ = shown.splitlines()
    assert parts == "images: train 24 of 24 patients, test 4 of 4 patients"
    assert work.startswith("work: 1 training, ")
    assert work.endswith("an estimate of the time appears while it runs")
    assert openings(memorisk.train_classifier, images, **settings) == []
