"""The whole study with generators whose memory is known: planted truth must come out, and nothing else."""

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from memorisk.report.columns import rows
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.statistics.copies.memorized_share import memorized_share
from memorisk.studies.generators import cells as cells_module
from memorisk.studies.generators import study as study_module
from memorisk.studies.generators.study import GeneratorsResult, plan_generators, study_generators
from tests.commands import answer, refusal
from tests.studies.generators.conftest import CONFIG, copying, memory

Studied = tuple[Path, GeneratorsResult]


def one_arm(**arm: Any) -> dict[str, Any]:
    """A study of one generator, read once."""
    config = copy.deepcopy(CONFIG)
    config["settings"] |= {"images": 60, "strengths": []}
    return config | {"arms": {"copier": {"training_images": 60, **arm}}}


def table(studied: Studied, name: str, **only: Any) -> pd.DataFrame:
    """The corrected rows of a table where columns have these values."""
    found = next(t for t in studied[1].tables if t.name == name).ours
    for column, value in only.items():
        found = rows(found, [one == value for one in found[column]])
    return found


def written(folder: Path) -> dict[str, bytes]:
    names = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in ("log.jsonl", ".lock")]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in names}


def test_who_copies_fifty_images_is_caught_and_the_sources_are_named(studied: Studied) -> None:
    row = table(studied, "memorized", arm="copier", n_images=60).to_dict("records")[0]
    assert row["share"] > 0.9
    assert row["share_low"] > row["attained"]
    named = table(studied, "sources", arm="copier", n_images=60, seed=0)
    cell = next(c for c in studied[1].reading.cells if c.arm.name == "copier" and c.size == 60 and c.seed == 0)
    assert set(named["image"]) <= set(cell.data.store.manifest.images[cell.training.rows])
    assert len(named) == row["listed"] >= 54
    assert all(p < 0.05 for p in named["p"])


def test_who_copies_nobody_is_not_caught(studied: Studied) -> None:
    row: dict[str, Any] = table(studied, "memorized", arm="other").to_dict("records")[0]  # pyright: ignore
    assert float(row["share_low"]) <= float(row["attained"]) <= float(row["share_high"])
    assert row["listed"] == 0
    early = table(studied, "steps", arm="copier", n_images=60, step=20).to_dict("records")[0]
    late = table(studied, "steps", arm="copier", n_images=60, step=40).to_dict("records")[0]
    assert early["share_low"] <= early["attained"] < late["share_low"]


def test_a_row_is_what_its_distances_say(studied: Studied) -> None:
    read = studied[1].reading.last[0]
    cell, own = read.cell, read.arrays
    held = cell.data.groups[cell.data.held_out].astype(str)
    found = memorized_share(own["train_distance"], own["held_distance"], cell.training.groups, held)
    assert (read.share.estimate, read.share.low, read.share.high) == (found.estimate, found.low, found.high)
    real = cell.data.store.images.astype(float)
    row, made = cell.training.rows[0], own["train_nearest"][0]
    shown = own["shown"].tolist()
    if made in shown:
        pixels = own["shown_pixels"][shown.index(made)].astype(float)
        apart = np.sqrt(np.square((pixels - real[row]) / 255).sum())
        assert own["train_distance"][0] == pytest.approx(apart, rel=1e-4)


def test_no_share_is_printed_by_fewer_than_19_held_out_patients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells_module, "fit", copying(lambda cell, step: 1.0))
    config = one_arm(duplicates={"levels": [4], "patients": 10})
    config["datasets"]["Digits"]["held_out"] = 0.04
    few = study_generators(config, out=tmp_path)
    row = table((tmp_path, few), "memorized").to_dict("records")[0]
    assert row["n_held"] < 19
    assert (np.isnan(row["share"]), row["flagged"]) == (True, 0)
    copies = table((tmp_path, few), "copies").to_dict("records")[0]
    assert np.isnan(copies["flagged"])
    assert copies["nearness"] == copies["nearness"]
    page = (tmp_path / "report.html").read_text()
    assert "too few held-out patients for the nominal rate" in page
    assert "Memorized share of every generator" not in page  # a drawing of nothing
    assert "nan" not in (tmp_path / "tables" / "tables.md").read_text()


def test_more_copies_are_memorized_more(studied: Studied) -> None:
    row = table(studied, "copies").to_dict("records")[0]
    assert row["positive"] == "both"
    assert row["flagged_low"] > 0
    assert row["nearness_low"] > 0
    levels = next(t for t in studied[1].tables if t.name == "copies").extra["levels"]
    first = rows(levels, [seed == 0 for seed in levels["seed"]])
    assert first["copies"].tolist() == [1, 4, 16]
    assert sorted(first["share"]) == first["share"].tolist()
    assert first["level_patients"].tolist() == [160, 20, 20]


