"""Figures of curves over steps, layers, strengths or epochs, and of canaries and latents in a row.

* `steps_plot`: a number over the steps of a training, one line per series, with the interval of every point.
* `layer_plot`: a number by layer, with a band for its interval: probes and distances of paper 000, A.9 and figure
  2.
* `strength_plot`: the share of copies that is recognised as they are changed more and more, one line per detector.
* `spread_plot`, `epoch_plot`, `latent_plot`: the study of unique features: many canaries in a row, a score by
  epoch, latents.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from memorisk.report.columns import MINUS
from memorisk.report.figures.intervals import Limits
from memorisk.report.figures.sheet import DASHES, MARKERS, SERIES, Sheet, colour

MOST_LINES = 6
_SHIFT = 0.006  # share of the axis by which lines are shifted, so that intervals do not cover each other


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
        steps: Steps of the training, [s], rising.
        lines: Estimates, lower and upper limits by name, [s] each; NaN for a missing one. Lines beyond six are left
            out.
        y_title: Title of the values.
        reference: Value to compare with, drawn across, and its name.
        share: Whether values are shares, written in per cent from 0.

    Returns:
        Figure as SVG text.
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
        finite = np.isfinite(low) & np.isfinite(high)
        axes.vlines(at[finite], low[finite], high[finite], color=colour(ink), linewidth=1.4)
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
    """Return a tick's number without needless zeros and with a true minus sign."""
    return f"{value:.6g}".replace("-", MINUS)


LayerBand = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Estimates, lower limits and upper limits of a series."""


def layer_plot(
    series: Mapping[str, LayerBand], *, y_title: str, reference: float | None = None, ceiling: float | None = None
) -> str:
    """Draw each series over the layers, first to last, with its interval as a band.

    Layers are numbered from 1; the table next to the figure names them.

    Args:
        series: Estimates, lower and upper limits by name, [L] each; NaN for a missing one.
        y_title: Name of the values.
        reference: Value to compare with, drawn across (0.5 for an AUROC).
        ceiling: Largest value that can be reached, drawn across and dashed; NaN is not drawn.
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


MOST_DETECTORS = 8


def strength_plot(strengths: Sequence[float], lines: Mapping[str, ArrayLike], *, x_title: str, y_title: str) -> str:
    """Draw shares against strengths, which are placed at equal distances.

    Args:
        strengths: Strengths of the change, [s], from the weakest to the strongest.
        lines: Shares by name, [s]; NaN for a missing one. Lines beyond eight are left out; the caller chooses.
        x_title: Title of the strengths.
        y_title: Title of the shares.

    Returns:
        Figure as SVG text.
    """
    drawn = dict(list(lines.items())[:MOST_DETECTORS])
    below = 16 * ((len(drawn) + 1) // 2)
    sheet = Sheet(240 + below, left=52, top=28, right=20, bottom=52 + below)
    places = np.arange(len(strengths))
    entries: list[tuple[str, Any, str]] = []
    for i, (name, values) in enumerate(drawn.items()):
        ink, dash, marker = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)]
        look = {"color": colour(ink), "linestyle": dash, "marker": marker, "clip_on": False}
        sheet.axes.plot(places, np.asarray(values, dtype=float), linewidth=1.8, markersize=5.5, **look)
        entries.append((ink, dash, name))
    sheet.axes.set_xlim(-0.2, max(len(strengths) - 0.8, 0.8))
    sheet.axes.set_ylim(0, 1.02)
    sheet.axes.xaxis.set_major_locator(FixedLocator(places.tolist()))
    sheet.axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _strength(strengths, v)))
    sheet.axes.yaxis.set_major_locator(MaxNLocator(5))
    sheet.axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %"))
    if entries:
        sheet.key_below(entries, below=52, markers=True)
    sheet.titles(x_title, y_title)
    return sheet.svg()


def _strength(strengths: Sequence[float], place: float) -> str:
    at = round(place)
    return f"{strengths[at]:g}" if 0 <= at < len(strengths) else ""


Band = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Values, lower limits and upper limits of a series."""


def spread_plot(values: ArrayLike, low: ArrayLike, high: ArrayLike, *, y_title: str, x_title: str) -> str:
    """Draw each unit as a point with a bar from low to high, in ascending order of the points.

    Args:
        values: Value of each unit, [n].
        low: Lower end of each bar, [n]; NaN for no bar.
        high: Upper end of each bar, [n].
        y_title: Title of the values.
        x_title: Title of the units.

    Returns:
        Figure as SVG text.
    """
    point, lower, upper = (np.asarray(v, dtype=float) for v in (values, low, high))
    order = np.argsort(point, kind="stable")
    point, lower, upper = point[order], lower[order], upper[order]
    sheet = _sheet(280)
    axes, x = sheet.axes, np.arange(1, len(point) + 1)
    axes.axhline(0, color=colour("muted"), linewidth=0.8)
    finite = np.isfinite(lower) & np.isfinite(upper)
    axes.vlines(x[finite], lower[finite], upper[finite], color=colour("grey"), linewidth=1.4)
    axes.plot(x, point, "o", markersize=4 if len(x) > 40 else 5.5, color=colour("blue"), zorder=3)
    axes.set_xlim(0, len(x) + 1)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    sheet.titles(x_title, y_title)
    return sheet.svg()


def epoch_plot(epochs: ArrayLike, series: Mapping[str, Band], *, y_title: str) -> str:
    """Draw scores by epoch, each with its limits as a band.

    Args:
        epochs: Numbers of the epochs, [n].
        series: Values, lower and upper limits by name, [n] each; limits may be NaN.
        y_title: Title of the values.

    Returns:
        Figure as SVG text.
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
    """Draw how often each latent is excited, one row of points per series, with the chosen latent marked.

    Args:
        series: Shares of each latent by name, [L].
        chosen: Number of the latent that the text describes.

    Returns:
        Figure as SVG text.
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
