"""Tabulate single patients, and subgroups of them by columns of the images' table (METHODS section 8).

``subgroups.parquet`` has one row per level of each column of ``--by``, ``patients.parquet`` one per scored patient.
Levels of fewer than ten scored patients have no number, since they could name a person.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import WHOLE, Evidence
from memorisk.audits.classifier.reasons import SubgroupAboveGate, SubgroupMoreExposed
from memorisk.audits.classifier.result import PatientAucCurve, WorstPatient
from memorisk.audits.classifier.tables.attacks import ALL, attack_rows, paper_attacks, reference_attacks
from memorisk.audits.subgroups import (
    ComparedLevel,
    Subgroups,
    compared_levels,
    level_table,
    most_exposed,
    patient_classes,
    share_fields,
)
from memorisk.report.columns import booleans, column_numbers, column_texts, largest_first, rows
from memorisk.scores.memorization import group_table, memorization
from memorisk.statistics.intervals.means import two_way_interval
from memorisk.statistics.memorization.patient_auc import patient_aucs
from memorisk.statistics.multiple_testing.lists import holm
from memorisk.statistics.subgroups import SubgroupContrast, subgroup_contrasts
from memorisk.statistics.verdicts.reasons import Reason
from memorisk.statistics.verdicts.tiers import reaches_gate
from memorisk.statistics.verdicts.units import UnitNames

PATIENTS = "patients"
"""Name of the table with one row per scored patient."""
_MOST_POINTS = 200
"""Largest number of points of the curve of shares that a summary holds."""


@dataclass(frozen=True, kw_only=True)
class SubgroupRow(ComparedLevel):
    """A row of ``subgroups.parquet``: differences are of the mean M; the share is of flagged patients."""

    mean: float = nan
    """Mean M, over patients and seeds."""
    low: float = nan
    high: float = nan
    n_flagged: int | None = None
    """Number of patients on the list that is shown; none where no list was possible."""
    attack: str = ""
    """Attack that is strongest over all patients."""
    auc: float = nan
    """Its AUC among patients of the level."""
    auc_low: float = nan
    auc_high: float = nan


@dataclass(frozen=True)
class ScoredPatients:
    """Scored patients of an audit, each once, over all classes.

    Attributes:
        patient: Ids, [G], ascending.
        gaps: Mean signed gap of the patient's images in each seed, [G, S].
        excess: Mean M of the patient's images, less the mean M of the class of each, [G].
        label: Class of most of the patient's images, the rarer of equally frequent ones, [G].
        n_images: Number of scored images, [G].
        loss_seen: Mean loss of these images under the model of each pair that saw them, [S, G].
        loss_unseen: Mean loss under the other one, [S, G].
    """

    patient: np.ndarray
    gaps: np.ndarray
    excess: np.ndarray
    label: np.ndarray
    n_images: np.ndarray
    loss_seen: np.ndarray
    loss_unseen: np.ndarray

    @classmethod
    def of(cls, evidence: Evidence) -> "ScoredPatients":
        """Average the scored images of each patient."""
        items, sign = evidence.items, evidence.sign
        scored = np.flatnonzero(items.whole & (items.split == "canary") & (sign != 0).any(axis=0))
        signs, gap = sign[:, scored], evidence.gap[:, scored]
        patient, unit = np.unique(items.group[scored].astype(str), return_inverse=True)
        label = _single_labels(evidence)[scored]
        m = memorization(gap, signs)
        classes, of_class = np.unique(label, return_inverse=True)
        size = np.bincount(of_class, minlength=len(classes))
        class_mean = np.bincount(of_class, weights=m, minlength=len(classes)) / np.maximum(size, 1)
        n_images = np.bincount(unit, minlength=len(patient))
        losses = [
            np.where(signs > 0, first, np.where(signs < 0, second, nan))
            for first, second in (
                (evidence.loss_a[:, scored], evidence.loss_b[:, scored]),
                (evidence.loss_b[:, scored], evidence.loss_a[:, scored]),
            )
        ]
        ones = np.ones(signs.shape)
        loss_seen, loss_unseen = (
            group_table(loss, np.where(np.isnan(loss), 0, ones), patient[unit]).values.T for loss in losses
        )
        excess = np.bincount(unit, weights=m - class_mean[of_class], minlength=len(patient)) / np.maximum(n_images, 1)
        return cls(
            patient=patient.astype(object),
            gaps=group_table(gap, signs, patient[unit]).values,
            excess=excess,
            label=patient_classes(label, patient[unit]),
            n_images=n_images,
            loss_seen=loss_seen,
            loss_unseen=loss_unseen,
        )


def _single_labels(evidence: Evidence) -> np.ndarray:
    """Return one class per item, [I]: of an item of all findings the rarest finding of its image."""
    items = evidence.items
    label = items.label.astype(object)
    if not (label == WHOLE).any():
        return label
    single = label != WHOLE
    names, counts = np.unique(label[single].astype(str), return_counts=True)
    frequency = dict(zip(names.tolist(), counts.tolist(), strict=True))
    rarest: dict[str, str] = {}
    for image, own in zip(items.image[single], label[single], strict=True):
        rarest[image] = min(own, rarest.get(image, own), key=lambda name: (frequency[name], name))
    return np.array([rarest.get(image, WHOLE) for image in items.image], dtype=object)


def patient_table(
    scored: ScoredPatients, per_group: pd.DataFrame, columns: Sequence[Subgroups], *, coins: bool
) -> tuple[pd.DataFrame, PatientAucCurve | None]:
    """Tabulate what is known of each patient, the largest AUC first.

    Args:
        scored: Scored patients.
        per_group: Rows of patients by class.
        columns: Columns of ``--by``, each of which adds its level.
        coins: Whether a fair coin decided in each pair of twins which model saw a patient; else p is NaN.

    Returns:
        The table, and the share of patients by AUC with the patient of the largest one; None for the latter without a
        patient or a null.
    """
    scores = patient_aucs(scored.loss_seen, scored.loss_unseen)
    if not coins:
        scores = replace(scores, p=np.full(len(scores.p), nan))
    flagged = set(per_group.loc[per_group["flagged"], "group"].astype(str))
    tested = np.isfinite(scores.p)
    adjusted = np.full(len(scores.p), nan)
    adjusted[tested] = holm(scores.p[tested])
    table = pd.DataFrame(
        {
            "group": scored.patient,
            "label": scored.label.astype(object),
            "n_images": scored.n_images,
            "M_mean": np.nanmean(scored.gaps, axis=1) if scored.gaps.size else np.empty(0),
            "flagged": [patient in flagged for patient in scored.patient],
            "auc": scores.auc,
            "auc_low": scores.low,
            "auc_high": scores.high,
            "auc_p": scores.p,
            "auc_adjusted": adjusted,
            **{f"by_{column.column}": column.of(scored.patient) for column in columns},
        }
    )
    table = table.sort_values(["auc", "M_mean"], ascending=False, kind="stable", na_position="last")
    table, i = table.reset_index(drop=True), scores.worst
    if i < 0 or not coins:
        return table, None
    of_worst = {name: float(getattr(scores, name)[i]) for name in ("auc", "low", "high", "p")}
    points = np.unique(np.linspace(0, len(scores.grid) - 1, min(len(scores.grid), _MOST_POINTS)).round().astype(int))
    curve = PatientAucCurve(
        auc=_rounded(scores.grid[points]),
        share=_rounded(scores.share[points]),
        chance=_rounded(scores.chance[points]),
        worst=WorstPatient(**of_worst, adjusted_p=float(adjusted[i]), n_patients=int(tested.sum())),
    )
    return table, curve


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


def subgroup_table(
    evidence: Evidence,
    scored: ScoredPatients,
    per_group: pd.DataFrame,
    attacks: pd.DataFrame,
    columns: Sequence[Subgroups],
    *,
    gate: float,
    tested: bool,
) -> pd.DataFrame:
    """Compare the levels of each column.

    Args:
        evidence: Score table of S twin pairs by I items.
        scored: Scored patients.
        per_group: Rows of patients by class.
        attacks: Table of attacks, of which the strongest is measured within each level.
        columns: Columns of ``--by``.
        gate: AUC of the null hypothesis of the attacks.
        tested: Whether any class has a list, so that a patient could have been flagged.

    Returns:
        One row per level, fields as `SubgroupRow`.
    """
    flagged = np.isin(scored.patient.astype(str), per_group.loc[per_group["flagged"], "group"].astype(str))
    aucs = _attack_aucs(evidence, attacks, columns, scored, gate)

    def measured(column: str, level: str, own: np.ndarray) -> dict[str, object]:
        """Return the mean, the share that is flagged and the attack's AUC of a level."""
        mean, auc = two_way_interval(scored.gaps[own]), aucs.get((column, level))
        fields: dict[str, object] = {"mean": mean.estimate, "low": mean.low, "high": mean.high}
        if tested:
            n_flagged = int((own & flagged).sum())
            fields |= {"n_flagged": n_flagged, **share_fields(n_flagged, int(own.sum()))}
        if auc is not None:
            fields |= {"attack": auc["attack"], "auc": auc["auc"], "auc_low": auc["low"], "auc_high": auc["high"]}
        return fields

    return level_table(SubgroupRow, columns, scored.patient, compared_subgroups(scored, columns), measured)


