"""A pass that an earlier rule gave is told as undecided; nothing else is touched."""

from typing import Any

import pytest

from memorisk.report import earlier_rules
from memorisk.report.earlier_rules import LINE, WAY, by_todays_rule
from memorisk.report.result import Result


@pytest.mark.parametrize(
    ("status", "schema", "audit", "told"),
    [
        ("pass", {"schema": 1}, "a", "undecided"),
        ("pass", {}, "a", "undecided"),
        ("pass", {"schema": 2}, "a", "pass"),
        ("pass", {"schema": 1}, "b", "pass"),
        ("fail", {"schema": 1}, "a", "fail"),
        ("undecided", {"schema": 1}, "a", "undecided"),
    ],
)
def test_only_a_pass_by_an_earlier_rule_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, status: str, schema: dict[str, Any], audit: str, told: str
) -> None:
    monkeypatch.setattr(earlier_rules, "RULES", {"a": 2})
    verdict = {"audit": audit, "status": status, "why": ["so"], "what_would_decide": [], "n": 3, **schema}
    found = by_todays_rule(Result(verdict=verdict))
    assert found.status == told
    if told == status:
        assert found.verdict == verdict
    else:
        assert found.verdict == verdict | {"status": told, "why": [LINE], "what_would_decide": [WAY]}
