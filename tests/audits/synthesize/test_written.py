"""Generated images are refused where real ones are asked for, however they got there."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import memorisk
from memorisk.audits.synthesize.plan import SynthesizePlan
from memorisk.audits.synthesize.run import synthesize
from memorisk.report.result import Result
from memorisk.report.verdict_forms import FORMS, verdict_form
from memorisk.runs.errors import InputError
from tests.audits.release.conftest import rewritten
from tests.audits.synthesize.conftest import N, run
from tests.audits.synthesize.making import HERE, OF
from tests.commands import refusal

HOW = {"generator": f"{HERE}:copying", "images": 4, "dry_run": True} | {k: OF[k] for k in ("detector", "families")}


@pytest.fixture(scope="module")
def mixed(place: Path) -> Path:
    """Training images, and a generated set two folders below."""
    shutil.copytree(place / "train", place / "mixed")
    memorisk.generate(f"{HERE}:copying", place / "mixed" / "more" / "drawn", images=3)
    return place / "mixed"


def test_a_generated_set_is_refused_where_it_is_and_where_it_lies(mixed: Path, place: Path, capsys) -> None:
    for train in (mixed, mixed / "more", mixed / "more" / "drawn", mixed / "more" / "drawn" / "images"):
        with pytest.raises(InputError, match="drawn, which memorisk generate wrote"):
            synthesize(train, place / "no", calibration=place / "new", **HOW)
    with pytest.raises(InputError, match="the calibration images hold the folder"):
        synthesize(place / "train", place / "no", calibration=mixed / "more", **HOW)
    command = ["synthesize", mixed, place / "no", "--generator", f"{HERE}:copying", "--detector", "pixels"]
    assert "a generated image would count as a patient's" in refusal(capsys, *command, "--calibration", place / "new")
    assert not (place / "no").exists()


def test_a_table_that_names_a_generated_image_is_refused(mixed: Path, place: Path) -> None:
    files = ["train000_0.png", "train001_0.png", *(f"more/drawn/images/synthetic-{n:06d}.png" for n in range(2))]
    for rows, refused in ((files, True), (files[:2], False)):
        pd.DataFrame({"image": [f"i{n}" for n in range(len(rows))], "path": rows}).to_csv(
            mixed / "table.csv", index=False
        )
        if refused:
            with pytest.raises(InputError, match="memorisk generate wrote"):
                synthesize(mixed / "table.csv", place / "no", calibration=place / "new", **HOW)
        else:
            found = synthesize(mixed / "table.csv", place / "no", calibration=place / "new", **HOW)
            assert isinstance(found, SynthesizePlan)


def test_a_kept_set_is_refused(made: Result, place: Path) -> None:
    for train in (place / "out", place / "out" / "kept"):
        with pytest.raises(InputError, match="out, which memorisk synthesize wrote"):
            synthesize(train, place / "no", calibration=place / "new", **HOW)


def test_a_finished_loop_that_was_changed_is_not_given_out_again(made: Result, place: Path) -> None:
    table = place / "out" / "per_image.parquet"
    before = table.read_bytes()
    try:
        table.write_bytes(before + b" ")
        with pytest.raises(InputError, match=r"per_image\.parquet is not what the run wrote.* new --out"):
            run(place, "out", images=N)
        assert (place / "out" / "kept").is_dir()
    finally:
        table.write_bytes(before)


def test_a_finished_loop_writes_a_report_that_was_lost(made: Result, place: Path) -> None:
    report = place / "out" / "report.html"
    before = report.read_bytes()
    try:
        report.unlink()
        assert run(place, "out", images=N).verdict == made.verdict
        assert "After drawing again" in report.read_text()
    finally:
        report.write_bytes(before)


def test_a_finished_loop_of_another_form_is_refused(made: Result, place: Path) -> None:
    assert verdict_form(made.verdict) == FORMS["synthesize"]
    rewritten(place / "out", place / "earlier", verdict={"status": "pass", "schema": 2})
    with pytest.raises(InputError, match="verdict of synthesize of form 2"):
        run(place, "earlier", images=N)
