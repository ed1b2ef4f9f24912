"""`memorisk generate`: the set, each image alone the same to the byte, and what a kill at any point leaves."""

import hashlib
import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

import memorisk
from memorisk.images.sources.registry import load_manifest
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.dit.folder import save_dit
from memorisk.models.generators.generators import load_generator
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json, read_table
from memorisk.training.generators import draws as generated_files
from memorisk.training.generators import generation
from memorisk.training.generators.draws import draw, image_seed, plan_draws
from memorisk.training.generators.generation import _blocks, generate, plan_generate
from tests.commands import answer, entries, environment, refusal
from tests.commands import memorisk as command
from tests.models.small_dit import small_generator
from tests.training.small_generators import (
    CLASSES,
    KILLED,
    SmallGenerator,
    class_generator,
    of_classes,
    vector_generator,
)

HERE = "tests.training.small_generators"
OF_CLASSES = f"{HERE}:of_classes"
SET = {"images": 10, "seed": 3, "batch": 4}


def pictures(out: Path) -> dict[str, bytes]:
    """Every file of a set by name, but those that hold times or the place of the set."""
    files = [p for p in out.rglob("*") if p.is_file() and p.name not in ("log.jsonl", "config.yaml", ".lock")]
    return {str(p.relative_to(out)): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "set"
    generate(OF_CLASSES, out, **SET)
    return out


def test_a_set_holds_what_the_generator_drew(whole: Path) -> None:
    plan = plan_draws(load_generator(OF_CLASSES), 10, seed=3)
    table = pd.read_csv(whole / "manifest.csv", keep_default_na=False)
    assert table.columns.tolist() == ["image", "path", "label", "seed", "source", "attempt", "sha256"]
    assert table["label"].tolist() == CLASSES * 5
    assert table["seed"].tolist() == plan["seed"].tolist()
    for row, line in enumerate(table.to_dict("records")):
        file = whole / line["path"]
        with Image.open(file) as picture:
            assert (picture.mode, picture.info) == ("L", {})
            assert np.array_equal(
                np.asarray(picture), of_classes(plan["seed"].to_numpy(), plan["label"].to_numpy())[row]
            )
        assert hashlib.sha256(file.read_bytes()).hexdigest() == line["sha256"]
    pd.testing.assert_frame_equal(read_table(whole / "manifest.parquet"), table, check_dtype=False)
    said = read_json(whole / "generate.json")
    assert (said["images"], said["distinct_images"], said["classes"]) == (10, 10, dict.fromkeys(CLASSES, 5))
    assert said["source"] == load_generator(OF_CLASSES).source
    files = [name for name in entries(whole) if not name.endswith(".checksum")]
    assert len(files) == 10 + 7  # images/, two tables, generate.json, config, log, lock


def of_formulas(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """As `of_classes`, of classes whose names a spreadsheet would compute."""
    return of_classes(seeds, labels)


of_formulas.classes = ["=1+1", "'=x"]  # pyright: ignore[reportFunctionMemberAccess]


def test_classes_that_a_spreadsheet_would_compute_come_back(tmp_path: Path) -> None:
    generate(f"{__name__}:of_formulas", tmp_path / "made", images=4)
    written = pd.read_csv(tmp_path / "made" / "manifest.csv", dtype=str)["label"]
    assert sorted(set(written)) == ["''=x", "'=1+1"]
    for source in ("made", "made/manifest.csv", "made/manifest.parquet"):
        assert sorted(set(load_manifest(tmp_path / source).labels)) == ["'=x", "=1+1"]


def test_a_set_is_its_owners_alone(whole: Path) -> None:
    for path in (whole, *whole.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_same_command_gives_the_same_bytes_whatever_the_batch(whole: Path, tmp_path: Path) -> None:
    generate(OF_CLASSES, tmp_path / "again", **SET | {"batch": 3})
    assert pictures(tmp_path / "again") == pictures(whole)


def test_colour_is_kept_and_a_set_without_classes_has_none(tmp_path: Path) -> None:
    made = memorisk.generate(f"{HERE}:in_colour", tmp_path / "set", images=2)
    with Image.open(tmp_path / "set" / made.table["path"][0]) as picture:
        assert (picture.mode, picture.size) == ("RGB", (8, 8))
    assert made.table["label"].tolist() == ["", ""]
    assert made.summary["classes"] == {}
    assert load_manifest(tmp_path / "set").labels.tolist() == ["", ""]


def test_equal_images_are_named(tmp_path: Path) -> None:
    made = generate(f"{HERE}:collapsed", tmp_path / "set", images=3)
    assert made.summary["distinct_images"] == 1
    assert made.summary["notes"] == [
        "2 images equal earlier ones of the set in every pixel (synthetic-000001, synthetic-000002)."
    ]


def stopped(name: str, at: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Fail in place of the call ``at`` of a function of the command."""

    def patch(patcher: pytest.MonkeyPatch) -> None:
        """Put the failure in."""
        where = generated_files if hasattr(generated_files, name) and name == "encode_png" else generation
        honest, calls = getattr(where, name), []

        def fails(*given, **settings):
            """Count calls."""
            calls.append(1)
            if len(calls) == at:
                raise KeyboardInterrupt
            return honest(*given, **settings)

        patcher.setattr(where, name, fails)

    return patch


@pytest.mark.parametrize(
    ("name", "at"),
    [("draw", 1), ("draw", 3), ("encode_png", 7), ("write_images", 2), ("write_tables", 1), ("write_json", 1)],
)
def test_a_set_that_was_interrupted_anywhere_is_the_same_in_the_end(
    whole: Path, tmp_path: Path, name: str, at: int
) -> None:
    out = tmp_path / "set"
    with pytest.MonkeyPatch.context() as patcher:
        stopped(name, at)(patcher)
        with pytest.raises(KeyboardInterrupt):
            generate(OF_CLASSES, out, **SET)
    assert not (out / "generate.json").exists()
    if name == "write_tables":  # some images are there
        with pytest.raises(InputError, match="is a set that is not all drawn"):
            load_manifest(out)
    generate(OF_CLASSES, out, **SET)
    assert pictures(out) == pictures(whole)


@pytest.mark.thorough
def test_a_set_that_was_killed_goes_on(whole: Path, tmp_path: Path) -> None:
    given = ("generate", f"{HERE}:killed", tmp_path / "set", "--images", 10, "--seed", 3, "--batch", 4)
    at = {KILLED: str(image_seed(3, 9))}
    ran = subprocess.run(command(*given), env=environment(tmp_path) | at, check=False, capture_output=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert len(list((tmp_path / "set" / "images").iterdir())) == 8
    with pytest.raises(InputError, match="is a set that is not all drawn"):
        load_manifest(tmp_path / "set")
    os.environ.pop(KILLED, None)
    generate(f"{HERE}:killed", tmp_path / "set", **SET)
    found, wanted = pictures(tmp_path / "set"), pictures(whole)
    assert found.keys() == wanted.keys()
    assert all(found[file] == wanted[file] for file in wanted if not file.startswith("generate"))


def test_only_what_is_missing_or_damaged_is_drawn_again(tmp_path: Path) -> None:
    out, generator = tmp_path / "set", class_generator()
    before = generate(generator, out, **SET)
    bytes_before = pictures(out)
    generator.drawn.clear()
    generate(generator, out, **SET)
    assert generator.drawn == []
    (out / "images" / "synthetic-000005.png").unlink()
    (out / "images" / "synthetic-000008.png").write_bytes(b"torn")
    (out / "drawn.csv").write_text("\nsynthetic-000002,")  # torn, too
    generate(generator, out, **SET)
    assert generator.drawn == before.table["seed"].iloc[[5, 8]].tolist()
    assert pictures(out) == bytes_before


@pytest.mark.parametrize("setting", [{"seed": 4}, {"images": 11}, {"threads": 2}])
def test_a_folder_of_another_set_is_refused_and_kept(whole: Path, setting: dict[str, int]) -> None:
    before = pictures(whole)
    with pytest.raises(InputError, match=rf"holds a run with {next(iter(setting))} = "):
        generate(OF_CLASSES, whole, **SET | setting)
    assert pictures(whole) == before


def test_a_folder_of_another_generator_is_refused(tmp_path: Path) -> None:
    generate(class_generator(), tmp_path / "set", images=2)
    other = SmallGenerator(class_generator().config, source="trained further")
    with pytest.raises(InputError, match="generator_source = small, now asked: trained further"):
        generate(other, tmp_path / "set", images=2)


def test_single_images_are_made_again_to_the_byte(whole: Path, tmp_path: Path) -> None:
    names = ("synthetic-000007", "synthetic-000002")
    made = generate(OF_CLASSES, tmp_path / "two", only=names, **SET)
    assert made.table["image"].tolist() == sorted(names)
    for name in names:
        file = f"images/{name}.png"
        assert (tmp_path / "two" / file).read_bytes() == (whole / file).read_bytes()
    table = read_table(whole / "manifest.parquet")
    rows = table[table["image"].isin(names)].reset_index(drop=True)
    pd.testing.assert_frame_equal(made.table, rows, check_dtype=False)
    unlike = generate(OF_CLASSES, tmp_path / "one", only=("synthetic-000007-again-1",), seed=3)
    assert unlike.table["seed"].tolist() == [image_seed(3, 7, 1)]
    assert unlike.table["label"].tolist() == [CLASSES[1]]


def test_images_that_are_not_in_the_set_are_refused(tmp_path: Path) -> None:
    for message, only in (
        ("only names synthetic-000010, and the last of a set of 10 images is synthetic-000009", ("synthetic-000010",)),
        ("is not an id of a generated image", ("7",)),
        ("names an image twice", ("synthetic-000001", "synthetic-000001")),
        ("at two attempts", ("synthetic-000001", "synthetic-000001-again-1")),
    ):
        with pytest.raises(InputError, match=message):
            generate(OF_CLASSES, tmp_path / "set", only=only, **SET)
    assert entries(tmp_path) == []


def test_pairs_name_their_training_image_for_an_audit(tmp_path: Path) -> None:
    generator = vector_generator(["a", "b", "a"])
    made = generate(generator, tmp_path / "set", paired=True)
    assert made.table["source"].tolist() == ["train-0", "train-1", "train-2"]
    manifest = load_manifest(tmp_path / "set")
    assert manifest.table["source"].tolist() == ["train-0", "train-1", "train-2"]
    alone = generate(generator, tmp_path / "one", paired=True, only=("synthetic-000002",))
    assert alone.table["sha256"].tolist() == made.table["sha256"].tolist()[2:]


def test_an_audit_reads_the_set_and_its_pairs(tmp_path: Path) -> None:
    """Conditioned on the training image's number, and drawing just that image: all of them are copies."""
    generator = vector_generator(["a", "b"] * 8)
    plan = plan_draws(generator, 16, seed=0, paired=True)
    train = tmp_path / "train"
    train.mkdir()
    for row, image in enumerate(draw(generator, plan)):
        Image.fromarray(image[..., 0]).save(train / f"train-{row}.png")
    assert generator.known is not None
    generator.known = replace(generator.known, images=np.array([f"train-{row}.png" for row in range(16)]))
    generate(generator, tmp_path / "set", paired=True)
    result = memorisk.audit_synthetic(
        train,
        tmp_path / "set",
        out=tmp_path / "audit",
        paired="source",
        detector="pixels:8",
        plants=0,
        store=tmp_path / "store",
    )
    assert result.verdict["paired"]["n_pairs"] == 16
    assert result.verdict["n_certain_copies"] == 16


def test_a_diffusion_model_of_conditions_makes_each_image_again(tmp_path: Path) -> None:
    made = small_generator("vector")
    values = np.random.default_rng(0).random((7, made.config.condition_dim)).astype(np.float32)
    names = np.array([f"real {i}" for i in range(7)])
    known = Conditions(values, names, np.array(["a", "b", "a", "a", "b", "b", "a"]), "prediction")
    save_dit(made.network, tmp_path / "dit", made.config, scheduler=made.scheduler, conditions=known)
    given = {"paired": True, "sampling_steps": 2, "sampler": "dpm-solver", "guidance": 1.5, "seed": 8}
    whole = generate(tmp_path / "dit", tmp_path / "set", **given)
    assert whole.table["source"].tolist() == names.tolist()
    assert whole.table["label"].tolist() == known.labels.tolist()
    assert whole.summary["distinct_images"] == 7
    for file in (tmp_path / "set" / "images").iterdir():
        if file.stem not in ("synthetic-000001", "synthetic-000004"):
            file.unlink()
    assert generate(tmp_path / "dit", tmp_path / "set", **given).table.equals(whole.table)
    with pytest.raises(InputError, match=r"holds a run with sampling_steps = 2, now asked: 3"):
        generate(tmp_path / "dit", tmp_path / "set", **(given | {"sampling_steps": 3}))
    with pytest.raises(InputError, match="no condition to keep to"):
        generate(small_generator("none"), tmp_path / "no", images=2, guidance=1.5)
    assert not (tmp_path / "no").exists()
    assert yaml.safe_load((tmp_path / "set" / "config.yaml").read_text())["generator"] == str(tmp_path / "dit")
    alone = generate(tmp_path / "dit", tmp_path / "one", only=("synthetic-000005",), **given)
    assert alone.table["sha256"].tolist() == whole.table["sha256"].tolist()[5:6]


def test_more_steps_than_a_training_had_are_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    generator = small_generator("class")
    for drawn in (generate, plan_generate):
        with pytest.raises(InputError, match=r"sampling_steps is 1001; .* 1000 times"):
            drawn(generator, tmp_path / "out", images=4, sampling_steps=1001, device="cpu")
    assert not (tmp_path / "out").exists()


def test_settings_of_diffusion_models_are_refused_and_not_told_of_others(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = [{"sampler": "ddpm"}, {"sampling_steps": 20}, {"guidance": 2.0}]
    for setting in asked:
        said = " ".join(f"{name} is {value}" for name, value in setting.items())
        for drawn in (generate, plan_generate):
            with pytest.raises(InputError, match=f"{said}, and .* is not a diffusion model"):
                drawn(OF_CLASSES, tmp_path / "out", images=4, **setting)
    assert entries(tmp_path) == []
    generate(OF_CLASSES, tmp_path / "out", images=2, sampler="ddim")
    config = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    for told in (config, config["run"], read_json(tmp_path / "out" / "generate.json")["run"]):
        assert "seed" in told
        assert not {"sampler", "sampling_steps", "guidance"} & told.keys()


def test_an_out_that_cannot_be_used_is_refused_before_the_generator_is_opened(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("taken")
    for drawn in (generate, plan_generate):
        with pytest.raises(InputError, match="is a file"):
            drawn(tmp_path / "no generator", tmp_path / "set", images=4)


def test_blocks_are_those_of_the_whole_set(tmp_path: Path) -> None:
    """Where an image's bits may depend on those beside it, it is drawn beside the same ones again."""
    todo = np.zeros(10, dtype=bool)
    todo[[1, 2, 9]] = True
    assert [rows.tolist() for rows in _blocks(todo, 4, whole=True)] == [[0, 1, 2, 3], [8, 9]]
    assert [rows.tolist() for rows in _blocks(todo, 4, whole=False)] == [[1, 2], [9]]


def test_a_function_that_does_not_draw_by_the_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="draws another image of the same seed alone"):
        generate(f"{HERE}:by_place", tmp_path / "set", images=4)
    assert entries(tmp_path) == []


def test_the_command_says_what_it_made_and_what_it_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("generate", OF_CLASSES, "set", "--images", 6)
    code, out, _ = answer(capsys, *given, "--dry-run")
    assert code == 0
    assert "images: 6 of 8 x 8 x 1" in out
    assert "of each class: benign 3, malignant 3" in out
    code, out, _ = answer(capsys, *given, "--dry-run", "--json")
    plan = json.loads(out)
    assert (plan["images"], plan["first_batch"], plan["sources"], plan["seconds"] > 0) == (6, 6, 0, True)
    assert entries(tmp_path) == []
    code, out, _ = answer(capsys, *given, "--json")
    assert code == 0
    assert json.loads(out) == read_json(tmp_path / "set" / "generate.json")
    assert plan["bytes"] == sum(p.stat().st_size for p in (tmp_path / "set" / "images").iterdir())
    code, out, _ = answer(capsys, *given)
    assert "images: 6\n" in out
    assert "set: set\n" in out
    (tmp_path / "again.yaml").write_text(answer(capsys, *given, "--seed", 1, "--print-config")[1])
    assert yaml.safe_load((tmp_path / "again.yaml").read_text())["seed"] == 1
    code, out, _ = answer(capsys, "generate", "--config", "again.yaml", "--out", "other")
    assert code == 0
    assert read_json(tmp_path / "other" / "generate.json")["run"]["seed"] == 1


def test_the_command_refuses_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "set"
    for message, given in (
        ("images is not given", [OF_CLASSES]),
        ("leave paired out", [OF_CLASSES, "--paired"]),
        ("--sampling-steps is 0", [OF_CLASSES, "--images", 3, "--sampling-steps", 0]),
        ("balance classes", [OF_CLASSES, "--images", 3, "--balance", "training"]),
        ("the file or folder does not exist", [tmp_path / "nothing", "--images", 3]),
        ("threads is 0", [OF_CLASSES, "--images", 3, "--threads", 0]),
        ("images is 0", [OF_CLASSES, "--images", 0]),
        ("holds no generator", [tmp_path, "--images", 3]),
    ):
        assert message in refusal(capsys, "generate", given[0], out, *given[1:])
    assert entries(tmp_path) == []
