"""The benchmark as it is run: planned, killed, resumed, grown, refused; what fails is told and costs nobody else."""

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file

import memorisk
from memorisk.runs.errors import InputError
from memorisk.runs.workload import no_progress
from memorisk.studies.detectors import cells
from memorisk.studies.detectors.benchmark import benchmark_detectors, plan_benchmark
from memorisk.studies.detectors.cells import CellJob, run_cell
from memorisk.studies.detectors.pools import CopyRows, make_copies
from memorisk.studies.detectors.results import Benchmark
from tests.commands import answer, environment, refusal
from tests.report.chromium import Chromium, find_chromium
from tests.studies.detectors.conftest import SETTINGS, patients

pytestmark = pytest.mark.usefixtures("drawn")

LITTLE: dict[str, Any] = {
    "sample": 200, "backbones": ("pixels", "pca:4"), "measures": ("cosine", "euclidean"), "strengths": ("weak",),
    "specificity": 0.8,
}  # fmt: skip


def written(folder: Path) -> dict[str, bytes]:
    """Every file but those that hold times or the folder's own name."""
    left_out = {"log.jsonl", ".lock", "config.yaml"}
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in left_out)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def test_it_measures_what_the_plan_counts(benched: tuple[Path, Benchmark], tmp_path: Path) -> None:
    out, found = benched
    plan = plan_benchmark("digits", out=tmp_path / "new", **SETTINGS)
    assert not (tmp_path / "new").exists()
    assert len(plan.cells) == 8  # 1 + 1 + 2 + 2 + 2
    assert len(list((out / "cells").iterdir())) == 6  # the same network under two names is measured once
    assert not any(plan.cells.values())
    assert plan.cost.trainings == plan.cost.images_trained == 0
    assert plan.cost.images_passed == 4 * (400 + 2 * (200 + 60 + 60))  # of networks; pixels and PCA pass none
    corrected = 60 * (2 * 40 + 40) + 2 * 3 * 60**2
    published = 200 * 60 + 80 * (200 + 60) + 2 * (200**2 + 60**2)
    assert plan.cost.pairs == 6 * 3 * (corrected + published)
    again = plan_benchmark("digits", out=out, **SETTINGS)
    assert all(again.cells.values())
    assert (again.cost.images_passed, again.cost.pairs) == (0, 0)
    assert found.complete


def test_the_folder_is_private_and_holds_no_picture(benched: tuple[Path, Benchmark]) -> None:
    out, _ = benched
    for path in (out, *out.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert not (out / "copies").exists()
    assert "data:image" not in (out / "report.html").read_text()
    assert not list(out.rglob("*.npy"))


def test_going_on_computes_nothing_again_and_writes_the_same(benched: tuple[Path, Benchmark]) -> None:
    out, _ = benched
    before, times = written(out), {p: p.stat().st_mtime_ns for p in (out / "cells").rglob("*")}
    benchmark_detectors("digits", out=out, **SETTINGS)
    assert written(out) == before
    assert {p: p.stat().st_mtime_ns for p in (out / "cells").rglob("*")} == times


KILLED = """
import sys
from memorisk.studies.detectors import benchmark
from memorisk.studies.engine import cells
from tests.studies.detectors.test_benchmark import LITTLE
write = cells.write_result
def told(path, arrays):
    write(path, arrays)
    print("wrote", flush=True)
    if path.parent.name in done and len(done) == 2:
        sys.stdin.read()
    done.add(path.parent.name)
done = set()
cells.write_result = told
benchmark.benchmark_detectors("digits", out=sys.argv[1], **LITTLE)
"""


@pytest.mark.thorough
def test_a_killed_benchmark_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(killed)]
    env = environment(Path(os.environ["MEMORISK_CACHE"]))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        for _ in range(3):  # the second cell has one measure of two
            assert child.stdout.readline() == "wrote\n"
        os.kill(child.pid, signal.SIGKILL)
    assert (killed / "copies").is_dir()
    assert sorted(len(list(cell.glob("*.npz"))) for cell in (killed / "cells").iterdir()) in ([1, 2], [2, 2])
    kept = {p: p.stat().st_mtime_ns for p in (killed / "cells").rglob("*.npz")}
    benchmark_detectors("digits", out=killed, **LITTLE)
    benchmark_detectors("digits", out=whole, **LITTLE)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert written(killed) == written(whole)


