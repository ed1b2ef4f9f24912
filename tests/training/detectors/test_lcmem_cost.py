"""What the dry run of `train detector --kind lcmem` says, against what the training then does."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from memorisk.runs.workload import Cost
from memorisk.training.detectors.command import plan_detector, train_detector
from tests.counting import Counts, array_bytes, counted
from tests.models.small_autoencoder import autoencoder_folder
from tests.training.siamese import patients

QUICK: dict[str, Any] = {
    "kind": "lcmem", "backbone": "small_cnn@none", "dimension": 16, "epochs": 2, "batch_size": 16, "lr": 2e-3,
    "stage2_epochs": 1, "stage2_batch_size": 16, "pairs": 30, "device": "cpu", "group_from": r"^(p\d+)_",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three images of each of 24 patients, one image of the first two; an empty cache."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    images = patients(tmp_path).images
    (tmp_path / "data").mkdir()
    for i, image in enumerate(images):
        Image.fromarray(images[0, ..., 0] if i == 1 else image[..., 0]).save(
            tmp_path / "data" / f"p{i // 3:02}_{i % 3}.png"
        )
    return tmp_path / "data"


def counted_training(folder: Path, run: Path, asked: dict[str, Any]) -> tuple[Cost, Counts, Cost]:
    """What the dry run said, what was counted, and the same as a cost with the bytes on the disk."""
    plan = plan_detector(folder, out=run, **asked)
    shutil.rmtree(run.parent / "cache")  # where it left the latents
    with counted() as found:
        train_detector(folder, out=run, **asked)
    cache = run.parent / "cache"
    latents = sum(map(array_bytes, cache.rglob("latents/*/values.npy")))
    decoded = sum(map(array_bytes, cache.rglob("images.npy")))
    return plan.cost, found, found.cost(run, bytes_features=latents, bytes_images=decoded, at_most=plan.cost.at_most)


@pytest.mark.parametrize("changed", [{}, {"kind": "siamese", "patience": 9}, {"identities": "ignore", "stages": 1}])
def test_a_training_that_patience_does_not_end_does_what_its_dry_run_counted(
    folder: Path, tmp_path: Path, changed: dict[str, Any]
) -> None:
    asked = {**QUICK, **changed}
    if asked["kind"] != "lcmem":
        asked = {name: value for name, value in asked.items() if not name.startswith("stage2")}
    plan, _, did = counted_training(folder, tmp_path / "run", asked)
    assert plan.at_most == ("steps", "images_trained", "images_passed")
    assert did == plan
    assert plan.trainings == (1 if changed else 2)
    assert min(plan.bytes_weights or 0, plan.bytes_features or 0, plan.images_passed or 0) > 0


def test_patience_ends_it_below_its_bounds(folder: Path, tmp_path: Path) -> None:
    asked = {**QUICK, "stages": 1, "epochs": 6, "patience": 1, "lr": 1e-12}
    plan, found, did = counted_training(folder, tmp_path / "run", asked)
    assert found.steps < (plan.steps or 0)
    assert found.images_trained < (plan.images_trained or 0)
    assert found.images_passed < (plan.images_passed or 0)
    assert (did.bytes_weights, did.trainings) == (plan.bytes_weights, plan.trainings)


def test_passes_of_an_autoencoder_are_bounded_by_one_for_every_augmented_image(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    encoder = f"autoencoder:{autoencoder_folder(tmp_path / 'vae')}"
    plan, found, did = counted_training(folder, tmp_path / "run", {**QUICK, "encoder": encoder, "network_size": 32})
    assert did.numbers | {"images_passed": 0} == plan.numbers | {"images_passed": 0}
    assert plan.images_trained == 2 * 64 + 64
    first = 64 // 2  # of the pairs of stage 2, each augmented with probability one half
    assert 0 < (plan.images_passed or 0) - found.images_passed < first
