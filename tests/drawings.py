"""Figures of reports without their lines, which tests of numbers and words leave out, and with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import pytest
from matplotlib.text import Text

from memorisk.report.figures.sheet import Sheet

_SVG = Sheet.svg


def words_of_drawing(sheet: Sheet) -> str:
    """SVG with the texts of a drawing: no lines, but every name that the drawing shows."""
    shown = [*sheet._labels.values(), *(text.get_text() for text in sheet.figure.findobj(Text))]
    return f"<svg>{''.join(f'<text>{escape(text)}</text>' for text in shown)}</svg>"


@contextmanager
def whole_drawings() -> Iterator[None]:
    """Figures are drawn to their end as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sheet, "svg", _SVG)
        yield
