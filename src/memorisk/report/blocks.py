"""Blocks of a page: frozen dataclasses that define its contents and their order, not its looks.

Texts written by this project are plain ``str``; text from the user (names of classes, ids, notes) is
wrapped in :class:`Name`, or is put in a table cell or caption slot that treats everything as a name. `data_uri`
makes the small pictures of a gallery: the one place of the report with pixels, and only when the user requests a
gallery.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from PIL import Image

MOST_BYTES = 60_000
"""Largest number of bytes of a picture in a page: the sixty pairs of the largest report stay below 6 MB."""
_WEBP_QUALITY = 80
Kind = Literal["pass", "fail", "undecided", "note", "warning"]
Tone = Literal["good", "middling", "bad", "quiet"]


@dataclass(frozen=True)
class Name:
    """Piece of text of unknown origin: isolated, with invisible characters shown."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Emphasised piece of text."""

    text: str


@dataclass(frozen=True)
class Link:
    """Link to another section of the same page."""

    text: str
    section: str


Inline = str | Name | Strong | Link
Text = Inline | Sequence[Inline]


@dataclass(frozen=True)
class Paragraph:
    """Running text as one paragraph."""

    text: Text


@dataclass(frozen=True)
class Steps:
    """List of items; numbered when their order matters."""

    items: Sequence[Text]
    ordered: bool = False


@dataclass(frozen=True)
class Definitions:
    """Terms with their meanings, or settings with their values."""

    items: Sequence[tuple[Text, Text]]
    compact: bool = False


@dataclass(frozen=True)
class Fact:
    """One number that a reader should remember."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """Row of numbers to remember."""

    items: Sequence[Fact]


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of a table: its heading and form."""

    source: str
    """Name of the column in the frame."""
    heading: str
    format: str = "text"
    """Name of a format in :data:`memorisk.report.columns.FORMATS`."""
    interval: tuple[str, str] | None = None
    """Names of the columns of the lower and upper limit, shown in brackets behind the value."""
    gates: tuple[float, ...] = ()
    """Gates to which decimals are compared: no rounding carries a number to or across one of them."""
    tones: Mapping[str, Tone] = field(default_factory=dict)
    """Tone of the badge for each value that is shown as one, by the value as it is written."""
    wide: bool = False
    """Whether the column holds sentences, which need some width to be read."""
    missing: str = ""
    """Text where the value is missing; a dash if not given."""
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
    """Return a column of estimates with limits from ``SOURCE_low`` and ``SOURCE_high`` if not named."""
    ends = (low or f"{source}_low", high or f"{source}_high")
    return Column(source=source, heading=heading, format=kind, interval=ends, missing=missing)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Data frame as a table; a long one shows its first rows and folds the rest away."""

    frame: pd.DataFrame
    columns: Sequence[Column]
    caption: str
    visible_rows: int = 25
    most_rows: int = 500
    """Number of rows that are shown at most; rows beyond it are counted."""
    elsewhere: str = ""
    """Name of the file with all rows, given when some are not shown."""
    empty: str = "None."
    """Text in the table's place when it has no rows."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Drawing with its caption, and the same content as text and numbers for readers who cannot see it."""

    svg: str
    """Drawing from :mod:`memorisk.report.figures.memorization`; inserted as it is, so never built from a user's text by
    hand."""
    title: str
    caption: Text
    alternative: Text
    """Description of the figure, in sentences; empty where the title is one."""
    table: Table | None = None
    """Table of the drawn numbers."""


@dataclass(frozen=True, kw_only=True)
class Thumbnail:
    """Single picture of a gallery."""

    data_uri: str
    """Picture as ``data:image/...;base64,...``, from :func:`memorisk.report.blocks.data_uri`; empty for none."""
    caption: Sequence[Text]
    """Short lines below the picture."""
    alternative: str = ""
    """Text for readers who cannot see the picture; empty when the caption contains it all."""
    strip: str = ""
    """Drawing below the picture, from :func:`memorisk.report.figures.glance.strip_plot`."""

    def __post_init__(self) -> None:
        if self.data_uri and not self.data_uri.startswith(("data:image/png;base64,", "data:image/webp;base64,")):
            raise ValueError("a thumbnail is a PNG or WebP in a data URI, never an address; use data_uri()")


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Pictures side by side with a caption."""

    items: Sequence[Thumbnail]
    caption: str
    wide: bool = False
    """Whether each picture is a row of three."""


@dataclass(frozen=True)
class Panel:
    """Figures and galleries next to one another, where the page is wide enough."""

    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class Callout:
    """Box that must not be missed. Words and a symbol show its kind, never colour alone."""

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
    """Heading within a section."""

    text: Text


Block = (
    Paragraph | Steps | Definitions | Facts | Table | Figure | Gallery | Panel | Callout | Details | Heading
)  # every kind has a macro of its name in templates/blocks.html


@dataclass(frozen=True)
class Section:
    """Part of the page with a heading, listed in its contents."""

    title: str
    blocks: Sequence[Block]
    id: str


@dataclass(frozen=True)
class Page:
    """One report page with its sections."""

    title: Text
    lead: Sequence[Block]
    """Blocks before the contents, with the verdict."""
    sections: Sequence[Section]
    subtitle: Text = ""
    footer: Sequence[Block] = ()
    redacted: bool = False
    """Whether ids and images were left out; the page then states that this holds for it alone."""


def data_uri(pixels: np.ndarray, *, side: int = 160) -> str:
    """Shrink an image to fit ``side`` x ``side`` and write it inside a data URI, in at most `MOST_BYTES` bytes.

    It is a PNG. One that would be larger is a WebP with loss, whose sides are halved until it fits.

    Args:
        pixels: Image ``[h, w]`` or ``[h, w, c]`` with c in {1, 2, 3, 4}, uint8, of which 2 and 4 have an opacity as
            the last channel; or uint16, which is stretched from its own minimum and maximum to 8 bits. Images smaller
            than half of ``side`` are enlarged by whole factors, so that pixels stay sharp.
        side: Longest edge in pixels.

    Raises:
        ValueError: The pixels have another shape or dtype.
    """
    array = np.asarray(pixels)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (2, 3, 4)) or array.size == 0:
        raise ValueError(f"a thumbnail needs [h, w] pixels, or [h, w, c] of 1 to 4 channels, got {np.shape(pixels)}")
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
    kind, content = "png", _encoded(image, "PNG", optimize=True)
    while len(content) > MOST_BYTES:
        if kind == "webp":
            image = image.resize((max(1, image.width // 2), max(1, image.height // 2)), Image.Resampling.LANCZOS)
        kind, content = "webp", _encoded(image, "WEBP", quality=_WEBP_QUALITY)
    return f"data:image/{kind};base64," + base64.b64encode(content).decode("ascii")


def _encoded(image: Image.Image, form: str, **how: Any) -> bytes:
    """Return the bytes of an image file."""
    buffer = io.BytesIO()
    image.save(buffer, format=form, **how)
    return buffer.getvalue()
