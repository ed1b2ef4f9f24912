"""A study: cells side by side, resumed, amended, and finished although one fails."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

import memorisk
from memorisk.audits.classifier.options import PAPER_SEEDS
from memorisk.audits.classifier.run import audit_classifier
from memorisk.images.options import ImageOptions
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.weight_files import save_weights
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import read_json
from memorisk.studies.rare_distinctive import study as study_module
from memorisk.studies.rare_distinctive.config import StudyConfig, read_study
from memorisk.studies.rare_distinctive.plan import plan_study
from memorisk.studies.rare_distinctive.study import study_rare_distinctive
from tests.commands import answer, environment, refusal
from tests.commands import memorisk as command_of

QUICK = {"epochs": 1, "processes": 1, "discard_weights": True, "sample": 400}


def config(**changes: object) -> dict:
    return {
        "protocol": "paper",
        "seeds": [123, 456],
        "settings": QUICK,
        "architectures": {"CNN": {"model": "small_cnn"}, "ResNet": {"model": "small_resnet"}},
        "datasets": {"digits": {"images": "digits"}},
        **changes,
    }


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path_factory.getbasetemp() / "study-cache"))


def trained(folder: Path) -> set[str]:
    """Logits of every training below a folder, by path and time of writing."""
    return {f"{p.relative_to(folder)} {p.stat().st_mtime_ns}" for p in folder.rglob("logits/*.npy")}


@pytest.mark.slow
def test_a_study_goes_on_and_a_new_seed_or_set_adds_only_its_own(tmp_path: Path) -> None:
    whole = {name: value for name, value in QUICK.items() if name != "sample"}  # whose test part tells from guessing
    first = study_rare_distinctive(config(settings=whole), out=tmp_path / "s")
    assert first.complete
    assert set(first.runs.cells) == {("CNN", "digits"), ("ResNet", "digits")}
    assert [t.name for t in first.tables] == [f"table_{i}" for i in range(1, 12)]
    for cell in first.runs.cells.values():
        utility = read_json(cell / "summary.json")["utility"]
        told = [
            line for line in first.tables[0].doubts if "not surely better than guessing" in line and cell.name in line
        ]
        assert bool(told) == (not utility["beats_guessing"])
        assert utility["beats_guessing"] == (utility["balanced_accuracy_low"] > utility["chance"])
    before = trained(tmp_path / "s")
    assert len(before) == 2 * 2 * 2
    study_rare_distinctive(config(settings=whole), out=tmp_path / "s")
    assert trained(tmp_path / "s") == before
    more = config(seeds=[123, 456, 789], settings=whole)
    more["datasets"]["again"] = {"images": "digits", "skip": ["ResNet"]}
    study_rare_distinctive(more, out=tmp_path / "s")
    after = trained(tmp_path / "s")
    assert before < after
    assert len(after - before) == 2 * 2 + 2 * 3  # a seed for two cells, three seeds for the new one
    verdict = read_json(tmp_path / "s" / "cells" / "digits" / "CNN" / "verdict.json")
    assert verdict["seeds"] == [123, 456, 789]


def test_a_failed_cell_is_reported_and_the_others_finish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = config()
    asked["datasets"] = {"gone": {"images": str(tmp_path / "nowhere")}, "digits": {"images": "digits"}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(asked))
    given = ("study", "rare-distinctive", "--config", tmp_path / "study.yaml", "--out", tmp_path / "s")
    code, out, err = answer(capsys, *given)
    assert code == 3, err
    assert "failed: gone, CNN" in out
    assert "Table 1" in out or "table_1" in out
    assert (tmp_path / "s" / "cells" / "digits" / "ResNet" / "verdict.json").is_file()
    assert (tmp_path / "s" / "report.html").is_file()
    kept = trained(tmp_path / "s")
    code, out, err = answer(capsys, *given, "--tables-only")
    assert code == 3
    assert "not run yet" in out
    assert trained(tmp_path / "s") == kept


@pytest.mark.thorough
def test_a_defect_in_one_cell_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = study_module.audit_classifier

    def broken(images, **given):
        if "small_cnn" in given["model"]:
            raise ZeroDivisionError("by zero")
        return honest(images, **given)

    monkeypatch.setattr(study_module, "audit_classifier", broken)
    found = study_rare_distinctive(config(), out=tmp_path / "s")
    assert found.runs.failed == {"digits, CNN": "unexpected ZeroDivisionError: by zero"}
    assert set(found.runs.cells) == {("ResNet", "digits")}
    assert "Traceback" in (tmp_path / "s" / "log.jsonl").read_text()


@pytest.mark.thorough
def test_a_killed_study_loses_at_most_the_epoch_in_hand(tmp_path: Path) -> None:
    asked = config(architectures={"CNN": {"model": "small_cnn", "epochs": 60}})
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(asked))
    command = command_of("study", "rare-distinctive", "--config", tmp_path / "study.yaml", "--out", tmp_path / "s")
    child = subprocess.Popen(
        command, env=environment(tmp_path / "cache"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    cell = tmp_path / "s" / "cells" / "digits" / "CNN"
    give_up = time.monotonic() + 120
    while not list((cell / "checkpoints").glob("*.safetensors")) and time.monotonic() < give_up:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not (cell / "verdict.json").exists()
    done = subprocess.run(command, env=environment(tmp_path / "cache"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    resumed = [int(line.split('"resumed_from": ')[1].split(",")[0].rstrip("}\n"))
               for line in (cell / "log.jsonl").read_text().splitlines() if '"trained"' in line]  # fmt: skip
    assert len(resumed) == 4 or len(list((cell / "logits").glob("*.npy"))) == 4
    assert max(resumed) > 0


def test_settings_come_from_the_study_then_the_set_then_the_architecture() -> None:
    asked = config(
        settings={"epochs": 3, "batch_size": 32},
        architectures={"CNN": {"model": "small_cnn", "epochs": 9}},
        datasets={"digits": {"images": "digits", "epochs": 5, "batch_size": 16, "image_root": "somewhere"}},
    )
    images, settings = read_study(asked).cells["CNN", "digits"]
    assert images == "digits"
    assert (settings["epochs"], settings["batch_size"]) == (9, 16)
    assert settings["image_root"] == Path("somewhere")
    assert settings["checkpoint_seconds"] == 0


def test_each_set_has_starts_of_its_own_unless_the_paper_is_repeated() -> None:
    sets = {"a": {"images": "digits"}, "b": {"images": "digits"}, "c": {"images": "digits", "seeds": [1, 2]}}

    def seeds(study: StudyConfig) -> list[tuple[int, ...]]:
        return [study.cells["CNN", name][1]["seeds"] for name in sets]

    asked = config(datasets=sets, architectures={"CNN": {"model": "small_cnn"}}, seeds=None)
    assert seeds(read_study(asked)) == [PAPER_SEEDS, PAPER_SEEDS, (1, 2)]
    ours = seeds(read_study(asked | {"protocol": "corrected"}))
    assert len({*ours[0], *ours[1]}) == 8
    assert ours[2] == (1, 2)
    assert ours == seeds(read_study(asked | {"protocol": "corrected"}))


def test_a_plan_counts_the_trainings_and_tells_what_would_fail(tmp_path: Path) -> None:
    asked = config(
        datasets={
            "digits": {"images": "digits", "intervene": "edges-only", "classes": ["0"]},
            "grey": {"images": "digits", "intervene": "grayscale", "classes": ["0"], "skip": ["ResNet"]},
            "gone": {"images": str(tmp_path / "nowhere"), "skip": ["CNN"]},
        },
        defences={"digits": {"architecture": "CNN", "regime": ["full", "dp-full"], "epsilon": [8, 3]}},
    )
    plan = plan_study(asked, out=tmp_path / "s")
    assert {name: sum(p.cost.trainings for p in plans) for name, plans in plan.parts.items()} == {
        "digits, CNN": 2 * 2 * 3,
        "digits, ResNet": 2 * 2 * 3,
        "digits, defences": 2 * 2 * 3,
    }
    assert plan.trainings == 36
    assert plan.seconds > 0
    assert plan.untimed == []
    assert set(plan.problems) == {"grey, CNN", "gone, ResNet"}
    assert "grayscale changes no pixel" in plan.problems["grey, CNN"]
    assert "nowhere" in plan.problems["gone, ResNet"]
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": {}}, "unknown key of the study 'architecture'. Did you mean 'architectures'"),
        ({"protocol": "papers"}, "Did you mean 'paper'"),
        ({"datasets": {}}, "the study needs datasets"),
        ({"datasets": {"x": {}}}, "data set x names no images"),
        ({"datasets": {"x": {"images": "digits", "epoch": 3}}}, "setting of x 'epoch'. Did you mean 'epochs'"),
        ({"datasets": {"x": {"images": "digits", "skip": ["CN"]}}}, "Did you mean 'CNN'"),
        ({"datasets": {"x": "digits"}}, "datasets: x needs settings below it"),
        ({"architectures": {"a b": {}, "a-b": {}}}, "would share a folder"),
        ({"defences": {"digit": {}}}, "Did you mean 'digits'"),
        ({"defences": {"digits": {"architecture": "CN"}}}, "Did you mean 'CNN'"),
        ({"defences": {"digits": {"architecture": "CNN", "regime": ["dp-full"]}}}, "needs a privacy budget"),
        ({"seeds": 1}, "seeds is 1; it must be a list of whole numbers"),
        ({"settings": 5}, "settings needs settings by name, not 5"),
        ({"settings": {"gallery": "no"}}, "gallery is 'no'; give true or false, without quotes"),
        ({"settings": {"epochs": "many"}}, "epochs is 'many'; give a whole number"),
        ({"datasets": {"x": {"images": "digits", "skip": "CNN"}}}, "skip is a list"),
        ({"datasets": {"x": {"images": "digits", "skip": ["CNN", "ResNet"]}}}, "nothing is left of the study"),
        ({"explain": {"feature": ["before"]}}, "Did you mean 'features'"),
        ({"explain": {"features": ["resnet5"], "feature_weights": "none"}}, "Did you mean 'resnet50'"),
        ({"explain": {"features": ["resnet50"]}}, "features of resnet50 need its pre-trained weights"),
        (
            {"explain": {"features": ["resnet50"], "feature_weights": "no.pth"}},
            "weights file no.pth for resnet50 does not exist",
        ),
        ({"explain": {"features": ["gone.npy"]}}, "feature file gone.npy does not exist"),
        ({"explain": {"probes": True}}, "probes need the models of digits, CNN: leave discard_weights out"),
        (
            {"explain": {"probes": True}, "settings": {"epochs": 1}, "seeds": [1]},
            "probes need two seeds at least, digits, CNN has 1",
        ),
    ],
)
def test_a_file_that_asks_for_what_is_not_there_is_refused(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        study_rare_distinctive(config(**changes), out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_weights_that_do_not_exist_are_all_named_before_anything_is_run(tmp_path: Path) -> None:
    architectures = {"CNN": {"model": "small_cnn"}, "A": {"weights": "a.pth"}, "B": {"target": "b.pth"}}
    with pytest.raises(InputError, match=r"^2 files or folders do not exist: a\.pth, b\.pth$"):
        study_rare_distinctive(config(architectures=architectures), out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_weights_of_a_finished_cell_are_needed_again_for_new_seeds_only(tmp_path: Path) -> None:
    weights, out = tmp_path / "a.safetensors", tmp_path / "s"
    save_weights(weights, create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0))
    asked = config(architectures={"A": {"model": "small_cnn", "weights": str(weights)}}, seeds=[123])
    asked["defences"] = {"digits": {"architecture": "A", "regime": ["full"]}}
    assert study_rare_distinctive(asked, out=out).failed == {}
    weights.unlink()
    before = trained(out)
    assert study_rare_distinctive(asked, out=out).failed == {}
    assert trained(out) == before
    more = {**asked, "seeds": [123, 456]}
    for _ in "again":  # the second time as after a kill, which leaves the new seeds in the settings of one part
        with pytest.raises(InputError, match=r"a\.safetensors: the file or folder does not exist"):
            study_rare_distinctive(more, out=out)
        cell = out / "cells" / "digits" / "A" / "config.yaml"
        cell.write_text(yaml.safe_dump({**yaml.safe_load(cell.read_text()), "seeds": [123, 456]}))
    assert trained(out) == before


def test_a_cell_whose_weights_were_replaced_gets_no_new_seeds(tmp_path: Path) -> None:
    """New models would start from other weights, and count as the same audit; without work the cell is refused, too."""
    weights, out = tmp_path / "a.safetensors", tmp_path / "s"
    save_weights(weights, create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0))
    asked = config(architectures={"A": {"model": "small_cnn", "weights": str(weights)}}, seeds=[123])
    assert study_rare_distinctive(asked, out=out).failed == {}
    before = trained(out)
    save_weights(weights, create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=1))
    for seeds in ([123], [123, 456]):
        with pytest.raises(InputError, match=r"digits, A started from other weights than \S+a\.safetensors holds now"):
            study_rare_distinctive({**asked, "seeds": seeds}, out=out)
        with pytest.raises(InputError, match=r"holds a run that started from other weights than \S+a\.safetensors"):
            audit_classifier("digits", out=out / "cells" / "digits" / "A", weights=str(weights), model="small_cnn",
                             seeds=seeds, **QUICK)  # fmt: skip
    assert study_rare_distinctive(asked, out=out, tables_only=True).failed == {}
    assert trained(out) == before


def test_another_protocol_is_another_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = {"architectures": {"CNN": {"model": "small_cnn"}}}
    study_rare_distinctive(config(**one), out=tmp_path / "s")
    with pytest.raises(InputError, match="holds a run with protocol = paper, now asked: corrected"):
        study_rare_distinctive(config(protocol="corrected", **one), out=tmp_path / "s")
    assert "no.yaml: the file or folder does not exist" in refusal(
        capsys, "study", "rare-distinctive", "--config", "no.yaml", "--out", tmp_path / "t"
    )


def test_a_dry_run_shows_each_part_and_what_would_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = config(architectures={"CNN": {"model": "small_cnn"}})
    given = ("study", "rare-distinctive", "--config", tmp_path / "study.yaml", "--out", tmp_path / "s", "--dry-run")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(asked))
    code, out, _ = answer(capsys, *given)
    assert code == 0
    assert "digits, CNN" in out
    assert "4 trainings, about" in out
    asked["datasets"]["gone"] = {"images": str(tmp_path / "nowhere")}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(asked))
    code, out, _ = answer(capsys, *given)
    assert code == 3
    assert "would fail: gone, CNN: " in out
    assert not (tmp_path / "s").exists()


def test_other_settings_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = config(architectures={"CNN": {"model": "small_cnn"}})
    study_rare_distinctive(asked, out=tmp_path / "s")
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (tmp_path / "s").rglob("*") if p.is_file()}
    for changes, message in (
        ({"settings": {**QUICK, "epochs": 2}}, "digits, CNN was run with epochs = 1, now asked: 2"),
        ({"seeds": [123]}, "of which 1 would be left out: seeds may be added, not taken away"),
    ):
        with pytest.raises(InputError, match=message):
            study_rare_distinctive(asked | changes, out=tmp_path / "s")
        plan = plan_study(asked | changes, out=tmp_path / "s")
        assert message in plan.problems["digits, CNN"]
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (tmp_path / "s").rglob("*") if p.is_file()} == before
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(asked))
    given = ("study", "rare-distinctive", "--config", tmp_path / "study.yaml", "--tables-only")
    assert "is not there" in refusal(capsys, *given, "--out", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_classes_may_be_numbers_in_yaml() -> None:
    sets = {"digits": {"images": "digits", "intervene": "edges-only", "classes": [0, 8]}}
    assert read_study(config(datasets=sets)).cells["CNN", "digits"][1]["classes"] == ("0", "8")
    one = {"digits": {"images": "digits", "intervene": "edges-only", "classes": 0}}
    assert read_study(config(datasets=one)).cells["CNN", "digits"][1]["classes"] == ("0",)


def test_images_in_memory_are_saved_and_a_study_of_failures_alone_raises(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 6, 6), dtype=np.uint8)
    files = [str(tmp_path / f"{i}.png") for i in range(8)]
    for one, file in zip(pixels, files, strict=True):
        Image.fromarray(one).save(file)
    table = pd.DataFrame({"scan": files, "finding": ["a", "b"] * 4})
    sets = {
        "arrays": {"images": (pixels, np.arange(8) % 2, np.arange(8))},
        "table": {"images": table, "path_column": "scan", "label_column": "finding"},
    }
    with pytest.raises(MemoriskError, match=r"every cell of the study failed; arrays, .*is kept") as told:
        memorisk.study_rare_distinctive(config(datasets=sets), out=tmp_path / "s")
    assert not isinstance(told.value, InputError)
    assert (tmp_path / "s" / "report.html").is_file()
    written = yaml.safe_load((tmp_path / "s" / "config.yaml").read_text())["datasets"]
    for name, one in written.items():
        assert memorisk.load_manifest(one["images"], ImageOptions(path_column=one.get("path_column"))).n == 8, name
    with pytest.raises(InputError, match=r"data set arrays: images is an object of type tuple; give a path"):
        read_study(config(datasets=sets))
    with pytest.raises(InputError, match="data set x: images is empty"):
        read_study(config(datasets={"x": {"images": None}}))
