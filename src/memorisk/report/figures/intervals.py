"""Figures of estimates with intervals: series by row, differences with their noise, two numbers against each other.

* `series_plot`: several series over the same rows (architectures or regimes by class or data set).
* `difference_plot`: differences and the noise that they must exceed, two intervals per row.
* `joint_plot`: two shares against each other, one point per detector; the size of a point is a further number.
* `tradeoff_plot`: the cost of a defence: accuracy on unseen images against what is remembered, one point per regime.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from memorisk.report.columns import MINUS
from memorisk.report.figures.sheet import DASHES, MARKERS, SERIES, Sheet, colour, label_margin

MOST_ROWS = 40
_LABEL_LETTERS = 22
_SERIES_POINTS, _GAP_POINTS = 11, 14  # height of one series of a row, and of the gap between two rows
_LINE_POINTS = 14  # distance from one line of a name to the next

Limits = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Estimates, lower limits and upper limits of a series."""


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
        labels: Names of the rows, ``[n]``, top to bottom.
        series: Estimates, lower and upper limits by name, ``[n]`` each; NaN for a missing one.
        x_title: Name of the axis; next to long labels there is room for some 40 letters.
        reference: Value to compare with, drawn across; None for nothing.
        cut: Whether intervals are cut; correlations and shares, which have ends of their own, need no cut.
        sublabels: Second lines of the names, ``[n]``, where one is too short.

    Returns:
        Figure as SVG text.
    """
    labels, k = list(labels)[:MOST_ROWS], max(len(series), 1)
    beneath = list(sublabels or ())[:MOST_ROWS]
    row_points = _GAP_POINTS + _SERIES_POINTS * max(k, 2 if beneath else 1)
    drawn = {name: [np.asarray(v, dtype=float)[:MOST_ROWS] for v in limits] for name, limits in series.items()}
    below = 16 * ((k + 1) // 2)
    height = 64 + below + row_points * max(len(labels), 1)
    sheet = Sheet(height, left=label_margin([*labels, *beneath], _LABEL_LETTERS), bottom=52 + below)
    axes = sheet.axes
    start, end = _ends(drawn, reference, cut)
    if reference is not None:
        axes.axvline(reference, color=colour("muted"), linewidth=0.8)
    for row, label in enumerate(labels):
        up = _LINE_POINTS / 2 / row_points if beneath and beneath[row] else 0.0
        sheet.label(8, row - up, label, ha="right", space="row", limit=_LABEL_LETTERS)
        if up:
            sheet.label(8, row + up, beneath[row], ha="right", space="row", limit=_LABEL_LETTERS, ink="muted")
    entries, room = [], _SERIES_POINTS / row_points
    for i, (name, limits) in enumerate(drawn.items()):
        look = (SERIES[i % len(SERIES)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)])
        shift = (i - (k - 1) / 2) * room
        for row in range(len(labels)):
            values = (float(limits[0][row]), float(limits[1][row]), float(limits[2][row]))
            _interval(sheet, values, row + shift, (start, end), look)
        entries.append((*look[:2], name))
    _row_axes(axes, (start, end), len(labels))
    if entries:
        sheet.key_below(entries, below=52, markers=True)
    sheet.titles(x_title)
    return sheet.svg()


def _row_axes(axes: Axes, ends: tuple[float, float], n_rows: int) -> None:
    """Scale the axis of values to its ends, and the other one to the rows, from top to bottom and without ticks."""
    axes.set_xlim(*ends)
    axes.set_ylim(max(n_rows, 1) - 0.5, -0.5)
    axes.yaxis.set_major_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))


_Weights = tuple[float, float, float]  # sizes in points of a line, an arrowhead and a marker
_LIGHT, _HEAVY = (1.6, 5, 5.5), (2, 6, 6)


def _interval(
    sheet: Sheet,
    limits: tuple[float, float, float],
    row: float,
    ends: tuple[float, float],
    look: tuple,
    weights: _Weights = _LIGHT,
) -> None:
    """Draw one value with its interval, cut with arrowheads where it leaves the axis."""
    (mean, low, high), (start, end), (ink, dash, marker) = limits, ends, look
    line_width, arrow_size, marker_size = weights
    paint = {"color": colour(ink), "linestyle": "none", "clip_on": False}
    if np.isfinite(low) and np.isfinite(high):
        line = ([max(low, start), min(high, end)], [row, row])
        sheet.axes.plot(*line, color=colour(ink), linewidth=line_width, linestyle=dash, solid_capstyle="butt")
        for beyond, x, arrow in ((low < start, start, "<"), (high > end, end, ">")):
            if beyond:
                sheet.axes.plot([x], [row], marker=arrow, markersize=arrow_size, **paint)
    if np.isfinite(mean):
        sheet.axes.plot([mean], [row], marker=marker, markersize=marker_size, **paint)


def _ends(drawn: Mapping[str, list[np.ndarray]], reference: float | None, cut: bool) -> tuple[float, float]:
    """Return the ends of the axis: all estimates, and limits up to twice the estimates' own range beyond them."""
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


