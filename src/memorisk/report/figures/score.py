"""Kinds of pairs over their score, from counts that were made elsewhere, each kind as a share of its own."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, SERIES, Sheet, colour
from memorisk.report.formats import MINUS


def score_plot(
    edges: ArrayLike, counts: Mapping[str, ArrayLike], *, x_title: str, marks: Mapping[str, float] | None = None
) -> str:
    """Draw outlines of histograms over one axis, and lines across at thresholds.

    Args:
        edges: [b + 1] increasing.
        counts: [b] of each kind by name; an empty kind is not drawn. Four at most.
        x_title: Name of the score.
        marks: Thresholds by name; those outside the edges are not drawn. Two at most.

    Returns:
        SVG text.
    """
    bounds = np.asarray(edges, dtype=np.float64)
    drawn = {name: np.asarray(values, dtype=np.float64) for name, values in counts.items()}
    drawn = {name: values / values.sum() for name, values in drawn.items() if values.sum() > 0}
    spots = {name: at for name, at in (marks or {}).items() if bounds[0] <= at <= bounds[-1]}
    below = 16 * ((len(drawn) + len(spots) + 1) // 2)
    sheet = Sheet(250 + below, left=52, top=28, right=20, bottom=52 + below)
    entries: list[tuple[str, Any, str]] = []
    for i, (name, share) in enumerate(drawn.items()):
        look = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        sheet.axes.stairs(share, bounds, color=colour(look[0]), linewidth=1.8, linestyle=look[1])
        entries.append((*look, name))
    for i, (name, at) in enumerate(spots.items()):
        look = ("muted", "ink")[i % 2], DASHES[(i + 2) % len(DASHES)]
        sheet.axes.axvline(at, color=colour(look[0]), linewidth=1.4, linestyle=look[1])
        entries.append((*look, name))
    top = max((float(share.max()) for share in drawn.values()), default=1.0)
    sheet.axes.set_xlim(float(bounds[0]), float(bounds[-1]))
    sheet.axes.set_ylim(0, 1.08 * top)
    sheet.axes.xaxis.set_major_locator(MaxNLocator(5))
    sheet.axes.yaxis.set_major_locator(MaxNLocator(4))
    digits = _digits(float(bounds[0]), float(bounds[-1]))
    sheet.axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.{digits}g}".replace("-", MINUS)))
    sheet.axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %"))
    if entries:
        sheet.key_below(entries, below=52)
    sheet.titles(x_title, "Share of its pairs")
    return sheet.svg()


def _digits(low: float, high: float) -> int:
    """Digits that tell numbers of an axis apart."""
    return 3 + max(0, math.ceil(math.log10(max(abs(low), abs(high)) / (high - low)))) if high > low else 6
