"""Statements of audits of models, from results that are made by hand: what their sentences and figures say."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from memorisk.audits.classifier.attack_numbers import (
    ALL,
    CONTROL_LEVEL,
    AttackAuc,
    AttackCounts,
    AttackNumbers,
    Replication,
    SureRate,
    TargetAudit,
)
from memorisk.audits.release.integrity import FinishedAudit
from memorisk.audits.release.model_descriptions import describe_classifier
from memorisk.models.generators.noise_attacks import NOISE_ATTACKS
from memorisk.report.numbers import to_json
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


def numbers(auc: float = 0.9, low: float = 0.8, high: float = 0.95) -> AttackNumbers:
    """Numbers of one attack."""
    of_auc = AttackAuc(estimate=auc, low=low, high=high)
    return AttackNumbers(auc=of_auc, rate=SureRate(), counts=AttackCounts(n_groups=50))


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


def test_figures_of_attacks_say_which_further_models_an_attacker_needs() -> None:
    names = ("loss_threshold", "differential", "lira_offline", "rmia_online", "independent_loss")
    row = {"label": ALL, "auc": 0.9, "low": 0.8, "high": 0.95, "n_groups": 50}
    table = pd.DataFrame([row | {"attack": name, "control": name == "independent_loss"} for name in names])
    on_target = {name: numbers() for name in ("loss_threshold", "lira_offline", *NOISE_ATTACKS)}
    target = TargetAudit(attacks=on_target, access=dict.fromkeys(on_target, "weights"))
    result = make_result(correction="bh", target=to_json(target)).replace(attacks=table)
    titles = {figure.name: figure.title for figure in described(result, "generator").figures}
    further = {"twin_auc/differential", "reference_auc/lira_offline", "reference_auc/rmia_online"}
    alone = {"auc/loss_threshold", "target_auc/loss_threshold", *(f"target_auc/{name}" for name in NOISE_ATTACKS)}
    assert further | alone | {"target_reference_auc/lira_offline", "control/independent_loss"} <= set(titles)
    assert titles["reference_auc/lira_offline"] == "AUC of LiRA (offline), which needs models without the image"
    assert titles["target_reference_auc/lira_offline"] == (
        "AUC of LiRA (offline) on the very model, which needs its weights and models without the image"
    )


def test_controls_of_the_very_model_are_figures() -> None:
    controls = {"control": numbers(0.52, 0.42, 0.62), "blind": numbers(0.5, 0.34, 0.65), "permuted": numbers(0.5)}
    target = TargetAudit(attacks={"loss_threshold": numbers()}, explained=0.21, **controls)
    stated = described(make_result(correction="bh", target=to_json(target)), "generator")
    figures = {figure.name: figure for figure in stated.figures}
    for name, control in target.controls.items():
        figure = figures[f"target_control/{name}"]
        assert (figure.value, figure.low, figure.high) == (control.auc.estimate, control.auc.low, control.auc.high)
        assert figure.confidence == CONTROL_LEVEL
    assert figures["target_explained"].value == 0.21
    of_answers = TargetAudit(attacks={"loss_threshold": numbers()}, control=numbers(0.5, 0.4, 0.6))
    stated = described(make_result(correction="bh", target=to_json(of_answers)))
    (control,) = (figure for figure in stated.figures if figure.name.startswith("target_control/"))
    assert control.confidence == 0.95


@pytest.mark.parametrize(("target", "speaks"), [(None, True), (False, False), (True, True)])
def test_audited_models_are_assumed_to_speak_for_no_file_that_is_unlike_them(target: bool | None, speaks: bool) -> None:
    changes: dict[str, Any] = {}
    if target is not None:
        own = TargetAudit(attacks={"loss_threshold": numbers()}, replication=Replication(replicated=target))
        changes = {"target": to_json(own)}
    stated = described(make_result(correction="bh", **changes))
    assert any("the audited models speak for it" in sentence for sentence in stated.assumptions) == speaks
