"""Figures and galleries of first screens as blocks: what answers the heading of a report before anything is read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from memorisk.report.blocks import Block, Figure, Name, Panel, Section, Text
from memorisk.report.columns import column_numbers, count
from memorisk.report.figures.glance import dots_plot, people_per_dot
from memorisk.report.figures.intervals import Limits
from memorisk.report.text import elided

_NAME_LETTERS = 18


def dots_figure(n_marked: int, n: int, units: str, what: str) -> Figure:
    """Draw how many of all are marked, a dot for each or for several of them.

    Args:
        n_marked: Number of units that are marked.
        n: Number of all units.
        units: Name of the units in the plural.
        what: Word for the marked ones, as "flagged".
    """
    sentence, each = f"{count(n_marked)} of {count(n)} {units} {what}", people_per_dot(n)
    return Figure(
        svg=dots_plot(n_marked, n),
        title=sentence,
        caption="" if each == 1 else f"One dot: {count(each)} {units}.",
        alternative="",
    )


def short_name(text: str) -> Name:
    """Return a name as a caption of a first screen has room for it; tables have all of it.

    Args:
        text: Name of a patient, an image or a class.
    """
    return Name(elided(text, _NAME_LETTERS))


def in_short(figure: Figure, title: str, caption: Text = "") -> Figure:
    """Return a figure of a section with a title and a caption that a first screen has room for.

    Args:
        figure: Figure, which keeps its drawing and its words.
        title: Short title.
        caption: Short caption.
    """
    return replace(figure, title=title, caption=caption, table=None)


def limits_of(table: pd.DataFrame, name: str, low: str = "", high: str = "") -> Limits:
    """Return a column of estimates with those of its limits.

    Args:
        table: Table of estimates.
        name: Name of the column.
        low: Name of the column of lower limits; ``NAME_low`` if not given.
        high: Name of the column of upper limits; ``NAME_high`` if not given.
    """
    lower, upper = low or f"{name}_low", high or f"{name}_high"
    return column_numbers(table, name), column_numbers(table, lower), column_numbers(table, upper)


def counts_of(numbers: ArrayLike) -> Limits:
    """Return counts as estimates without limits, [n] each.

    Args:
        numbers: Counts, [n].
    """
    values = np.asarray(numbers, dtype=float)
    nothing = np.full(len(values), np.nan)
    return values, nothing, nothing


def first_picture(sections: Sequence[Section]) -> list[Block]:
    """Choose the first figure of a page's sections for its first screen, with its title alone.

    Args:
        sections: Sections of the page.
    """
    figures = (block for section in sections for block in section.blocks if isinstance(block, Figure))
    figure = next(figures, None)
    return [] if figure is None else [Panel([in_short(figure, str(figure.title))])]