def test_generated_images_lie_nearer_only_where_they_are_copies(studied: Studied) -> None:
    copier = table(studied, "distances", arm="copier", n_images=60, pool="generated").to_dict("records")[0]
    other = table(studied, "distances", arm="other", pool="generated").to_dict("records")[0]
    assert copier["shift_high"] < 0 < copier["w1_low"]
    assert other["shift_low"] < 0 < other["shift_high"]
    assert other["w1_low"] < 2 * other["w1_chance"]


def test_page_and_tables_are_written(studied: Studied) -> None:
    out, result = studied
    page = (out / "report.html").read_text()
    for words in ("Who is memorized", "Figure 3", "more copies, more memorized", "held-out"):
        assert words in page
    assert "data:image" not in page
    assert (out / "tables" / "readings.parquet").is_file()
    assert len(pd.read_parquet(out / "tables" / "readings.parquet")) == len(result.reading.reads)
    assert "Memorization against copies" in (out / "tables" / "tables.md").read_text()
    assert not list(out.rglob("work"))


def test_the_same_command_trains_nothing_and_writes_the_same(
    studied: Studied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "again"
    shutil.copytree(studied[0], out)
    before = written(out)
    monkeypatch.setattr(cells_module, "fit", lambda *_: pytest.fail("trained again"))
    assert study_generators(CONFIG, out=out).complete
    assert written(out) == before
    study_generators(CONFIG, out=out, tables_only=True)
    assert written(out) == before


def test_a_study_goes_on_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, whole, killed = one_arm(snapshots=2), tmp_path / "whole", tmp_path / "killed"
    monkeypatch.setattr(cells_module, "fit", copying(memory))
    study_generators(config, out=whole)

    def measured(*given: Any, **settings: Any) -> Any:
        """The first reading, then the kill."""
        if list(killed.rglob("step-*.npz")):
            raise KeyboardInterrupt
        return measure(*given, **settings)

    measure = cells_module.measure
    monkeypatch.setattr(cells_module, "measure", measured)
    with pytest.raises(KeyboardInterrupt):
        study_generators(config, out=killed)
    half = study_generators(config, out=killed, tables_only=True)
    assert half.reading.table["step"].tolist() == [20]
    monkeypatch.setattr(cells_module, "measure", measure)
    study_generators(config, out=killed)
    assert written(killed) == written(whole)


def test_a_generator_that_fails_is_told_while_others_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(cell: Any, folder: Path, look: Any, progress: Any = None) -> dict[str, Any]:
        """Fail for one seed."""
        if cell.seed == 0:
            raise MemoriskError("the loss became NaN")
        return copying(memory)(cell, folder, look, progress)

    monkeypatch.setattr(cells_module, "fit", fit)
    config = one_arm(seeds=[0, 1])
    result = study_generators(config, out=tmp_path / "s")
    assert list(result.failed.values()) == ["the loss became NaN"]
    assert [read.cell.seed for read in result.reading.reads] == [1]
    assert "the loss became NaN" in (tmp_path / "s" / "report.html").read_text()
    monkeypatch.setattr(cells_module, "fit", copying(memory))
    assert study_generators(config, out=tmp_path / "s").complete


def test_weights_that_do_not_exist_are_all_named_before_anything_is_trained(tmp_path: Path) -> None:
    named = {"weights": "a.safetensors", "latent": "autoencoder:none"}
    classifiers = {"conditioning_weights": "b.pth"}
    asked = one_arm(generator=named)
    with pytest.raises(InputError, match=r"^3 files or folders do not exist: a\.safetensors, none, b\.pth$"):
        study_generators({**asked, "classifiers": classifiers}, out=tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_an_arm_that_is_too_large_is_told_while_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cells_module, "fit", copying(memory))
    monkeypatch.setattr(study_module, "seconds_a_step", lambda cell: 0.5)
    config = one_arm()
    large = {"training_images": 5000}
    config["arms"] |= {"large": large}
    Path("study.yaml").write_text(yaml.safe_dump(config))
    command = ("study", "generators", "--config", "study.yaml", "--out", "s")
    why = "Digits, large, 5000 images, seed 0: Digits, large: 5,000 training images are requested, of 270 that are not"
    code, out, _ = answer(capsys, *command, "--dry-run")
    assert (code, f"would fail: {why}" in out) == (3, True)
    code, out, _ = answer(capsys, *command)
    assert (code, f"failed: {why}" in out) == (3, True)
    page = Path("s/report.html").read_text()
    assert "5,000 training images are requested" in page
    assert "Digits, copier" in page
    config["arms"] = {"large": large}
    Path("study.yaml").write_text(yaml.safe_dump(config))
    assert "5,000 training images are requested" in refusal(capsys, *command[:-1], "other")
    assert not Path("other").exists()


def test_what_could_not_have_been_shown_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "fit", copying(lambda cell, step: 1.0))
    config = one_arm()
    config["datasets"]["Digits"]["held_out"] = 0.15
    (doubt,) = plan_generators(config, out=tmp_path).doubts
    result = study_generators(config, out=tmp_path)
    row = table((tmp_path, result), "memorized").to_dict("records")[0]
    assert (row["share"] > 0.6, row["share_low"], row["listed"] > 30) == (
        True,
        0,
        True,
    )  # copies, and no share shows it
    assert 19 <= row["n_held"] < 86
    page = (tmp_path / "report.html").read_text()
    held = f"{row['n_held']:.0f} held-out patients"
    few = f"with {held}: hold 86 or more out"
    assert f"by the share not shown to have memorized, and could not have been, {few}; but" in page
    assert doubt == f"Digits: {few}"
    assert plan_generators(one_arm(), out=tmp_path / "other").doubts == ()
    assert f"but {row['listed']:.0f} of the patients are on the list" in page
    assert "nearer to the generated images than all but 5.0\N{NO-BREAK SPACE}% of new patients are" in page
    text = (tmp_path / "tables" / "tables.md").read_text()
    assert "cannot be shown to be one of memory" in text
    assert f" {row['listed']:.0f} " in text
    assert f"{row['listed']:.2f}" not in text


