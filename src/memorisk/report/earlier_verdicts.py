"""Verdicts of an earlier rule that are no longer valid; report, gate and statement show them as undecided.

A pass of the first form did not test what the audit would have noticed. A pass of the second did not test whether
patients could be distinguished (classifier), or whether the audit saw the images for what they are (synthetic). A pass
of `filter` below the third form, and of `synthesize` below the fourth, needed no audit of the kept set. A pass of a set
or a mark of the form before the current one counted checks that could not look as checks that found nothing. A promise
of the first form left people out for looking like others, and did not hold where people look alike. A failure of
`audit feature` by controls alone did not test whether models that never saw the mark fail so, too. All other failures,
and undecided results, are shown as they were. This is the one module that knows the form of a verdict's rule; it needs
Python's own library alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memorisk.report.statements.statement import FAIL, PASS, UNDECIDED, AuditStatement

if TYPE_CHECKING:
    from memorisk.report.result import Result

FORMS: Mapping[str, int] = {
    "feature": 3,
    **dict.fromkeys(("synthetic", "filter"), 4),
    "synthesize": 5,
    **dict.fromkeys(("classifier", "losses"), 5),
}
"""Form of the verdict's rule by kind of run: for a classifier in ``rule["form"]`` of ``verdict.json``, for others in
its ``schema``, for any in ``settings["verdict_form"]`` of a statement. Verdicts of other kinds stay valid."""
BY_REFERENCES = "rank among reference models trained without the mark"
"""Name, in a verdict of `audit feature` and in the method of its statement, of the comparison that can fail a model."""
EARLIER_PASS = (
    "an earlier version of memorisk passed this run by a rule that passed what it could not notice, so that its pass "
    "may not stand"
)
EARLIER_GUARANTEE = (
    "an earlier version of memorisk made the promise of this run, which fails where different people look alike, so "
    "that neither it nor a pass may stand"
)
EARLIER_FAILURE = (
    "an earlier version of memorisk failed this run without enough reference models, as it failed models that never "
    "saw the mark, so that the failure may not stand"
)
AGAIN = "the run's command, issued again with this memorisk"
AFRESH = f"{AGAIN}, into a new folder"


def current_result(result: "Result") -> "Result":
    """Return the result of a saved run under today's rule: undecided, in one line, where its verdict is not valid.

    Args:
        result: Result of any kind; its run is left as it is.
    """
    v, kind = result.verdict, str(result.verdict.get("audit"))
    promised = bool(v.get("guarantee"))
    why = _may_not_stand(kind, result.status, verdict_form(v), method=str(v.get("method")), promised=promised)
    if not why:
        return result
    undecided = {
        **v,
        "status": UNDECIDED,
        "why": [why],
        "what_would_decide": [AGAIN if kind == "classifier" else AFRESH],
    }
    if why != EARLIER_GUARANTEE:
        return result.replace(verdict=undecided)
    numbers = {**result.summary["numbers"], "guarantee": ""}
    return result.replace(verdict={**undecided, "guarantee": ""}, summary={**result.summary, "numbers": numbers})


def current_audit(audit: AuditStatement) -> AuditStatement:
    """Return one run of a statement under today's rule, as `current_result` does for a result.

    Args:
        audit: Audit as an earlier version may have stated it.
    """
    form = audit.settings.get("verdict_form")
    why = _may_not_stand(
        audit.kind,
        audit.status,
        form if isinstance(form, int) else 1,
        method=audit.method.name,
        promised=any(figure.name == "miss_rate" for figure in audit.figures),
    )
    if not why:
        return audit
    return replace(audit, status=UNDECIDED, why=(why,), what_would_decide=(f"{AFRESH}, and stated again",))


def _may_not_stand(kind: str, status: str, form: int, *, method: str, promised: bool) -> str:
    """Return why a verdict is not valid, in one sentence; empty where it is.

    Args:
        kind: Kind of the run, as in `FORMS`.
        status: Status of the verdict: ``pass``, ``fail`` or anything else.
        form: Form of the rule that gave the verdict.
        method: Method by which `audit feature` computed its p.
        promised: Whether `filter` or `synthesize` gave a guarantee.
    """
    if form >= FORMS.get(kind, 0):
        return ""
    if kind in ("filter", "synthesize") and form < 2 and promised and status != FAIL:
        return EARLIER_GUARANTEE
    if kind == "feature" and form < 2 and status == FAIL and BY_REFERENCES not in method:
        return EARLIER_FAILURE
    return EARLIER_PASS if status == PASS else ""


def is_earlier(why: object) -> bool:
    """Return whether reasons are those that replace an earlier verdict.

    Args:
        why: Reasons of a verdict or of a run of a statement.
    """
    return isinstance(why, list | tuple) and list(why) in ([EARLIER_PASS], [EARLIER_GUARANTEE], [EARLIER_FAILURE])


def verdict_form(verdict: Mapping[str, Any]) -> int:
    """Return the form of the rule that gave a saved verdict; 1 where it names none.

    Args:
        verdict: Verdict as in ``verdict.json``.
    """
    if verdict.get("audit") != "classifier":
        return int(verdict.get("schema") or 1)
    rule = verdict.get("rule")  # the schema of a classifier's verdict was 2 before the rule's form was
    return int(rule.get("form") or 1) if isinstance(rule, Mapping) else 1
