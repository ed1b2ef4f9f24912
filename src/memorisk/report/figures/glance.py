"""Figures of a first screen, which answer before anything is read: people as dots, attacks on a bar, losses on a strip.

All are SVG text with colours by class, so that a dark page exchanges them. Labels may hold any text.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np
from markupsafe import escape
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from memorisk.report.columns import count
from memorisk.report.figures.sheet import FONT_SIZE, Sheet, colour, label_margin

MOST_DOTS = 400
"""Largest number of dots; each dot of a larger group is several people."""
_PER_ROW = 40
_PITCH = 10.0
_LABEL_LETTERS = 26
_BAR_POINTS = 34
STRIP_WIDTH = 180.0
"""Width of a strip of losses, in its own units."""


def dots_plot(n_marked: int, n: int) -> str:
    """Draw people as dots, those who are marked first and in another colour.

    Args:
        n_marked: Number of people who are marked.
        n: Number of all people, the marked ones included.

    Returns:
        Figure as SVG text.
    """
    each = people_per_dot(n)
    dots, marked = ceil(n / each), ceil(n_marked / each)
    per_row = min(_PER_ROW, max(dots, 1))
    width, height = _PER_ROW * _PITCH, ceil(max(dots, 1) / per_row) * _PITCH
    circles = "".join(
        f'<circle cx="{(k % per_row + 0.5) * _PITCH:g}" cy="{(k // per_row + 0.5) * _PITCH:g}" r="3.6" '
        f'class="f-{"red" if k < marked else "grid"}"/>'
        for k in range(dots)
    )
    return f'<svg viewBox="0 0 {width:g} {height:g}" focusable="false">{circles}</svg>'


def people_per_dot(n: int) -> int:
    """Return the number of people that one dot of `dots_plot` is.

    Args:
        n: Number of all people.

    Example:
        >>> people_per_dot(400), people_per_dot(1200)
        (1, 3)
    """
    return max(1, ceil(n / MOST_DOTS))


def attack_plot(labels: Sequence[str], auc: ArrayLike, low: ArrayLike, high: ArrayLike, gate: float) -> str:
    """Draw the AUC of attacks with intervals on an axis from guessing to certainty, and the gate.

    Args:
        labels: Names of the attacks, [n], top to bottom.
        auc: AUC of each, [n].
        low: Lower limits, [n]; NaN for a missing one.
        high: Upper limits, [n].
        gate: AUC from which an audit fails.

    Returns:
        Figure as SVG text.
    """
    values = np.stack([np.asarray(v, dtype=float) for v in (auc, low, high)])
    sheet = Sheet(
        46 + _BAR_POINTS * len(labels), left=label_margin(labels, _LABEL_LETTERS), top=22, bottom=24, right=26
    )
    axes = sheet.axes
    start = min(0.5, float(np.nanmin(values, initial=0.5)))
    axes.axvspan(start, gate, color=colour("low"), linewidth=0, zorder=0)
    axes.axvspan(gate, 1.0, color=colour("high"), linewidth=0, zorder=0)
    axes.axvline(gate, color=colour("red"), linewidth=1.4)
    above = {"transform": axes.get_xaxis_transform(), "fontsize": FONT_SIZE - 2, "color": colour("muted")}
    axes.text(gate, 1 + 6 / sheet.plot_height, f"gate {100 * gate:g} %", ha="center", va="bottom", **above)
    for row, (middle, lower, upper) in enumerate(values.T):
        sheet.label(8, row, labels[row], ha="right", space="row", limit=_LABEL_LETTERS)
        if np.isfinite(lower) and np.isfinite(upper):
            axes.plot([lower, upper], [row, row], color=colour("blue"), linewidth=2.4, solid_capstyle="butt")
        if np.isfinite(middle):
            axes.plot([middle], [row], marker="o", markersize=8, color=colour("blue"), linestyle="none", clip_on=False)
    axes.set_xlim(start, 1.0)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.yaxis.set_major_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f} %"))
    return sheet.svg()


def strip_plot(seen: ArrayLike, unseen: ArrayLike, top: float, start: float = 0.0) -> str:
    """Draw the losses of an image on a line, smaller to the left: above it models that did not see it, below others.

    Args:
        seen: Losses of models that saw the image, [a].
        unseen: Losses of models that did not, [b].
        top: Loss at the right end; larger ones are drawn there.
        start: Loss at the left end.

    Returns:
        Strip as SVG text, with its content in words.
    """
    losses = {name: np.asarray(v, dtype=float) for name, v in (("unseen", unseen), ("seen", seen))}
    length = top - start or 1.0
    circles = "".join(
        f'<circle class="{name}" cx="{np.clip((loss - start) / length, 0, 1) * STRIP_WIDTH:.1f}" cy="{y}" r="3"/>'
        for y, (name, values) in zip((7, 19), losses.items(), strict=True)
        for loss in values
    )
    line = f'<line x1="0" x2="{STRIP_WIDTH:g}" y1="13" y2="13"/>'
    words = escape(strip_words(seen, unseen))
    box = f"-4 0 {STRIP_WIDTH + 8:g} 26"
    return f'<svg class="strip" viewBox="{box}" role="img" aria-label="{words}">{line}{circles}</svg>'


def strip_words(seen: ArrayLike, unseen: ArrayLike) -> str:
    """Describe a strip: the mean loss of either side, and its number of models.

    Args:
        seen: Losses of models that saw the image, [a].
        unseen: Losses of models that did not, [b].

    Example:
        >>> strip_words([0.1, 0.3], [1.0])
        'mean loss 0.20 of 2 models that saw it, 1.00 of 1 other'
    """
    sides = [np.asarray(v, dtype=float) for v in (seen, unseen)]
    means = [f"{v.mean():.2f}" if len(v) else "none" for v in sides]
    others = f"{count(len(sides[1]))} {'other' if len(sides[1]) == 1 else 'others'}"
    return f"mean loss {means[0]} of {count(len(sides[0]))} models that saw it, {means[1]} of {others}"
