"""Form of the rule that gave a verdict: a run or a statement of another form than today's is refused, never read.

No form but today's was ever released. A pass by another rule may be about another question, so that a report, a
comparison or a gate must not repeat it.
"""

from collections.abc import Mapping
from typing import Any

from memorisk.report.kinds import KINDS, kind_of
from memorisk.runs.errors import InputError, one_line

FORMS: Mapping[str, int] = {kind.name: kind.verdict_form for kind in KINDS.own.values() if kind.verdict_form}
"""Form of the verdict's rule by kind of run, of memorisk's own: for twin models in ``rule["form"]`` of
``verdict.json``, for others in its ``schema``, for any in ``settings["verdict_form"]`` of a statement."""


def verdict_form(verdict: Mapping[str, Any]) -> object:
    """Return the form of the rule that gave a saved verdict; None where it names none.

    Args:
        verdict: Verdict as in ``verdict.json``.
    """
    if not kind_of(verdict.get("audit")).of_twins:
        return verdict.get("schema")
    rule = verdict.get("rule")
    return rule.get("form") if isinstance(rule, Mapping) else None


def refuse_other_form(name: str, kind: str, form: object) -> None:
    """Refuse a verdict that another form of the rule gave.

    Args:
        name: Name of the run or statement, for the message.
        kind: Kind of the run, also one of another package.
        form: Form of the rule that gave the verdict.

    Raises:
        InputError: The form is not today's.
    """
    if (today := kind_of(kind).verdict_form) and form != today:
        raise InputError(
            f"{name} holds a verdict of {one_line(kind, 40)} of form {one_line(form, 20)}, and this memorisk reads "
            f"form {today}: audit again into a new folder"
        )
