"""The benchmark of re-identification as it is run: planned, killed, resumed, grown, refused; what its tables say."""

import inspect
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import memorisk
from memorisk.runs.errors import InputError
from memorisk.studies.pairs import cells
from memorisk.studies.pairs.detectors import read_detector
from memorisk.studies.pairs.division import TEST
from memorisk.studies.pairs.reid import benchmark_reid, plan_reid
from memorisk.studies.pairs.results import PairBenchmark
from memorisk.studies.pairs.similarity import open_similarity
from tests.commands import answer, environment, refusal
from tests.report.chromium import Chromium, find_chromium
from tests.studies.pairs.conftest import GROUPS, patients, settings, stored, two_sets

pytestmark = pytest.mark.usefixtures("drawn")

Run = tuple[Path, PairBenchmark]


def written(folder: Path) -> dict[str, bytes]:
    """Every file but those that hold times or the folder's own name."""
    left_out = {"log.jsonl", ".lock", "config.yaml"}
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in left_out)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def row(frame: pd.DataFrame, **chosen: object) -> dict[str, Any]:
    """The one row with these values."""
    (found,) = [r for r in frame.to_dict("records") if all(r[k] == v for k, v in chosen.items())]
    return {str(k): v for k, v in found.items()}


def test_the_auc_is_that_of_all_pairs_with_every_patient_counting_one(people: Path, identified: Run) -> None:
    _, found = identified
    store, d = stored(people, **GROUPS), found.division
    rows = d.rows(TEST)
    groups = d.groups.astype(str)
    positive = [(i, j) for i in rows for j in rows if i < j and groups[i] == groups[j]]
    own = pd.Series([groups[i] for i, _ in positive])
    weight = 1 / own.map(own.value_counts()).to_numpy(dtype=float)
    x = store.images.reshape(len(store.images), -1).astype(float)
    first = np.array([-np.mean((x[i] - x[j]) ** 2) for i, j in positive])
    told = row(found.table("table_2").ours, detector="MSE")
    assert told["n_pairs"] == len(positive)
    mse = next(
        np.load(p) for p in (identified[0] / "cells").glob("*/scores.npz")
        if np.allclose(np.load(p)["test/0/positive"], first)
    )  # fmt: skip
    negative = mse["test/0/negative"]
    truth = np.repeat([1, 0], len(positive))
    expected = roc_auc_score(truth, np.r_[first, negative], sample_weight=np.tile(weight, 2))
    assert np.isclose(told["auc"], expected)
    assert told["auc_low"] < told["auc"] < told["auc_high"]
    alike = roc_auc_score(truth, np.r_[first, mse["test/0/negative_paper"]])
    assert np.isclose(told["auc_paper"], alike)
    at = np.sort(first)[int(np.floor(0.01 * len(first)))]
    assert told["specificity_paper"] == (mse["test/0/negative_paper"] < at).mean()
    assert "at the lowest positive" in told["at"]


def test_differences_are_those_of_the_aucs(identified: Run) -> None:
    _, found = identified
    assert found.reference == "MSE"
    main, apart = found.table("table_2").ours, found.table("differences").ours
    assert len(apart) == len(found.board) - 1
    for told in apart.to_dict("records"):
        a, b = (row(main, detector=name)["auc"] for name in (told["first"], "MSE"))
        assert np.isclose(told["difference"], a - b)
        assert told["difference_low"] <= told["difference"] <= told["difference_high"]


def test_decisions_are_of_detectors_with_a_head(identified: Run) -> None:
    _, found = identified
    table = found.table("table_4")
    assert set(table.ours["detector"]) == {"Siamese"}
    told = row(table.ours, form="every pair alike")
    confusion = told["recall"], told["precision"]
    assert np.isclose(told["f1"], 2 * confusion[0] * confusion[1] / sum(confusion))
    (printed,) = table.paper.to_dict("records")
    assert list(printed)[1:5] == ["Backbone", "Augmentation", "α", "Latent"]
    assert [printed[name] for name in list(printed)[1:5]] == ["small_cnn", "SWN", "0.8", "No"]
    assert list(printed)[5:] == ["Accuracy", "F1-Score", "Precision", "Recall", "AUC"]


def test_false_matches_are_counted_one_against_all(people: Path, headed: Path, identified: Run) -> None:
    _, found = identified
    matches = found.table("false_matches").ours
    assert "SSIM" not in set(matches["detector"])
    assert "Not of SSIM" in found.table("false_matches").note
    told = row(matches, detector="Siamese", at="P = 0.5")
    store, rows = stored(people, **GROUPS), found.division.rows(TEST)
    judge = open_similarity(read_detector(str(headed)), store, rows, size=None, precision="auto", device="cpu")
    groups = found.division.groups[rows].astype(str)
    hit = [any(judge.scores(np.array([i]), np.array([j]))[0] >= 0 for j in rows[groups != g])
           for i, g in zip(rows, groups, strict=True)]  # fmt: skip
    assert told["n_matched"] == sum(hit)
    assert told["n_images"] == len(rows)
    assert np.isclose(told["matched"], pd.Series(hit, dtype=float).groupby(groups).mean().mean())


