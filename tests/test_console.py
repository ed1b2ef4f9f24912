"""What the terminal shows, and what a log gets instead of a progress bar."""

import re
import time
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

import memorisk
from memorisk.cli.show import common as console
from memorisk.cli.show.generators import show_generator
from memorisk.cli.show.runs import print_table, show_outcome, show_screen
from memorisk.report.blocks import Table, estimate, words
from memorisk.report.first_screen import MOST_SENTENCES, FirstScreen
from memorisk.report.result import Result
from memorisk.runs.steps import StepCount
from memorisk.runs.workload import Opening, Progress, no_progress


def waited(capsys: pytest.CaptureFixture[str], *wanted: str) -> str:
    """What stands on standard error once everything wanted does."""
    seen, until = "", time.monotonic() + 60
    while not all(text in seen for text in wanted):
        assert time.monotonic() < until, seen
        time.sleep(0.02)
        seen += capsys.readouterr().err
    return seen


def test_a_log_gets_a_line_now_and_then_and_a_short_command_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with console.progress_bar() as progress:
        progress("training", 0, 8)
        progress("training", 1, 8)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "LOG_SECONDS", 0.05)
    with console.progress_bar() as progress:
        progress("training\nup", 1200, 8000)
        assert re.search(r"\d\d:\d\d:\d\d training.nup 1,200/8,000\n", waited(capsys, r"training\nup"))
        progress("training\nup", StepCount(4000, images=64, loss=0.25), 8000)
        told = waited(capsys, "4,000/8,000, loss 0.25", "images/s", "left")  # also while nothing more is reported
        assert "training" in told
        progress("scoring", 0, 0)
        waited(capsys, " scoring\n")


def test_an_opening_stays_in_a_terminal_and_begins_the_log_of_a_long_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = Opening("models: 16\ncould pass: no")
    with console.progress_bar() as progress:
        progress(opening, 0, 0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "LOG_SECONDS", 0.05)
    with console.progress_bar() as progress:
        progress("decoding", 0, 8)
        progress(opening, 0, 0)
        told = waited(capsys, " models: 16\ncould pass: no\n", " decoding 0/8\n")
    assert (told + capsys.readouterr().err).count("models: 16") == 1
    written = StringIO()
    monkeypatch.setattr(console, "Console", lambda stderr: Console(file=written, force_terminal=True, width=60))
    with console.progress_bar() as progress:
        progress(opening, 0, 0)
        assert [task.description for task in progress.bar.tasks] == []  # type: ignore[attr-defined]
    assert "models: 16\ncould pass: no\n" in written.getvalue()


def test_a_stage_closes_where_the_next_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    monkeypatch.setattr(console, "Console", lambda stderr: Console(file=written, force_terminal=True, width=120))
    with console.progress_bar() as progress:
        progress("reading", 0, 0)
        progress("training", StepCount(3, images=0, loss=None), 8)
        progress("training", StepCount(4, images=640, loss=0.5), 8)
        progress("scoring", 0, 0)
        bar = progress.bar  # type: ignore[attr-defined]
        assert [(t.description, t.finished) for t in bar.tasks] == [
            ("reading", True), ("training", True), ("scoring", False),
        ]  # fmt: skip
        assert bar.tasks[1].fields["details"].startswith("loss 0.5, ")
        assert bar.tasks[1].fields["details"].endswith(" images/s")


def test_the_very_models_attacks_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    classes = pd.DataFrame(
        {"label": ["a"], "n": [10], "frequency": [1.0], "n_scored": [9], "mean": [0.1], "low": [0.0], "high": [0.2]}
        | {"flagged": [0], "testable": [True], "tier": ["low"]}
    )
    attacks = {
        "loss_threshold": {"auc": 0.613, "low": 0.55, "high": 0.671},
        "lira_offline": {"auc": 0.7, "low": float("nan"), "high": None},
    }
    result = Result(
        verdict={"status": "undecided", "why": ["x"]},
        summary={"target": {"attacks": attacks}},
        per_class=classes,
    )
    show_outcome(result, "classifier", Path("runs"), as_json=False)
    shown = capsys.readouterr().out
    assert "0.613 [0.550, 0.671]" in shown
    assert re.search(r"LiRA \(offline\) +0\.700  ", shown)  # without an interval that is not known


