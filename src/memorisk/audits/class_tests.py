"""One class at a time: memorization, its null, its list and its mean (METHODS section 1, "Null and p-value").

Nothing is pooled over classes: a pooled null gives 11 % at nominal 5 % in rare classes and 4 % in common ones.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.evidence import Evidence
from memorisk.audits.options import AnalysisOptions
from memorisk.scores.differential import group_table, memorization
from memorisk.statistics.intervals import Interval, jackknife_interval, two_way_interval
from memorisk.statistics.multiple import benjamini_hochberg, benjamini_yekutieli, smallest_list_of
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
    """

    row: dict[str, object]
    groups: pd.DataFrame
    images: dict[int, float]
    table: np.ndarray


def audit_class(
    evidence: Evidence, label: str, options: AnalysisOptions, *, prerequisite_p: float, blocked: str | None
) -> ClassFindings:
    """Score, test and summarise one class.

    Args:
        evidence: The whole score table.
        label: The class.
        options: Level and correction of the list.
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

    testable = blocked is None and len(scored) > 0 and len(test) > 0
    if testable:
        null = _p_values(evidence, scored, unit, test, test_unit)
        images = _p_values(evidence, scored, np.arange(len(scored)), test, np.arange(len(test)))
        rejections = (benjamini_hochberg if options.correction == "bh" else benjamini_yekutieli)(
            null.p_value, options.level
        )
        floor = smallest_list_of(null.floor, options.level)
        p, adjusted, flagged = null.p_value, rejections.adjusted, rejections.rejected
        image_p = dict(zip(scored.tolist(), images.p_value.tolist(), strict=True))
    else:
        p = adjusted = np.full(len(groups), np.nan)
        flagged, floor, image_p = np.zeros(len(groups), dtype=bool), None, {}

    why_not = _why_not(blocked, len(scored), len(test), floor, len(groups))
    m = memorization(gap[:, scored], sign[:, scored])
    per_group = _group_rows(label, groups, unit, m, sign[:, scored]).assign(
        p_value=p, adjusted=adjusted, flagged=flagged
    )
    row = {
        "label": label,
        "n": int(own.sum()),
        "frequency": float(own.sum() / len(items)),
        "n_groups": len(np.unique(items.group[own])),
        "n_scored": len(scored),
        "n_groups_scored": len(groups),
        "n_test_groups": len(test_groups),
        **_summary(table),
        "smallest_list": float("nan") if floor is None else float(floor),
        "flagged": int(flagged.sum()),
        "testable": why_not is None,
        "why_not": why_not or "",
        "prerequisite_p": prerequisite_p,
    }
    return ClassFindings(row, per_group, image_p, table)


def _p_values(
    evidence: Evidence, scored: np.ndarray, unit: np.ndarray, test: np.ndarray, test_unit: np.ndarray
) -> UnitPValues:
    gap = evidence.gap
    if evidence.design == "paper" and evidence.assigned is None:
        return unit_p_values(gap[:, scored].mean(axis=0), unit, gap[:, test].mean(axis=0), test_unit)
    return sign_flip_p_values(gap[:, scored], evidence.sign[:, scored], unit, gap[:, test], test_unit)


def _why_not(blocked: str | None, n_scored: int, n_test: int, floor: int | None, n_groups: int) -> str | None:
    if blocked:
        return blocked
    if not n_scored:
        return "no image of this class was scored"
    if not n_test:
        return "the test part holds no image of this class"
    if floor is not None and floor > n_groups:
        return f"cannot be tested: the smallest list is {floor}, the class has {n_groups} scored"
    return None


def _group_rows(label: str, groups: np.ndarray, unit: np.ndarray, m: np.ndarray, sign: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame({"unit": unit, "M": m, "n_seeds": (sign != 0).sum(axis=0)})
    by = frame.groupby("unit", sort=True)
    return pd.DataFrame(
        {
            "label": pd.Series([label] * len(groups), dtype=object),
            "group": groups.astype(object),
            "n_images": by.size().to_numpy(dtype=np.int64),
            "M": by["M"].max().to_numpy(dtype=np.float64),
            "M_mean": by["M"].mean().to_numpy(dtype=np.float64),
            "n_seeds": by["n_seeds"].max().to_numpy(dtype=np.int64),
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
