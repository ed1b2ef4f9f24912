"""One training of a detector: what each protocol does, that it learns, that a killed one ends with the same bytes."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import memorisk
from memorisk.images.store import ImageStore
from memorisk.runs.checksums import RECORD
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.detectors.contrastive.fit import CopyDetectorTraining, fit_detector
from memorisk.training.detectors.contrastive.inputs import PAPER_DEVIATIONS, build_initial_detector
from memorisk.training.detectors.contrastive.retrieval import embed, source_hits
from memorisk.training.detectors.detector_training import CHECKPOINT, HISTORY, FittedDetector
from memorisk.training.detectors.options import DetectorOptions
from memorisk.training.engine import epoch_training
from memorisk.training.engine.loop import BestEpoch
from tests.commands import environment
from tests.thorough import thorough
from tests.training.small_detectors import TINY, parts, scans, with_images

pytest.importorskip("kornia")
pytest.importorskip("pytorch_metric_learning")


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return scans(tmp_path)


class Killed(Exception):
    pass


def fit(store: ImageStore, folder: Path, options: DetectorOptions = TINY, *, kill_after: int = 0) -> FittedDetector:
    def progress(stage: str, done: int, total: int) -> None:
        if kill_after and done * options.epochs == kill_after * total:
            raise Killed

    return fit_detector(store, *parts(store), store.manifest.groups, options, folder, progress)


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_a_detector_is_left_in_its_folder(store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_rng_state()
    fitted = fit(store, tmp_path / "d")
    assert torch.equal(torch.get_rng_state(), before)
    assert [row["epoch"] for row in fitted.history] == [0, 1, 2, 3]
    assert fitted.history[0]["loss"] is None
    shares = [row["retrieval"] for row in fitted.history]
    assert all(row["of_patients"]["trials"] == 10 for row in fitted.history)
    assert fitted.best_epoch == 1 + int(np.argmax(shares[1:])) == fitted.detector.config.best_epoch
    assert {file.name.removesuffix(RECORD) for file in (tmp_path / "d").iterdir()} == {
        "weights.safetensors", "detector.json", "seen.parquet", HISTORY
    }  # fmt: skip
    loaded = memorisk.load_detector(tmp_path / "d")
    np.testing.assert_array_equal(
        loaded.embed(store.images, device="cpu"), fitted.detector.embed(store.images, device="cpu")
    )
    assert loaded.config.recipe["lr"] == 1e-3
    assert "backbone" not in loaded.config.recipe  # its path
    assert loaded.seen["part"].tolist() == ["training"] * 40 + ["validation"] * 20
    assert (loaded.seen_parts(store).part != "").all()
    joined = np.where(store.manifest.groups == "patient001", "patient000", store.manifest.groups)
    fit_detector(store, *parts(store), joined, TINY, tmp_path / "joined")
    seen = memorisk.load_detector(tmp_path / "joined").seen
    assert seen["group_hash"].tolist() == loaded.seen["group_hash"].tolist()  # still known by their own ids
    monkeypatch.setattr(epoch_training, "run_epochs", lambda *a, **k: pytest.fail("trained again"))
    again = fit(store, tmp_path / "d")
    assert (again.history, again.notes, again.best_epoch) == (fitted.history, fitted.notes, fitted.best_epoch)


def test_the_kept_weights_are_those_of_the_best_epoch(store: ImageStore, tmp_path: Path) -> None:
    fitted = fit(store, tmp_path / "d", replace(TINY, epochs=6))
    rows, start = parts(store)[1], build_initial_detector(store, TINY)
    prepared, device = start.config.preprocessing, torch.device("cpu")
    copies = memorisk.training.detectors.contrastive.augmentations.augmented_copies(
        store.images, rows, TINY.augment, seed=TINY.seed
    )
    for network, epoch in ((start.network, 0), (fitted.detector.network, fitted.best_epoch)):
        sources = embed(network, store.images, rows, prepared, device)
        found = embed(network, copies, np.arange(len(rows)), prepared, device)
        share = source_hits(found, sources, "cosine", store.pixel_hashes[rows]).mean()
        assert share == fitted.history[epoch]["retrieval"]
        cosine = (found / np.linalg.norm(found, axis=1)[:, None]) @ (
            sources / np.linalg.norm(sources, axis=1)[:, None]
        ).T
        assert share == (cosine.argmax(axis=1) == np.arange(len(rows))).mean()


@pytest.mark.parametrize("loss", ["triplet", thorough("infonce")])
def test_copies_are_found_more_often_after_training(tmp_path: Path, loss: str) -> None:
    store = scans(tmp_path, n=90, per_patient=1)
    options = replace(TINY, loss=loss, epochs=12, augment="weak")
    shares = [row["retrieval"] for row in fit(store, tmp_path / loss, options).history]
    assert max(shares[1:]) > shares[0] + 0.15


def test_a_copy_of_an_image_with_a_twin_is_found_by_either() -> None:
    sources = np.array([[1.0, 0], [1, 0], [0, 1]], np.float32)
    copies = np.array([[1.0, 0.1], [1, 0.1], [1, 0.2]], np.float32)
    found = source_hits(copies, sources, "cosine", np.array(["same", "same", "other"]))
    assert found.tolist() == [True, True, False]
    found = source_hits(copies, sources, "euclidean", np.array(["a", "b", "c"]))
    assert found.tolist() == [True, False, False]  # the first of equals


def batches(store: ImageStore, options: DetectorOptions) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
    """Groups and embeddings of every batch, in two epochs."""
    training = CopyDetectorTraining(store, *parts(store), store.manifest.groups, options)
    seen: list[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def spy(images: torch.Tensor, copies: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        seen[-1].append((groups, images.detach()))
        return images.sum() + copies.sum()

    training.loss = spy
    for epoch in (0, 1):
        seen.append([])
        list(training.losses(lambda seed: None, epoch, [(0, 16), (16, 40)]))
    return seen


def test_corrected_masks_patients_and_shuffles(store: ImageStore) -> None:
    first, second = batches(store, TINY)
    groups = torch.cat([batch[0] for batch in first])
    assert sorted(groups.tolist()) == sorted(list(range(20)) * 2)  # two images a patient
    assert not torch.equal(groups, torch.cat([batch[0] for batch in second]))
    order = memorisk.training.engine.optimization.batch_order(TINY.seed, 0, 40)
    assert groups.tolist() == (order // 2).tolist()


def test_paper_takes_images_in_order_and_masks_nobody(store: ImageStore) -> None:
    first, second = batches(store, replace(TINY, protocol="paper"))
    for epoch in (first, second):
        assert torch.cat([batch[0] for batch in epoch]).tolist() == list(range(40))
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one[1], other[1])  # the same images beside each other


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_a_frozen_backbone_stays_as_it_is_but_in_the_papers_form(
    store: ImageStore, tmp_path: Path, protocol: str
) -> None:
    options = replace(
        TINY, backbone="timm:test_resnet@none", protocol=protocol, epochs=1, network_size=32, frozen_epochs=1
    )
    before = {name: value.clone() for name, value in build_initial_detector(store, options).network.tensors().items()}
    fitted = fit(store, tmp_path / "d", options)
    moved = {name for name, value in fitted.detector.network.tensors().items() if not torch.equal(value, before[name])}
    assert {"projection.weight", "projection.bias"} <= moved
    trunk = {name for name in moved if name.startswith("trunk.")}
    if protocol == "corrected":
        assert not trunk
        assert fitted.detector.config.departures == ()
    else:
        assert trunk
        assert all("running" in name or "num_batches" in name for name in trunk)
        assert fitted.detector.config.departures == PAPER_DEVIATIONS
        assert fitted.history[1]["validation_loss"] is not None
    thawed = fit(store, tmp_path / "e", replace(options, frozen_epochs=0)).detector.network.tensors()
    assert any(not torch.equal(thawed[name], before[name]) for name in before if "conv" in name)


def test_the_best_epoch_is_the_first_of_the_best_and_never_the_start() -> None:
    state = {"w": torch.zeros(1)}
    for signs, figures, best in (
        ((1, 0), [(0.9, 9.0), (0.2, 1.0), (0.4, 2.0), (0.4, 0.5)], 2),
        ((0, -1), [(0.9, 0.1), (0.2, 1.0), (0.4, 0.5), (0.1, 0.5)], 2),
        ((1, 1), [(0.9, 0.9), (0.2, 0.5), (0.4, float("nan")), (0.1, 0.5)], 1),
    ):
        record = BestEpoch(3, dict(zip(("retrieval", "validation_loss"), signs, strict=True)), state)
        assert record.best_epoch == 0
        for epoch, (share, loss) in enumerate(figures):
            weights = {"w": torch.full((1,), float(epoch))} if epoch else None
            record.note(epoch, {"retrieval": share, "validation_loss": loss}, weights)
        assert record.best_epoch == best
        assert float(record.best["w"]) == best
        assert record.history(1)[1] == {"epoch": 1, "retrieval": figures[1][0], "validation_loss": figures[1][1]}


@pytest.mark.parametrize("protocol", [thorough("paper"), "corrected"])
def test_stopped_at_any_epoch_it_ends_with_the_same_bytes(store: ImageStore, tmp_path: Path, protocol: str) -> None:
    options = replace(TINY, protocol=protocol)
    fit(store, tmp_path / "whole", options)
    for epoch in (1, 2):
        folder = tmp_path / str(epoch)
        with pytest.raises(Killed):
            fit(store, folder, options, kill_after=epoch)
        assert (folder / CHECKPOINT).is_file()
        fit(store, folder, options)
        assert content(folder) == content(tmp_path / "whole")


KILL = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from memorisk.training.detectors.contrastive.fit import fit_detector
from tests.training.small_detectors import TINY, parts, scans

def progress(stage, done, total):
    if 0 < 2 * total == TINY.epochs * done:
        os.kill(os.getpid(), signal.SIGKILL)

store = scans(Path(sys.argv[1]))
fit_detector(store, *parts(store), store.manifest.groups, TINY, sys.argv[2], progress)
"""


