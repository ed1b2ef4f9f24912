"""One class at a time: memorization, its null, its list and its mean (METHODS section 1, "Null and p-value").

Nothing is pooled over classes: a pooled null gives 11 % at nominal 5 % in rare classes and 4 % in common ones.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from memorisk.audits.evidence import Evidence
from memorisk.audits.options import AnalysisOptions
from memorisk.scores.differential import group_table, memorization
from memorisk.statistics.families import family_lists
from memorisk.statistics.intervals import Interval, jackknife_interval, two_way_interval
from memorisk.statistics.multiple import benjamini_hochberg
from memorisk.statistics.nulls import UnitPValues, sign_flip_p_values, unit_p_values
from memorisk.statistics.tiers import tier


@dataclass(frozen=True)
class ClassFindings:
    """What one class showed.

    Attributes:
        row: Its row of ``per_class``.
        groups: Its rows of ``per_group``.
        images: p-values of its scored images, by item index (descriptive where groups hold several images).
        table: [G, S] mean gap of each scored group in each seed, signed by membership; NaN where it had no partner.
        floor: [G] smallest p-value that each group could have had; NaN without p-values.
        list_level: Level of the class's own list, once the lists are made.
    """

    row: dict[str, object]
    groups: pd.DataFrame
    images: dict[int, float]
    table: np.ndarray
    floor: np.ndarray
    list_level: float = float("nan")


def audit_class(evidence: Evidence, label: str, *, prerequisite_p: float, blocked: str | None) -> ClassFindings:
    """Score, test and summarise one class; its list is made with those of the other classes by ``list_groups``.

    Args:
        evidence: The whole score table.
        label: The class.
        prerequisite_p: p of the check that unseen canaries look like test images.
        blocked: Why no p-values may be given, or None.
    """
    items = evidence.items
    own = items.label == label
    sign, gap = evidence.sign, evidence.gap
    scored = np.flatnonzero(own & (items.split == "canary") & (sign != 0).any(axis=0))
    test = np.flatnonzero(own & (items.split == "test"))
    groups, unit = np.unique(items.group[scored].astype(str), return_inverse=True)
    test_groups, test_unit = np.unique(items.group[test].astype(str), return_inverse=True)
    table = group_table(gap[:, scored], sign[:, scored], items.group[scored].astype(str)).values

    why_not = blocked or _why_not(len(scored), len(test))
    p = floor = np.full(len(groups), np.nan)
    image_p: dict[int, float] = {}
    if why_not is None:
        null = _p_values(evidence, scored, unit, test, test_unit)
        p, floor = null.p_value, null.floor
        images = _p_values(evidence, scored, np.arange(len(scored)), test, np.arange(len(test)))
        image_p = dict(zip(scored.tolist(), images.p_value.tolist(), strict=True))

    m = memorization(gap[:, scored], sign[:, scored])
    row = {
        "label": label,
        "n": int(own.sum()),
        "frequency": float(own.sum() / len(set(items.image))),
        "n_groups": len(np.unique(items.group[own].astype(str))),
        "n_scored": len(scored),
        "n_groups_scored": len(groups),
        "n_test_groups": len(test_groups),
        **_summary(table),
        "why_not": why_not or "",
        "prerequisite_p": prerequisite_p,
    }
    per_group = _group_rows(label, groups, unit, m, sign[:, scored]).assign(p_value=p)
    return ClassFindings(row, per_group, image_p, table, floor)


def list_groups(findings: list[ClassFindings], options: AnalysisOptions) -> list[ClassFindings]:
    """Make the lists of all classes, at one level over the whole audit (``statistics.families``)."""
    lists = family_lists(
        [f.groups["p_value"].to_numpy(dtype=np.float64) for f in findings],
        [f.floor for f in findings],
        options.level,
        options.correction,
    )
    listed = []
    for i, finding in enumerate(findings):
        shortest, n = lists.smallest_list[i], len(finding.groups)
        why_not = str(finding.row["why_not"])
        if not why_not and shortest is not None and shortest > n:
            why_not = (
                f"with so few models and test images no list is shorter than {shortest}, and the class has {n} scored"
            )
        row = finding.row | {
            "smallest_list": float("nan") if shortest is None else float(shortest),
            "list_level": float(lists.level[i]),
            "flagged": lists.rejections[i].n_rejected,
            "testable": not why_not,
            "why_not": why_not,
        }
        groups = finding.groups.assign(
            adjusted=benjamini_hochberg(finding.groups["p_value"], options.level).adjusted,
            flagged=lists.rejections[i].rejected,
        )
        listed.append(replace(finding, row=row, groups=groups, list_level=float(lists.level[i])))
    return listed


def _p_values(
    evidence: Evidence, scored: np.ndarray, unit: np.ndarray, test: np.ndarray, test_unit: np.ndarray
) -> UnitPValues:
    gap = evidence.gap
    if evidence.design == "paper" and evidence.assigned is None:
        return unit_p_values(gap[:, scored].mean(axis=0), unit, gap[:, test].mean(axis=0), test_unit)
    return sign_flip_p_values(gap[:, scored], evidence.sign[:, scored], unit, gap[:, test], test_unit)


def _why_not(n_scored: int, n_test: int) -> str | None:
    if not n_scored:
        return "no image of this class was scored"
    if not n_test:
        return "the test part holds no image of this class"
    return None


def _group_rows(label: str, groups: np.ndarray, unit: np.ndarray, m: np.ndarray, sign: np.ndarray) -> pd.DataFrame:
    counts = np.bincount(unit, minlength=len(groups))
    largest = np.full(len(groups), -np.inf)
    np.maximum.at(largest, unit, m)
    seeds = np.zeros(len(groups), dtype=np.int64)
    np.maximum.at(seeds, unit, (sign != 0).sum(axis=0))
    return pd.DataFrame(
        {
            "label": pd.Series([label] * len(groups), dtype=object),
            "group": groups.astype(object),
            "n_images": counts.astype(np.int64),
            "M": largest,
            "M_mean": np.bincount(unit, weights=m, minlength=len(groups)) / np.maximum(counts, 1),
            "n_seeds": seeds,
        }
    )


def _summary(table: np.ndarray) -> dict[str, object]:
    """The class mean, median and trimmed mean over groups, each with its interval, and the tier."""
    if not len(table):
        names = ["mean", "low", "high", "df", "median", "median_low", "median_high"]
        names += ["trimmed_mean", "trimmed_low", "trimmed_high"]
        return {"tier": "insufficient evidence", **dict.fromkeys(names, float("nan"))}
    mean = two_way_interval(table)
    middle = jackknife_interval(table, "median")
    trimmed = jackknife_interval(table, "trimmed_mean")
    return {
        **_columns(mean, "mean", ""),
        "df": mean.df,
        **_columns(middle, "median", "median_"),
        **_columns(trimmed, "trimmed_mean", "trimmed_"),
        "tier": tier(mean.estimate, len(table)),
    }


def _columns(interval: Interval, name: str, prefix: str) -> dict[str, float]:
    return {name: interval.estimate, f"{prefix}low": interval.low, f"{prefix}high": interval.high}
