"""One value among many like it: a histogram with a line."""

from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import Sheet, colour
from memorisk.report.formats import MINUS

_BINS = 24


def rank_plot(others: ArrayLike, value: float, *, limit: float | None, x_title: str, names: tuple[str, str]) -> str:
    """Draw the others as a histogram and the value as a line.

    Args:
        others: [C]; NaN are left out.
        value: Of what is ranked.
        limit: Beyond this the value would be called significant; drawn dashed, None or infinite for none.
        x_title: Name of the values.
        names: What the line and the bars are called.

    Returns:
        SVG text.
    """
    values = np.asarray(others, dtype=float)
    values = values[np.isfinite(values)]
    known = [v for v in (value, limit) if v is not None and np.isfinite(v)]
    every = np.concatenate([values, known])
    sheet = Sheet(250, left=40, top=44, right=20)
    axes = sheet.axes
    room = 0.05 * max(float(np.ptp(every)), 1e-6)
    span = (float(every.min()) - room, float(every.max()) + room)
    counts, edges = np.histogram(values, bins=_BINS, range=span)
    axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=colour("grey"), linewidth=0)
    entries: list[tuple[str, Any, str]] = [("grey", "solid", names[1])]
    if np.isfinite(value):
        axes.axvline(value, color=colour("red"), linewidth=2.2)
        entries.insert(0, ("red", "solid", names[0]))
    if limit is not None and np.isfinite(limit):
        axes.axvline(limit, color=colour("ink"), linewidth=1.2, linestyle=(0, (4, 3)))
        entries.append(("ink", (0, (4, 3)), "significant beyond"))
    axes.set_xlim(*span)
    axes.set_ylim(0, max(float(counts.max(initial=1)) * 1.5, 1))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    sheet.key(entries, y=0.96)
    sheet.titles(x_title, "Number")
    return sheet.svg()
