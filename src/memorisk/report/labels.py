"""Where the labels of points go, so that they cover neither each other nor the points."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from memorisk.report.figures.drawing import FONT_SIZE, LETTER, Sheet
from memorisk.report.text import shorten, text_width, visible

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

    Those highest up come first, since they are the ones a reader asks about.

    Args:
        sheet: The drawing, with its final scales and limits.
        points: ``[n, 2]`` in data coordinates.
        limits: ``[n, 2]`` ends of the points' vertical intervals, which labels keep off too; NaN where there is none.
        labels: ``[n]`` texts.
        limit: Letters after which a label is cut.

    Yields:
        (index, which end stands at the point, shift in points).
    """
    if not len(points):
        return
    spots = _on_sheet(sheet, points)
    area = np.asarray(sheet.axes.bbox.extents) * 72 / sheet.figure.dpi
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in spots]
    lines = [
        (low[0] - 1, low[1], high[0] + 1, high[1])
        for low, high in zip(
            *(_on_sheet(sheet, np.column_stack([points[:, 0], limits[:, k]])) for k in (0, 1)), strict=True
        )
        if np.isfinite([*low, *high]).all()
    ]
    for index in sorted(range(len(points)), key=lambda i: (-points[i, 1], i))[:_MOST_LABELS]:
        width = LETTER * text_width(shorten(visible(labels[index]), limit))
        others = [*taken[:index], *taken[index + 1 :], *lines]
        for align, dx, dy in _TRIES:
            box = _box(spots[index, 0] + dx, spots[index, 1] + dy, width, align)
            inside = box[0] >= area[0] and box[2] <= sheet.width - 2 and box[1] >= area[1] and box[3] <= area[3]
            if inside and not any(_overlap(box, other) for other in others):
                taken.append(box)
                yield index, align, (dx, dy)
                break


def _on_sheet(sheet: Sheet, points: np.ndarray) -> np.ndarray:
    """Data coordinates as points from the lower left corner, ``[n, 2]``."""
    return sheet.axes.transData.transform(points) * 72 / sheet.figure.dpi


def _box(x: float, y: float, width: float, align: Align) -> tuple[float, float, float, float]:
    left = {"left": x, "center": x - width / 2, "right": x - width}[align]
    return left, y - FONT_SIZE / 2, left + width, y + FONT_SIZE / 2


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
