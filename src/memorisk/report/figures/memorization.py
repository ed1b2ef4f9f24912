"""The figures of memorization: arrays in, SVG text out, without global state.

Labels are data and may contain any text (see :mod:`memorisk.report.figures.sheet`). Values that are NaN are left
out.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike

from memorisk.report.columns import MINUS
from memorisk.report.figures.sheet import DASHES, FONT_SIZE, SERIES, Sheet, colour, label_margin, place_labels

MOST_ROWS = 40
_ROW_POINTS = 24
_LABEL_LETTERS = 22
_CURVE_POINTS = 240


def interval_plot(
    labels: Sequence[str],
    estimate: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    tiers: tuple[float, float] = (0.1, 0.3),
    x_title: str = "Mean M, with 95 % interval",
) -> str:
    """Draw one row per class: estimate and interval on an axis shaded by tier.

    Rows beyond 40 are left out; the caller chooses which come first. An interval much wider than the others is cut at
    the edge with an arrowhead, so that one small class does not press all others into a line.

    Args:
        labels: Names of the rows, ``[n]``, top to bottom.
        estimate: Mean of each row, ``[n]``.
        low: Lower limits, ``[n]``; NaN for a missing one.
        high: Upper limits, ``[n]``.
        tiers: Values at which LOW ends and HIGH begins.
        x_title: Name of the axis.
    """
    labels = list(labels)[:MOST_ROWS]
    mean, lower, upper = (np.asarray(v, dtype=float)[:MOST_ROWS] for v in (estimate, low, high))
    sheet = Sheet(70 + _ROW_POINTS * max(len(labels), 1), left=label_margin(labels, _LABEL_LETTERS), top=24)
    axes = sheet.axes
    start, end = _row_limits(mean, lower, upper, tiers)
    for name, a, b in (("low", start, tiers[0]), ("moderate", *tiers), ("high", tiers[1], end)):
        axes.axvspan(a, b, color=colour(name), linewidth=0, zorder=0)
        if (b - a) / (end - start) * sheet.plot_width > 8 * len(name):
            sheet.axes.text(
                (a + b) / 2, 1 + 7 / sheet.plot_height, name.upper(), transform=axes.get_xaxis_transform(), ha="center",
                va="bottom", fontsize=FONT_SIZE - 2, color=colour("muted"),
            )  # fmt: skip
    axes.axvline(0, color=colour("muted"), linewidth=0.8)
    for row, (m, a, b) in enumerate(zip(mean, lower, upper, strict=True)):
        sheet.label(8, row, labels[row], ha="right", space="row", limit=_LABEL_LETTERS)
        if np.isfinite(a) and np.isfinite(b):
            axes.plot(
                [max(a, start), min(b, end)], [row, row], color=colour("blue"), linewidth=2, solid_capstyle="butt"
            )
            for beyond, x, marker in ((a < start, start, "<"), (b > end, end, ">")):
                if beyond:
                    axes.plot([x], [row], marker=marker, markersize=6, color=colour("blue"), clip_on=False)
        if np.isfinite(m):
            axes.plot([m], [row], marker="o", markersize=7, color=colour("blue"), linestyle="none", clip_on=False)
    axes.set_xlim(start, end)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.yaxis.set_major_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain_number))
    sheet.titles(x_title)
    return sheet.svg()


def frequency_plot(
    labels: Sequence[str], frequency: ArrayLike, estimate: ArrayLike, low: ArrayLike, high: ArrayLike
) -> str:
    """Draw each class at its share of the images (log axis) and its mean memorization, with intervals.

    A label is left out where it has no room; the table next to the figure has them all.

    Args:
        labels: Names of the classes, ``[n]``.
        frequency: Share of each class, ``[n]``, in (0, 1].
        estimate: Mean of each class, ``[n]``.
        low: Lower limits, ``[n]``; NaN for a missing one.
        high: Upper limits, ``[n]``.
    """
    x, mean, lower, upper = (np.asarray(v, dtype=float) for v in (frequency, estimate, low, high))
    drawable = np.isfinite(x) & (x > 0) & np.isfinite(mean)
    sheet = Sheet(320, left=48, top=32, right=24)
    axes = sheet.axes
    axes.set_xscale("log")
    with_interval = drawable & np.isfinite(lower) & np.isfinite(upper)
    axes.vlines(x[with_interval], lower[with_interval], upper[with_interval], color=colour("grey"), linewidth=1.4)
    axes.plot(x[drawable], mean[drawable], "o", markersize=7, color=colour("blue"), zorder=3)
    axes.axhline(0, color=colour("muted"), linewidth=0.8)
    if drawable.any():
        axes.set_xlim(x[drawable].min() / 1.6, min(1.0, x[drawable].max() * 2.2))
        ends = np.r_[mean[drawable], lower[with_interval], upper[with_interval], 0.0]
        room = 0.08 * max(float(np.ptp(ends)), 0.1)
        axes.set_ylim(float(ends.min()) - room, float(ends.max()) + room)
    _percent_axis(axes.xaxis, *axes.get_xlim())
    axes.yaxis.set_major_formatter(FuncFormatter(_plain_number))
    chosen = np.flatnonzero(drawable)
    points = np.column_stack([x[chosen], mean[chosen]])
    names = [labels[int(i)] for i in chosen]
    limits = np.column_stack([lower, upper])[chosen]
    for i, ha, offset in place_labels(sheet, points, limits, names, _LABEL_LETTERS):
        sheet.label(points[i, 0], points[i, 1], names[i], ha=ha, offset=offset, limit=_LABEL_LETTERS)
    sheet.titles("Share of all images in the class (log scale)", "Mean memorization M, with 95 % interval")
    return sheet.svg()


def null_against_members(
    members: ArrayLike, null: ArrayLike, *, names: tuple[str, str] = ("training images", "unseen test images (null)")
) -> str:
    """Draw, for each value of M, the share of members and of the null that reach it (log axis).

    Args:
        members: Values of M of the images that were scored, ``[m]``.
        null: Values of the same statistic where nothing can have been memorized, ``[k]``.
        names: Names of the two lines.
    """
    sheet = Sheet(300, left=56, top=32)
    axes = sheet.axes
    smallest = 1.0
    for values, ink, dash in ((members, "blue", DASHES[0]), (null, "red", DASHES[1])):
        x, share = _survival(values)
        if len(x):
            smallest = min(smallest, float(share[-1]))
            axes.plot(x, share, color=colour(ink), linestyle=dash, linewidth=2, drawstyle="steps-pre")
    axes.set_yscale("log")
    axes.set_ylim(smallest / 1.5, 1.25)
    x_low, x_high = axes.get_xlim()
    axes.set_xlim(max(x_low, -abs(x_high) / 4), x_high)  # to the left of zero both lines are at 100 %
    axes.axvline(0, color=colour("muted"), linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(_plain_number))
    _percent_axis(axes.yaxis, smallest / 1.5, 1.25)
    sheet.key([("blue", DASHES[0], names[0]), ("red", DASHES[1], names[1])], y=0.94)
    sheet.titles(
        "M: what the image gains from being trained on", "Share of images that reach at least this M (log scale)"
    )
    return sheet.svg()


def share_plot(auc: ArrayLike, share: ArrayLike, chance: ArrayLike) -> str:
    """Draw the share of patients that reach each AUC, and the share that chance gives (log axis).

    Args:
        auc: Values of AUC, ascending, ``[a]``; those below guessing are not drawn.
        share: Share of patients with at least each of them, ``[a]``.
        chance: The same by chance, ``[a]``.
    """
    sheet = Sheet(300, left=56, top=32)
    x = np.asarray(auc, dtype=float)
    drawn = x >= 0.5
    smallest = 1.0
    for values, ink, dash in ((share, "blue", DASHES[0]), (chance, "red", DASHES[1])):
        y = np.asarray(values, dtype=float)[drawn]
        if (y > 0).any():
            smallest = min(smallest, float(y[y > 0].min()))
        sheet.axes.plot(
            x[drawn], np.where(y > 0, y, np.nan), color=colour(ink), linestyle=dash, linewidth=2, drawstyle="steps-pre"
        )
    sheet.axes.set_yscale("log")
    sheet.axes.set_ylim(smallest / 1.5, 1.25)
    sheet.axes.set_xlim(0.5, 1.005)
    sheet.axes.xaxis.set_major_formatter(FuncFormatter(_plain_number))
    _percent_axis(sheet.axes.yaxis, smallest / 1.5, 1.25)
    sheet.key([("blue", DASHES[0], "these patients"), ("red", DASHES[1], "chance")], y=0.94)
    sheet.titles("Attack AUC of a single patient over the models", "Share of patients that reach it (log scale)")
    return sheet.svg()


def roc_log(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    smallest_measurable: float | None = None,
    controls: Sequence[str] = (),
) -> str:
    """Draw ROC curves on log-log axes with the diagonal of guessing.

    Args:
        curves: False and true positive rates by attack, both rising.
        smallest_measurable: False positive rate below which the non-members are too few to measure; shaded.
        controls: Names of attacks that are controls, drawn in grey.
    """
    key_rows = len(curves) // 2 + 1
    sheet = Sheet(350 + 16 * key_rows, left=56, top=32, right=24, bottom=56 + 16 * key_rows)
    axes = sheet.axes
    cleaned = {name: _clean_curve(*curve) for name, curve in curves.items()}
    positive = np.concatenate([v[v > 0] for pair in cleaned.values() for v in pair] or [np.array([0.01])])
    start = min(10.0 ** np.floor(np.log10(positive.min() if positive.size else 0.01)), 0.01)
    diagonal = np.array([start, 1.0])
    axes.plot(diagonal, diagonal, color=colour("muted"), linewidth=1, linestyle=(0, (1, 2)))
    entries = []
    for i, (name, (fpr, tpr)) in enumerate(cleaned.items()):
        ink = "grey" if name in controls else SERIES[i % len(SERIES)]
        dash = DASHES[(i + i // len(SERIES)) % len(DASHES)]
        x, y = np.maximum(fpr, start), np.where(tpr > 0, tpr, np.nan)
        axes.plot(*_thin_log(x, y, start), color=colour(ink), linestyle=dash, linewidth=2, drawstyle="steps-post")
        entries.append((ink, dash, name))
    if smallest_measurable is not None and smallest_measurable > start:
        edge = min(smallest_measurable, 1.0)
        axes.axvspan(start, edge, color=colour("grid"), alpha=0.6, linewidth=0, zorder=0)
        axes.axvline(edge, color=colour("muted"), linewidth=1)
        place = 1 - np.log10(edge) / np.log10(start)
        if place * sheet.plot_width > 130:
            sheet.label(0, 1, "too few non-members", space="axes", offset=(5, -9), ink="muted")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(start, 1)
    axes.set_ylim(start, 1.15)
    _percent_axis(axes.xaxis, start, 1.0)
    _percent_axis(axes.yaxis, start, 1.0)
    sheet.key_below([*entries, ("muted", (0, (1, 2)), "guessing")], below=56)
    sheet.titles("False positive rate: non-members called members", "True positive rate: members found (both log)")
    return sheet.svg()


def p_value_histogram(p_values: ArrayLike, *, bins: int = 20) -> str:
    """Draw how many p-values fall into each bin of [0, 1], and the height they would have if nothing were memorized.

    Args:
        p_values: Values in [0, 1], ``[n]``.
        bins: Number of equal bins.
    """
    values = np.asarray(p_values, dtype=float)
    values = values[np.isfinite(values)]
    sheet = Sheet(240, left=52, top=32)
    axes = sheet.axes
    counts, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    axes.bar(edges[:-1], counts, width=1 / bins, align="edge", color=colour("blue"), edgecolor="none", alpha=0.75)
    expected = len(values) / bins
    axes.axhline(expected, color=colour("red"), linestyle=DASHES[1], linewidth=2)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, max(float(counts.max(initial=1)), expected) * 1.25)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    sheet.key([("red", DASHES[1], "expected without memorization")], y=0.93)
    sheet.titles("p-value", "Number")
    return sheet.svg()


def _row_limits(mean: np.ndarray, low: np.ndarray, high: np.ndarray, tiers: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of the axis: all means, and intervals up to three times the means' own range beyond them."""
    points = np.r_[mean[np.isfinite(mean)], 0.0, tiers[1] * 1.4]
    slack = max(float(np.ptp(points)), 0.5)
    lows, highs = low[np.isfinite(low)], high[np.isfinite(high)]
    start = min(float(points.min()), max(float(lows.min(initial=np.inf)), float(points.min()) - slack))
    end = max(float(points.max()), min(float(highs.max(initial=-np.inf)), float(points.max()) + slack))
    room = 0.03 * (end - start)
    return start - room, end + room


