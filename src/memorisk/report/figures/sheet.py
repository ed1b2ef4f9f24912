"""A sheet to draw on: matplotlib makes the geometry, this module makes it fit for a page.

The module returns a small SVG with the same bytes for the same arrays. It has no date, no metadata, only ids that it
refers to, no ``style`` attributes (a strict content policy refuses them), and colours that a dark page can exchange
by class. Text stays text: it can be read aloud, searched and copied, and is shown in the fonts of the reader, so that a
class named in Chinese or with an emoji needs no font here. matplotlib never sees a user's text: it places a
placeholder, which is exchanged for the real one afterwards; so neither ``$`` nor the backslash nor a missing glyph can
disturb it.

`place_labels` puts labels of points where they cover neither each other nor the points.
"""

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from memorisk.report.text import shorten, text_width, visible

FONT_SIZE = 12.0
LETTER = 6.6  # points that an average letter of FONT_SIZE takes, rounded up generously
WIDTH = 420.0  # points; a phone shows it a little smaller, a desk screen a little larger
FONT_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

PALETTE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "surface": ("#ffffff", "#12181e"),
        "ink": ("#1b2733", "#e3e9ef"),
        "muted": ("#55636f", "#a4b1bd"),
        "grid": ("#dce2e8", "#34414d"),
        "blue": ("#1d5fa6", "#7fb6f2"),
        "red": ("#b1271d", "#ff9186"),
        "teal": ("#0b7268", "#5fcabe"),
        "purple": ("#6c3d9c", "#c5a0ec"),
        "brown": ("#825600", "#e0b565"),
        "grey": ("#6b7884", "#96a4b0"),
        "low": ("#e6f2ea", "#17302a"),
        "moderate": ("#fcf1d8", "#39301a"),
        "high": ("#fbe3df", "#3e2325"),
    }
)
"""Colours by role, as pairs: on a light page, on a dark page."""

SERIES = ("blue", "red", "teal", "purple", "brown", "ink")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (6, 2)),
    (0, (2, 1.5)),
    (0, (7, 2, 1.5, 2)),
    (0, (4, 1, 1, 1, 1, 1)),
    (0, (1, 1)),
)

_NAMES = {light: name for name, (light, _) in PALETTE.items()}
_SVG = "http://www.w3.org/2000/svg"
ET.register_namespace("", _SVG)  # before any drawing: the text of a drawing must not depend on how many came before
_XLINK = "{http://www.w3.org/1999/xlink}href"
_STAND_IN = "x0"
_KEY_LETTERS = 34
_FONT_SHORTHAND = re.compile(r"(?:(?P<weight>bold|\d00)\s+)?(?P<size>[\d.]+px)")
_RC: Mapping[Any, Any] = MappingProxyType({"svg.fonttype": "none", "svg.hashsalt": "memorisk", "font.size": FONT_SIZE})


def colour(name: str) -> str:
    """Return the light-page value of a colour of the palette; the page exchanges it by class."""
    return PALETTE[name][0]


def palette_css() -> str:
    """Return style rules that give each colour of the drawings its value, as CSS variables with a dark set."""
    light = "".join(f"--k-{n}:{v[0]};" for n, v in PALETTE.items())
    dark = "".join(f"--k-{n}:{v[1]};" for n, v in PALETTE.items())
    rules = "".join(f".f-{n}{{fill:var(--k-{n})}}.s-{n}{{stroke:var(--k-{n})}}" for n in PALETTE)
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}"


