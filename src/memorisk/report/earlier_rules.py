"""Passes that an earlier rule gave: a saved run that passed by it is told as undecided, in one line, never repeated.

The rules of issue "No pass without power" ask what an audit could have noticed; those before did not. Which rule made
a verdict is its ``schema``. Failures and what was undecided stand as they were: no rule since took a reason away.
"""

from collections.abc import Mapping

from memorisk.report.result import Result

RULES: Mapping[str, int] = {"synthetic": 2, "synthesize": 2}
"""By audit, the ``schema`` of its verdict since when a pass rests on what would have been noticed; others stand."""
LINE = (
    "an earlier rule gave this run a pass, which may not stand: it did not ask whether the audit would have noticed "
    "what it looked for"
)
WAY = "the run's command, issued again with this memorisk, into a new folder"


def by_todays_rule(result: Result) -> Result:
    """The result as it may be told today: undecided where an earlier rule let it pass, else as it is.

    Args:
        result: Of a saved run.
    """
    v = result.verdict
    if result.status != "pass" or int(v.get("schema", 1)) >= RULES.get(str(v.get("audit")), 0):
        return result
    return result.replace(verdict={**v, "status": "undecided", "why": [LINE], "what_would_decide": [WAY]})
