"""Costs of the commands that train or draw, against what they then do, each on a few small images."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from memorisk.cli.show.generators import show_autoencoder_plan, show_generator_plan
from memorisk.cli.show.training import show_detector_plan
from memorisk.runs.workload import Cost
from tests.counting import Counts, array_bytes, counted, tensor_bytes
from tests.models.small_autoencoder import autoencoder_folder
from tests.thorough import thorough
from tests.training.small_detectors import scans

diffusers = pytest.importorskip("diffusers")
pytest.importorskip("accelerate")

GROUPS: dict[str, Any] = {"group_from": r"(p\d+)_", "device": "cpu"}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two images of each of 30 patients, in folders of two classes."""
    for i, image in enumerate(scans(tmp_path).images):
        folder = tmp_path / "data" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0]).save(folder / f"p{i // 2:02}_{i:02}.png")
    return tmp_path / "data"


def printed(capsys: pytest.CaptureFixture[str], show: Any, plan: Any) -> None:
    """In JSON the cost is all of its numbers, in words those that are not 0."""
    show(plan, as_json=True)
    assert json.loads(capsys.readouterr().out)["cost"] == plan.cost.as_json()
    show(plan, as_json=False)
    shown = capsys.readouterr().out
    assert all(line.strip() in shown for line in plan.cost.lines())


def holds(found: Counts, plan: Cost, **weights: int) -> None:
    """Every number that is known beforehand is what was counted."""
    seen = {name: getattr(found, name) for name in ("trainings", "steps", "images_trained", "images_passed", "pairs")}
    known = {name: number for name, number in plan.numbers.items() if number is not None and name in seen | weights}
    assert {name: (seen | weights)[name] for name in known} == known


