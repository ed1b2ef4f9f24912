"""Several series over the same rows, each value with its interval: architectures or regimes by class or data set."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, MARKERS, SERIES, Sheet, colour, label_margin
from memorisk.report.formats import MINUS

MOST_ROWS = 40
_LABEL_LETTERS = 22
_SERIES_POINTS, _GAP_POINTS = 11, 14  # height of one series of a row, and of the gap between two rows
_LINE_POINTS = 14  # from one line of a name to the next

Limits = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Estimates, lower limits, upper limits."""


def series_plot(
    labels: Sequence[str],
    series: Mapping[str, Limits],
    *,
    x_title: str,
    reference: float | None = 0.0,
    cut: bool = True,
    sublabels: Sequence[str] | None = None,
) -> str:
    """Draw for each row the value of every series with its interval, one below the other.

    Rows beyond 40 are left out; the caller chooses which come first. Intervals that reach far beyond all estimates are
    cut at the edge with an arrowhead. Series differ in colour, line and marker.

    Args:
        labels: ``[n]`` names of the rows, top to bottom.
        series: ``[n]`` estimates, lower and upper limits by name; NaN where there is none.
        x_title: Name of the axis; beside long labels there is room for some 40 letters.
        reference: A value to compare with, drawn across; None for nothing.
        cut: Whether intervals are cut; not needed where they have ends of their own, as correlations and shares do.
        sublabels: ``[n]`` second lines of the names, where one is too short; two series leave the room for them.

    Returns:
        SVG text.
    """
    labels, k = list(labels)[:MOST_ROWS], max(len(series), 1)
    drawn = {name: [np.asarray(v, dtype=float)[:MOST_ROWS] for v in limits] for name, limits in series.items()}
    below = 16 * ((k + 1) // 2)
    height = 64 + below + (_GAP_POINTS + _SERIES_POINTS * k) * max(len(labels), 1)
    beneath = list(sublabels or ())[:MOST_ROWS]
    sheet = Sheet(height, left=label_margin([*labels, *beneath], _LABEL_LETTERS), bottom=52 + below)
    axes = sheet.axes
    start, end = _ends(drawn, reference, cut)
    if reference is not None:
        axes.axvline(reference, color=colour("muted"), linewidth=0.8)
    for row, label in enumerate(labels):
        up = _LINE_POINTS / 2 / (_GAP_POINTS + _SERIES_POINTS * k) if beneath and beneath[row] else 0.0
        sheet.label(8, row - up, label, ha="right", space="row", limit=_LABEL_LETTERS)
        if up:
            sheet.label(8, row + up, beneath[row], ha="right", space="row", limit=_LABEL_LETTERS, ink="muted")
    entries, room = [], _SERIES_POINTS / (_GAP_POINTS + _SERIES_POINTS * k)
    for i, (name, limits) in enumerate(drawn.items()):
        look = (SERIES[i % len(SERIES)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)])
        shift = (i - (k - 1) / 2) * room
        for row in range(len(labels)):
            values = (float(limits[0][row]), float(limits[1][row]), float(limits[2][row]))
            _interval(sheet, values, row + shift, (start, end), look)
        entries.append((*look[:2], name))
    axes.set_xlim(start, end)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.yaxis.set_major_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    if entries:
        sheet.key_below(entries, below=52, markers=True)
    sheet.titles(x_title)
    return sheet.svg()


def _interval(
    sheet: Sheet, limits: tuple[float, float, float], row: float, ends: tuple[float, float], look: tuple
) -> None:
    """One value with its interval, cut with arrowheads where it leaves the axis."""
    (mean, low, high), (start, end), (ink, dash, marker) = limits, ends, look
    paint = {"color": colour(ink), "linestyle": "none", "clip_on": False}
    if np.isfinite(low) and np.isfinite(high):
        line = ([max(low, start), min(high, end)], [row, row])
        sheet.axes.plot(*line, color=colour(ink), linewidth=1.6, linestyle=dash, solid_capstyle="butt")
        for beyond, x, arrow in ((low < start, start, "<"), (high > end, end, ">")):
            if beyond:
                sheet.axes.plot([x], [row], marker=arrow, markersize=5, **paint)
    if np.isfinite(mean):
        sheet.axes.plot([mean], [row], marker=marker, markersize=5.5, **paint)


def _ends(drawn: Mapping[str, list[np.ndarray]], reference: float | None, cut: bool) -> tuple[float, float]:
    """Where the axis begins and ends: all estimates, and limits up to twice the estimates' own range beyond them."""
    columns = [np.concatenate([limits[i] for limits in drawn.values()] or [np.empty(0)]) for i in range(3)]
    means, lows, highs = (column[np.isfinite(column)] for column in columns)
    means = np.r_[means, [] if reference is None else [reference]]
    if not len(means):
        return 0.0, 1.0
    slack = max(2 * float(np.ptp(means)), 0.05) if cut else np.inf
    start = min(float(means.min()), max(float(lows.min(initial=np.inf)), float(means.min()) - slack))
    end = max(float(means.max()), min(float(highs.max(initial=-np.inf)), float(means.max()) + slack))
    room = 0.04 * (end - start) or 0.05
    return start - room, end + room
