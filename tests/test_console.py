"""What the terminal shows, and what a log gets instead of a progress bar."""

from pathlib import Path

import pandas as pd
import pytest

from memorisk.cli.show import classifiers
from memorisk.cli.show import common as console
from memorisk.report.result import Result


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_now_and_then_and_a_short_command_none(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with console.progress_bar() as progress:
        progress("training", 0, 8)
        clock[0] += console.LOG_SECONDS / 2
        progress("training", 1, 8)
        assert capsys.readouterr().err == ""
        clock[0] += console.LOG_SECONDS
        progress("training\nup", 1200, 8000)
        progress("training", 1201, 8000)
        clock[0] += console.LOG_SECONDS
        progress("scoring", 0, 0)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(r"training\nup 1,200/8,000")
    assert second.endswith("scoring")


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
    classifiers.show_result(result, Path("runs"), as_json=False)
    shown = capsys.readouterr().out
    assert "loss threshold 0.61 (0.55 to 0.67), lira offline 0.70 (unknown to unknown)" in shown


def test_a_class_without_room_for_a_single_patient_is_not_tested(capsys: pytest.CaptureFixture[str]) -> None:
    """A 0 would read as one that was looked for and not found."""
    table = {"label": list("abc"), "n": 9, "frequency": 0.3, "n_scored": 9, "mean": 0.1, "low": 0.0, "high": 0.2}
    table |= {"flagged": [0, 0, 2], "testable": [True, True, True], "tier": "LOW", "room": [8.0, 1.9, 1.9]}
    result = Result(verdict={"status": "undecided", "why": ["x"]}, per_class=pd.DataFrame(table))
    classifiers.show_result(result, Path("runs"), as_json=False)
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
        classifiers.show_result(result, Path("runs"), as_json=False)
        told = "Note: The list that is shown was asked for at level 0.001 and holds 0 patients; the verdict rests on"
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
    classifiers.show_result(result, Path("runs"), as_json=False)
    shown = capsys.readouterr().out
    assert "nan" not in shown
    assert "difference unknown, 95 % interval unknown, which chance may explain" in shown
    assert (console.signed(-0.125, 3), console.limits(-0.1, 0.2)) == ("-0.125", "-0.10 to +0.20")
    assert console.limits(nan, 0.2) == "unknown to +0.20"


@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_images_that_every_model_saw_are_told_with_the_verdict(capsys: pytest.CaptureFixture[str], status: str) -> None:
    for n in (1400, 0):
        result = Result(
            verdict={"status": status, "why": ["x"]},
            summary={"n_train": n},
            per_class=pd.DataFrame(columns=["label", "frequency"]),
        )
        classifiers.show_result(result, Path("runs"), as_json=False)
        told = "Note: 1,400 images that every model was trained on are not scored"
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
        classifiers.show_result(result, Path("runs"), as_json=False)
        shown[status] = capsys.readouterr().out
    told = shown["undecided"]
    assert told.index("COULD NOT") < told.index(words) < told.index("a reason") < told.index("What would decide it")
    told = shown["fail"]
    assert told.index("NOT READY") < told.index("a reason") < told.index(f"may be remembered, too: {words}")
    assert told.index(words) < told.index("What would settle open questions")
    assert words not in shown["pass"]  # whose reasons say it
