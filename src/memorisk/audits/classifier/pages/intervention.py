"""Lay out the section of the classifier report on an intervention: what changed, compared with retraining alone."""

import numpy as np
import pandas as pd

from memorisk.audits.classifier.pages.result_view import ResultView, listed
from memorisk.audits.classifier.result import INTERVENTION_TABLE as TABLE
from memorisk.audits.classifier.result import Intervention
from memorisk.report.blocks import (
    Callout,
    Column,
    Details,
    Figure,
    Inline,
    Paragraph,
    Section,
    Steps,
    Table,
    estimate,
    number,
    words,
)
from memorisk.report.columns import booleans, column_numbers, column_texts, count, decimal
from memorisk.report.figures.intervals import MOST_ROWS, difference_plot
from memorisk.statistics.retraining import LARGER

DIFFERENCE = ("difference", "low", "high")
NOISE = ("noise", "noise_low", "noise_high")


def intervention_section(reading: ResultView) -> list[Section]:
    """Lay out the section; none where no intervention was requested."""
    summary, table = reading.summary.intervention, reading.result.tables.get(TABLE)
    if summary is None or table is None:
        return []
    blocks = [_lead(summary, table), _figure(table), _differences(table, reading)]
    blocks += [
        _side_effects(table),
        _paper_columns(table),
        Callout("warning", "How not to read this", [Steps(summary.warnings)]),
    ]
    return [Section("What changes when a class loses what distinguishes it", blocks, "intervention")]


def _lead(summary: Intervention, table: pd.DataFrame) -> Paragraph:
    """Lay out what was done, and how many changed classes moved by more than chance."""
    target = booleans(table, "targeted")
    larger = int((target & np.array([t == LARGER for t in column_texts(table, "reading")])).sum())
    why = "as named" if summary.named else "those with fewer than 5 % of the images"
    return Paragraph(
        [
            f"All {count(summary.n_images_changed)} images of ",
            *listed(summary.classes),
            f" ({why}) were changed: {summary.description}. Every model was trained again on them, from the "
            "same start, on the same halves and in the same order; and once more on the unchanged images from another "
            f"start, which shows what retraining alone does. Of {count(target.sum())} changed classes, {count(larger)} "
            f"moved by an amount {LARGER}: the intervals of the difference and of the difference less that of the "
            "re-run both leave out 0 on the same side.",
        ]
    )


def _figure(table: pd.DataFrame) -> Figure:
    names = [
        f"{t} (changed)" if c else t
        for t, c in zip(column_texts(table, "label"), booleans(table, "targeted"), strict=True)
    ]
    limits = [tuple(column_numbers(table, c) for c in columns) for columns in (DIFFERENCE, NOISE)]
    first = " Rows beyond 40 are in the table only." if len(table) > MOST_ROWS else ""
    return Figure(
        svg=difference_plot(names, limits[0], limits[1]),
        title="What the intervention changed, and what retraining alone changes.",
        caption=f"After less before. Right of 0 more is remembered than before, left of it less.{first}",
        alternative=[piece for row in range(len(table)) for piece in _row_words(table, row)],
    )


def _row_words(table: pd.DataFrame, row: int) -> list[Inline]:
    """Word the numbers of one class, for readers who cannot see the figure."""
    values = {c: column_numbers(table, c)[row] for c in (*DIFFERENCE, *NOISE)}
    texts = {k: "unknown" if np.isnan(v) else decimal(v) for k, v in values.items()}
    return [
        *listed([column_texts(table, "label")[row]]),
        f": {texts['difference']} ({texts['low']} to {texts['high']}); retraining alone {texts['noise']} "
        f"({texts['noise_low']} to {texts['noise_high']}). ",
    ]


def _differences(table: pd.DataFrame, reading: ResultView) -> Table:
    columns = [
        words("label", "Class", row=True),
        Column(source="targeted", heading="Changed", format="yes_no"),
        number("n_groups", f"{reading.units.capitalize()} scored", "count"),
        number("before", "Mean M before"),
        number("after", "After"),
        estimate("difference", "Difference [95 % interval]", low="low", high="high"),
        estimate("noise", "Retraining alone [95 % interval]"),
        estimate("excess", "Difference less retraining [95 % interval]"),
        words("reading", "Reading", wide=True),
    ]
    caption = f"Intervals over {reading.units} and trainings; changed classes first."
    return Table(frame=table, columns=columns, caption=caption, elsewhere=f"tables/{TABLE}.parquet")


def _side_effects(table: pd.DataFrame) -> Details:
    """Lay out how much of the images changed, and how well the classes are distinguished: where a shortcut shows."""
    columns = [
        words("label", "Class", row=True),
        number("images_changed", "Images changed", "percent"),
        number("pixels_changed", "Pixels of an image changed", "percent"),
        number("mean_change", "Mean change, share of the range", "percent"),
        number("recall_before", "Test images named rightly, before", "percent"),
        number("recall_after", "After", "percent"),
        estimate("recall_difference", "Difference [95 % interval]", low="recall_low", high="recall_high"),
        number("n_test_groups", "In the test part", "count"),
    ]
    caption = "A class that is named rightly more often after the change was given a shortcut."
    effects = Table(frame=table, columns=columns, caption=caption, elsewhere=f"tables/{TABLE}.parquet")
    return Details("How much of the images changed, and whether it became a shortcut", [effects])


def _paper_columns(table: pd.DataFrame) -> Details:
    columns = [
        words("label", "Class", row=True),
        number("paper_percent", "Change in % of |before| (paper)"),
        estimate("paper_cohens_d", "Cohen's d over images (paper) [95 % interval]"),
        estimate("paired_dz", "Paired d_z [95 % interval]"),
        *(estimate(f"auc_{when}", f"AUC of M as an attack, {when} [95 % interval]") for when in ("before", "after")),
    ]
    caption = (
        "Percentages are the paper's column only: they grow without bound where little was remembered before. "
        "Intervals over groups, for the models that were trained."
    )
    paper_table = Table(frame=table, columns=columns, caption=caption, elsewhere=f"tables/{TABLE}.parquet")
    return Details("The paper's columns, and effect sizes", [paper_table])