@pytest.mark.thorough
def test_killed_by_the_system_it_goes_on_to_the_same_bytes(store: ImageStore, tmp_path: Path) -> None:
    given = [sys.executable, "-c", KILL, tmp_path, tmp_path / "killed"]
    code = subprocess.run(given, env=environment(tmp_path / "cache"), check=False).returncode
    assert code == -signal.SIGKILL
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        fit(store, tmp_path / "killed")
        fit(store, tmp_path / "whole")
    finally:
        torch.set_num_threads(before)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_a_triplet_loss_that_fell_to_its_margin_is_told(store: ImageStore, tmp_path: Path) -> None:
    hard = replace(TINY, loss="triplet", epochs=14, lr=3e-2, frozen_epochs=0, augment="strong")
    fallen = fit(store, tmp_path / "d", hard)
    assert fallen.history[-1]["loss"] == pytest.approx(0.05, rel=0.05)
    assert any("ended at its margin" in note for note in fallen.notes)
    fine = fit(store, tmp_path / "e", replace(TINY, loss="triplet"))
    assert not any("margin" in note for note in fine.notes)


def test_another_detector_is_not_replaced(store: ImageStore, tmp_path: Path) -> None:
    fit(store, tmp_path / "d")
    kept = content(tmp_path / "d")
    for changes in ({"lr": 2e-3}, {"seed": 1}, {"augment": "strong"}, {"loss": "triplet"}):
        with pytest.raises(InputError, match="holds a detector that was trained otherwise"):
            fit(store, tmp_path / "d", replace(TINY, **changes))
    assert content(tmp_path / "d") == kept
    with pytest.raises(Killed):
        fit(store, tmp_path / "k", kill_after=1)
    with pytest.raises(InputError, match="belongs to another training"):
        fit(store, tmp_path / "k", replace(TINY, lr=2e-3))