def test_a_class_without_room_for_a_single_patient_is_not_tested(capsys: pytest.CaptureFixture[str]) -> None:
    """A 0 would read as one that was looked for and not found."""
    table = {"label": list("abc"), "n": 9, "frequency": 0.3, "n_scored": 9, "mean": 0.1, "low": 0.0, "high": 0.2}
    table |= {"flagged": [0, 0, 2], "testable": [True, True, True], "tier": "LOW", "room": [8.0, 1.9, 1.9]}
    result = Result(verdict={"status": "undecided", "why": ["x"]}, per_class=pd.DataFrame(table))
    show_outcome(result, "classifier", Path("runs"), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split()[0]: line for line in lines[1:4]}
    assert ["not tested" in shown[name] for name in "abc"] == [False, True, False]
    assert "  a single patient can go unnoticed in 2 classes: b, c" in lines


def test_a_list_at_another_level_is_told_with_both_counts(capsys: pytest.CaptureFixture[str]) -> None:
    table = {"label": ["a"], "n": 9, "frequency": 1.0, "n_scored": 9, "mean": 0.1, "low": 0.0, "high": 0.2}
    table |= {"flagged": 0, "verdict_flagged": 3, "testable": True, "tier": "LOW"}
    for level, there in ((0.001, True), (0.1, False)):
        summary = {"level_q": level, "correction": "bh", "groups_given": True}
        result = Result(verdict={"status": "fail", "why": ["x"]}, summary=summary, per_class=pd.DataFrame(table))
        show_outcome(result, "classifier", Path("runs"), as_json=False)
        told = "Note: The list that is shown, at level 0.001, holds 0 patients; the verdict rests on"
        assert (told in (shown := capsys.readouterr().out)) == there
        assert ("which holds 3 patients." in shown) == there


def test_what_is_missing_is_called_unknown_and_never_nan(capsys: pytest.CaptureFixture[str]) -> None:
    nan = float("nan")
    table = {"label": ["a", "b"], "n": 9, "frequency": 0.5, "n_scored": 0, "mean": [0.1, nan], "low": nan, "high": nan}
    table |= {"flagged": 0, "testable": False, "tier": "LOW"}
    pair = {"label_rarest": "b", "label_top": "a", "n_rarest": 9, "n_top": 9, "mean_rarest": nan, "mean_top": 0.1}
    result = Result(
        verdict={"status": "undecided", "why": ["x"]},
        summary={"rarest_vs_top": pair | {"difference": nan, "low": nan, "high": None}},
        per_class=pd.DataFrame(table),
    )
    show_outcome(result, "classifier", Path("runs"), as_json=False)
    shown = capsys.readouterr().out
    assert "nan" not in shown
    assert "Note: The rarest class, b (9 images), is not the most memorized; a (9 images, mean M 0.100)" in shown
    assert (console.signed(-0.125, 3), console.signed(nan)) == ("-0.125", "unknown")


@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_images_that_every_model_saw_are_told_with_the_verdict(capsys: pytest.CaptureFixture[str], status: str) -> None:
    for n in (1400, 0):
        result = Result(
            verdict={"status": status, "why": ["x"]},
            summary={"n_train": n},
            per_class=pd.DataFrame(columns=["label", "frequency"]),
        )
        show_outcome(result, "classifier", Path("runs"), as_json=False)
        told = "1,400 images that every model was trained on are not scored"
        assert (told in capsys.readouterr().out) == (n > 0)


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (
            1.414,
            "a single patient with a gap of 1.4 nats or more would have been noticed in at least four of five cases",
        ),
        (None, "in class a a single patient can go unnoticed, even if strongly remembered"),
    ],
)
def test_what_would_have_been_noticed_is_shown_beside_the_reasons(
    capsys: pytest.CaptureFixture[str], gap: float | None, words: str
) -> None:
    found = {"gap": gap, "label": "a", "power": 0.83, "low": 0.79, "high": 0.86, "notice": 2.0}
    shown = {}
    for status in ("pass", "fail", "undecided"):
        result = Result(
            verdict={"status": status, "why": ["a reason"], "what_would_decide": ["a way"] * (status != "pass")},
            summary={"noticeable": found},
            per_class=pd.DataFrame(columns=["label", "frequency"]),
        )
        show_outcome(result, "classifier", Path("runs"), as_json=False)
        shown[status] = capsys.readouterr().out
    told = shown["undecided"]
    assert told.index("COULD NOT") < told.index("a reason") < told.index(words) < told.index("What would decide it")
    told = shown["fail"]
    assert told.index("NOT READY") < told.index("a reason") < told.index(f"may be remembered, too: {words}")
    assert told.index(words) < told.index("What would settle open questions")
    assert words not in shown["pass"]  # whose reasons say it


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_wraps_columns_and_cuts_none(width: int) -> None:
    label = "melanoma-of-the-skin-of-the-left-upper-arm-and-shoulder"
    table = console.plain_table(("class", "images", "95 % interval", "tier"), left=["tier"])
    for name in (label, "b"):
        table.add_row(name, "1,048", "+0.12 to +0.34", "insufficient evidence")
    written = StringIO()
    Console(file=written, width=width).print(table)
    shown = written.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    first = "".join(line[: shown.index("images")].split("  ")[0].strip() for line in shown.splitlines()[1:])
    assert first.replace(" ", "").startswith(label)
    assert "1,048" in shown
    assert "+0.34" in shown


