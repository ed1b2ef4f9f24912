"""Parts of figures that several studies draw: series of a table, and the drawn numbers in its form."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.report.blocks import Column, Figure, Table, Text
from memorisk.report.columns import column_numbers, column_texts
from memorisk.report.figures.intervals import Limits
from memorisk.studies.engine.rows import rows_of


def drawn(
    svg: str, title: str, caption: Text, words: Text, frame: pd.DataFrame | None = None, columns: Sequence[Column] = (),
    *, table: str = "The drawn numbers.",
) -> Figure:  # fmt: skip
    """Return a drawing with the table of its numbers.

    Args:
        svg: Drawing.
        title: Title of the figure.
        caption: Caption of the figure.
        words: Description of the figure, in sentences.
        frame: Drawn numbers; None where a table of the page holds them.
        columns: Columns of the drawn numbers.
        table: Caption of the drawn numbers.
    """
    numbers = None if frame is None else Table(frame=frame, columns=columns, caption=table)
    return Figure(svg=svg, title=title, caption=caption, alternative=words, table=numbers)


def series_of(frame: pd.DataFrame, by: str, row: str, labels: Sequence[str], ends: Sequence[str]) -> dict[str, Limits]:
    """Return estimates and limits of each series in the order of the labels; NaN where a series lacks a label.

    Args:
        frame: Table with a row for each label and series.
        by: Column that names the series.
        row: Column that holds the labels.
        labels: Labels, in the order in which they are drawn.
        ends: Columns of the estimate and of its limits.
    """
    by_name: dict[str, Limits] = {}
    for name in dict.fromkeys(column_texts(frame, by)):
        own = rows_of(frame, **{by: name})
        place = {label: i for i, label in enumerate(column_texts(own, row))}
        at = np.array([place.get(label, -1) for label in labels], dtype=np.intp)
        estimate, low, high = (np.append(column_numbers(own, column), np.nan)[at] for column in ends)
        by_name[name] = (estimate, low, high)
    return by_name
