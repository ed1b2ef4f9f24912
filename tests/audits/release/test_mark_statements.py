"""Statements of audits of a mark that passed: by which gate, and what the officer reads of them."""

from pathlib import Path
from typing import Any

import pytest

from memorisk.audits.release.statement import make_statement
from memorisk.report.kinds import KINDS
from memorisk.report.statements.officer.findings import consequences, noticed
from memorisk.runs.errors import InputError
from tests.audits.feature.mark_outputs import answers, audit, harmless_references


@pytest.mark.parametrize(
    ("settings", "option", "words"),
    [
        ({"gate": 1e6}, "--gate", "only where it is 1e+06 times as sensitive"),
        ({"gate": 1e6, "fail_on": "never"}, "--gate", "only where it is 1e+06 times as sensitive"),
        ({"level": 0.04}, "--level", "fails only at a p-value of 0.04"),
    ],
)
def test_a_pass_by_a_looser_gate_is_named_and_gets_no_statement(
    tmp_path: Path, settings: dict[str, Any], option: str, words: str
) -> None:
    assert audit(tmp_path, answers(0), harmless_references(), **settings).status == "pass"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The gate is looser than the default" in page
    assert words in page
    with pytest.raises(InputError, match=f"{option}, by default .* issue the run's command again without {option}$"):
        make_statement(tmp_path / "run")


def test_the_officer_reads_of_a_pass_what_would_have_been_noticed_and_no_finding(tmp_path: Path) -> None:
    result = audit(tmp_path, answers(0), harmless_references())
    assert result.status == "pass"
    assert "looser" not in (tmp_path / "run" / "report.html").read_text()
    statement = make_statement(tmp_path / "run")
    (figure,) = (one for one in statement.audits[0].figures if one.name == "noticeable")
    assert str(noticed(statement)) == str(
        f"A model that is {figure.value:.3g} times as sensitive to the mark as models that never saw it would have "
        "been noticed in four of five cases."
    )
    assert "can try to" in str(consequences(statement))


def test_the_officer_reads_that_a_mark_could_have_gone_unnoticed(tmp_path: Path) -> None:
    """With few references no sensitivity would have been noticed."""
    assert audit(tmp_path, answers(0), harmless_references()[:3]).status == "undecided"
    assert "could have gone unnoticed" in str(noticed(make_statement(tmp_path / "run")))


def test_no_kind_tells_an_officer_that_an_attack_succeeds() -> None:
    """What a person faces is printed whatever the status, so that it says what can be tried."""
    faces = [kind.faces for kind in KINDS.own.values() if kind.faces.startswith("Anyone who")]
    assert len(faces) > 1
    assert all("can try to tell" in text for text in faces)
