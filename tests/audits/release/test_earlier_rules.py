"""Verdicts of an earlier rule that may not stand: report, statement, gate and compare say so in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from memorisk.audits.classifier.comparison import compare
from memorisk.audits.feature.verdict import METHODS
from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement, write_statement
from memorisk.audits.rendering import load_result, render_again
from memorisk.report.earlier_verdicts import (
    AFRESH,
    AGAIN,
    EARLIER_FAILURE,
    EARLIER_GUARANTEE,
    EARLIER_PASS,
    FORMS,
    current_result,
    verdict_form,
)
from memorisk.report.result import Result
from tests.audits.release.conftest import restated, rewritten

REASON = "the reason of the earlier rule"
EARLIER = {
    "losses": {"rule": None},  # the form of a classifier's rule was not in its schema, which was 2 before
    "clean": {"schema": 1, "copied": 18},
    "filter": {"schema": 1},
    "feature": {"schema": None},
}
NEW = ("n_singled", "n_singled_patients", "n_listed_at_verdict", "fewest_copied", "held_out_for_kinds", "unlike_by")
"""What verdict and numbers of a set hold since the second form."""
BY_CONTROLS = {"schema": 1, "method": METHODS["controls"], "n_references": 0}


@pytest.mark.parametrize("kind", sorted(FORMS))
@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_only_what_an_earlier_rule_gave_is_told_otherwise(kind: str, status: str) -> None:
    audit = "classifier" if kind == "losses" else kind
    told = {"audit": audit, "status": status, "why": [REASON], "what_would_decide": [], "method": METHODS["controls"]}
    today = (
        told
        | {"schema": 2 if audit == "classifier" else FORMS[kind]}
        | ({"rule": {"form": FORMS[kind]}} if audit == "classifier" else {})
    )
    assert current_result(Result(verdict=today)).verdict == today
    earlier = told | {"schema": 2 if audit == "classifier" else 1}
    stands = status == "undecided" or (status == "fail" and kind != "feature")
    why = EARLIER_PASS if status == "pass" else EARLIER_FAILURE
    way = AGAIN if audit == "classifier" else AFRESH
    in_place = {"status": "undecided", "why": [why], "what_would_decide": [way]}
    assert current_result(Result(verdict=earlier)).verdict == (earlier if stands else earlier | in_place)
    by_references = current_result(Result(verdict=earlier | {"method": METHODS["references"]}))
    assert (by_references.status == "undecided") == (status in ("pass", "undecided"))


@pytest.mark.parametrize("kind", ["filter", "synthesize"])
@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_an_earlier_promise_is_not_repeated(kind: str, status: str) -> None:
    """The promise that leaves people out for looking like others broke in 85 % of calibrations on round fields."""
    verdict = {"audit": kind, "status": status, "why": [REASON], "guarantee": REASON, "schema": 1}
    found = current_result(Result(verdict=verdict, summary={"numbers": {"guarantee": REASON, "n_kept": 3}}))
    if status == "fail":  # nothing was kept, or patients were found
        assert found.verdict == verdict
        return
    assert (found.status, found.verdict["why"], found.verdict["guarantee"]) == ("undecided", [EARLIER_GUARANTEE], "")
    assert found.summary["numbers"] == {"guarantee": "", "n_kept": 3}
    today = Result(verdict=verdict | {"schema": FORMS[kind]}, summary={"numbers": {"guarantee": REASON}})
    assert current_result(today) is today


def test_a_kind_that_never_had_another_rule_stands() -> None:
    told = Result(verdict={"audit": "quality", "status": "pass", "why": []})
    assert current_result(told) is told


@pytest.mark.parametrize(
    ("run", "kind"), [("losses", "losses"), ("clean", "synthetic"), ("filter", "filter"), ("feature", "feature")]
)
def test_verdicts_of_today_say_their_form(runs: Path, run: str, kind: str) -> None:
    assert verdict_form(json.loads((runs / "runs" / run / "verdict.json").read_text())) == FORMS[kind]


@pytest.mark.parametrize("name", EARLIER)
def test_a_pass_of_an_earlier_rule_is_not_repeated(runs: Path, tmp_path: Path, name: str) -> None:
    told = {"status": "pass", "why": [REASON], **EARLIER[name]}
    run = rewritten(
        runs / "runs" / name, tmp_path / "run", verdict=told, change=without_new_numbers if name == "clean" else None
    )
    not_repeated(run, tmp_path, EARLIER_GUARANTEE if name == "filter" else EARLIER_PASS)


def without_new_numbers(folder: Path) -> None:
    """Take from a run about a set what runs of the first form did not have."""
    verdict, summary = (json.loads((folder / f"{name}.json").read_text()) for name in ("verdict", "summary"))
    for holder in (verdict, summary["numbers"]):
        for name in NEW:
            del holder[name]
        for name in ("p_apart", "p_together", "across", "across_expected", "together"):
            del holder["unlike"][name]
    (folder / "verdict.json").write_text(json.dumps(verdict))
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "tables" / "singled_out.parquet").unlink()


def test_a_failure_by_controls_alone_is_not_repeated(runs: Path, tmp_path: Path) -> None:
    """As models that never saw the mark failed: without references the mark's own shape may feign that it is known."""
    told = {"status": "fail", "why": [REASON], **BY_CONTROLS}
    not_repeated(rewritten(runs / "runs/feature", tmp_path / "run", verdict=told), tmp_path, EARLIER_FAILURE)
    for other in ({"method": METHODS["references"]}, {"schema": 2}):
        run = rewritten(runs / "runs/feature", tmp_path / next(iter(other)), verdict=told | other)
        assert make_statement(run).verdict.status == "fail"
        assert gate(run, weights=["models/net.safetensors"]).line.startswith("the verdict is fail")


