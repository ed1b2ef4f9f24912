"""Curves over the steps of a training: a line each, with the interval of every point."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from memorisk.report.figures.drawing import DASHES, MARKERS, SERIES, Sheet, colour
from memorisk.report.figures.series import Limits
from memorisk.report.formats import MINUS

MOST_LINES = 6
_SHIFT = 0.006  # of the axis: lines stand a little beside each other, so that intervals do not cover each other


def steps_plot(
    steps: Sequence[int],
    lines: Mapping[str, Limits],
    *,
    y_title: str,
    reference: tuple[float, str] | None = None,
    share: bool = False,
) -> str:
    """Draw lines over steps.

    Args:
        steps: [s] rising.
        lines: [s] estimates, lower and upper limits by name; NaN where there is none. Lines beyond six are left out.
        y_title: Of the values.
        reference: A value to compare with, drawn across, and its name.
        share: Whether values are shares, written in per cent from 0.

    Returns:
        SVG text.
    """
    drawn = {name: [np.asarray(v, dtype=float) for v in limits] for name, limits in list(lines.items())[:MOST_LINES]}
    entries: list[tuple[str, Any, str]] = []
    below = 16 * ((len(drawn) + (reference is not None) + 1) // 2)
    sheet = Sheet(260 + below, left=62, top=30, right=20, bottom=52 + below)
    axes, x = sheet.axes, np.asarray(steps, dtype=float)
    width = max(float(np.ptp(x)) if len(x) else 0.0, 1.0)
    for i, (name, (value, low, high)) in enumerate(drawn.items()):
        ink, dash, marker = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)]
        at = x + (i - (len(drawn) - 1) / 2) * _SHIFT * width
        known = np.isfinite(low) & np.isfinite(high)
        axes.vlines(at[known], low[known], high[known], color=colour(ink), linewidth=1.4)
        look = {"color": colour(ink), "linestyle": dash, "marker": marker, "clip_on": False}
        axes.plot(at, value, linewidth=1.8, markersize=5.5, **look)
        entries.append((ink, dash, name))
    if reference is not None:
        axes.axhline(reference[0], color=colour("muted"), linestyle=(0, (1, 2)), linewidth=1.4)
        entries.append(("muted", (0, (1, 2)), reference[1]))
    if len(x):
        axes.set_xlim(x[0] - 0.03 * width, x[-1] + 0.03 * width)
    if share:
        axes.set_ylim(0, min(1.02, max(0.1, 1.08 * axes.get_ylim()[1])))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %"))
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    if entries:
        sheet.key_below(entries, below=52, markers=False)
    sheet.titles("Steps of the training", y_title)
    return sheet.svg()


def _plain(value: float, _: object = None) -> str:
    """A tick's number without needless zeros and with a true minus sign."""
    return f"{value:.6g}".replace("-", MINUS)
