"""Figures of the study of unique features: many canaries side by side, a score by epoch, latents."""

from collections.abc import Mapping

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, SERIES, Sheet, colour
from memorisk.report.formats import MINUS

Band = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Values, lower limits, upper limits."""


def spread_plot(values: ArrayLike, low: ArrayLike, high: ArrayLike, *, y_title: str, x_title: str) -> str:
    """Draw each unit as a point with a bar from low to high, in ascending order of the points.

    Args:
        values: [n].
        low: [n]; NaN for no bar.
        high: [n].
        y_title: Of the values.
        x_title: Of the units.

    Returns:
        SVG text.
    """
    point, lower, upper = (np.asarray(v, dtype=float) for v in (values, low, high))
    order = np.argsort(point, kind="stable")
    point, lower, upper = point[order], lower[order], upper[order]
    sheet = _sheet(280)
    axes, x = sheet.axes, np.arange(1, len(point) + 1)
    axes.axhline(0, color=colour("muted"), linewidth=0.8)
    known = np.isfinite(lower) & np.isfinite(upper)
    axes.vlines(x[known], lower[known], upper[known], color=colour("grey"), linewidth=1.4)
    axes.plot(x, point, "o", markersize=4 if len(x) > 40 else 5.5, color=colour("blue"), zorder=3)
    axes.set_xlim(0, len(x) + 1)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    sheet.titles(x_title, y_title)
    return sheet.svg()


def epoch_plot(epochs: ArrayLike, series: Mapping[str, Band], *, y_title: str) -> str:
    """Draw scores by epoch, each with its limits as a band.

    Args:
        epochs: [n].
        series: [n] values, lower and upper limits by name; limits may be NaN.
        y_title: Of the values.

    Returns:
        SVG text.
    """
    x = np.asarray(epochs, dtype=float)
    sheet = _sheet(300, bottom=46 + 16 * ((len(series) + 1) // 2))
    axes, entries = sheet.axes, []
    axes.axhline(0, color=colour("muted"), linewidth=0.8)
    for i, (name, band) in enumerate(series.items()):
        value, low, high = (np.asarray(v, dtype=float) for v in band)
        ink, dash = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        axes.plot(x, value, color=colour(ink), linestyle=dash, linewidth=2)
        for limit in (low, high):
            axes.plot(x, limit, color=colour(ink), linestyle=dash, linewidth=0.8)
        entries.append((ink, dash, name))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    sheet.key_below(entries, below=46)
    sheet.titles("Epoch", y_title)
    return sheet.svg()


def latent_plot(series: Mapping[str, ArrayLike], chosen: int) -> str:
    """Draw how often each latent is excited, one row of points a series, the chosen latent marked.

    Args:
        series: [L] shares by name.
        chosen: The latent that the text speaks of.

    Returns:
        SVG text.
    """
    sheet = _sheet(300, bottom=46 + 16 * ((len(series) + 1) // 2))
    axes, entries = sheet.axes, []
    axes.axvline(chosen, color=colour("muted"), linewidth=0.8, linestyle=(0, (4, 3)))
    for i, (name, shares) in enumerate(series.items()):
        value = np.asarray(shares, dtype=float)
        ink, dash = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        axes.plot(np.arange(len(value)), value, color=colour(ink), linestyle=dash, linewidth=1.4)
        entries.append((ink, dash, name))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    sheet.key_below(entries, below=46)
    sheet.titles("Latent before the last layer", "Share of probes that excite it")
    return sheet.svg()


def _sheet(height: float, bottom: float = 46) -> Sheet:
    sheet = Sheet(height, left=58, top=32, right=18, bottom=bottom)
    sheet.axes.yaxis.set_major_locator(MaxNLocator(6))
    sheet.axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    return sheet