def compared_subgroups(scored: ScoredPatients, columns: Sequence[Subgroups]) -> dict[tuple[str, str], SubgroupContrast]:
    """Compare the mean M of every level with that of the others of the same class."""
    label = scored.label.astype(str)
    return compared_levels(
        columns, scored.patient, lambda level, number: subgroup_contrasts(scored.excess, level, label, seed=number)
    )


def _attack_aucs(
    evidence: Evidence,
    attacks: pd.DataFrame,
    columns: Sequence[Subgroups],
    scored: ScoredPatients,
    gate: float,
) -> Mapping[tuple[str, str], Mapping[str, object]]:
    """Measure the attack that is strongest over all patients within each level."""
    of_all = np.array([label == ALL for label in column_texts(attacks, "label")], dtype=bool)
    measured = of_all & ~booleans(attacks, "control") & np.isfinite(column_numbers(attacks, "auc"))
    every = largest_first(rows(attacks, measured), "auc").to_dict("records")
    if not every:
        return {}
    strongest = every[0]["attack"]
    scores = [one for one in (*paper_attacks(evidence), *reference_attacks(evidence)) if one.name == strongest]
    parts, whole = {}, evidence.items.whole
    for column in columns:
        level = column.of(evidence.items.group)
        for name in column.shown(scored.patient)[0]:
            parts[f"{column.column}\0{name}"] = whole & (level == name)
    measured_rows = attack_rows(evidence, scores, parts, gate).to_dict("records")
    return {tuple(row["label"].split("\0")): row for row in measured_rows}  # pyright: ignore[reportReturnType]


def subgroup_reasons(table: pd.DataFrame, gate: str, units: UnitNames) -> list[Reason]:
    """Return levels that are surely remembered more than the others of the same class, the largest difference first.

    One whose mean M surely reaches the gate fails the audit, as a class does; the others limit what the verdict says.

    Args:
        table: Table of `subgroup_table`.
        gate: Gate of classes, "high" or "moderate".
        units: Names of a patient.
    """
    if not len(table):
        return []
    reasons: list[Reason] = []
    for row in most_exposed(table).to_dict("records"):
        kind = SubgroupAboveGate if reaches_gate(row["low"], gate, units.loss_scale) else SubgroupMoreExposed
        reasons.append(
            kind(
                column=row["column"],
                level=row["level"],
                n_patients=int(row["n_patients"]),
                difference=float(row["difference"]),
                low=float(row["difference_low"]),
                high=float(row["difference_high"]),
                mean_low=float(row["low"]),
                adjusted_p=float(row["adjusted"]),
                units=units,
            )
        )
    return reasons