def test_ids_are_hidden_where_that_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "fit", copying(memory))
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(b"k" * 32)
    config = one_arm()
    config["settings"] |= {"pseudonymise": True, "pseudonym_key": str(key), "gallery": True}
    study_generators(config, out=tmp_path / "s")
    page = (tmp_path / "s" / "report.html").read_text()
    assert "digit-" not in page + (tmp_path / "s" / "tables" / "tables.md").read_text()
    assert page.count("data:image/png") >= 3
    config["settings"] |= {"redact": True}
    study_generators(config, out=tmp_path / "s", tables_only=True)
    page = (tmp_path / "s" / "report.html").read_text()
    assert "data:image" not in page
    assert "Ids of images and patients are left out" in page


def test_another_reading_needs_another_folder(studied: Studied) -> None:
    config = copy.deepcopy(CONFIG)
    config["settings"]["detectors"] = ["pixels:4"]
    with pytest.raises(InputError, match="detectors"):
        study_generators(config, out=studied[0])
    with pytest.raises(InputError, match="never run"):
        study_generators(CONFIG, out=studied[0] / "no", tables_only=True)


def test_the_plan_counts_what_is_left(studied: Studied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "seconds_a_step", lambda cell: 0.5)
    done = plan_generators(CONFIG, out=studied[0])
    assert done.seconds == 0
    fresh = plan_generators(CONFIG, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    counts = fresh.table.set_index(["arm", "n_images"])["generators"].to_dict()
    assert counts == {("copier", 60): 2, ("copier", 270): 2, ("repeated", 200): 2, ("other", 60): 1}
    drawing = 2 * 300 * 50 * 0.5 / 4 / 3
    assert fresh.table["seconds"].tolist()[0] == pytest.approx(2 * (40 * 0.5 + drawing))


def test_a_trained_generator_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = one_arm(snapshots=2, generator={"steps": 4}, duplicates={"levels": [4], "patients": 5})
    config["settings"] |= {"images": 30, "sampling_steps": 2, "quality": "pixels:8", "keep_generators": True}
    Path("study.yaml").write_text(yaml.safe_dump(config))
    code, out, err = answer(capsys, "study", "generators", "--config", "study.yaml", "--out", "run")
    assert code == 0, err
    for words in ("Who is memorized", "| FID |", "DiT"):
        assert words in out
    assert list(Path("run").rglob("generator.json"))
    assert (Path("run").stat().st_mode & 0o777) == 0o700
    code, out, err = answer(capsys, "study", "generators", "--config", "study.yaml", "--out", "run", "--dry-run")
    assert code == 0, err
    assert "0 trainings" in out
    Path("bad.yaml").write_text("arms: 3\n")
    assert "datasets" in refusal(capsys, "study", "generators", "--config", "bad.yaml", "--out", "other")
    assert not Path("other").exists()
