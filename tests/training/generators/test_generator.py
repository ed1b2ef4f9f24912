"""`memorisk train generator`: a run folder, a plan, two processes, refusals, options."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import memorisk
from memorisk.cli.show.generators import _thinned
from memorisk.models.generators.generators import Draw
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json, read_table
from memorisk.training.engine.devices import process_rows
from memorisk.training.generators.command import plan_generator, train_generator
from memorisk.training.generators.options import GeneratorOptions, TrainGeneratorOptions
from memorisk.training.generators.snapshots import read_stop
from tests.commands import answer, refusal
from tests.training.small_detectors import scans

pytest.importorskip("diffusers")
pytest.importorskip("accelerate")

QUICK = {
    "network": "tiny/8", "steps": 4, "batch_size": 8, "snapshot_every": 2, "device": "cpu", "lr": 1e-3,
    "group_from": r"(p\d+)_",
}  # fmt: skip
FLAGS = [part for name, value in QUICK.items() for part in (f"--{name.replace('_', '-')}", value)]


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


def test_a_run_says_what_was_trained_and_on_whom(data: Path, tmp_path: Path) -> None:
    looks = []
    found = train_generator(data, out=tmp_path / "run", on_snapshot=lambda s: looks.append(s.step), **QUICK)
    summary = found.summary
    assert read_json(tmp_path / "run" / "training.json") == summary
    assert looks == [2, 4] == [row["step"] for row in summary["history"]]
    assert all(row["held_out_loss"] > 0 for row in summary["history"])
    assert all(stat.S_IMODE(f.stat().st_mode) & 0o077 == 0 for f in (tmp_path / "run").rglob("*"))
    manifest = read_table(tmp_path / "run" / "manifest.parquet")
    assert manifest["split"].value_counts().to_dict() == {n: p["images"] for n, p in summary["parts"].items()}
    assert manifest.groupby("group")["split"].nunique().max() == 1
    assert sum(summary["classes"].values()) == summary["parts"]["training"]["images"]
    assert summary["passes"] == pytest.approx(4 * 8 / summary["parts"]["training"]["images"])
    assert summary["stopped"] is None
    generator = memorisk.load_generator(tmp_path / "run")
    images = generator.sample(Draw(np.arange(2), np.array([0, 1])), SamplingOptions(sampling_steps=2))
    assert images.shape == (2, 16, 16, 1)
    again = train_generator(data, out=tmp_path / "run", on_snapshot=lambda s: looks.append(s.step), **QUICK)
    assert again.summary == summary
    assert len(looks) == 2
    with pytest.raises(InputError, match=r"lr = 0\.001, now asked: 0\.002"):
        train_generator(data, out=tmp_path / "run", **{**QUICK, "lr": 0.002})


def test_what_watches_it_ends_it_and_that_is_said(data: Path, tmp_path: Path) -> None:
    found = train_generator(data, out=tmp_path / "run", on_snapshot=lambda s: False, **QUICK)
    assert (found.summary["steps"], found.summary["stopped"]) == (2, "ended by what watched it")
    assert found.generator.config.steps == 2
    assert read_stop(tmp_path) is None
    (tmp_path / "stop.json").write_text("not json")
    assert read_stop(tmp_path) == "stop.json was there"


def test_a_plan_says_what_it_would_take_and_writes_nothing(data: Path, tmp_path: Path) -> None:
    plan = plan_generator(data, out=tmp_path / "run", keep_snapshots=True, **QUICK)
    assert not (tmp_path / "run").exists()
    assert (plan.steps, plan.conditioned_on, list(plan.classes)) == (4, "class", ["a", "b"])
    assert plan.seconds > 0
    weights = plan.bytes["generator"]
    assert weights == 4 * plan.parameters
    assert plan.bytes == {"generator": weights, "checkpoint.safetensors": 4 * weights, "snapshots": 2 * weights}
    vector = plan_generator(data, out=tmp_path / "run", conditioning="prediction-label", **QUICK)
    assert (vector.conditioned_on, vector.classes) == ("vector", {})


def test_pseudo_conditions_are_made_first_and_kept_with_the_generator(data: Path, tmp_path: Path) -> None:
    found = train_generator(data, out=tmp_path / "run", conditioning="label-noise", **QUICK)
    assert (found.summary["conditioned_on"], found.summary["conditioning"]) == ("vector", "label-noise")
    conditions = found.generator.conditions
    assert conditions is not None
    assert len(conditions) == found.summary["parts"]["training"]["images"]
    assert any("drawn once for each image" in note for note in found.summary["notes"])


def test_who_is_held_out_of_a_training_was_not_in_that_of_its_weights(data: Path, tmp_path: Path) -> None:
    train_generator(data, out=tmp_path / "first", **QUICK)
    again = train_generator(data, out=tmp_path / "again", weights=str(tmp_path / "first"), **QUICK).summary
    assert any("It began with weights first" in note for note in again["notes"])
    other = {**QUICK, "weights": str(tmp_path / "first"), "split_seed": 5}
    for call in (train_generator, plan_generator):
        with pytest.raises(InputError, match=r"weights first were trained on .* test patients"):
            call(data, out=tmp_path / "other", **other)
    assert not (tmp_path / "other").exists()


def test_the_command_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("train", "generator", data, *FLAGS, "--out")
    assert "4 steps, in which each training image is seen" in answer(capsys, *command, tmp_path / "run", "--dry-run")[1]
    assert "network: tiny/8" in answer(capsys, *command, tmp_path / "run", "--print-config")[1]
    code, shown, _ = answer(capsys, *command, tmp_path / "run")
    assert (code, "held-out loss" in shown) == (0, True)
    assert json.loads(answer(capsys, *command, tmp_path / "run", "--json")[1])["steps"] == 4
    gan = ("--kind", "gan", "--conditioning", "ensemble")
    assert "a GAN is trained without conditions" in refusal(capsys, *command, tmp_path / "other", *gan)
    assert not (tmp_path / "other").exists()


def test_nothing_is_written_among_patients_images_and_nothing_drawn_counts_as_theirs(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for how in ((), ("--dry-run",), ("--watch",)):
        said = refusal(capsys, "train", "generator", data, *FLAGS, "--out", data / "run", *how)
        assert "lies inside IMAGES" in said
    assert not (data / "run").exists()
    (data / "made" / "images").mkdir(parents=True)
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(data / "made" / "images" / "p99_0.png")
    (data / "made" / "generate.json").write_text("{}")
    said = refusal(capsys, "train", "generator", data, *FLAGS, "--out", tmp_path / "run")
    assert "was drawn by memorisk generate" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "vae"}, "unknown kind"),
        ({"steps": 0}, "steps is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"ema": 1.0}, "ema is 1.0"),
        ({"drop_condition": -0.1}, "drop_condition is -0.1"),
        ({"clip": -1.0}, "clip is -1.0"),
        ({"flip": "no"}, "flip is 'no'"),
        ({"noise_schedule": "sine"}, "unknown noise_schedule"),
        ({"conditioned_on": "label"}, "unknown conditioned_on"),
        ({"conditioning": "labels"}, "unknown conditioning"),
        ({"conditioning": "ensemble", "conditioned_on": "class"}, "leave one of them out"),
        ({"conditioned_on": "class", "kind": "gan"}, "without conditions"),
        ({"validation_share": 0.0}, "validation_share is 0.0"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TrainGeneratorOptions(**given).validate()


def test_a_recipe_names_what_the_weights_depend_on_and_nothing_else() -> None:
    recipe = GeneratorOptions().recipe()
    assert (recipe["lr"], recipe["batch_size"]) == (1e-4, 32)
    assert not {name for name in recipe if name.startswith(("gan_", "conditioning_"))} | {"device"} & set(recipe)
    assert "conditioning_network" in GeneratorOptions(conditioning="ensemble").recipe()
    gan = GeneratorOptions(kind="gan").recipe()
    assert gan["lr"] == 2.5e-3
    assert "gan_style" in gan
    assert "network" not in gan
    assert GeneratorOptions(device="cpu", checkpoint_seconds=1.0).recipe() == recipe


def test_processes_take_equal_shares_of_a_batch() -> None:
    rows = np.arange(12)
    assert np.concatenate([rows[process_rows(12, 3, number)] for number in range(3)]).tolist() == rows.tolist()
    with pytest.raises(InputError, match="give a multiple"):
        process_rows(12, 5, 0)


def test_a_long_history_is_shown_in_a_dozen_rows_with_its_end() -> None:
    for n in (1, 12, 13, 100):
        shown = _thinned([{"step": step} for step in range(1, n + 1)])
        assert len(shown) <= 13
        assert shown[-1] == {"step": n}