def _survival(values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted values and the share of all that reach each, thinned evenly in the share's logarithm."""
    x = np.sort(np.asarray(values, dtype=float))
    x = x[np.isfinite(x)]
    share = 1 - np.arange(len(x)) / max(len(x), 1)
    if len(x) <= _CURVE_POINTS:
        return x, share
    remaining = np.unique(np.round(np.geomspace(1, len(x), _CURVE_POINTS)).astype(int))[::-1]
    return x[len(x) - remaining], share[len(x) - remaining]


def _clean_curve(fpr: ArrayLike, tpr: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return both rates as arrays, without pairs that are not numbers."""
    x, y = np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float)
    finite = np.isfinite(x) & np.isfinite(y)
    return x[finite], y[finite]


def _thin_log(x: np.ndarray, y: np.ndarray, start: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve's last value up to each of some hundred rates that are even on a log axis: enough to see."""
    if len(x) <= _CURVE_POINTS:
        return x, y
    last = np.searchsorted(x, np.geomspace(start, 1.0, _CURVE_POINTS), side="right") - 1
    points = np.unique(np.r_[last[last >= 0], len(x) - 1])
    return x[points], y[points]


def _percent_axis(axis: Axis, low: float, high: float) -> None:
    """Tick a log axis of shares at powers of ten (and between them where there are few) and write them in per cent."""
    powers = [10.0**k for k in range(int(np.floor(np.log10(low))), 1) if low <= 10.0**k <= high * 1.001]
    if len(powers) < 3:
        wide = [m * 10.0**k for k in range(int(np.floor(np.log10(low))), 1) for m in (1, 2, 5)]
        powers = [v for v in wide if low <= v <= high * 1.001]
    axis.set_major_locator(FixedLocator(powers))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.10g} %"))


def _plain_number(value: float, _: object = None) -> str:
    """Return a tick's number without needless zeros and with a true minus sign."""
    return f"{value:.6g}".replace("-", MINUS)