def not_repeated(run: Path, tmp_path: Path, why: str) -> None:
    """Hold everything that hands a run's verdict on to the one line."""
    written = (run / "verdict.json").read_bytes()
    assert load_result(run).verdict["why"] == [why]
    page = render_again(run).read_text(encoding="utf-8")
    first_screen = page.split("<nav")[0]
    assert why[1:] in first_screen
    assert REASON not in page
    assert "Passed" not in first_screen
    assert ("no promise" in first_screen) == (why == EARLIER_GUARANTEE)
    stated = write_statement(run, out=tmp_path / "stated")
    (audit,) = stated.statement.audits
    assert (audit.status, audit.why) == ("undecided", (why,))
    for file in ("privacy-statement.json", "model-card.md"):
        assert REASON not in (stated.folder / file).read_text()
    for require in ("pass", "not-fail"):
        answer = gate(run, weights=["models/net.safetensors"], require=require)
        assert not answer.passed
        assert why in answer.line
        assert answer.line.isprintable()
    assert (run / "verdict.json").read_bytes() == written


@pytest.mark.parametrize(
    ("name", "status", "why"),
    [("clean", "pass", EARLIER_PASS), ("feature", "pass", EARLIER_PASS), ("feature", "fail", EARLIER_FAILURE)],
)
def test_a_statement_that_an_earlier_version_wrote_stops_a_release(
    runs: Path, tmp_path: Path, name: str, status: str, why: str
) -> None:
    told: dict[str, Any] = make_statement(f"runs/{name}").as_json()
    (audit,) = told["predicate"]["audits"]
    for one in (audit, told["predicate"]["verdict"]):
        one["status"] = status
    audit["why"] = [REASON]
    audit["method"]["name"] = f"Change of answers by a mark: {METHODS['controls']}"
    del audit["settings"]["verdict_form"]
    file = restated(told, tmp_path / "statement.json")
    for require in ("pass", "not-fail"):
        answer = gate(file, weights=["models/net.safetensors"], require=require)
        assert not answer.passed
        assert answer.line.startswith(f"run 1 ({'synthetic' if name == 'clean' else name}): {why}")


def test_a_failure_that_stands_is_told_before_an_earlier_pass(runs: Path, tmp_path: Path) -> None:
    earlier = rewritten(runs / "runs/clean", tmp_path / "run", verdict={"schema": 1})
    found = write_statement([earlier, "runs/copies"], out=tmp_path / "stated").folder
    assert gate(found, images=["clean"]).line.startswith("the verdict is fail")


def test_compare_says_that_a_pass_was_an_earlier_one(runs: Path, tmp_path: Path) -> None:
    old = rewritten(runs / "runs/losses", tmp_path / "old", verdict={"status": "pass", "rule": None})
    found = compare(old, runs / "runs/losses")
    assert f"the first run: {EARLIER_PASS}" in found.notes
    assert not any("second run" in note and "earlier" in note for note in found.notes)
    assert found.names[0].endswith("verdict undecided")
