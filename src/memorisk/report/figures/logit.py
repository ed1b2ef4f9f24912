"""Kinds of pairs over the logit of a detector's head, as outlines of histograms (paper 004, figure 6)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, SERIES, Sheet, colour
from memorisk.report.formats import MINUS


def logit_plot(edges: ArrayLike, counts: Mapping[str, ArrayLike]) -> str:
    """Draw each kind as the share of its pairs by logit; the line at 0 is a probability of one half.

    Args:
        edges: [b + 1] of the bins.
        counts: [b] pairs by kind; a kind without a pair is not drawn. Six at most.

    Returns:
        SVG text.
    """
    bins = np.asarray(edges, dtype=np.float64)
    found = {name: np.asarray(values, dtype=np.float64) for name, values in counts.items()}
    found = {name: values for name, values in found.items() if values.sum()}
    below = 16 * ((len(found) + 1) // 2)
    sheet = Sheet(250 + below, left=52, top=28, right=20, bottom=52 + below)
    entries: list[tuple[str, Any, str]] = []
    for i, (name, values) in enumerate(found.items()):
        look = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        sheet.axes.stairs(values / values.sum(), bins, color=colour(look[0]), linewidth=1.8, linestyle=look[1])
        entries.append((*look, name))
    sheet.axes.axvline(0, color=colour("muted"), linewidth=1.0)
    sheet.axes.set_xlim(bins[0], bins[-1])
    sheet.axes.set_ylim(bottom=0)
    sheet.axes.xaxis.set_major_locator(MaxNLocator(7))
    sheet.axes.yaxis.set_major_locator(MaxNLocator(4))
    sheet.axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    sheet.axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %"))
    sheet.key_below(entries, below=52)
    sheet.titles("Logit; the line at 0 is P = 0.5", "Share of pairs")
    return sheet.svg()
