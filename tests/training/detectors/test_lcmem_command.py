"""`memorisk train detector --kind lcmem`: both detectors in their folders, figures of patients who chose nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

import memorisk
from memorisk.images.alterations.families import FAMILIES
from memorisk.images.alterations.graded import augmented
from memorisk.models.lcmem import LatentDetector
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json, read_table
from memorisk.statistics.pairs.identity_pairs import negative_pairs, pair_weights, positive_pairs
from memorisk.training.detectors import command as lcmem_command
from memorisk.training.detectors.command import plan_detector, train_detector
from tests.commands import answer, refusal
from tests.training.siamese import patients

QUICK: dict[str, Any] = {
    "kind": "lcmem", "backbone": "small_cnn@none", "dimension": 16, "epochs": 2, "batch_size": 16, "lr": 2e-3,
    "stage2_epochs": 1, "stage2_batch_size": 16, "pairs": 48, "device": "cpu", "group_from": r"^(p\d+)_",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images of each of 24 patients."""
    images = patients(tmp_path).images
    (tmp_path / "data").mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image[..., 0]).save(tmp_path / "data" / f"p{i // 3:02}_{i % 3}.png")
    return tmp_path / "data"


def test_figures_are_those_of_test_patients(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = train_detector(folder, out=tmp_path / "run", **QUICK).summary
    assert read_json(tmp_path / "run" / "training.json") == summary
    manifest = read_table(tmp_path / "run" / "manifest.parquet")
    assert (manifest.groupby("group")["split"].nunique() == 1).all()
    rows = np.flatnonzero(manifest["split"] == "test")
    images = np.stack([np.asarray(Image.open(folder / path)) for path in manifest["path"].iloc[rows]])[..., None]
    own = manifest["group"].to_numpy()[rows].astype(str)
    detector = memorisk.load_detector(tmp_path / "run" / "detector")
    assert isinstance(detector, LatentDetector)
    positive = positive_pairs(own)
    negative = negative_pairs(own, positive, seed=0)
    p = np.concatenate(
        [detector.probability(images[x.first], images[x.second], device="cpu") for x in (positive, negative)]
    )
    weights = np.concatenate([pair_weights(own[x.first]) for x in (positive, negative)])
    wanted = roc_auc_score(np.arange(len(p)) < len(positive), p, sample_weight=weights)
    found = summary["test"]["detector"]["auc"]["all"]
    assert found["interval"]["estimate"] == pytest.approx(wanted, abs=1e-9)
    apart = summary["test"]["detector"]["specificity"]["all"]  # few patients: at the lowest of their pairs
    below = p[len(positive) :] < p[: len(positive)].min()
    assert apart["interval"]["estimate"] == pytest.approx(np.average(below, weights=weights[len(positive) :]), abs=1e-9)
    assert found["n_positive_identities"] == len(np.unique(own)) == summary["parts"]["test"]["patients"]
    assert {family: list(rows) for family, rows in summary["test"]["stage1"]["recall"].items()} == {
        family: [f"{strength:g}" for strength in strengths] for family, strengths in FAMILIES.items()
    }
    assert set(summary["test"]["detector_less_stage1"]["recall"]) == set(FAMILIES)
    assert detector.seen_parts(_store(folder)).part.tolist() == [
        "" if part == "test" else part for part in manifest["split"]
    ]
    monkeypatch.setattr(lcmem_command, "run_stages", lambda *a, **k: pytest.fail("trained again"))
    assert train_detector(folder, out=tmp_path / "run", **QUICK).summary == summary
    with pytest.raises(InputError, match=r"holds a run with stage2_lr = 8e-05, now asked: 0.01"):
        train_detector(folder, out=tmp_path / "run", **QUICK, stage2_lr=0.01)


def _store(folder: Path):
    from memorisk.images.options import ImageOptions
    from memorisk.images.sources.registry import load_manifest
    from memorisk.images.store import build_store

    options = ImageOptions(group_from=QUICK["group_from"])
    return build_store(load_manifest(folder, options), options)


def test_recall_is_the_share_of_copies_above_the_threshold(folder: Path, tmp_path: Path) -> None:
    summary = train_detector(folder, out=tmp_path / "run", **QUICK | {"stages": 1}).summary
    assert not (tmp_path / "run" / "stage1").exists()
    store, detector = _store(folder), memorisk.load_detector(tmp_path / "run" / "detector")
    assert isinstance(detector, LatentDetector)
    assert detector.calibration is not None
    found = summary["test"]["detector"]["recall"]["rotation"]["30"]
    rows = np.flatnonzero(read_table(tmp_path / "run" / "manifest.parquet")["split"] == "test")
    copies = augmented(store.images, rows, "rotation", 30.0, seed=0)
    logits = np.log(1 / (1 / detector.probability(np.asarray(store.images[rows]), copies, device="cpu") - 1))
    hits = dict(zip(rows.tolist(), logits >= detector.calibration["specificity"]["0.5"], strict=True))
    groups = store.manifest.groups[rows]
    fewest = sum(all(hits[row] for row in rows[groups == one]) for one in np.unique(groups))
    most = sum(any(hits[row] for row in rows[groups == one]) for one in np.unique(groups))
    assert found["trials"] == len(np.unique(groups))
    assert fewest <= found["successes"] <= most


def test_a_plan_times_both_stages_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    plan = plan_detector(folder, out=tmp_path / "run", **QUICK)
    assert plan.steps == 2 * 3 + 3  # 48 pairs in batches of 16
    assert plan.seconds > 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"frozen_epochs": 3}, "frozen_epochs is a setting of --kind copy, not of lcmem: leave it out"),
        ({"kind": "copy", "stages": 2}, "stages is a setting of --kind lcmem, siamese and siamese-ntxent, not of copy"),
        ({"kind": "siamese", "sample_normalisation": 0.5}, "sample_normalisation is a setting of --kind lcmem"),
        ({"kind": "siamese-ntxent", "bce_share": 0.5}, "siamese-ntxent has no head"),
        ({"kind": "lcmemm"}, "unknown kind 'lcmemm'. Did you mean 'lcmem'"),
        ({"encoder": "pixel"}, "unknown encoder of latents 'pixel'"),
        ({"backbone": "pixels"}, "a detector's backbone is a network of timm with its weights"),
        ({"network_size": 4}, "needs 8 px a side"),
        ({"stages": 3}, "stages is 3; allowed are 1, 2"),
        ({"batch_size": 1}, "batch_size is 1; it must be a whole number of at least 2"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path, given: dict, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train_detector(folder, out=tmp_path / "run", **QUICK | given)
    assert not (tmp_path / "run").exists()


def test_given_latents_are_compared_without_images(folder: Path, tmp_path: Path) -> None:
    images = patients(tmp_path).images
    values = np.moveaxis(images, -1, 1).astype(np.float32) / 127.5 - 1
    names = [f"i{i}" for i in range(len(images))]
    np.savez(tmp_path / "z.npz", latents=values, image=names, group=[f"p{i // 3}" for i in range(len(images))])
    given = {name: value for name, value in QUICK.items() if name != "group_from"}
    with pytest.raises(InputError, match="train with --stages 1"):
        train_detector(f"latents:{tmp_path / 'z.npz'}", out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()
    summary = train_detector(f"latents:{tmp_path / 'z.npz'}", out=tmp_path / "run", **given | {"stages": 1}).summary
    assert summary["test"]["detector"]["recall"] == {}
    assert summary["test"]["detector"]["auc"]["all"]["interval"]["estimate"] > 0


def test_data_sets_are_reported_each_by_itself(tmp_path: Path) -> None:
    store = patients(tmp_path, datasets=2)
    (tmp_path / "data").mkdir()
    lines = ["image,group,dataset"]
    table = store.manifest.table
    for i, image in enumerate(store.images):
        Image.fromarray(image[..., 0]).save(tmp_path / "data" / f"{i}.png")
        lines.append(f"{i}.png,{int(table['group'][i][-3:]) // 2},{table['dataset'][i]}")  # one id in both data sets
    (tmp_path / "data" / "table.csv").write_text("\n".join(lines))
    given = {name: value for name, value in QUICK.items() if name != "group_from"}
    shares = {"validation_share": 0.2, "test_share": 0.3}
    summary = train_detector(tmp_path / "data" / "table.csv", out=tmp_path / "run", **given | shares).summary
    assert sum(part["patients"] for part in summary["parts"].values()) == 24
    assert set(summary["test"]["detector"]["auc"]) == {"set0", "set1", "macro average"}


def test_the_command_shows_what_it_is_good_for(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        word
        for name, value in QUICK.items()
        for word in (f"--{name.replace('_', '-')}", value)
    ]  # fmt: skip
    given = ("train", "detector", folder, "--out", tmp_path / "run", *flags)
    code, out, err = answer(capsys, *given, "--print-config")
    assert code == 0, err
    assert "bce_share: 0.8" in out
    assert "stage2_epochs: 1" in out
    code, out, err = answer(capsys, *given, "--dry-run")
    assert code == 0, err
    assert "9 steps" in out
    code, out, err = answer(capsys, *given)
    assert code == 0, err
    assert "gain of stage 2" in out
    assert "rotation 30" in out
    code, out, _ = answer(capsys, *given, "--json")
    assert code == 0
    assert json.loads(out) == read_json(tmp_path / "run" / "training.json")
    said = refusal(capsys, *given, "--augment", "weak")
    assert "augment is a setting of --kind copy" in said