_ROW_POINTS = 34
_APART = 0.17  # share of a row by which each of the two intervals is shifted from its middle

Intervals = tuple[ArrayLike, ...]  # estimates, lower limits, upper limits


def difference_plot(labels: Sequence[str], difference: Intervals, noise: Intervals) -> str:
    """Draw for each class the difference by an intervention (full line, dot), below it that by retraining (dashed).

    Rows beyond 40 are left out; the caller chooses which come first. Intervals that reach far beyond all estimates
    are cut at the edge with an arrowhead.

    Args:
        labels: Names of the rows, ``[n]``, top to bottom.
        difference: Estimates, lower and upper limits of the difference, ``[n]`` each; NaN for a missing one.
        noise: Estimates, lower and upper limits of the noise, ``[n]`` each.

    Returns:
        Figure as SVG text.
    """
    labels = list(labels)[:MOST_ROWS]
    both = {
        name: [np.asarray(v, dtype=float)[:MOST_ROWS] for v in limits]
        for name, limits in zip(("difference", "noise"), (difference, noise), strict=True)
    }
    sheet = Sheet(96 + _ROW_POINTS * max(len(labels), 1), left=label_margin(labels, _LABEL_LETTERS), bottom=72)
    axes = sheet.axes
    start, end = _ends(both, 0.0, cut=True)
    axes.axvline(0, color=colour("muted"), linewidth=0.8)
    for row, label in enumerate(labels):
        sheet.label(8, row, label, ha="right", space="row", limit=_LABEL_LETTERS)
    for (mean, low, high), ink, dash, marker, shift in zip(
        both.values(), ("blue", "grey"), DASHES[:2], ("o", "s"), (-_APART, _APART), strict=True
    ):
        for row in range(len(labels)):
            limits = (mean[row], low[row], high[row])
            _interval(sheet, limits, row + shift, (start, end), (ink, dash, marker), _HEAVY)
    _row_axes(axes, (start, end), len(labels))
    sheet.key_below([("blue", DASHES[0], "the intervention"), ("grey", DASHES[1], "retraining alone")], below=56)
    sheet.titles("Difference of mean M, with 95 % interval")
    return sheet.svg()


_SMALLEST, _LARGEST = 4.0, 15.0  # points across


