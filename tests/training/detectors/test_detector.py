"""`memorisk train detector`: a split by patient, a detector in its folder, figures of patients who chose nothing."""

import json
import stat
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import memorisk
from memorisk.cli.show.training import _gain
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import json_value, read_json, read_table
from memorisk.statistics.copies.detector_comparison import paired_hits
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.training.detectors.command import plan_detector, train_detector
from memorisk.training.detectors.contrastive.augmentations import augmented_copies
from memorisk.training.detectors.contrastive.retrieval import source_hits
from memorisk.training.detectors.detector_training import DetectorTraining
from memorisk.training.engine import epoch_training
from tests.commands import answer, refusal
from tests.training.small_detectors import divided_scans

pytest.importorskip("kornia")
pytest.importorskip("pytorch_metric_learning")

QUICK = {
    "backbone": "small_cnn@none", "epochs": 2, "frozen_epochs": 1, "batch_size": 16, "lr": 1e-3, "device": "cpu",
    "checkpoint_seconds": 0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Images with patients and a given split."""
    return divided_scans(tmp_path)


def test_a_detector_with_an_account_of_what_it_is_good_for(table: Path, tmp_path: Path) -> None:
    found = train_detector(table, out=tmp_path / "run", group_column="patient", **QUICK)
    summary = found.summary
    assert read_json(tmp_path / "run" / "training.json") == summary
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    manifest = read_table(tmp_path / "run" / "manifest.parquet")
    assert (manifest.groupby("group")["split"].nunique() == 1).all()
    shared = manifest.set_index("image")["split"]
    assert len({shared[name] for name in shared.index[[0, 1, 2, 3]]}) == 1  # two patients with one image are one
    counts = manifest["split"].value_counts().to_dict()
    assert counts == {name: part["images"] for name, part in summary["parts"].items()}
    assert sum(part["patients"] for part in summary["parts"].values()) == 29
    assert [row["epoch"] for row in summary["history"]] == [0, 1, 2]
    assert summary["best_epoch"] == memorisk.load_detector(tmp_path / "run" / "detector").config.best_epoch
    assert list(summary["validation"]) == ["weak"]
    assert summary["validation"]["weak"]["untrained"]["share"] == summary["history"][0]["retrieval"]
    assert summary["validation"]["weak"]["trained"]["share"] == summary["history"][summary["best_epoch"]]["retrieval"]


def test_the_figures_are_those_of_their_definitions(table: Path, tmp_path: Path) -> None:
    summary = train_detector(table, out=tmp_path / "run", group_column="patient", **QUICK).summary
    manifest = read_table(tmp_path / "run" / "manifest.parquet")
    images = np.stack([np.asarray(Image.open(table.parent / path)) for path in manifest["path"]])[..., None]
    rows = np.flatnonzero(manifest["split"] == "test")
    trained = memorisk.load_detector(tmp_path / "run" / "detector")
    for strength in ("weak", "strong"):
        copies = augmented_copies(images, rows, strength, seed=0)
        hits = source_hits(
            trained.embed(copies, device="cpu"), trained.embed(images[rows], device="cpu"), "cosine", rows
        )
        row = summary["test"][strength]
        assert row["trained"]["share"] == hits.mean()
        patients = row["trained"]["of_patients"]
        assert patients["trials"] == summary["parts"]["test"]["patients"]
        expected = clopper_pearson(patients["successes"], patients["trials"])
        assert (patients["low"], patients["high"]) == (expected.low, expected.high)
        difference = row["trained_less_untrained"]
        assert difference["difference"]["estimate"] == pytest.approx(
            row["trained"]["share"] - row["untrained"]["share"]
        )
        assert difference["n_copies"] == len(rows)
        same = paired_hits(hits, hits, manifest["group"].to_numpy()[rows])
        assert same.difference.n_groups == difference["difference"]["n_groups"]


@pytest.mark.thorough
def test_killed_it_goes_on_to_the_same_bytes(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"group_column": "patient", **QUICK}
    train_detector(table, out=tmp_path / "whole", **given)

    def killed(stage: str, done: int, total: int) -> None:
        if stage == "training" and done and done * QUICK["epochs"] == total:
            raise MemoriskError("killed")

    with pytest.raises(MemoriskError, match="killed"):
        train_detector(table, out=tmp_path / "run", progress=killed, **given)
    assert not (tmp_path / "run" / "training.json").exists()
    train_detector(table, out=tmp_path / "run", **given)
    for name in ("training.json", "detector/weights.safetensors", "detector/detector.json", "detector/seen.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    monkeypatch.setattr(epoch_training, "run_epochs", lambda *a, **k: pytest.fail("trained again"))
    monkeypatch.setattr(DetectorTraining, "fit", lambda *a, **k: pytest.fail("read again"))
    train_detector(table, out=tmp_path / "run", **given)
    with pytest.raises(InputError, match=r"holds a run with lr = 0.001, now asked: 0.01"):
        train_detector(table, out=tmp_path / "run", **given | {"lr": 0.01})


def test_a_given_split_is_taken_where_nobody_straddles_it(table: Path, tmp_path: Path) -> None:
    given = {"group_column": "patient", "splits": "given", "split_column": "part", **QUICK}
    found = train_detector(table, out=tmp_path / "run", **given)
    assert {name: part["images"] for name, part in found.summary["parts"].items()} == {
        "training": 30, "validation": 14, "test": 16
    }  # fmt: skip
    lines = table.read_text().split("\n")
    table.write_text("\n".join([*lines[:-1], lines[-1].replace("test", "train")]))
    with pytest.raises(InputError, match="1 groups are in more than one given split"):
        train_detector(table, out=tmp_path / "other", **given)
    twin = (table.parent / "00.png").read_bytes()
    table.write_text("\n".join(lines))
    (table.parent / "59.png").write_bytes(twin)
    with pytest.raises(InputError, match="identical images are in more than one given split"):
        train_detector(table, out=tmp_path / "other", **given)
    assert not (tmp_path / "other").exists()


def test_a_plan_counts_and_times_and_writes_nothing(table: Path, tmp_path: Path) -> None:
    plan = plan_detector(table, out=tmp_path / "run", group_column="patient", **QUICK)
    assert plan.steps == 2 * -(-plan.parts["training"]["images"] // 16)
    assert plan.seconds > 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backbone": "pixels"}, "a detector's backbone is a network"),
        ({"test_share": 0.9}, "leave images to train on"),
        ({"epoch": 3}, "unknown setting 'epoch'. Did you mean 'epochs'"),
        ({"splits": "given"}, "gives no split"),
        ({"epochs": "3"}, "epochs is '3'; give a whole number"),
        ({"sample": 4}, "has no validation images|the training part"),
    ],
)
def test_bad_settings_write_nothing(table: Path, tmp_path: Path, given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_detector(table, out=tmp_path / "run", **QUICK | given)
    assert not (tmp_path / "run").exists()


def test_missing_libraries_are_named_before_anything_is_written(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide: Callable[[str], None] = lambda name: monkeypatch.setitem(__import__("sys").modules, name, None)  # noqa: E731
    hide("pytorch_metric_learning")
    with pytest.raises(InputError, match="needs pytorch-metric-learning, which is not installed"):
        train_detector(table, out=tmp_path / "run", **QUICK)
    monkeypatch.undo()
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    hide("kornia.filters")
    with pytest.raises(InputError, match="needs kornia, which is not installed"):
        train_detector(table, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([1, 0, 1], [1, 0, 1], "none: both find the same copies"),
        ([1, 1], [1, 0], "+50.0 (too few patients for an interval)"),
        ([1] * 40 + [0] * 60, [1] * 20 + [0] * 80, "+20.0 (12.0 to 28.0)"),
    ],
)
def test_a_gain_has_an_interval_or_words(first: list[int], second: list[int], words: str) -> None:
    assert _gain(json_value(asdict(paired_hits(first, second)))) == words


def test_the_command_says_what_was_gained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ("--epochs", 1, "--batch-size", 256, "--sample", 200, "--device", "cpu")
    given = ("train", "detector", "digits", "--out", tmp_path / "run", "--backbone", "small_cnn@none", *quick)
    code, out, err = answer(capsys, *given, "--dry-run")
    assert code == 0, err
    assert "1 step, " in out
    assert not (tmp_path / "run").exists()
    code, out, err = answer(capsys, *given)
    assert code == 0, err
    assert "test, strong" in out
    assert "gain (95 %)" in out
    assert "RANDOM WEIGHTS" in out
    assert "The backbone stayed frozen: in the first 5 epochs the linear layer is trained alone" in out
    said = refusal(capsys, "report", tmp_path / "run")
    assert "is a run of train detector" in said
    assert "training.json" in said
    code, out, _ = answer(capsys, *given, "--json")
    assert code == 0
    assert json.loads(out) == read_json(tmp_path / "run" / "training.json")
    code, out, _ = answer(capsys, *given, "--print-config")
    assert code == 0
    assert "backbone: small_cnn@none" in out
    assert "triplet" in refusal(capsys, *given, "--loss", "triple")
    assert "backbone" in refusal(capsys, "train", "detector", "digits", "--out", tmp_path / "x")
