"""Two shares against each other, a point a detector with both intervals; the size of a point is a number of its own."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, MARKERS, SERIES, Sheet, colour
from memorisk.report.formats import MINUS

Limits = tuple[ArrayLike, ArrayLike, ArrayLike]
_SMALLEST, _LARGEST = 4.0, 15.0  # points across


def joint_plot(names: Sequence[str], x: Limits, y: Limits, sizes: ArrayLike, *, x_title: str, y_title: str) -> str:
    """Draw each detector at its two numbers.

    Args:
        names: [n] of the detectors.
        x: [n] estimates, lower and upper limits.
        y: [n] the same of the other number.
        sizes: [n] above 0, or NaN; the area of a point grows with the logarithm.
        x_title: Of the first number.
        y_title: Of the second number.

    Returns:
        SVG text.
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
    """[n] points across, so that areas grow with the logarithm; the smallest for what has no size."""
    logs = np.log(np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.nan))
    if not np.isfinite(logs).any():
        return np.full(len(sizes), _SMALLEST)
    low, high = np.nanmin(logs), np.nanmax(logs)
    share = np.nan_to_num((logs - low) / (high - low if high > low else 1.0))
    return np.sqrt(_SMALLEST**2 + share * (_LARGEST**2 - _SMALLEST**2))
