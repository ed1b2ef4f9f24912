"""What the dry run of a study of generators says, against what the study then does."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from memorisk.runs.workload import Cost
from memorisk.studies.generators import cells
from memorisk.studies.generators.study import plan_generators, study_generators
from tests.counting import array_bytes, counted

CONFIG: dict[str, Any] = {
    "settings": {
        "detectors": ["pixels:4", "small_cnn@none"], "quality": "none", "images": 9, "closest": 2, "sampler": "ddim",
        "sampling_steps": 2, "guidance": 1.0, "strengths": ["weak", "strong"], "keep_generators": True,
    },
    "generator": {"network": "tiny/4", "steps": 2, "batch_size": 4, "gan_style": 8, "gan_channels": 64},
    "classifiers": {"conditioning_epochs": 1},
    "datasets": {"Digits": {"images": "digits", "sample": 60, "held_out": 0.4}},
    "arms": {
        "dit": {"training_images": 20, "snapshots": [1, 2], "generator": {"flip": True}},
        "gan": {"training_images": 20, "generator": {"kind": "gan"}, "images": 0},
        "paired": {"training_images": 20, "generator": {"conditioning": "ensemble-label"}, "images": 0},
    },
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    pytest.importorskip("diffusers")
    pytest.importorskip("accelerate")
    pytest.importorskip("kornia")
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    return tmp_path


def study(root: Path, config: dict[str, Any]) -> tuple[Cost, Cost]:
    """What the dry run said, and what was counted."""
    plan = plan_generators(config, out=root / "s")
    assert not plan.problems
    shutil.rmtree(root / "cache")
    drawn: list[int] = []

    def noted(cell: Any, generator: Any) -> cells.GeneratedImages:
        """Images of a reading."""
        found = draw_images(cell, generator)
        drawn.append(len(found.images))
        return found

    draw_images = cells.draw_images
    with pytest.MonkeyPatch.context() as patch, counted() as found:
        patch.setattr("memorisk.studies.generators.cells.draw_images", noted)
        assert not study_generators(config, out=root / "s").failed
    stored = {name: sum(map(array_bytes, (root / "cache").rglob(f"{name}.npy"))) for name in ("images", "values")}
    outputs = sum(map(array_bytes, (root / "s" / "conditions").rglob("*.npy")))
    told = {"bytes_images": stored["images"], "bytes_features": stored["values"], "bytes_outputs": outputs}
    return plan.cost, found.cost(root / "s", images_drawn=sum(drawn), at_most=plan.cost.at_most, **told)


@pytest.mark.thorough
def test_a_study_trains_draws_and_compares_what_its_dry_run_counted(root: Path) -> None:
    plan, did = study(root, CONFIG)
    assert plan.at_most == ("images_passed",)
    assert plan.trainings == 3 + 5
    assert plan.images_drawn == 2 * 9 + 2 * 20
    assert did.numbers == plan.numbers
    assert plan_generators(CONFIG, out=root / "s").cost.numbers == Cost(bytes_images=plan.bytes_images).numbers


def test_quality_passes_the_drawn_images_once_more_and_a_reading_that_is_there_is_not_counted(root: Path) -> None:
    config = copy.deepcopy(CONFIG)
    config["settings"] |= {"quality": "small_resnet@none", "detectors": ["pixels:4"], "keep_generators": False}
    config["arms"] = {"gan": {"generator": {"kind": "gan"}, "training_images": 20, "snapshots": [1, 2]}}
    plan, did = study(root, config)
    assert (did.trainings, did.steps, did.images_trained) == (plan.trainings, plan.steps, plan.images_trained)
    assert did.images_passed == plan.images_passed
    assert (did.bytes_weights, plan.bytes_weights) == (0, 0)
    assert (did.pairs or 0) > (plan.pairs or 0) > 0  # figures of quality look for neighbours, too
    cell = next((root / "s" / "cells").iterdir())
    for name in ("cell.json", "step-00000002.npz"):
        (cell / name).unlink()
    again = plan_generators(config, out=root / "s").cost
    assert (again.images_drawn, again.trainings) == (9, 1)
    assert (again.pairs or 0) < (plan.pairs or 0)
