"""What a defence costs: accuracy on unseen images against what is remembered, a point a regime."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, MARKERS, SERIES, Sheet, colour
from memorisk.report.formats import MINUS

Limits = tuple[ArrayLike, ArrayLike, ArrayLike]


def tradeoff_plot(names: Sequence[str], accuracy: Limits, memorized: Limits, majority: float) -> str:
    """Draw each regime at its accuracy and its mean M, with both intervals; a line marks the majority class.

    Args:
        names: ``[n]`` of the regimes.
        accuracy: ``[n]`` estimates, lower and upper limits, shares; NaN limits where there are none.
        memorized: ``[n]`` the same of mean M.
        majority: Accuracy of always answering the commonest class.

    Returns:
        SVG text.
    """
    x, left, right = (np.asarray(v, dtype=float) for v in accuracy)
    y, low, high = (np.asarray(v, dtype=float) for v in memorized)
    key = 16 * ((len(names) + 1) // 2)
    sheet = Sheet(320 + key, left=48, top=32, right=24, bottom=52 + key)
    axes, entries = sheet.axes, []
    axes.axvline(majority, color=colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)))
    axes.axhline(0, color=colour("muted"), linewidth=0.8)
    for i, name in enumerate(names):
        ink, dash = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        line = {"color": colour(ink), "linestyle": dash, "linewidth": 1.6}
        axes.plot([left[i], right[i]], [y[i], y[i]], **line)
        axes.plot([x[i], x[i]], [low[i], high[i]], **line)
        axes.plot(x[i], y[i], MARKERS[i % len(MARKERS)], markersize=7, color=colour(ink), zorder=3)
        entries.append((ink, dash, name))
    for set_limits, values in ((axes.set_xlim, (x, left, right, [majority])), (axes.set_ylim, (y, low, high, [0.0]))):
        ends = np.concatenate([np.asarray(v, dtype=float) for v in values])
        ends = ends[np.isfinite(ends)]
        room = 0.1 * max(float(np.ptp(ends)), 0.05)
        set_limits(float(ends.min()) - room, float(ends.max()) + room)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %".replace("-", MINUS)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    sheet.key_below(entries, below=52, markers=True)
    sheet.titles("Accuracy on unseen images (dashed: the majority class)", "Mean memorization M, with 95 % intervals")
    return sheet.svg()
