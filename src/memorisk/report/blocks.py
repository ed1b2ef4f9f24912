"""Blocks of a page: frozen dataclasses that say what stands where, not how it looks.

Texts written by this project are plain ``str``; whatever comes from the user (names of classes, ids, notes) is
wrapped in :class:`Name`, or stands in a table cell or caption slot that treats everything as a name. `data_uri`
makes the small pictures of a gallery: the one place of the report with pixels, and only when a gallery is asked
for.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from PIL import Image

Kind = Literal["pass", "fail", "undecided", "note", "warning"]
Tone = Literal["good", "middling", "bad", "quiet"]


@dataclass(frozen=True)
class Name:
    """A piece of text of unknown origin: isolated, with invisible characters shown."""

    text: str


@dataclass(frozen=True)
class Strong:
    """An emphasised piece of text."""

    text: str


@dataclass(frozen=True)
class Link:
    """A link to another section of the same page."""

    text: str
    section: str


Inline = str | Name | Strong | Link
Text = Inline | Sequence[Inline]


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: Text


@dataclass(frozen=True)
class Steps:
    """A list of items; numbered when their order matters."""

    items: Sequence[Text]
    ordered: bool = False


@dataclass(frozen=True)
class Definitions:
    """Terms and what they mean, or settings and their values."""

    items: Sequence[tuple[Text, Text]]
    compact: bool = False


@dataclass(frozen=True)
class Fact:
    """One number a reader should carry away."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """A row of numbers."""

    items: Sequence[Fact]


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of a table: its heading and form."""

    source: str
    """The column of the frame."""
    heading: str
    format: str = "text"
    """A name in :data:`memorisk.report.columns.FORMATS`."""
    interval: tuple[str, str] | None = None
    """Columns with the lower and upper limit, shown in brackets behind the value."""
    gates: tuple[float, ...] = ()
    """Gates that decimals are compared with: no rounding carries a number to or across one of them."""
    tones: Mapping[str, Tone] = field(default_factory=dict)
    """Values, as they are written, that are shown as a badge, and its tone."""
    wide: bool = False
    """Whether sentences stand in it, which need some width to be read."""
    missing: str = ""
    """Text where there is no value; a dash if not given."""
    row_heading: bool = False
    """Whether this column names the row."""

    @property
    def numeric(self) -> bool:
        """Return whether the column is set flush right and sorted by number."""
        return self.format not in {"text", "yes_no"}


def words(source: str, heading: str, *, wide: bool = False, row: bool = False) -> Column:
    """Return a column of text; one column names the row."""
    return Column(source=source, heading=heading, wide=wide, row_heading=row)


def number(source: str, heading: str, kind: str = "decimal", *, missing: str = "") -> Column:
    """Return a column of numbers without limits."""
    return Column(source=source, heading=heading, format=kind, missing=missing)


def estimate(
    source: str, heading: str, kind: str = "decimal", low: str = "", high: str = "", *, missing: str = ""
) -> Column:
    """Return a column of estimates with limits, which stand in ``SOURCE_low`` and ``SOURCE_high`` if not named."""
    ends = (low or f"{source}_low", high or f"{source}_high")
    return Column(source=source, heading=heading, format=kind, interval=ends, missing=missing)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A data frame as a table; long ones keep their first rows in sight and fold the rest away."""

    frame: pd.DataFrame
    columns: Sequence[Column]
    caption: str
    visible_rows: int = 25
    most_rows: int = 500
    """Rows beyond this are counted, not shown."""
    elsewhere: str = ""
    """The file that holds all rows, named when some are not shown."""
    empty: str = "None."
    """Text in the table's place when there is no row."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing with its caption, and the same content as text and numbers for whoever cannot see it."""

    svg: str
    """From :mod:`memorisk.report.figures.memorization`; inserted as it is, so never built from a user's text by hand.
    """
    title: str
    caption: Text
    alternative: Text
    """Description of the figure, in sentences."""
    table: Table | None = None
    """The drawn numbers."""


@dataclass(frozen=True, kw_only=True)
class Thumbnail:
    """One picture of a gallery."""

    data_uri: str
    """``data:image/png;base64,...``, from :func:`memorisk.report.blocks.data_uri`."""
    caption: Sequence[Text]
    """Short lines below it."""
    alternative: str = ""
    """Text where the picture is not seen; empty when the caption says all."""

    def __post_init__(self) -> None:
        if not self.data_uri.startswith("data:image/png;base64,"):
            raise ValueError("a thumbnail is a PNG in a data URI, never an address; use data_uri()")


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Pictures side by side."""

    items: Sequence[Thumbnail]
    caption: str


@dataclass(frozen=True)
class Callout:
    """A box that must not be missed. Its kind is said by words and a symbol, never by colour alone."""

    kind: Kind
    title: Text
    blocks: "Sequence[Block]" = ()


@dataclass(frozen=True)
class Details:
    """Blocks folded behind a line."""

    summary: Text
    blocks: "Sequence[Block]"
    printed: bool = True
    """Whether print unfolds it; otherwise it is printed only when the reader has unfolded it."""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: Text


Block = (
    Paragraph | Steps | Definitions | Facts | Table | Figure | Gallery | Callout | Details | Heading
)  # every kind has a macro of its name in templates/blocks.html


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading, listed in its contents."""

    title: str
    blocks: Sequence[Block]
    id: str


@dataclass(frozen=True)
class Page:
    """One report."""

    title: Text
    lead: Sequence[Block]
    """Blocks before the contents: the verdict."""
    sections: Sequence[Section]
    subtitle: Text = ""
    footer: Sequence[Block] = ()
    redacted: bool = False
    """Whether ids and images were left out: the page then says that this is true of it alone."""


def data_uri(pixels: np.ndarray, *, side: int = 160) -> str:
    """Shrink an image to fit ``side`` x ``side`` and write it as a PNG inside a data URI.

    Args:
        pixels: ``[h, w]`` or ``[h, w, c]`` with c in {1, 3}, uint8, or uint16, which is stretched from its own minimum
        and
            maximum to 8 bits. Images smaller than half of ``side`` are enlarged by whole factors, so that pixels stay
            sharp.
        side: Longest edge, in pixels.

    Raises:
        ValueError: If shape or dtype are others.
    """
    array = np.asarray(pixels)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or array.size == 0:
        raise ValueError(f"a thumbnail needs [h, w], [h, w, 1] or [h, w, 3] pixels, got shape {np.shape(pixels)}")
    if array.dtype == np.uint16:
        low, high = int(array.min()), int(array.max())
        array = np.round((array.astype(np.float64) - low) * (255 / max(high - low, 1))).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(f"a thumbnail needs uint8 or uint16 pixels, got {array.dtype}")
    image = Image.fromarray(np.ascontiguousarray(array))
    longest = max(image.size)
    if longest > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    elif longest * 2 <= side:
        factor = side // longest
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