def joint_plot(names: Sequence[str], x: Limits, y: Limits, sizes: ArrayLike, *, x_title: str, y_title: str) -> str:
    """Draw each detector at its two numbers.

    Args:
        names: Names of the detectors, [n].
        x: Estimates, lower and upper limits of the first number, [n] each.
        y: Estimates, lower and upper limits of the second number, [n] each.
        sizes: Sizes above 0, or NaN, [n]; the area of a point grows with the logarithm.
        x_title: Title of the first number.
        y_title: Title of the second number.

    Returns:
        Figure as SVG text.
    """
    across, up = ([np.asarray(v, dtype=float) for v in limits] for limits in (x, y))
    key = 16 * ((len(names) + 1) // 2)
    sheet = Sheet(320 + key, left=52, top=32, right=24, bottom=52 + key)
    entries, widths = [], _widths(np.asarray(sizes, dtype=float))
    for i, name in enumerate(names):
        ink, dash, marker = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)]
        line = {"color": colour(ink), "linewidth": 1.1, "linestyle": dash}
        sheet.axes.plot([across[1][i], across[2][i]], [up[0][i], up[0][i]], **line)
        sheet.axes.plot([across[0][i], across[0][i]], [up[1][i], up[2][i]], **line)
        look = {"marker": marker, "markersize": widths[i], "linestyle": "none", "color": colour(ink), "clip_on": False}
        sheet.axes.plot([across[0][i]], [up[0][i]], **look)
        entries.append((ink, dash, name))
    for axis in (sheet.axes.xaxis, sheet.axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.3g}".replace("-", MINUS)))
    if entries:
        sheet.key_below(entries, below=52, markers=True)
    sheet.titles(x_title, y_title)
    return sheet.svg()


def _widths(sizes: np.ndarray) -> np.ndarray:
    """Return widths [n] in points whose areas grow with the logarithm; the smallest for points without a size."""
    logs = np.log(np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.nan))
    if not np.isfinite(logs).any():
        return np.full(len(sizes), _SMALLEST)
    low, high = np.nanmin(logs), np.nanmax(logs)
    share = np.nan_to_num((logs - low) / (high - low if high > low else 1.0))
    return np.sqrt(_SMALLEST**2 + share * (_LARGEST**2 - _SMALLEST**2))


def tradeoff_plot(names: Sequence[str], accuracy: Limits, memorized: Limits, majority: float) -> str:
    """Draw each regime at its accuracy and its mean M, with both intervals; a line marks the majority class.

    Args:
        names: Names of the regimes, ``[n]``.
        accuracy: Estimates, lower and upper limits, shares, ``[n]`` each; NaN for missing limits.
        memorized: Estimates, lower and upper limits of mean M, ``[n]`` each.
        majority: Accuracy of an answer that is always the commonest class.

    Returns:
        Figure as SVG text.
    """
    x, x_low, x_high = (np.asarray(v, dtype=float) for v in accuracy)
    y, y_low, y_high = (np.asarray(v, dtype=float) for v in memorized)
    key = 16 * ((len(names) + 1) // 2)
    sheet = Sheet(320 + key, left=48, top=32, right=24, bottom=52 + key)
    axes, entries = sheet.axes, []
    axes.axvline(majority, color=colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)))
    axes.axhline(0, color=colour("muted"), linewidth=0.8)
    for i, name in enumerate(names):
        ink, dash = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        line = {"color": colour(ink), "linestyle": dash, "linewidth": 1.6}
        axes.plot([x_low[i], x_high[i]], [y[i], y[i]], **line)
        axes.plot([x[i], x[i]], [y_low[i], y_high[i]], **line)
        axes.plot(x[i], y[i], MARKERS[i % len(MARKERS)], markersize=7, color=colour(ink), zorder=3)
        entries.append((ink, dash, name))
    for set_limits, values in (
        (axes.set_xlim, (x, x_low, x_high, [majority])),
        (axes.set_ylim, (y, y_low, y_high, [0.0])),
    ):
        ends = np.concatenate([np.asarray(v, dtype=float) for v in values])
        ends = ends[np.isfinite(ends)]
        room = 0.1 * max(float(np.ptp(ends)), 0.05)
        set_limits(float(ends.min()) - room, float(ends.max()) + room)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %".replace("-", MINUS)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    sheet.key_below(entries, below=52, markers=True)
    sheet.titles("Accuracy on unseen images (dashed: the majority class)", "Mean memorization M, with 95 % intervals")
    return sheet.svg()