@pytest.mark.parametrize("error", [MemoryError("no room"), torch.OutOfMemoryError("no room"), ValueError("a defect")])
def test_whatever_breaks_a_cell_breaks_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    embed = cells.embed

    def breaks(job: CellJob) -> Any:
        if job.cell.backbone.text == "pixels":
            raise error
        return embed(job)

    monkeypatch.setattr(cells, "embed", breaks)
    settings = LITTLE | {"measures": ("cosine",)}
    found = benchmark_detectors("digits", out=tmp_path / "b", **settings)
    assert list(found.failed) == ["pixels (untrained), seed 0"]
    assert str(error) in found.failed["pixels (untrained), seed 0"]
    assert found.board.rows["name"].tolist() == ["pca:4 (untrained)"]
    assert (tmp_path / "b" / "copies").is_dir()  # for the next try
    monkeypatch.undo()
    assert benchmark_detectors("digits", out=tmp_path / "b", **settings).complete
    assert not (tmp_path / "b" / "copies").exists()


def test_a_cell_runs_in_another_process(benched: tuple[Path, Benchmark], tmp_path: Path) -> None:
    """It goes there without its pixels, and leaves the same bytes."""
    job = benched[1].detectors[0].measured[0].job
    sent = pickle.dumps(replace(job, out=tmp_path, copied={}))
    assert len(sent) < 100_000
    again = replace(pickle.loads(sent), copied=_copies_again(job, tmp_path))
    run_cell(again)
    for file in job.folder.iterdir():
        assert (again.folder / file.name).read_bytes() == file.read_bytes()


def _copies_again(job: CellJob, out: Path) -> dict[str, CopyRows]:
    rows = job.division.copied
    return {s: make_copies(out, job.store(), rows, s, seed=0, progress=no_progress) for s in job.options.strengths}


def test_what_is_added_adds_only_its_own(tmp_path: Path) -> None:
    out = tmp_path / "b"
    benchmark_detectors("digits", out=out, **LITTLE)
    times = {p: p.stat().st_mtime_ns for p in (out / "cells").rglob("*.npz")}
    more = LITTLE | {"backbones": ("pixels", "pca:4", "mlp1@none"), "measures": ("cosine", "euclidean", "cityblock")}
    found = benchmark_detectors("digits", out=out, **more)
    assert {p: p.stat().st_mtime_ns for p in times} == times
    assert len(list((out / "cells").rglob("*.npz"))) == 9
    assert len(found.board.rows) == 3


@pytest.mark.parametrize(
    "change", [{"split_seed": 1}, {"shares": (0.4, 0.2, 0.2, 0.2)}, {"strengths": ("strong",)}, {"sample": 210}]
)
def test_other_patients_in_the_same_folder_are_refused(tmp_path: Path, change: dict) -> None:
    out = tmp_path / "b"
    benchmark_detectors("digits", out=out, **LITTLE | {"backbones": ("pixels",), "measures": ("cosine",)})
    before = written(out)
    with pytest.raises(InputError, match="holds a run "):
        benchmark_detectors("digits", out=out, **LITTLE | change)
    assert written(out) == before


def test_a_backbone_that_fails_is_told_and_costs_the_others_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, lost = tmp_path / "bad.safetensors", tmp_path / "lost.safetensors"
    save_file({"unknown": np.zeros(3, np.float32)}, bad)
    model = memorisk.create_model("mlp1", num_classes=2, in_chans=3, image_size=8, seed=0)
    state = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    state[next(k for k in state if k.endswith("weight"))][:] = np.nan
    save_file(state, lost)
    keras = tmp_path / "keras.h5"
    keras.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    out = tmp_path / "b"
    given = ("bench", "detectors", "digits", "--sample", 200, "--measures", "euclidean", "--strengths", "weak",
             "--specificity", 0.8, "--out", out, "--backbones", f"mlp1@{bad}", "pixels", f"mlp1@{lost}")  # fmt: skip
    code, planned, _ = answer(capsys, *given, f"mlp1@{keras}", "--dry-run")
    assert (code, out.exists(), planned.count("would fail: ")) == (3, False, 1)
    assert "would fail: mlp1, keras: weights file keras.h5 is HDF5" in planned
    code, printed, _ = answer(capsys, *given)
    assert code == 3
    assert "failed: mlp1 (bad, untrained), seed 0: " in printed
    told = pd.read_parquet(out / "tables" / "cells_ours.parquet").set_index("detector")
    assert told["state"].tolist() == ["failed", "measured", "failed"]
    assert "not finite" in told.loc["mlp1 (lost, untrained), seed 0", "notes"]
    board = pd.read_parquet(out / "tables" / "leaderboard.parquet")
    assert board["name"].tolist() == ["pixels (untrained)"]
    page = (out / "report.html").read_text()
    assert "Not everything is finished" in page
    assert "pixels (untrained)" in page
    code, printed, _ = answer(capsys, *given, "--tables-only")
    assert (code, "failed: mlp1 (lost" in printed) == (3, True)


