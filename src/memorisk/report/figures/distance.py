"""Pools of distances over one axis, as outlines of histograms: which lie nearer, and how far they overlap."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.figures.drawing import DASHES, SERIES, Sheet, colour
from memorisk.report.formats import MINUS

_BINS = 40
_TAIL = 0.99
"""Distances beyond this share of every pool are drawn in the last bin, so that a few do not press all others; those
below 0 (minus a logit) likewise in the first."""


def distance_plot(
    pools: Mapping[str, ArrayLike],
    *,
    x_title: str,
    marked: ArrayLike = (),
    marked_as: str = "",
) -> str:
    """Draw each pool as the share of its members by distance.

    Args:
        pools: [n] distances by name; NaN and infinities are left out, an empty pool is not drawn. Six at most.
        x_title: Name of the distances.
        marked: [k] distances marked below the axis' zero line, as of listed patients.
        marked_as: What they are called.

    Returns:
        SVG text.
    """
    kept = {name: _finite(values) for name, values in pools.items()}
    kept = {name: values for name, values in kept.items() if len(values)}
    spots = _finite(marked)
    ends = [float(np.quantile(values, _TAIL)) for values in kept.values()]
    starts = [float(np.quantile(values, 1 - _TAIL)) for values in kept.values()]
    low = min([0.0, *starts, float(spots.min(initial=0.0))])
    high = max([*ends, float(spots.max(initial=low))], default=0.0)
    high = high if high > low else low + 1.0
    edges = np.linspace(low, high, _BINS + 1)
    entries: list[tuple[str, Any, str]] = []
    below = 16 * ((len(kept) + bool(len(spots)) + 1) // 2)
    sheet = Sheet(250 + below, left=52, top=28, right=20, bottom=52 + below)
    top = 0.0
    for i, (name, values) in enumerate(kept.items()):
        share = np.histogram(np.clip(values, low, high), bins=edges)[0] / len(values)
        top = max(top, float(share.max()))
        look = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        sheet.axes.stairs(share, edges, color=colour(look[0]), linewidth=1.8, linestyle=look[1])
        entries.append((*look, name))
    if len(spots):
        look = {"marker": "^", "markersize": 5.5, "linestyle": "none", "color": colour("red"), "clip_on": False}
        sheet.axes.plot(spots, np.full(len(spots), -0.035 * top), **look)
        entries.append(("red", "none", f"\N{BLACK UP-POINTING TRIANGLE} {marked_as}"))
    sheet.axes.set_xlim(low, high)
    top = top or 1.0
    sheet.axes.set_ylim(-0.08 * top, 1.08 * top)
    sheet.axes.xaxis.set_major_locator(MaxNLocator(6))
    sheet.axes.yaxis.set_major_locator(MaxNLocator(4))
    sheet.axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}".replace("-", MINUS)))
    sheet.axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: "" if v < 0 else f"{100 * v:.3g} %"))
    sheet.key_below(entries, below=52)
    sheet.titles(x_title, "Share")
    return sheet.svg()


def _finite(values: ArrayLike) -> np.ndarray:
    found = np.asarray(values, dtype=np.float64).ravel()
    return found[np.isfinite(found)]
