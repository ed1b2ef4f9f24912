"""Figures of histograms: pools by distance, pairs by logit, pairs by score, one value among many like it.

* `distance_plot`: pools by distance: which of them are nearer, and how far they overlap.
* `logit_plot`: kinds of pairs over the logit of a detector's head (paper 004, figure 6).
* `score_plot`: kinds of pairs over their score, from given counts, each as a share of its own kind.
* `rank_plot`: a histogram with a line for the one value.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.columns import MINUS
from memorisk.report.figures.sheet import DASHES, SERIES, Sheet, colour

_BINS = 40
_TAIL = 0.99
"""Share of every pool; distances beyond it are drawn in the last bin, so that a few do not press all others. Distances
below 0 (minus a logit) are drawn in the first bin in the same way."""


def distance_plot(
    pools: Mapping[str, ArrayLike],
    *,
    x_title: str,
    marked: ArrayLike = (),
    marked_as: str = "",
) -> str:
    """Draw each pool as the share of its members by distance.

    Args:
        pools: Distances by name, [n]; NaN and infinities are left out, an empty pool is not drawn. Six at most.
        x_title: Name of the distances.
        marked: Distances marked below the axis' zero line, [k], such as those of listed patients.
        marked_as: Name of the marked distances.

    Returns:
        Figure as SVG text.
    """
    finite = {name: _finite(values) for name, values in pools.items()}
    finite = {name: values for name, values in finite.items() if len(values)}
    spots = _finite(marked)
    ends = [float(np.quantile(values, _TAIL)) for values in finite.values()]
    starts = [float(np.quantile(values, 1 - _TAIL)) for values in finite.values()]
    low = min([0.0, *starts, float(spots.min(initial=0.0))])
    high = max([*ends, float(spots.max(initial=low))], default=0.0)
    high = high if high > low else low + 1.0
    edges = np.linspace(low, high, _BINS + 1)
    entries: list[tuple[str, Any, str]] = []
    below = 16 * ((len(finite) + bool(len(spots)) + 1) // 2)
    sheet = Sheet(250 + below, left=52, top=28, right=20, bottom=52 + below)
    top = 0.0
    for i, (name, values) in enumerate(finite.items()):
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
    array = np.asarray(values, dtype=np.float64).ravel()
    return array[np.isfinite(array)]


def logit_plot(edges: ArrayLike, counts: Mapping[str, ArrayLike]) -> str:
    """Draw each kind as the share of its pairs by logit; the line at 0 is a probability of one half.

    Args:
        edges: Edges of the bins, [b + 1].
        counts: Number of pairs in each bin by kind, [b]; a kind without a pair is not drawn. Six at most.

    Returns:
        Figure as SVG text.
    """
    bins = np.asarray(edges, dtype=np.float64)
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in counts.items()}
    arrays = {name: values for name, values in arrays.items() if values.sum()}
    below = 16 * ((len(arrays) + 1) // 2)
    sheet = Sheet(250 + below, left=52, top=28, right=20, bottom=52 + below)
    entries: list[tuple[str, Any, str]] = []
    for i, (name, values) in enumerate(arrays.items()):
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


def score_plot(
    edges: ArrayLike, counts: Mapping[str, ArrayLike], *, x_title: str, marks: Mapping[str, float] | None = None
) -> str:
    """Draw outlines of histograms over one axis, and lines across at thresholds.

    Args:
        edges: Edges of the bins, [b + 1], increasing.
        counts: Number of pairs in each bin by kind, [b]; an empty kind is not drawn. Four at most.
        x_title: Name of the score.
        marks: Thresholds by name; those outside the edges are not drawn. Two at most.

    Returns:
        Figure as SVG text.
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
    """Return the number of digits that distinguishes the numbers of an axis."""
    return 3 + max(0, math.ceil(math.log10(max(abs(low), abs(high)) / (high - low)))) if high > low else 6


_RANK_BINS = 24


def rank_plot(others: ArrayLike, value: float, *, limit: float | None, x_title: str, names: tuple[str, str]) -> str:
    """Draw the other values as a histogram and the one value as a line.

    Args:
        others: Other values, [C]; NaN are left out.
        value: Value that is ranked.
        limit: Value beyond which the ranked one is significant; drawn dashed, None or infinite for none.
        x_title: Name of the values.
        names: Names of the line and of the bars.

    Returns:
        Figure as SVG text.
    """
    values = np.asarray(others, dtype=float)
    values = values[np.isfinite(values)]
    markers = [v for v in (value, limit) if v is not None and np.isfinite(v)]
    every = np.concatenate([values, markers])
    sheet = Sheet(250, left=40, top=44, right=20)
    axes = sheet.axes
    room = 0.05 * max(float(np.ptp(every)), 1e-6)
    span = (float(every.min()) - room, float(every.max()) + room)
    counts, edges = np.histogram(values, bins=_RANK_BINS, range=span)
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
