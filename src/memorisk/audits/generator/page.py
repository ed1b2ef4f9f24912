"""Lay out the page of an audit of a generator: that of twins, with what repetition does where images were repeated."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from memorisk.audits.classifier.pages.audit import classifier_page
from memorisk.audits.classifier.pages.wording import ResultView
from memorisk.audits.generator.dose import DOSE
from memorisk.report.blocks import Column, Figure, Page, Paragraph, Section, Table, number
from memorisk.report.columns import column_numbers, count, percent
from memorisk.report.figures.intervals import series_plot
from memorisk.report.flagged import NOT_TESTED
from memorisk.report.result import Result


def generator_page(result: Result, *, pictures: Mapping[str, np.ndarray] | None = None, redact: bool = False) -> Page:
    """Lay out the report of an audit of a generator.

    Args:
        result: Result with the tables of an audit of twins.
        pictures: Pixels (``[h, w, c]``, uint8 or uint16) by image id; None for no pictures.
        redact: Leave out every id and every picture.
    """
    page = classifier_page(result, pictures=pictures, redact=redact)
    if DOSE not in result.tables:
        return page
    question, *sections = page.sections
    return replace(page, sections=[question, dose_section(result, redact=redact), *sections])


def dose_section(result: Result, *, redact: bool = False) -> Section:
    """Lay out M and the share listed by the number of times that an image was in the training.

    Args:
        result: Result of an audit with repeated images.
        redact: Leave out every id.
    """
    table, reading = result.tables[DOSE], ResultView.of(result, redact=redact)
    units, unit = reading.units, reading.scale.unit
    times = column_numbers(table, "times").astype(int)
    names = ["once" if n == 1 else f"{n:,} times" for n in times.tolist()]
    limits = tuple(column_numbers(table, name) for name in ("mean", "low", "high"))
    columns = [
        Column(source="times", heading="Times in the training", format="count", row_heading=True),
        number("n_patients", units.capitalize(), "count"),
        Column(source="mean", heading=f"Mean M, {unit} [95 %]", format="decimal", interval=("low", "high")),
        number("n_listed", "Listed", "count", missing=NOT_TESTED),
        Column(source="share", heading="Share listed [95 %]", format="percent", interval=("share_low", "share_high")),
    ]
    figure = Figure(
        svg=series_plot(names, {"Mean M": (limits[0], limits[1], limits[2])}, x_title=f"Mean M, {unit}"),
        title="Memorization by the number of times that images were in the training.",
        caption=f"Bars are 95 % intervals over {units} and trainings.",
        alternative="",
    )
    by_times = Table(
        frame=table,
        columns=columns,
        caption=f"Each row lists its own {units} against every image that no twin saw. Intervals of shares are exact "
        f"over {units}, for these trainings.",
        elsewhere=f"tables/{DOSE}.parquet",
    )
    return Section("What repetition does", [Paragraph(_answer(table, units)), figure, by_times], "dose")


def _answer(table: pd.DataFrame, units: str) -> str:
    """Say from how many repetitions on half of the patients are listed."""
    share, times = column_numbers(table, "share"), column_numbers(table, "times")
    whose = "that" if units == "images" else "whose images"
    if np.isnan(share).any():
        untested = ", ".join(count(n) for n in times[np.isnan(share)])
        return (
            f"No list was possible for the {units} {whose} were in the training so often: {untested}. The models, or "
            f"the {units} of the test part, are too few; only M says what repetition does there."
        )
    once = f"{percent(float(share[0]))} of the {units} {whose} were in the training once are listed"
    half = np.flatnonzero(share >= 0.5)
    if not len(half):
        return f"{once}; of those that were repeated fewer than half, at any number of times tried."
    first = int(times[half[0]])
    if first == 1:
        return f"{once}: this recipe remembers without any repetition."
    return f"{once}; of those in the training {count(first)} times {percent(float(share[half[0]]))}."
