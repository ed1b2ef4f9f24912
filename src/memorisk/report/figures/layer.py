"""A number by layer, with a band for its interval: probes and distances of paper 000, A.9 and figure 2."""

from collections.abc import Mapping

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, SERIES, Sheet, colour
from memorisk.report.formats import MINUS

Limits = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Estimates, lower limits, upper limits."""


def layer_plot(
    series: Mapping[str, Limits], *, y_title: str, reference: float | None = None, ceiling: float | None = None
) -> str:
    """Draw each series over the layers, first to last, its interval as a band.

    Layers are numbered from 1; the table beside the figure names them.

    Args:
        series: [L] estimates, lower and upper limits by name; NaN where there is none.
        y_title: Name of the values.
        reference: A value to compare with, drawn across (0.5 for an AUROC).
        ceiling: The most that can be reached, drawn across and dashed; NaN is not drawn.
    """
    sheet = Sheet(300 + 16 * ((len(series) + 1) // 2), left=52, top=32, bottom=52 + 16 * ((len(series) + 1) // 2))
    axes = sheet.axes
    entries, most = [], 1
    for i, (name, limits) in enumerate(series.items()):
        mean, low, high = (np.asarray(v, dtype=float) for v in limits)
        x = np.arange(1, len(mean) + 1)
        most = max(most, len(mean))
        ink, dash = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        axes.fill_between(x, low, high, color=colour(ink), alpha=0.18, linewidth=0)
        axes.plot(x, mean, color=colour(ink), linestyle=dash, linewidth=2, marker="o", markersize=4)
        entries.append((ink, dash, name))
    if reference is not None:
        axes.axhline(reference, color=colour("muted"), linewidth=1)
    if ceiling is not None and np.isfinite(ceiling):
        axes.axhline(ceiling, color=colour("muted"), linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set_xlim(0.5, most + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    sheet.key_below(entries, below=52)
    sheet.titles("Layer, first to last", y_title)
    return sheet.svg()