def test_a_loss_that_is_no_number_ends_it_in_one_line(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(
        MemoriskError, match=r"became (nan|inf|infinite).*lower the learning rate|became infinite: lower"
    ):
        fit(store, tmp_path / "d", replace(TINY, lr=1e30, frozen_epochs=0))
    assert not (tmp_path / "d" / "detector.json").exists()


def test_blank_images_are_left_out_and_named(store: ImageStore, tmp_path: Path) -> None:
    images = store.images.copy()
    images[[3, 50]] = 9
    fitted = fit(with_images(store, images), tmp_path / "d")
    assert "1 blank training image is left out: no copy of a blank image can be recognised (image003)." in fitted.notes
    assert (
        "1 blank validation image is left out: no copy of a blank image can be recognised (image050)." in fitted.notes
    )
    assert fitted.detector.seen["part"].value_counts().to_dict() == {"training": 39, "validation": 19}
    with pytest.raises(InputError, match="the training part has 0 images"):
        fit(with_images(store, np.where(np.arange(60)[:, None, None, None] < 40, 7, images).astype(np.uint8)), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows, validation, groups: (rows[:1], validation, groups), "the training part has 1 images"),
        (lambda rows, validation, groups: (rows, validation + 9, groups), "validation rows run from 49 to 68"),
        (lambda rows, validation, groups: (rows, validation, groups[:5]), "there are 5 groups for 60 images"),
        (lambda rows, validation, groups: (rows[:41], np.arange(39, 60), groups), "1 patient is in the training and"),
        (lambda rows, validation, groups: (rows[:2], validation, groups), "all images of the training part are of one"),
    ],
)
def test_parts_that_cannot_be_are_refused(store: ImageStore, tmp_path: Path, change: Callable, message: str) -> None:
    given = change(*parts(store), store.manifest.groups)
    with pytest.raises(InputError, match=message):
        fit_detector(store, *given, TINY, tmp_path / "d")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbone": ""}, "a detector needs a backbone"),
        ({"loss": "tripled"}, "unknown loss 'tripled'"),
        ({"protocol": "papers"}, "unknown protocol 'papers'"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 1}, "batch_size is 1"),
        ({"lr": 0.0}, "lr is 0"),
        ({"margin": -1.0}, "margin is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"precision": "fp16"}, "fp16 needs a GPU"),
    ],
)
def test_settings_that_cannot_be_are_refused(store: ImageStore, tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(store, tmp_path / "d", replace(TINY, **changes))
    assert not (tmp_path / "d").exists()


def test_batches_of_clip_and_dino_are_smaller() -> None:
    assert DetectorOptions(backbone="resnet50@none").images_a_step == 128
    assert DetectorOptions(backbone="vit_base_patch16_clip_224@default").images_a_step == 64
    assert DetectorOptions(backbone="vit_small_patch14_dinov2@clip.safetensors").images_a_step == 64
    assert DetectorOptions(backbone="resnet50@dino.safetensors").images_a_step == 128
    assert DetectorOptions(backbone="resnet50@none", batch_size=32).images_a_step == 32


def test_squeezenets_features_become_a_detector(shared_data: Path, tmp_path: Path) -> None:
    weights = shared_data / "weights_squeezenet_imagenet" / "squeezenet11_features_derived_oihw.npz"
    store = scans(tmp_path, n=30)
    large = with_images(store, np.kron(store.images, np.ones((1, 2, 2, 1), np.uint8)))
    options = replace(TINY, backbone=f"squeezenet1_1_caffe@{weights}", epochs=1)
    fitted = fit(large, tmp_path / "d", options)
    assert fitted.detector.config.weights == weights.name
    assert str(shared_data) not in json.dumps((tmp_path / "d" / "detector.json").read_text())
    assert fitted.detector.embed(large.images, device="cpu").shape == (30, 128)