class Sheet:
    """Pair of axes with margins in points, and labels that may hold any text."""

    def __init__(self, height: float, *, left: float, bottom: float = 46, top: float = 12, right: float = 14) -> None:
        self.width, self.height, self.left = WIDTH, height, left
        self.figure = Figure(figsize=(WIDTH / 72, height / 72), facecolor="none")
        FigureCanvasSVG(self.figure)
        area = (left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - bottom - top) / height)
        self.axes: Axes = self.figure.add_axes(area, facecolor="none")
        self.plot_width, self.plot_height = WIDTH - left - right, height - bottom - top
        self._labels: dict[str, str] = {}
        self.axes.tick_params(colors=colour("muted"), labelsize=FONT_SIZE - 1, length=3, width=0.8, pad=4)
        for side, spine in self.axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(colour("muted"))
        self.axes.grid(True, axis="both", color=colour("grid"), linewidth=0.8)
        self.axes.set_axisbelow(True)

    def titles(self, x: str, y: str = "") -> None:
        """Name the axes; the second name is written horizontally above the upper end."""
        self.axes.set_xlabel(x, color=colour("ink"), fontsize=FONT_SIZE, labelpad=6)
        if y:
            top = 1 + 8 / self.plot_height
            self.axes.text(
                0,
                top,
                y,
                transform=self.axes.transAxes,
                ha="left",
                va="bottom",
                color=colour("ink"),
                fontsize=FONT_SIZE,
            )

    def label(
        self,
        x: float,
        y: float,
        text: str,
        *,
        ink: str = "ink",
        ha: Literal["left", "center", "right"] = "left",
        space: Literal["data", "axes", "row"] = "data",
        limit: int = 24,
        offset: tuple[float, float] = (0, 0),
        bold: bool = False,
    ) -> None:
        """Write a text that may come from a user.

        Args:
            x: Horizontal place, in data or axes coordinates; for ``row`` in points left of the axes.
            y: Vertical place, in data or axes coordinates; for ``row`` in data coordinates.
            text: Text of any origin.
            ink: Colour by role.
            ha: End of the text that is put at x.
            space: Kind of the coordinates.
            limit: Number of letters after which the text is cut.
            offset: Shift in points.
            bold: Whether the letters are heavier.
        """
        key = f"label-{len(self._labels)}"
        self._labels[key] = shorten(visible(text), limit)
        frame = {"data": "data", "axes": "axes fraction", "row": ("axes fraction", "data")}[space]
        shift = (-x, 0.0) if space == "row" else offset
        note = self.axes.annotate(
            _STAND_IN,
            xy=(0.0 if space == "row" else x, y),
            xycoords=frame,
            xytext=shift,
            textcoords="offset points",
            ha=ha,
            va="center",
            color=colour(ink),
            fontsize=FONT_SIZE - 0.5,
            fontweight="bold" if bold else "normal",
            annotation_clip=False,
        )
        note.set_gid(key)

    def key(self, entries: Sequence[tuple[str, Any, str]], *, y: float) -> None:
        """List the meanings of lines: (colour, dash, text), flush right, from a height in the axes downwards."""
        longest = max(text_width(shorten(visible(text), _KEY_LETTERS)) for _, _, text in entries)
        x = max(0.0, 1 - (34 + LETTER * longest) / self.plot_width)
        room = 16 / self.plot_height
        behind = Rectangle(
            (x - 0.01, y - room * (len(entries) - 0.4)), 1.01 - x, room * (len(entries) + 0.2), zorder=2.5
        )
        behind.set(transform=self.axes.transAxes, facecolor=colour("surface"), alpha=0.85, linewidth=0)
        self.axes.add_patch(behind)
        for i, (ink, dash, text) in enumerate(entries):
            self._key_entry(x, y - i * 16 / self.plot_height, ink, dash, text, letters=_KEY_LETTERS)

    def key_below(self, entries: Sequence[tuple[str, Any, str]], *, below: float, markers: bool = False) -> None:
        """List the same in two columns, some points below the axes; the sheet's margin must leave the room."""
        for i, (ink, dash, text) in enumerate(entries):
            x = ((i % 2) * WIDTH / 2 + 10 - self.left) / self.plot_width
            marker = MARKERS[i % len(MARKERS)] if markers else ""
            self._key_entry(x, -(below + 16 * (i // 2)) / self.plot_height, ink, dash, text, letters=27, marker=marker)

    def _key_entry(self, x: float, y: float, ink: str, dash: Any, text: str, *, letters: int, marker: str = "") -> None:
        ends = (x, x + 22 / self.plot_width)
        look = {"transform": self.axes.transAxes, "color": colour(ink), "zorder": 3, "clip_on": False}
        self.axes.add_artist(Line2D(ends, (y, y), linestyle=dash, linewidth=2, **look))
        if marker:
            self.axes.add_artist(Line2D([sum(ends) / 2], [y], marker=marker, markersize=5.5, linestyle="none", **look))
        self.label(ends[1], y, text, space="axes", offset=(6, 0), limit=letters)

    def svg(self) -> str:
        """Return the drawing as SVG text; the module's first lines list what it leaves out."""
        buffer = io.BytesIO()
        with mpl.rc_context(dict(_RC)):
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            self.figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
        root = ET.fromstring(buffer.getvalue())
        _strip(root)
        for group in root.iter(f"{{{_SVG}}}g"):
            if (text := self._labels.get(group.get("id", ""))) is not None:
                for node in group.iter(f"{{{_SVG}}}text"):
                    node.text = text
        for node in root.iter():
            _flatten_style(node)
        _keep_needed_ids(root)
        attributes = {"focusable": "false", "stroke-linejoin": "round", "font-family": FONT_FAMILY}
        root.attrib = {"viewBox": root.get("viewBox", ""), **attributes}
        return re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode")).strip()


def label_margin(labels: Sequence[str], limit: int) -> float:
    """Return the points that the longest of these labels takes at the left of the axes."""
    return 14 + LETTER * max((text_width(shorten(visible(t), limit)) for t in labels), default=0)


def _strip(root: ET.Element) -> None:
    """Remove style sheets and metadata."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {f"{{{_SVG}}}style", f"{{{_SVG}}}metadata"}:
                parent.remove(child)


def _flatten_style(node: ET.Element) -> None:
    """Turn a style attribute into presentation attributes, and colours of the palette into classes as well."""
    pairs = [d.split(":", 1) for d in node.attrib.pop("style", "").split(";") if ":" in d]
    declarations = {name.strip(): value.strip() for name, value in pairs}
    if shorthand := declarations.pop("font", None):
        match = _FONT_SHORTHAND.search(shorthand)
        if match:
            declarations |= {"font-size": match["size"]} | ({"font-weight": match["weight"]} if match["weight"] else {})
    declarations.pop("font-family", None)
    classes = [f"{kind[0]}-{_NAMES[v]}" for kind in ("fill", "stroke") if (v := declarations.get(kind)) in _NAMES]
    node.attrib.update(declarations)
    if classes:
        node.set("class", " ".join(classes))
    if node.get("transform", "").startswith("rotate(-0 "):
        del node.attrib["transform"]
    if "d" in node.attrib:
        node.set("d", re.sub(r"\s+", " ", node.get("d", "")).strip())
    if _XLINK in node.attrib:
        node.set("href", node.attrib.pop(_XLINK))


def _keep_needed_ids(root: ET.Element) -> None:
    """Drop ids that nothing refers to, and make the others differ from those of other drawings on the page."""
    needed = set(re.findall(r"(?:url\(#|href=\"#)([\w.-]+)", ET.tostring(root).decode("ascii")))
    for node in root.iter():
        if node.get("id") not in needed:
            node.attrib.pop("id", None)
    # Only the drawn content decides the prefix: the ids that matplotlib counts up differ between drawings.
    prefix = hashlib.sha256(ET.tostring(root)).hexdigest()[:8]
    for node in root.iter():
        if "id" in node.attrib:
            node.set("id", f"{prefix}-{node.get('id')}")
        for attribute, value in node.attrib.items():
            if attribute == "href" or value.startswith("url(#"):
                node.set(attribute, value.replace("#", f"#{prefix}-"))


Align = Literal["left", "center", "right"]
_GAP = 8.0  # points between a point's centre and its label
_TRIES: tuple[tuple[Align, float, float], ...] = (
    ("left", _GAP, 0.0),
    ("right", -_GAP, 0.0),
    ("left", _GAP, 9.0),
    ("left", _GAP, -9.0),
    ("right", -_GAP, 9.0),
    ("right", -_GAP, -9.0),
    ("center", 0.0, 13.0),
    ("center", 0.0, -13.0),
)
_MOST_LABELS = 60


def place_labels(
    sheet: Sheet, points: np.ndarray, limits: np.ndarray, labels: Sequence[str], limit: int
) -> Iterator[tuple[int, Align, tuple[float, float]]]:
    """Choose for each point the first free place around it; points without one get no label.

    The highest points come first, since readers look for them first.

    Args:
        sheet: Sheet of the drawing, with its final scales and limits.
        points: Points in data coordinates, ``[n, 2]``.
        limits: Ends of the points' vertical intervals, ``[n, 2]``, which labels avoid too; NaN for a missing one.
        labels: Texts of the labels, ``[n]``.
        limit: Number of letters after which a label is cut.

    Yields:
        Index of the point, end of the text that is put at the point, shift in points.
    """
    if not len(points):
        return
    spots = _on_sheet(sheet, points)
    area = np.asarray(sheet.axes.bbox.extents) * 72 / sheet.figure.dpi
    occupied = [(x - 4, y - 4, x + 4, y + 4) for x, y in spots]
    lines = [
        (low[0] - 1, low[1], high[0] + 1, high[1])
        for low, high in zip(
            *(_on_sheet(sheet, np.column_stack([points[:, 0], limits[:, k]])) for k in (0, 1)), strict=True
        )
        if np.isfinite([*low, *high]).all()
    ]
    for index in sorted(range(len(points)), key=lambda i: (-points[i, 1], i))[:_MOST_LABELS]:
        width = LETTER * text_width(shorten(visible(labels[index]), limit))
        others = [*occupied[:index], *occupied[index + 1 :], *lines]
        for align, dx, dy in _TRIES:
            box = _box(spots[index, 0] + dx, spots[index, 1] + dy, width, align)
            inside = box[0] >= area[0] and box[2] <= sheet.width - 2 and box[1] >= area[1] and box[3] <= area[3]
            if inside and not any(_overlap(box, other) for other in others):
                occupied.append(box)
                yield index, align, (dx, dy)
                break


def _on_sheet(sheet: Sheet, points: np.ndarray) -> np.ndarray:
    """Return data coordinates as points from the lower left corner, ``[n, 2]``."""
    return sheet.axes.transData.transform(points) * 72 / sheet.figure.dpi


def _box(x: float, y: float, width: float, align: Align) -> tuple[float, float, float, float]:
    x_start = {"left": x, "center": x - width / 2, "right": x - width}[align]
    return x_start, y - FONT_SIZE / 2, x_start + width, y + FONT_SIZE / 2


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