def test_train_detector(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kornia")
    pytest.importorskip("pytorch_metric_learning")
    from memorisk.training.detectors.command import plan_detector, train_detector

    asked = {"backbone": "small_cnn@none", "epochs": 2, "frozen_epochs": 1, "batch_size": 16, "lr": 1e-3, **GROUPS}
    plan = plan_detector(data, out=tmp_path / "r", **asked)
    assert not plan.cost.at_most
    printed(capsys, show_detector_plan, plan)
    with counted() as found:
        train_detector(data, out=tmp_path / "r", **asked)
    holds(found, plan.cost, bytes_weights=tensor_bytes(tmp_path / "r" / "detector" / "weights.safetensors"))
    assert plan.cost.images_trained == 2 * 2 * plan.parts["training"]["images"]


@pytest.mark.slow
def test_train_autoencoder_reaches_its_bound_or_stays_below(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from memorisk.training.autoencoders.command import plan_autoencoder, train_autoencoder

    asked = {"block_channels": (4, 4, 8), "epochs": 2, "batch_size": 16, **GROUPS}
    plan = plan_autoencoder(data, out=tmp_path / "r", **asked)
    assert plan.cost.at_most == ("steps", "images_trained", "images_passed")
    printed(capsys, show_autoencoder_plan, plan)
    with counted() as found:
        trained = train_autoencoder(data, out=tmp_path / "r", **asked)
    assert not trained.summary["stopped_early"]
    assert (found.trainings, found.steps) == (1, plan.cost.steps)
    assert sum(map(tensor_bytes, (tmp_path / "r").rglob("*.safetensors"))) == plan.cost.bytes_weights
    assert plan.cost.images_trained == 2 * plan.parts["training"]["images"]


def test_train_generator_and_draw_from_it(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from memorisk.training.generators.command import plan_generator, train_generator
    from memorisk.training.generators.generation import generate, plan_generate

    asked = {"network": "tiny/8", "steps": 3, "batch_size": 8, "snapshot_every": 2, "lr": 1e-3, **GROUPS}
    plan = plan_generator(data, out=tmp_path / "r", keep_snapshots=True, **asked)
    printed(capsys, show_generator_plan, plan)
    with counted() as found:
        train_generator(data, out=tmp_path / "r", keep_snapshots=True, **asked)
    assert found.cost(tmp_path / "r", bytes_images=plan.cost.bytes_images) == plan.cost
    assert plan.cost.images_passed == 2 * plan.parts["validation"]["images"]
    how = {"images": 5, "sampling_steps": 3, "guidance": 2.0, "device": "cpu", "batch": 2}
    drawing = plan_generate(tmp_path / "r", tmp_path / "set", **how)
    with counted() as found:
        made = generate(tmp_path / "r", tmp_path / "set", **how)
    assert drawing.cost.images_drawn == len(made.table) == 5
    assert found.images_passed == drawing.cost.images_passed == 5 * 3 * 2
    assert (drawing.cost.trainings, drawing.cost.steps) == (found.trainings, found.steps) == (0, 0)


@pytest.mark.parametrize(
    ("changed", "penalties"),
    [
        ({}, (1, 1)),
        thorough({"gan_path": 0.0, "gan_r1": 0.0, "batch_size": 3}, (0, 0)),
        thorough({"keep_snapshots": True}, (1, 1)),
    ],
)
def test_train_a_gan(data: Path, tmp_path: Path, changed: dict[str, Any], penalties: tuple[int, int]) -> None:
    from memorisk.training.generators.command import plan_generator, train_generator
    from memorisk.training.generators.generation import generate, plan_generate

    asked: dict[str, Any] = {
        "kind": "gan",
        "steps": 7,
        "batch_size": 8,
        "snapshot_every": 4,
    }
    asked |= {"gan_style": 8, "gan_channels": 64, **GROUPS, **changed}
    plan = plan_generator(data, out=tmp_path / "r", **asked)
    with counted() as found:
        train_generator(data, out=tmp_path / "r", **asked)
    assert found.cost(tmp_path / "r", bytes_images=plan.cost.bytes_images) == plan.cost
    drawing: dict[str, Any] = {"images": 5, "device": "cpu", "batch": 2}
    told = plan_generate(tmp_path / "r", tmp_path / "set", **drawing).cost
    with counted() as drew:
        generate(tmp_path / "r", tmp_path / "set", **drawing)
    assert (told.images_drawn, told.images_passed) == (5, drew.images_passed) == (5, 5)
    b, (paths, r1) = asked["batch_size"], penalties
    assert plan.cost.steps == 2 * 7 + paths + r1
    assert plan.cost.images_trained == 7 * 3 * b + paths * (b // 2) + r1 * b
    assert plan.cost.images_passed == 7 * 2 * b
    assert plan.cost.trainings == 1


def test_train_a_generator_of_latents_by_pseudo_conditions(data: Path, tmp_path: Path) -> None:
    """Each image and its mirror image once through the autoencoder, which stays beside every snapshot."""
    from memorisk.training.generators.command import plan_generator, train_generator

    asked: dict[str, Any] = {
        "network": "tiny/2", "steps": 3, "batch_size": 8, "snapshot_every": 2, "keep_snapshots": True, "flip": True,
        "latent": f"autoencoder:{autoencoder_folder(tmp_path / 'vae')}", "conditioning": "prediction",
        "conditioning_epochs": 2, "drop_condition": 0.1,
    }  # fmt: skip
    plan = plan_generator(data, out=tmp_path / "r", **asked, **GROUPS)
    shutil.rmtree(tmp_path / "cache")  # where it left the latents
    with counted() as found:
        train_generator(data, out=tmp_path / "r", **asked, **GROUPS)
    latents = sum(map(array_bytes, (tmp_path / "cache").rglob("latents/*/values.npy")))
    outputs = sum(map(array_bytes, (tmp_path / "r" / "conditions").glob("*.npy")))
    kept = {"bytes_images": plan.cost.bytes_images, "bytes_features": latents, "bytes_outputs": outputs}
    assert found.cost(tmp_path / "r", **kept) == plan.cost
    assert plan.cost.trainings == 1 + 5
    shutil.rmtree(tmp_path / "r" / "generator")
    (tmp_path / "r" / "training.json").unlink()
    again = plan_generator(data, out=tmp_path / "r", **asked, **GROUPS).cost
    assert (again.trainings, again.bytes_outputs) == (1, 0)