def test_figure_6_holds_all_pairs(identified: Run) -> None:
    _, found = identified
    frame, d = found.figures["figure_6"], found.division
    groups = d.groups[d.rows(TEST)].astype(str)
    _, sizes = np.unique(groups, return_counts=True)
    same = int((sizes * (sizes - 1) // 2).sum())
    every = len(groups) * (len(groups) - 1) // 2
    for _, own in frame.groupby("detector"):
        assert own["same"].sum() == same
        assert own["different"].sum() + own["different_below"].sum() == every - same


def test_the_folder_is_private_and_the_page_holds_neither_picture_nor_id(identified: Run) -> None:
    out, _ = identified
    for path in (out, *out.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    page = (out / "report.html").read_text()
    assert "data:image" not in page
    assert "p001" not in page + (out / "tables" / "tables.md").read_text()
    assert list(pd.read_parquet(out / "split.parquet").columns) == ["image", "dataset", "patient", "part"]


def test_going_on_computes_nothing_again_and_writes_the_same(people: Path, headed: Path, identified: Run) -> None:
    out, _ = identified
    before, times = written(out), {p: p.stat().st_mtime_ns for p in (out / "cells").rglob("*")}
    benchmark_reid(people, out=out, **settings(headed))
    assert written(out) == before
    assert {p: p.stat().st_mtime_ns for p in (out / "cells").rglob("*")} == times
    plan = plan_reid(people, out=out, **settings(headed))
    assert all(plan.cells.values())
    assert plan.cost.images_passed == plan.cost.pairs == 0


KILLED = """
import sys
from memorisk.studies.engine import cells
from memorisk.studies.pairs.reid import benchmark_reid
write = cells.write_result
def told(path, arrays):
    write(path, arrays)
    if len(done) == 2:
        print("wrote", flush=True)
        sys.stdin.read()
    done.append(path)
done = []
cells.write_result = told
benchmark_reid(sys.argv[1], out=sys.argv[2], group_from=r"(p\\d+)_", detectors=("mse", "ncc", "pixels:4"))
"""


@pytest.mark.thorough
def test_a_killed_benchmark_goes_on_to_the_same_bytes(people: Path, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    env = environment(Path(os.environ["MEMORISK_CACHE"]))
    command = [sys.executable, "-c", KILLED, str(people), str(killed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"wrote\n"
        process.send_signal(signal.SIGKILL)
    told = {**GROUPS, "detectors": ("mse", "ncc", "pixels:4")}
    assert plan_reid(people, out=killed, **told).cells == {"MSE": True, "NCC": False, "pixels:4": False}
    for out in (killed, whole):
        benchmark_reid(people, out=out, **told)
    assert written(killed) == written(whole)


def test_more_detectors_join_and_a_failed_one_costs_nobody_else(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    benchmark_reid(people, out=out, detectors=("mse",), **GROUPS)
    opened = cells.open_similarity

    def broken(contender: Any, *args: Any, **how: Any) -> Any:
        if contender.name == "NCC":
            raise InputError("its features are not finite")
        return opened(contender, *args, **how)

    monkeypatch.setattr(cells, "open_similarity", broken)
    told = {"detectors": ("mse", "ncc", "pixels:4"), **GROUPS}
    found = benchmark_reid(people, out=out, **told)
    assert found.failed == {"NCC": "its features are not finite"}
    assert set(found.board["detector"]) == {"MSE", "pixels:4"}
    assert row(found.table("detectors").ours, detector="NCC")["state"] == "failed"
    monkeypatch.undo()
    assert benchmark_reid(people, out=out, **told).complete


def test_several_data_sets_are_macro_averaged(tmp_path: Path) -> None:
    told = {"group_column": "group", "dataset_column": "dataset", "detectors": ("mse", "ncc")}
    table = two_sets(tmp_path)
    frame = pd.read_csv(table)
    frame.loc[frame["dataset"] == "skin", "group"] = (np.arange(24) // 2).astype(str)
    frame.to_csv(table, index=False)
    found = benchmark_reid(table, out=tmp_path / "run", **told)
    main = found.table("table_2").ours
    for name in ("MSE", "NCC"):
        by = {s: row(main, detector=name, dataset=s) for s in ("chest", "skin", "Macro average")}
        for column in ("auc", "auc_paper", "specificity"):
            assert np.isclose(by["Macro average"][column], (by["chest"][column] + by["skin"][column]) / 2)
    paper = found.table("table_2").paper
    assert list(paper.columns)[2:4] == ["chest AUC", "chest Specificity"]
    assert list(paper.columns)[-2:] == ["Macro Avg. AUC", "Macro Avg. Specificity"]


def test_the_papers_way_of_counting_may_come_first(people: Path, tmp_path: Path) -> None:
    told = {"detectors": ("mse", "ncc", "pixels:2"), **GROUPS}
    found = benchmark_reid(people, out=tmp_path / "run", protocol="paper", **told)
    assert found.board["auc_paper"].is_monotonic_decreasing
    shown = (tmp_path / "run" / "tables" / "tables.md").read_text().partition("| Detector |")[2]
    assert shown.index("AUC, every pair alike") < shown.index("AUC [95 %]")
    other = benchmark_reid(people, out=tmp_path / "run", **told)
    assert other.board["auc"].is_monotonic_decreasing
    columns = ["detector", "auc", "auc_paper", "specificity_paper"]
    assert (
        other.board[columns]
        .sort_values("detector")
        .reset_index(drop=True)
        .equals(found.board[columns].sort_values("detector").reset_index(drop=True))
    )


def test_what_cannot_be_run_is_refused_with_nothing_written(
    people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    single = patients(tmp_path / "single", [1] * 12)
    command = ("bench", "reid", people, "--out", out, "--group-from", r"(p\d+)_")
    assert "no test patient has two different images" in refusal(capsys, "bench", "reid", single, "--out", out)
    assert "Did you mean 'table2'" in refusal(capsys, *command, "--baselines", "table3").replace('"', "'")
    assert "validation-share" in refusal(capsys, *command, "--validation-share", "1")
    assert "does not exist" in refusal(capsys, *command, "--detectors", "detector:nowhere")
    assert "never run" in refusal(capsys, *command, "--tables-only")
    assert "no finished run of bench copies" in refusal(capsys, *command, "--copies", tmp_path)
    assert not out.exists()
    benchmark_reid(people, out=out, detectors=("mse",), **GROUPS)
    assert "seed" in refusal(capsys, *command, "--detectors", "mse", "--seed", "1")
    with pytest.raises(InputError, match="unknown setting 'detector'"):
        benchmark_reid(people, out=out, detector="mse")


def test_the_command_plans_prints_and_answers(
    people: Path, headed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = ("bench", "reid", people, "--out", out, "--group-from", r"(p\d+)_", "--detectors", "mse", f"{headed}=Own")
    code, planned, _ = answer(capsys, *command, "--baselines", "table2", "--dry-run")
    assert code == 0
    assert "not at hand: BYOL: give --detectors resnet50@FILE=BYOL" in planned
    assert "to run  Random" in planned
    assert not out.exists()
    code, printed, _ = answer(capsys, *command, "--print-config")
    (tmp_path / "c.yaml").write_text(printed.replace(str(out), str(tmp_path / "again")))
    code, shown, _ = answer(capsys, *command)
    assert code == 0
    assert "## Leaderboard" in shown
    code, again, _ = answer(capsys, "bench", "reid", "--config", tmp_path / "c.yaml", "--json")
    told = json.loads(again)
    assert code == 0
    assert [r["detector"] for r in told["leaderboard"]] == list(
        pd.read_parquet(out / "tables" / "leaderboard.parquet")["detector"]
    )
    assert told["reference"] == "MSE"
    assert inspect.unwrap(memorisk.benchmark_reid) is inspect.unwrap(benchmark_reid)


def test_names_are_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "<b>|\u202e*evil*\x1b[31m"
    frame = pd.read_csv(two_sets(tmp_path)).assign(dataset=name)
    frame.to_csv(tmp_path / "table.csv", index=False)
    columns = ("--group-column", "group", "--dataset-column", "dataset")
    command = ("bench", "reid", tmp_path / "table.csv", "--out", tmp_path / "run", *columns)
    command = (*command, "--detectors", "mse=<i>", "ncc")
    for told in ((*command, "--dry-run"), command):
        code, shown, _ = answer(capsys, *told)
        assert code == 0
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    page = (tmp_path / "run" / "report.html").read_text()
    text = (tmp_path / "run" / "tables" / "tables.md").read_text()
    for written_out in (page, text.replace("\\<", "")):  # in Markdown a backslash takes its meaning
        assert "\u202e" not in written_out
        assert "<i>" not in written_out
        assert "<b>|" not in written_out


@pytest.mark.parametrize("width", [320, 1280])
def test_the_page_in_a_browser(identified: Run, width: int) -> None:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    page = identified[0] / "report.html"
    with Chromium(path) as browser:
        browser.open(page, width=width)
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
        assert browser.requests() == [page.resolve().as_uri()]
        assert browser.evaluate("document.querySelectorAll('figure.drawing').length") == 1 + 4  # all but SSIM
