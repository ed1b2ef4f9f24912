"""Verdicts of another form of the rule: report, compare, statement and gate refuse the run or statement in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memorisk.audits.classifier.comparison import compare
from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement
from memorisk.audits.rendering import render_again
from memorisk.report.kinds import KINDS as ALL_KINDS
from memorisk.report.kinds import RunKind
from memorisk.report.verdict_forms import FORMS, refuse_other_form, verdict_form
from memorisk.runs.errors import InputError
from tests.audits.release.conftest import restated, rewritten

EARLIER = {"losses": {"rule": None}, "clean": {"schema": 1}, "filter": {"schema": 1}, "feature": {"schema": None}}
"""Change of ``verdict.json`` by run; the form of a classifier's rule is in its ``rule``."""
KINDS = {"losses": "losses", "clean": "synthetic", "filter": "filter", "feature": "feature"}


@pytest.mark.parametrize("run", KINDS)
def test_verdicts_hold_the_form_of_today(runs: Path, run: str) -> None:
    assert verdict_form(json.loads((runs / "runs" / run / "verdict.json").read_text())) == FORMS[KINDS[run]]


@pytest.mark.parametrize("run", EARLIER)
@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_a_run_of_another_form_is_refused(runs: Path, tmp_path: Path, run: str, status: str) -> None:
    other = rewritten(runs / "runs" / run, tmp_path / "run", verdict={"status": status, **EARLIER[run]})
    readers: list[Callable[[], object]] = [
        lambda: render_again(other),
        lambda: make_statement(other),
        lambda: gate(other, weights=["models/net.safetensors"], require="not-fail"),
    ]
    if run == "losses":
        readers.append(lambda: compare(other, runs / "runs/losses"))
    for read in readers:
        with pytest.raises(
            InputError, match=r"of form (1|None), and this memorisk reads form \d+: audit again"
        ) as error:
            read()
        assert str(error.value).isprintable()


@pytest.mark.parametrize("run", ["clean", "feature"])
@pytest.mark.parametrize("form", [1, 99, None])
def test_a_statement_of_another_form_is_refused(runs: Path, tmp_path: Path, run: str, form: int | None) -> None:
    document = make_statement(f"runs/{run}").as_json()
    settings = document["predicate"]["audits"][0]["settings"]
    settings |= {} if form is None else {"verdict_form": form}
    if form is None:
        del settings["verdict_form"]
    file = restated(document, tmp_path / "statement.json")
    with pytest.raises(InputError, match=f"statement.json holds a verdict of {KINDS[run]} of form {form}"):
        gate(file, weights=["models/net.safetensors"])


def test_kinds_without_forms_are_not_refused() -> None:
    refuse_other_form("run", "quality", None)
    refuse_other_form("run", "brightness", 7)  # of a package that is not installed


def test_the_form_of_a_plugins_kind_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(ALL_KINDS), "more", {"brightness": RunKind(name="brightness", verdict_form=2)})
    refuse_other_form("run", "brightness", 2)
    for form in (1, None):
        with pytest.raises(InputError, match=f"of brightness of form {form}, and this memorisk reads form 2"):
            refuse_other_form("run", "brightness", form)
