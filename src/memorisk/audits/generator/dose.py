"""From how many repetitions on does a recipe remember? M and the share listed, by the number of times (``--dose``)."""

from dataclasses import dataclass, replace
from math import nan
from typing import Annotated, Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.analysis import class_findings, design_checks
from memorisk.audits.classifier.evidence import Context, Evidence
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.generator.evidence import generator_evidence
from memorisk.audits.generator.plan import GeneratorPlan
from memorisk.report.numbers import Key, to_row
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.verdicts.noticeable_gap import MIN_ROOM
from memorisk.statistics.verdicts.reasons import Gravity, Reason, Words

DOSE = "dose"
"""Name of the table."""


class ImagesRepeated(Reason, code="images-repeated", gravity=Gravity.FIRST):
    """Audit in which images were repeated on purpose, so that its twins are not those of the recipe."""

    n_patients: int

    @Words
    def text(self) -> str:
        images = "" if self.units.one == "image" else "the images of "
        return (
            f"{images}{self.units.count(self.n_patients)} were repeated on purpose (--dose), so that the twins are not "
            "those of the recipe that is to be released"
        )

    plain = Words("the audited models were trained with repeated images, which the released one is not")
    remedy = Words("the audit without --dose, in another folder")


@dataclass(frozen=True, kw_only=True)
class DoseRow:
    """Memorization of the patients whose images were in the training a given number of times."""

    times: int
    n_patients: int
    mean: Annotated[float, Key("mean")]
    """Mean M in SD."""
    low: float
    high: float
    n_listed: int | None
    """Number of patients on a list of their own, against all images that no twin saw; None where they have no list."""
    share: float
    share_low: float
    share_high: float


def dose_table(
    plan: GeneratorPlan,
    scored: Evidence,
    losses: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
    options: AnalysisOptions,
    context: Context,
) -> pd.DataFrame:
    """Tabulate M and the share listed by the number of times; one row per number, once first.

    Args:
        plan: Plan of the twins.
        scored: Score table of the images that were there once.
        losses: Losses under A and under B, each [S, L, N].
        weights: Weights of the levels, [L].
        options: Level of the lists.
        context: Context of the audit.
    """
    once = replace(scored, items=replace(scored.items, label=np.full(len(scored.items), "once", dtype=object)))
    tables = {1: once} | {
        dose: generator_evidence(plan.of_dose(dose), *losses, weights) for dose in sorted(plan.repeated)
    }
    return pd.DataFrame([to_row(_row(times, table, options, context)) for times, table in tables.items()])


def _row(times: int, table: Evidence, options: AnalysisOptions, context: Context) -> DoseRow:
    """Measure the patients of one number of times, as one class."""
    context = replace(context, not_auditable=[])
    finding = class_findings(table, options, context, design_checks(table, context), advise=False)[0]
    row: dict[str, Any] = finding.row
    n, listed = int(row["n_groups_scored"]), int(row["flagged"])
    tested = not finding.blocked and row["room"] >= MIN_ROOM
    share = clopper_pearson(listed, n) if tested or listed else None
    return DoseRow(
        times=times,
        n_patients=n,
        mean=row["mean"],
        low=row["low"],
        high=row["high"],
        n_listed=None if share is None else listed,
        share=nan if share is None else share.estimate,
        share_low=nan if share is None else share.low,
        share_high=nan if share is None else share.high,
    )
