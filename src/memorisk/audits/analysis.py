"""From a score table to a result: everything an audit concludes, and nothing that needs a network or a pixel.

``audit classifier`` and ``audit losses`` both end here, so that losses from any other framework are judged by the
same rules.
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.attack_table import attack_table
from memorisk.audits.class_tests import ClassFindings, audit_class, list_groups
from memorisk.audits.context import Context
from memorisk.audits.coverage import not_scored, units_of, unpaired
from memorisk.audits.evidence import WHOLE, Evidence
from memorisk.audits.evidence_summary import beside_guessing, image_table, null_sample, numbers_of, utility_on_test
from memorisk.audits.options import AnalysisOptions
from memorisk.report.result import Result
from memorisk.statistics.contrasts import unpaired_difference
from memorisk.statistics.intervals import two_way_interval
from memorisk.statistics.prerequisites import unseen_against_test
from memorisk.statistics.verdict import Decision, Units, decide

SCHEMA = 1
PER_CLASS = (
    *("label", "n", "frequency", "n_groups", "n_scored", "n_groups_scored", "n_test_groups"),
    *("mean", "median", "trimmed_mean", "low", "high", "tier", "smallest_list", "list_level"),
    *("flagged", "testable", "why_not"),
    *("median_low", "median_high", "trimmed_low", "trimmed_high", "df", "prerequisite_p"),
)


def analyse(evidence: Evidence, options: AnalysisOptions, context: Context) -> Result:
    """Draw every conclusion of a classifier audit from its score table.

    Args:
        evidence: S twin pairs by I scored items.
        options: Level, correction and gate.
        context: What the scores do not tell.

    Returns:
        The result, not yet saved.
    """
    findings = class_findings(evidence, options, context)
    per_class = pd.DataFrame([f.row for f in findings], columns=pd.Index(PER_CLASS))
    per_group = pd.concat([f.groups for f in findings], ignore_index=True)
    per_image = image_table(evidence, findings, per_group)
    attacks, curves, agreement = attack_table(evidence)
    counts = numbers_of(evidence, context)
    units = units_of(counts)
    # Without a gate nothing stops a pipeline, but the status still says what was found: "never" is not an all-clear.
    level = min((f.list_level for f in findings), default=options.level)  # what a class's list needs
    gate = "high" if options.fail_on == "never" else options.fail_on
    decision = decide(per_class, gate=gate, q=level, units=units, n_seeds=len(evidence.seeds))
    unscored = not_scored(evidence, context.n_validation, context.not_auditable)
    summary = {
        **counts,
        "form": form_words(evidence, context),
        "level_q": options.level,
        "correction": options.correction,
        **unscored,
        "roc": curves,
        "null": null_sample(evidence),
        "agreement": agreement,
        "rarest_vs_top": rarest_against_top(findings),
        "prerequisites": {f.row["label"]: f.row["prerequisite_p"] for f in findings},
        "utility": utility_on_test(evidence),
        "placebo": context.placebo,
        "target": context.target,
        "privacy": context.privacy,
    }
    verdict = {
        "schema": SCHEMA,
        "audit": "classifier",
        "gate": options.fail_on,
        **_status(decision, context, unscored, summary["utility"], units),
        "tiers": dict(zip(per_class["label"], per_class["tier"], strict=True)),
        "flagged_groups": {f.row["label"]: f.row["flagged"] for f in findings},
        "level": options.level,
        "not_scored": unscored,
        "left_out": {k: summary[k] for k in ("n_skipped", "n_missing", "n_not_sampled")},
        "aucs": _headline_aucs(attacks),
        "design": context.design,
        "protocol": context.protocol,
        "n_models": summary["n_models"],
        "seeds": summary["seeds"],
        "data_hash": context.data_hash,
        "target": None if context.target is None else context.target.get("verdict"),
        "versions": context.versions,
    }
    return Result(
        per_image=per_image,
        per_group=per_group,
        per_class=per_class,
        attacks=attacks,
        summary=summary,
        verdict=verdict,
    )


def class_findings(evidence: Evidence, options: AnalysisOptions, context: Context) -> list[ClassFindings]:
    """Every class, in the order of their names; p-values only where they may be given."""
    checks = _prerequisites(evidence)
    findings = []
    for label in sorted(set(evidence.items.label)):
        p, ok = checks.get(label, (float("nan"), True))
        blocked = None
        if not context.random_split:
            blocked = "no p-values: the given split is not known to be random by group, so its test part is no null"
        elif label in context.not_auditable:
            blocked = "not auditable: too few groups to split"
        elif not ok:
            blocked = "no p-values: canaries under the model that did not see them differ from test images"
        findings.append(audit_class(evidence, str(label), prerequisite_p=p, blocked=blocked))
    return list_groups(findings, options)


def _prerequisites(evidence: Evidence) -> dict[str, tuple[float, bool]]:
    """Per class: p of "unseen canaries look like test images" (adjusted over classes), and whether it may stand."""
    items, sign = evidence.items, evidence.sign
    canary, test = (items.split == "canary") & (sign != 0).any(axis=0), items.split == "test"
    unseen = np.where(sign > 0, evidence.loss_b, np.where(sign < 0, evidence.loss_a, np.nan))
    found = unseen_against_test(
        unseen[:, canary],
        items.group[canary].astype(str),
        items.label[canary].astype(str),
        evidence.loss_a[:, test],
        evidence.loss_b[:, test],
        items.group[test].astype(str),
        items.label[test].astype(str),
        symmetric=evidence.design != "paper",
    )
    return {label: (check.adjusted, check.ok or not check.n_test_groups) for label, check in found.items()}


def rarest_against_top(findings: list[ClassFindings]) -> dict[str, Any] | None:
    """The mean M of the most memorized class less that of the rarest, with its interval (two sets of groups)."""
    scored = [f for f in findings if len(f.table) and f.row["label"] != WHOLE]
    if len(scored) < 2:
        return None
    smallest = min(int(str(f.row["n"])) for f in scored)
    if sum(f.row["n"] == smallest for f in scored) > 1:
        return None  # equally rare classes: none is the rarest
    rarest = min(scored, key=lambda f: (f.row["n"], f.row["label"]))
    top = max(scored, key=lambda f: (f.row["mean"], f.row["label"]))
    found = {
        "label_rarest": rarest.row["label"],
        "n_rarest": rarest.row["n"],
        "mean_rarest": rarest.row["mean"],
        "label_top": top.row["label"],
        "n_top": top.row["n"],
        "mean_top": top.row["mean"],
    }
    if rarest is top:
        return found | {"difference": 0.0, "low": float("nan"), "high": float("nan")}
    interval = unpaired_difference(two_way_interval(top.table), two_way_interval(rarest.table))
    return found | {"difference": interval.estimate, "low": interval.low, "high": interval.high}


def form_words(evidence: Evidence, context: Context) -> str:
    """Which form of METHODS ran, in one sentence."""
    s = len(evidence.seeds)
    if context.design == "paper":
        form = "the published form" if context.protocol == "paper" else "the published design with repaired statistics"
        return f"{form}: a candidate on T + C and an independent on T, {s} seeds"
    kind = "every image outside the test part is a canary" if context.design == "balanced" else "T is shared"
    return f"the corrected form, design {context.design} ({kind}): {s} twin pairs, {2 * s} models"


def _status(
    decision: Decision, context: Context, unscored: dict[str, Any], utility: dict[str, Any], units: Units
) -> dict[str, Any]:
    """Status and reasons. What was not scored, not learned, or not of this model cannot pass."""
    status, why, deciding = decision.status, list(decision.why), list(decision.what_would_decide)
    if not context.random_split:
        deciding.append(
            "a split drawn at random by patient; if the given one was, say so (--splits given-random; for losses leave "
            "out --no-random-split)"
        )
    doubts = []
    if unscored["without_partner"]:
        found = unpaired(unscored, units)
        doubts.append(
            (
                f"{found} had no partner, so nothing is known of them",
                "the same audit in a new folder, which divides them between the models, too; --design paper scores "
                "15 % of the images",
            )
        )
    if utility["beats_guessing"] is False:
        doubts.append(
            (
                f"the models are not better than guessing ({beside_guessing(utility)}): models that learned nothing "
                "remember nothing",
                "the training that the released model really had (--epochs, --lr, --model, --weights)",
            )
        )
    if context.target is not None and not context.target["replication"]["replicated"]:
        reason = "the twins do not replicate the given model: its test loss or accuracy is outside their own spread"
        doubts.append((reason, "twins by the very recipe of the given model (--train, or its settings)"))
    if doubts and status == "pass":
        status, why = "undecided", []
    return {
        "status": status,
        "why": [*why, *(reason for reason, _ in doubts)],
        "what_would_decide": [*deciding, *(way for _, way in doubts)],
    }


def _headline_aucs(attacks: pd.DataFrame) -> dict[str, Any]:
    if attacks.empty:
        return {}
    every = attacks[attacks["label"] == "(all)"]
    return {
        str(r["attack"]): {"auc": r["auc"], "low": r["low"], "high": r["high"], "control": bool(r["control"])}
        for _, r in every.iterrows()
    }
