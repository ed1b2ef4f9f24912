"""Lay out the sections of the classifier report on people: subgroups by columns of the table, and single patients."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.pages.attacks import attack_title
from memorisk.audits.classifier.pages.result_view import ResultView
from memorisk.audits.classifier.tables.subgroups import PATIENTS
from memorisk.audits.subgroups import LEAST_PATIENTS, SUBGROUPS, most_exposed, subgroup_answer, subgroup_name
from memorisk.report.blocks import (
    Block,
    Column,
    Fact,
    Figure,
    Paragraph,
    Section,
    Table,
    Text,
    estimate,
    number,
    words,
)
from memorisk.report.columns import booleans, column_numbers, column_texts, count, decimal, percent, probability, rows
from memorisk.report.figures import memorization as figures
from memorisk.report.flagged import NOT_TESTED
from memorisk.report.result import Result
from memorisk.runs.errors import listed
from memorisk.statistics.memorization.patient_auc import SURE_AUC
from memorisk.statistics.verdicts.levels import POWER, share_words


def subgroup_facts(result: Result) -> list[Fact]:
    """Count the levels that are surely remembered more than the others; nothing without columns.

    Args:
        result: Result of the audit.
    """
    table = result.tables.get(SUBGROUPS)
    if table is None or not len(table):
        return []
    compared = rows(table, ~np.isnan(column_numbers(table, "p")))
    by = f"by {listed(list(dict.fromkeys(column_texts(compared if len(compared) else table, 'column'))), 3)}"
    if not len(compared):
        return [Fact("Subgroups remembered more", NOT_TESTED, by)]
    return [Fact("Subgroups remembered more", count(len(most_exposed(table))), f"of {len(compared)} compared, {by}")]


def subgroup_section(reading: ResultView) -> list[Section]:
    """Lay out the levels of each column; no section without columns."""
    table = reading.result.tables.get(SUBGROUPS)
    if table is None or not len(table):
        return []
    labels = [subgroup_name(*names) for names in zip(table["column"], table["level"], strict=True)]
    named = table.assign(subgroup=labels)
    with_mean = rows(named, ~np.isnan(column_numbers(named, "mean")))
    blocks: list[Block] = [Paragraph(_answer(with_mean, reading))]
    if len(with_mean):
        blocks.append(
            Figure(
                svg=figures.interval_plot(
                    column_texts(with_mean, "subgroup"),
                    *(column_numbers(with_mean, c) for c in ("mean", "low", "high")),
                    tiers=(reading.scale.moderate, reading.scale.high),
                ),
                title="Mean memorization of each subgroup.",
                caption=f"Dot: mean M over {reading.units}; line: 95 % interval over {reading.units} and trainings; "
                "shading: tier, as of classes.",
                alternative="The table below the figure has every number.",
            )
        )
    blocks.append(_subgroup_table(named, reading))
    return [Section("Is one subgroup remembered more?", blocks, "subgroups")]


def _answer(with_mean: pd.DataFrame, reading: ResultView) -> Text:
    """Answer the heading in a sentence, with what would have been noticed."""

    def higher(row: Mapping[str, Any]) -> tuple[str, str]:
        """Say of a level that it is remembered more."""
        above = f" have a mean M that is {decimal(row['difference'])} {reading.scale.unit} above that of others"
        return f"{reading.units.capitalize()} with ", above

    return subgroup_answer(with_mean, reading.units, higher, decimal, reading.scale.unit)


def _subgroup_table(named: pd.DataFrame, reading: ResultView) -> Table:
    attack = next(filter(None, column_texts(named, "attack")), "")
    is_tested = booleans(reading.result.per_class, "testable").any()
    unknown = f"not given, since fewer than {LEAST_PATIENTS} remain" if is_tested else NOT_TESTED
    columns = [
        words("subgroup", "Subgroup", row=True),
        number("n_patients", reading.units.capitalize(), "count"),
        estimate("mean", "Mean M [95 % interval]", low="low", high="high"),
        estimate("difference", "Difference from others [95 % interval]"),
        number("adjusted", "p, corrected", "probability"),
        number("n_flagged", "Flagged", "count", missing=unknown),
        Column(source="share", heading="Share flagged [95 %]", format="percent", interval=("share_low", "share_high")),
        estimate("auc", "Attack AUC [95 %]"),
        number("noticeable", "Noticeable difference", "decimal"),
    ]
    attacked = f" Attack: {attack_title(attack)}, the strongest over all {reading.units}." if attack else ""
    return Table(
        frame=named,
        columns=columns,
        caption=f"Subgroups of the scored {reading.units}. Difference: mean M less that of the other {reading.units} "
        f"of the same class. Noticeable difference: the smallest that would have been called surely higher in "
        f"{share_words(POWER)}.{attacked}",
        visible_rows=40,
        elsewhere=f"tables/{SUBGROUPS}.parquet",
    )


def patient_section(reading: ResultView) -> list[Section]:
    """Lay out how surely attacks find single patients, and how surely by chance; no section without these numbers."""
    curve, table = reading.summary.patient_auc, reading.result.tables.get(PATIENTS)
    if curve is None or curve.worst is None or table is None:
        return []
    worst, auc, share, chance = curve.worst, *(np.array(x) for x in (curve.auc, curve.share, curve.chance))
    at = int(np.searchsorted(auc, SURE_AUC))
    sure = "below 0.1 %" if chance[at] < 0.001 else percent(float(chance[at]))
    text = (
        f"An attack can be near guessing on average and find single {reading.units} almost surely. For each "
        f"{reading.unit}, the losses under the models that saw the images are compared with those under the others. "
        f"{percent(float(share[at]))} of {worst.n_patients:,} {reading.units} reach AUC {SURE_AUC}; by chance {sure} "
        f"would. The largest AUC is {decimal(worst.auc)}: for that {reading.unit}, {decimal(worst.low)} to "
        f"{decimal(worst.high)} by limits that hold for all {reading.units} together, "
        f"p {probability(worst.adjusted_p)} after Holm's correction over {reading.units}."
    )
    columns = [
        *([] if reading.redacted else [words("group", reading.unit.capitalize(), row=True)]),
        words("label", "Class", row=reading.redacted),
        number("n_images", "Images", "count"),
        number("M_mean", "Mean M"),
        estimate("auc", "Attack AUC [limits over all]"),
        number("auc_p", "p", "probability"),
        number("auc_adjusted", "p, corrected", "probability"),
    ]
    return [
        Section(
            f"How surely single {reading.units} are found",
            [
                Paragraph(text),
                Figure(
                    svg=figures.share_plot(curve.auc, curve.share, curve.chance),
                    title=f"Share of {reading.units} by attack AUC.",
                    caption="Solid: these patients. Dashed: the share that chance gives, from all exchanges of the two "
                    "models of each pair. Where the lines part, patients are found who would not be by chance.",
                    alternative="",
                ),
                Table(
                    frame=table.head(25),
                    columns=columns,
                    caption=f"The {min(25, len(table))} {reading.units} with the largest attack AUC.",
                    visible_rows=10,
                    elsewhere=f"tables/{PATIENTS}.parquet",
                ),
            ],
            "patients",
        )
    ]