def test_tables_only_computes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="never run"):
        benchmark_detectors("digits", out=tmp_path / "none", tables_only=True, **LITTLE)
    out = tmp_path / "b"
    benchmark_detectors("digits", out=out, **LITTLE)
    more = LITTLE | {"backbones": ("pixels", "pca:4", "mlp1@none"), "specificity": 0.9}
    found = benchmark_detectors("digits", out=out, tables_only=True, **more)
    assert list(found.failed.values()) == ["not run"]
    assert len(found.detectors) == 2
    assert found.detectors[0].measured[0].pools["test"].detection.threshold.level == 0.9  # read anew, not computed anew
    for file in (out / "cells").rglob("*.npz"):
        file.unlink()
    found = benchmark_detectors("digits", out=out, tables_only=True, **LITTLE)
    assert (len(found.failed), len(found.board.rows)) == (2, 0)
    assert "No detector was measured" in (out / "report.html").read_text()
    assert not list((out / "cells").rglob("*.npz"))


def test_patients_are_the_units(tmp_path: Path) -> None:
    folder = patients(tmp_path / "set", blank=2)
    settings = LITTLE | {"sample": None, "group_from": r"(p\d+)_", "shares": (0.4, 0.2, 0.2, 0.2)}
    found = benchmark_detectors(folder, out=tmp_path / "b", **settings)
    row = found.board.rows.to_dict("records")[0]
    assert row["n_patients"] < row["n_copies"]
    assert (found.parts.part == "").any()
    assert found.groups_given
    rate = found.detectors[0].rate(row["measure"], "weak", "test")
    assert rate.trials == row["n_patients"]
    page = (tmp_path / "b" / "report.html").read_text()
    assert "images of one grey level are left out" in page
    assert "p089" not in page


def test_two_backbones_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two backbones would be called"):
        benchmark_detectors("digits", out=tmp_path / "b", **LITTLE | {"backbones": ("mlp1@none=x", "mlp1@none=x ")})
    assert not (tmp_path / "b").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, file = tmp_path / "b", tmp_path / "bench.yaml"
    given = ("bench", "detectors", "digits", "--out", out, "--sample", 200, "--backbones", "pixels", "pca:4")
    code, printed, _ = answer(capsys, *given, "--specificity", 0.8, "--measures", "cosine", "--print-config")
    assert code == 0
    file.write_text(printed)
    run = ("bench", "detectors", "--config", file, "--strengths", "weak")
    code, planned, _ = answer(capsys, *run, "--dry-run")
    assert (code, out.exists()) == (0, False)
    assert "to run  pca:4 (untrained), seed 0" in planned
    assert "pairs of images compared" in planned
    assert "trainings" not in planned
    code, printed, _ = answer(capsys, *run)
    assert (code, "## Leaderboard" in printed) == (0, True)
    assert "Table 1" not in printed
    tables = out / "tables" / "tables.md"
    assert f"all tables: {tables}" in printed
    assert "## Table 1. Best combinations for each network" in tables.read_text()
    code, printed, _ = answer(capsys, *run, "--json")
    told = json.loads(printed)
    assert {row["name"] for row in told["leaderboard"]} == {"pixels (untrained)", "pca:4 (untrained)"}
    assert set(told["tied"]) <= {row["name"] for row in told["leaderboard"]}
    assert told["chosen"] == (told["tied"][0] if len(told["tied"]) == 1 else None)
    said = refusal(capsys, *run, "--network-size", 0, "--out", tmp_path / "other")
    assert "--network-size is 0" in said
    assert not (tmp_path / "other").exists()


def test_the_papers_tables_have_its_columns(benched: tuple[Path, Benchmark]) -> None:
    tables = {t.name: t for t in benched[1].tables}
    assert list(tables["table_1"].paper) == ["Model", "Pretraining", "Loss", "Val. Detection", "Metric"]
    assert list(tables["table_4"].paper) == ["Model 1", "Model 2", "p-value", "Model 1 Mean", "Model 2 Mean"]
    best = tables["table_1"].paper["Val. Detection"].astype(float)
    assert best.is_monotonic_decreasing
    assert "no backbone was trained with both losses" in tables["table_3"].why_empty
    measures = tables["measures_none"].ours
    assert len(measures) == 3
    assert measures["chosen"].sum() == 1
    assert measures.loc[measures["chosen"], "difference"].isna().all()


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 1280])
def test_the_page_in_a_browser(benched: tuple[Path, Benchmark], width: int) -> None:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    page = benched[0] / "report.html"
    with Chromium(path) as browser:
        browser.open(page, width=width)
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
        assert browser.requests() == [page.resolve().as_uri()]
        assert browser.evaluate("document.querySelectorAll('figure.drawing').length") == 1 + 2