def test_a_public_function_shows_its_progress_unless_it_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(wanted: str, progress: Progress = no_progress) -> str:
        progress("training", 2, 8)
        return waited(capsys, wanted) if wanted else ""

    monkeypatch.setattr(console, "LOG_SECONDS", 0.05)
    assert console.showing_progress(work)("training 2/8\n")
    written = StringIO()
    monkeypatch.setattr(console, "Console", lambda stderr: Console(file=written, force_terminal=True, width=120))
    console.showing_progress(work)("", progress=memorisk.no_progress)
    assert written.getvalue() == ""
    console.showing_progress(work)("")
    assert "2/8" in written.getvalue()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_with_many_columns_continues_below_and_breaks_no_number(width: int) -> None:
    values = {f"n{i}": [i / 10 + 0.023] for i in range(1, 10)}
    limits = {f"{name}_{side}": [value[0] + d] for name, value in values.items() for side, d in (("a", -1), ("b", 1))}
    frame = pd.DataFrame({"label": ["melanocytic naevus"], **values, **limits})
    numbers = [f"0.{i}23 [−0.{977 - 100 * i:03d}, 1.{i}23]" for i in range(1, 10)]
    columns = [estimate(name, f"Number {name}", low=f"{name}_a", high=f"{name}_b") for name in values]
    columns.insert(0, words("label", "Class", row=True))
    written = StringIO()
    print_table(Console(file=written, width=width), Table(frame=frame, columns=columns, caption="Nine."))
    shown = written.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert all(shown.count(text) == 1 for text in numbers)
    n_blocks = shown.count("Class")
    assert n_blocks == {60: 5, 80: 5, 120: 3}[width]
    assert shown.count("naevus") == n_blocks  # each block names its rows


def test_reasons_beyond_the_first_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    screen = FirstScreen(kind="note", headline="h", lists={"Why": [f"reason-{i}" for i in range(20)]})
    show_screen(screen, {}, tmp_path)
    shown = capsys.readouterr().out
    assert shown.count("reason-") == MOST_SENTENCES
    assert "14 more in the report" in shown
    show_screen(screen, {}, None)  # without a report all are printed
    assert capsys.readouterr().out.count("reason-") == 20


@pytest.mark.parametrize(("losses", "column", "dash"), [([1.0, None], True, True), ([None, None], False, False)])
def test_a_kind_without_a_held_out_loss_has_no_column_of_it(
    capsys: pytest.CaptureFixture[str], losses: list[float | None], column: bool, dash: bool
) -> None:
    history = [{"step": n, "loss": 0.5, "held_out_loss": loss} for n, loss in enumerate(losses, 1)]
    summary = {"history": history, "parts": {"training": {"images": 9}}, "passes": 1.0, "name": "gan", "notes": []}
    trained: Any = SimpleNamespace(summary=summary | {"parameters": 1, "steps": 2, "stopped": ""}, folder=Path("run"))
    show_generator(trained, as_json=False)
    shown = capsys.readouterr().out
    assert ("held-out loss" in shown, "\N{EN DASH}" in shown) == (column, dash)
