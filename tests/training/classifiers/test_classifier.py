"""`memorisk train classifier`: one model a regime, what it is good for, what it promises, and a noise nobody keeps."""

import stat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import memorisk
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import read_json, read_table
from memorisk.training.classifiers import command as classifier
from memorisk.training.classifiers import jobs
from memorisk.training.classifiers.command import NOISE, train_classifier
from tests.commands import answer, refusal

QUICK = {"model": "small_cnn", "epochs": 2, "threads": 1}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


def test_each_regime_has_weights_and_an_account(tmp_path: Path) -> None:
    found = train_classifier("digits", out=tmp_path / "run", regime=("full", "dp-full"), epsilon=(8, 3), **QUICK)
    assert list(found.arms) == ["full", "dp-full-8", "dp-full-3"]
    for name, arm in found.arms.items():
        folder = tmp_path / "run" / name
        model = create_model(
            "small_cnn", num_classes=10, in_chans=1, image_size=8, seed=9, weights=folder / "weights.safetensors"
        )
        assert sum(p.numel() for p in model.parameters()) == 40_394
        assert read_json(folder / "training.json") == arm
        assert not (folder / NOISE).exists()
        assert arm["held_out"]["n_images"] + arm["n_trained"] == len(read_table(tmp_path / "run" / "manifest.parquet"))
    assert found.arms["full"]["privacy"] is None
    eight, three = (found.arms[f"dp-full-{e}"]["privacy"] for e in (8, 3))
    assert three["noise_multiplier"] > eight["noise_multiplier"]
    assert eight["epsilon"] < eight["replace_one_epsilon"] <= 2 * eight["epsilon"] + 1
    assert (eight["patients_known"], eight["largest_group"], eight["per_patient_epsilon"]) == (False, None, None)


def test_the_noise_of_two_trainings_is_never_the_same(tmp_path: Path) -> None:
    given = {"regime": ("dp-full",), "epsilon": (8,), **QUICK}
    weights = []
    for name in ("a", "b"):
        train_classifier("digits", out=tmp_path / name, **given)
        weights.append((tmp_path / name / "dp-full-8" / "weights.safetensors").read_bytes())
    assert weights[0] != weights[1]


def test_a_killed_private_training_keeps_its_noise_private_and_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"regime": ("dp-full",), "epsilon": (8,), "checkpoint_seconds": 0, **QUICK}
    seen = []
    honest = jobs.fit_private

    def killed(*args, **settings):
        seen.append(settings["noise_seed"])

        def stop(epoch: int, loss: float) -> None:
            raise MemoriskError("killed")

        return honest(*args, **settings | {"on_epoch": stop})

    monkeypatch.setattr(jobs, "fit_private", killed)
    with pytest.raises(MemoriskError, match="killed"):
        train_classifier("digits", out=tmp_path / "run", **given)
    file = tmp_path / "run" / "dp-full-8" / NOISE
    assert int(file.read_text()) == seen[0]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(f"1{file.read_text()}")
    with pytest.raises(InputError, match="noise is damaged"):
        train_classifier("digits", out=tmp_path / "run", **given)
    file.write_text(str(seen[0]))
    monkeypatch.setattr(jobs, "fit_private", lambda *a, **s: (seen.append(s["noise_seed"]), honest(*a, **s))[1])
    train_classifier("digits", out=tmp_path / "run", **given)
    assert seen[1] == seen[0]
    assert not file.exists()
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert '"resumed_from": 1' in log
    assert str(seen[0]) not in log + (tmp_path / "run" / "config.yaml").read_text()


def test_what_is_done_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = train_classifier("digits", out=tmp_path / "run", **QUICK)
    monkeypatch.setattr(classifier, "run_training", lambda job: pytest.fail("trained again"))
    assert train_classifier("digits", out=tmp_path / "run", **QUICK).arms == first.arms


def test_a_trained_model_is_not_replaced_by_another(tmp_path: Path) -> None:
    given = {"regime": ("full", "dp-full"), "epsilon": (8,), **QUICK}
    train_classifier("digits", out=tmp_path / "run", **given)
    kept = {f: f.read_bytes() for f in (tmp_path / "run").rglob("*.safetensors")}
    for changes in ({"epochs": 3}, {"seed": 5}, {"lr": 0.5}, {"model": "small_resnet"}):
        with pytest.raises(InputError, match="holds a model trained otherwise"):
            train_classifier("digits", out=tmp_path / "run", **given | changes)
    added = train_classifier("digits", out=tmp_path / "run", **given | {"epsilon": (3,), "regime": ("dp-full",)})
    assert list(added.arms) == ["dp-full-3"]
    assert all(f.read_bytes() == content for f, content in kept.items())


def test_the_trained_model_can_be_audited_as_the_very_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        (tmp_path / "data" / label).mkdir(parents=True)
        for i in range(40):
            pixels = rng.integers(0, 200, (8, 8), dtype=np.uint8) + (50 if label == "b" else 0)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "data" / label / f"{i}.png")
    train_classifier(tmp_path / "data", out=tmp_path / "model", **QUICK)
    result = memorisk.audit_classifier(
        tmp_path / "model" / "manifest.parquet", out=tmp_path / "audit", image_root=tmp_path / "data", splits="given",
        target=tmp_path / "model" / "full" / "weights.safetensors", models=4, processes=1, **QUICK,
    )  # fmt: skip
    assert result.summary["target"] is not None


def test_group_statistics_are_of_patients(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    rows = ["image,label,patient"]
    for i in range(120):
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(tmp_path / "data" / f"{i}.png")
        rows.append(f"{i}.png,{'ab'[(i // 3) % 2]},p{i // 3}")
    (tmp_path / "data" / "table.csv").write_text("\n".join(rows))
    found = train_classifier(
        tmp_path / "data" / "table.csv", out=tmp_path / "run", regime="dp-full", epsilon=8, **QUICK
    )
    privacy = found.arms["dp-full-8"]["privacy"]
    assert (privacy["patients_known"], privacy["largest_group"]) == (True, 3)
    assert privacy["per_patient_epsilon"] > 2 * 8
    assert found.arms["dp-full-8"]["held_out"]["n_groups"] * 3 == found.arms["dp-full-8"]["held_out"]["n_images"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"regime": "lora"}, "adapts attention, which SmallCNN does not have"),
        ({"held_out": 1.0}, "held_out is 1.0"),
        ({"epsilons": 8}, "unknown setting 'epsilons'. Did you mean 'epsilon'"),
        ({"splits": "given"}, "gives no split"),
    ],
)
def test_bad_settings_write_nothing(tmp_path: Path, given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_classifier("digits", out=tmp_path / "run", **QUICK | given)
    assert not (tmp_path / "run").exists()


def test_the_command_prints_a_row_a_regime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("train", "classifier", "digits", "--out", tmp_path / "run", "--model", "small_cnn", "--epochs", 1)
    code, out, err = answer(capsys, *given, "--regime", "full", "dp-full", "--epsilon", 8)
    assert code == 0, err
    assert "dp-full-8" in out
    assert "majority" in out
    assert "dp-full" in refusal(capsys, *given, "--regime", "dp-ful")


def test_audits_refuse_several_regimes_in_one(tmp_path: Path) -> None:
    assert list(ClassifierOptions(regime=("full", "lora")).arms) == ["full", "lora"]
    with pytest.raises(InputError, match="audit_defences compares several"):
        memorisk.audit_classifier("digits", out=tmp_path / "run", regime=("full", "lora"))
