"""Statements of audits of models, from results that are made by hand: what their sentences and figures say."""

from pathlib import Path
from typing import Any

import pandas as pd

from memorisk.audits.release.integrity import FinishedAudit
from memorisk.audits.release.model_descriptions import describe_classifier
from memorisk.report.result import Result
from memorisk.report.statements.statement import AuditStatement
from tests.audits.classifier_results import make_result


def described(result: Result, kind: str = "classifier") -> AuditStatement:
    """State a result as a finished run of a kind."""
    tables = {"per_class": result.per_class, "attacks": result.attacks}
    config: dict[str, Any] = {"run": {"audit": kind}}
    return describe_classifier(
        FinishedAudit(Path("run"), kind, config, result.verdict, result.summary, tables, 140, 79, 1.5, "0" * 64)
    )


def with_classes(**columns: list[Any]) -> Result:
    """A result with these columns of its classes."""
    result = make_result(correction="bh", groups_given=True)
    classes = result.per_class.head(len(columns["flagged"])).assign(**columns, testable=True)
    return result.replace(per_class=pd.DataFrame(classes))


def test_a_class_with_flagged_patients_counts_as_tested() -> None:
    stated = described(with_classes(flagged=[79, 0, 0], room=[0.1, 0.1, 9.0]))
    figures = {figure.name: figure.value for figure in stated.figures}
    assert figures["classes_tested"] == 2
    assert "1 class could not be tested: no patient could have been flagged there." in stated.not_examined
    assert (
        "In 1 class with flagged patients a single further patient could not have been noticed." in stated.not_examined
    )
    alone = described(with_classes(flagged=[79], room=[0.1]))
    assert not any("could not be tested" in sentence for sentence in alone.not_examined)
