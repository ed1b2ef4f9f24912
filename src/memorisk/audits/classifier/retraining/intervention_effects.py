"""Effects of an intervention, class by class.

The table is computed from three score tables of the same items, halves and seeds. The paper's columns (table 3 and
6: percentage, Cohen's d; section 4: attack success) are marked as such in ``COLUMNS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence
from memorisk.audits.classifier.result import INTERVENTION_TABLE as TABLE
from memorisk.audits.classifier.result import Intervention
from memorisk.audits.classifier.tables.attacks import AttackScores, paper_attacks
from memorisk.report.columns import booleans, column_numbers, rows
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.runs.errors import one_line
from memorisk.scores.memorization import group_table, memorization
from memorisk.statistics.effect_sizes import EffectSize, cohens_d, paired_dz, percent_change
from memorisk.statistics.intervals.means import MIN_SEEDS, Interval, difference_interval
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.retraining import INSUFFICIENT, RetrainingDifference, retraining_difference
from memorisk.statistics.roc import seed_auc_jackknife
from memorisk.statistics.verdicts.tiers import MIN_GROUPS

if TYPE_CHECKING:
    from memorisk.audits.classifier.retraining.interventions import InterventionPlan

TRAININGS = 2
"""Number of further trainings of every model of the audit: one on changed images, one as the re-run."""

COLUMNS = {
    "label": "class",
    "targeted": "whether its images were changed",
    "n": "images of the class",
    "frequency": "share of all images",
    "n_groups": "scored groups",
    "n_seeds": "seeds",
    "before": "mean M of the baseline, nats",
    "after": "mean M after the intervention",
    "difference": "after less before",
    "low": "lower limit, 95 %, two-way over groups and seeds",
    "high": "upper limit",
    "noise": "the re-run less before: what retraining alone does",
    "noise_low": "lower limit",
    "noise_high": "upper limit",
    "excess": "difference less noise",
    "excess_low": "lower limit",
    "excess_high": "upper limit",
    "reading": "whether the difference is larger than what retraining alone does",
    "paper_before": "paper's column: mean over images of the seed-averaged M (algorithm 1), before",
    "paper_after": "paper's column: the same after the intervention",
    "paper_percent": "paper's column: 100 (after - before) / |before|, of the paper's means",
    "paper_cohens_d": "paper's column: Cohen's d over images, one seed-averaged M each",
    "paper_cohens_d_low": "lower limit over groups",
    "paper_cohens_d_high": "upper limit",
    "paired_dz": "paired d_z over groups, Hedges-corrected",
    "paired_dz_low": "lower limit over groups",
    "paired_dz_high": "upper limit",
    "auc_before": "AUC of M as an attack (the paper's attack success), against test images",
    "auc_before_low": "lower limit over groups, for the models trained",
    "auc_before_high": "upper limit",
    "auc_after": "the same after the intervention",
    "auc_after_low": "lower limit",
    "auc_after_high": "upper limit",
    "recall_before": "share of the class's test images named rightly",
    "recall_after": "the same after the intervention: a shortcut raises it",
    "recall_difference": "after less before",
    "recall_low": "lower limit, two-way over test groups and seeds",
    "recall_high": "upper limit",
    "n_test_groups": "groups in the test part",
    "images_changed": "share of the class's images in which some pixel changed",
    "pixels_changed": "mean share of an image's pixels that changed",
    "mean_change": "mean absolute change of a value, as a share of the range",
}
"""Columns of the table and what they hold."""

ATTACK = "differential"


@dataclass(frozen=True)
class InterventionEffects:
    """Effects of an intervention.

    Attributes:
        table: One row for each class (``COLUMNS``).
        summary: Description of the intervention, with a sentence for each target class.
    """

    table: pd.DataFrame
    summary: Intervention


def intervention_table(before: Evidence, after: Evidence, rerun: Evidence, intended: InterventionPlan) -> pd.DataFrame:
    """Return one row per class, targeted ones first.

    Args:
        before: The baseline.
        after: Trained on the changed images; the same items, halves and seeds.
        rerun: The baseline's images once more from another start.
        intended: Changed classes, with the size of the change.

    Returns:
        The columns of ``COLUMNS``.
    """
    attacks = [_attack(e) for e in (before, after)]
    class_rows = []
    for label in sorted(set(before.items.label), key=lambda name: (name not in intended.classes, str(name))):
        own = before.items.label == label
        row: dict[str, object] = {
            "label": str(label),
            "targeted": label in intended.classes,
            "n": int(own.sum()),
            "frequency": float(own.sum() / len(set(before.items.image))),
            **_memorization_columns(before, after, rerun, own),
            **_attack_columns(attacks, own, before.items.group),
            **_recall_columns(before, after, own),
        }
        for name in ("images_changed", "pixels_changed", "mean_change"):
            row[name] = getattr(intended, name).get(label, float("nan"))
        class_rows.append(row)
    return pd.DataFrame(class_rows, columns=pd.Index(COLUMNS))


def _memorization_columns(before: Evidence, after: Evidence, rerun: Evidence, own: np.ndarray) -> dict[str, object]:
    """Return M before and after, the differences with their intervals, and the effect sizes."""
    sign, items = before.sign, before.items
    scored = np.flatnonzero(own & (items.split == "canary") & (sign != 0).any(axis=0))
    group = items.group[scored].astype(str)
    tables = [group_table(e.gap[:, scored], sign[:, scored], group).values for e in (before, after, rerun)]
    change = retraining_difference(tables[0], tables[1], tables[2])
    images = [memorization(e.gap[:, scored], sign[:, scored]) for e in (before, after)]
    means = [float(m.mean()) if len(m) else float("nan") for m in images]
    return {
        "n_groups": change.difference.n_groups,
        "n_seeds": change.difference.n_seeds,
        "before": change.before,
        "after": change.after,
        **_limits(change.difference, "difference", ""),
        **_limits(change.noise, "noise", "noise_"),
        **_limits(change.excess, "excess", "excess_"),
        "reading": _why_insufficient(change),
        "paper_before": means[0],
        "paper_after": means[1],
        "paper_percent": percent_change(*means),
        **_limits(cohens_d(images[0], images[1], group, group), "paper_cohens_d", "paper_cohens_d_"),
        **_limits(paired_dz(images[0], images[1], group), "paired_dz", "paired_dz_"),
    }


def _why_insufficient(difference: RetrainingDifference) -> str:
    """Return the reading, and where it is missing the reason."""
    if difference.reading != INSUFFICIENT:
        return difference.reading
    if difference.difference.n_groups < MIN_GROUPS:
        return f"{INSUFFICIENT}: fewer than {MIN_GROUPS} scored groups"
    return f"{INSUFFICIENT}: fewer than {MIN_SEEDS} seeds"


def _limits(interval: Interval | JackknifeInterval | EffectSize, name: str, prefix: str) -> dict[str, object]:
    return {name: interval.estimate, f"{prefix}low": interval.low, f"{prefix}high": interval.high}


def _attack(evidence: Evidence) -> AttackScores:
    """Return the scores and roles of M as an attack."""
    return next(attack for attack in paper_attacks(evidence) if attack.name == ATTACK)


def _attack_columns(attacks: Sequence[AttackScores], own: np.ndarray, group: np.ndarray) -> dict[str, object]:
    """Return the AUC of M as an attack, before and after; two AUCs of their own models, not a paired difference."""
    row: dict[str, object] = {}
    for attack, name in zip(attacks, ("auc_before", "auc_after"), strict=True):
        interval = seed_auc_jackknife(attack.score[:, own], attack.role[:, own], group[own], seed=attack.seed)
        row |= _limits(interval, name, f"{name}_")
    return row


def _recall_columns(before: Evidence, after: Evidence, own: np.ndarray) -> dict[str, object]:
    """Measure how often the class's test images are named rightly by both roles' models: where a shortcut shows."""
    test = np.flatnonzero(own & (before.items.split == "test"))
    group = before.items.group[test].astype(str)
    tables = []
    for evidence in (before, after):
        right = (evidence.correct_a[:, test].astype(np.float64) + evidence.correct_b[:, test]) / 2  # [S, n]
        tables.append(group_table(right, np.ones_like(right), group).values)
    row: dict[str, object] = {"n_test_groups": len(tables[0])}
    for table, name in zip(tables, ("recall_before", "recall_after"), strict=True):
        row[name] = float(table.mean()) if table.size else float("nan")
    difference = difference_interval(tables[1], tables[0])
    within = replace(
        difference, low=max(difference.low, -1.0), high=min(difference.high, 1.0)
    )  # t knows no bounds, two recalls do
    return row | _limits(within, "recall_difference", "recall_")


def summary_of(table: pd.DataFrame, intended: InterventionPlan, seeds: int) -> Intervention:
    """Collect what was done and found: settings, warnings and a sentence for each target class."""
    targeted = rows(table, booleans(table, "targeted")).to_dict("records")
    return Intervention(
        name=intended.intervention.name,
        description=intended.intervention.description,
        classes=tuple(intended.classes),
        named=intended.named,
        left_out=tuple(intended.left_out),
        n_images_changed=len(intended.rows),
        n_trainings=TRAININGS * 2 * seeds,
        warnings=tuple(warnings_of(table, intended)),
        sentences=tuple(_sentence(row, intended) for row in targeted),
    )


def _sentence(row: dict[str, Any], intended: InterventionPlan) -> str:
    """Return a sentence on one target class."""
    values = {k: "unknown" if isinstance(v, float) and np.isnan(v) else v for k, v in row.items()}
    value = {k: f"{v:+.2f}" if isinstance(v, float) else str(v) for k, v in values.items()}
    return (
        f"{intended.intervention.name} on {one_line(row['label'], 40)}: mean M {value['before']} -> {value['after']}, "
        f"difference {value['difference']} (95 % interval {value['low']} to {value['high']}; retraining alone "
        f"{value['noise']}, {value['noise_low']} to {value['noise_high']}; difference less retraining "
        f"{value['excess']}, {value['excess_low']} to {value['excess_high']}): {value['reading']}{_shortcut(row)}"
    )


def _shortcut(row: dict[str, Any]) -> str:
    """Return a warning where the changed class is named rightly more often, since the change itself names it."""
    before, after, low = (row.get(k) for k in ("recall_before", "recall_after", "recall_low"))
    if not isinstance(low, float) or not low > 0:
        return ""
    return f"; a shortcut: {before:.0%} of its test images named rightly before, {after:.0%} after"


def warnings_of(table: pd.DataFrame, intended: InterventionPlan) -> list[str]:
    """List what the differences do not say; class names stay in the table, so that no sentence holds a user's text."""
    name, n = intended.intervention.name, int(booleans(table, "targeted").sum())
    if n < len(table):
        warnings = [
            f"Only some classes were changed ({name}), so the change itself tells them from the others: it is a "
            "shortcut to their label. Their accuracy and their M move for that reason too, whatever their "
            "distinctiveness, and classes that were not changed move with them. This is not causal identification."
        ]
    else:
        warnings = [
            "Every class was changed, so the change is not a shortcut to a label; it makes the whole task another."
        ]
    warnings += [
        "Choosing the data set, the architecture or the class with the most pronounced effect is a selection, as in "
        "the paper's table 6: the effect chosen is then too large and its interval too sure.",
        "On images that are grey already greyscaling changes nothing, and this audit refuses it; the paper's effects "
        "on X-rays and OCT can therefore only be retraining noise.",
        "The changed images are scaled by the baseline's mean and deviation of pixels, shared by all models.",
    ]
    if n > 1:
        warnings.append(f"Each interval holds 95 % by itself, not all of the {n} changed classes at once.")
    if column_numbers(table, "n_seeds").max(initial=0) < MIN_SEEDS:
        warnings.append(
            f"With fewer than {MIN_SEEDS} seeds the intervals are over patients only and say nothing of retraining."
        )
    if intended.left_out:
        warnings.append(f"{len(intended.left_out)} rare classes are too small to be audited and were left as they are.")
    return warnings


def with_intervention(result: Result, effects: InterventionEffects | None) -> Result:
    """Return the result with the intervention's table and summary; as it is without an intervention."""
    if effects is None:
        return result
    tables = dict(result.tables) | {TABLE: effects.table}
    return result.replace(tables=tables, summary=result.summary | {"intervention": to_json(effects.summary)})
