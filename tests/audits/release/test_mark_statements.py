"""Statements of audits of a mark that passed, and by which gate."""

from pathlib import Path
from typing import Any

import pytest

from memorisk.audits.release.statement import make_statement
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
