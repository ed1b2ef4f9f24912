"""What is still recognised as copies are changed more and more: a line a detector over the strengths of one family."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, MARKERS, SERIES, Sheet, colour

MOST_LINES = 8


def strength_plot(strengths: Sequence[float], lines: Mapping[str, ArrayLike], *, x_title: str, y_title: str) -> str:
    """Draw shares against strengths, which stand at equal distances.

    Args:
        strengths: [s] from the weakest to the strongest.
        lines: [s] shares by name; NaN where there is none. Lines beyond eight are left out; the caller chooses.
        x_title: Of the strengths.
        y_title: Of the shares.

    Returns:
        SVG text.
    """
    drawn = dict(list(lines.items())[:MOST_LINES])
    below = 16 * ((len(drawn) + 1) // 2)
    sheet = Sheet(240 + below, left=52, top=28, right=20, bottom=52 + below)
    places = np.arange(len(strengths))
    entries: list[tuple[str, Any, str]] = []
    for i, (name, values) in enumerate(drawn.items()):
        ink, dash, marker = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)]
        look = {"color": colour(ink), "linestyle": dash, "marker": marker, "clip_on": False}
        sheet.axes.plot(places, np.asarray(values, dtype=float), linewidth=1.8, markersize=5.5, **look)
        entries.append((ink, dash, name))
    sheet.axes.set_xlim(-0.2, max(len(strengths) - 0.8, 0.8))
    sheet.axes.set_ylim(0, 1.02)
    sheet.axes.xaxis.set_major_locator(FixedLocator(places.tolist()))
    sheet.axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _strength(strengths, v)))
    sheet.axes.yaxis.set_major_locator(MaxNLocator(5))
    sheet.axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %"))
    if entries:
        sheet.key_below(entries, below=52, markers=True)
    sheet.titles(x_title, y_title)
    return sheet.svg()


def _strength(strengths: Sequence[float], place: float) -> str:
    at = round(place)
    return f"{strengths[at]:g}" if 0 <= at < len(strengths) else ""
