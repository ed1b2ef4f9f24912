"""Differences beside the noise they have to stand out from: one row a class, two intervals a row."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, Sheet, colour, label_margin
from memorisk.report.formats import MINUS

MOST_ROWS = 40
_ROW_POINTS = 34
_LABEL_LETTERS = 22
_APART = 0.17  # of a row, each of the two intervals from its middle

Limits = tuple[ArrayLike, ...]  # estimates, lower limits, upper limits


def difference_plot(
    labels: Sequence[str],
    difference: Limits,
    noise: Limits,
    *,
    names: tuple[str, str] = ("the intervention", "retraining alone"),
    x_title: str = "Difference of mean M, with 95 % interval",
) -> str:
    """Draw for each class the difference (full line, dot) and below it the noise (dashed, square).

    Rows beyond 40 are left out; the caller chooses which come first. Intervals that reach far beyond all estimates
    are cut at the edge with an arrowhead.

    Args:
        labels: ``[n]`` names of the rows, top to bottom.
        difference: ``[n]`` estimates, lower and upper limits; NaN where there is none.
        noise: ``[n]`` the same of the noise.
        names: What the two are called.
        x_title: Name of the axis.

    Returns:
        SVG text.
    """
    labels = list(labels)[:MOST_ROWS]
    both = [[np.asarray(v, dtype=float)[:MOST_ROWS] for v in limits] for limits in (difference, noise)]
    sheet = Sheet(96 + _ROW_POINTS * max(len(labels), 1), left=label_margin(labels, _LABEL_LETTERS), bottom=72)
    axes = sheet.axes
    start, end = _limits(both)
    axes.axvline(0, color=colour("muted"), linewidth=0.8)
    for row, label in enumerate(labels):
        sheet.label(8, row, label, ha="right", space="row", limit=_LABEL_LETTERS)
    for (mean, low, high), ink, dash, marker, shift in zip(
        both, ("blue", "grey"), DASHES[:2], ("o", "s"), (-_APART, _APART), strict=True
    ):
        for row in range(len(labels)):
            _interval(sheet, (mean[row], low[row], high[row]), row + shift, (start, end), (ink, dash, marker))
    axes.set_xlim(start, end)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.yaxis.set_major_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    sheet.key_below([("blue", DASHES[0], names[0]), ("grey", DASHES[1], names[1])], below=56)
    sheet.titles(x_title)
    return sheet.svg()


def _interval(
    sheet: Sheet,
    limits: tuple[float, float, float],
    row: float,
    ends: tuple[float, float],
    look: tuple[str, object, str],
) -> None:
    """One estimate with its interval, cut with arrowheads where it leaves the axis."""
    (mean, low, high), (start, end), (ink, dash, marker) = limits, ends, look
    paint = {"color": colour(ink), "clip_on": False}
    if np.isfinite(low) and np.isfinite(high):
        line = ([max(low, start), min(high, end)], [row, row])
        sheet.axes.plot(*line, color=colour(ink), linewidth=2, linestyle=dash, solid_capstyle="butt")
        for beyond, x, arrow in ((low < start, start, "<"), (high > end, end, ">")):
            if beyond:
                sheet.axes.plot([x], [row], marker=arrow, markersize=6, **paint)
    if np.isfinite(mean):
        sheet.axes.plot([mean], [row], marker=marker, markersize=6, linestyle="none", **paint)


def _limits(both: list[list[np.ndarray]]) -> tuple[float, float]:
    """Where the axis begins and ends: all estimates, and limits up to twice the estimates' own range beyond them."""
    means = np.r_[both[0][0], both[1][0], 0.0]
    means = means[np.isfinite(means)]
    slack = max(2 * float(np.ptp(means)), 0.05)
    lows, highs = (np.r_[both[0][i], both[1][i]] for i in (1, 2))
    lows, highs = lows[np.isfinite(lows)], highs[np.isfinite(highs)]
    start = min(float(means.min()), max(float(lows.min(initial=np.inf)), float(means.min()) - slack))
    end = max(float(means.max()), min(float(highs.max(initial=-np.inf)), float(means.max()) + slack))
    room = 0.04 * (end - start) or 0.05
    return start - room, end + room
