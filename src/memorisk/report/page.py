"""A page as one self-contained HTML file that opens from the disk and sends no requests.

The file's own content policy allows the one style sheet and the one script it carries, by their hashes, pictures from
data URIs, and nothing else: no network, no other script, no form, no style attribute. Templates escape every text that
may come from a user, and :func:`memorisk.report.text.name_html` isolates it. The same page gives the same
bytes.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import count
from typing import Any

import jinja2
from markupsafe import Markup, escape

from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Gallery,
    Inline,
    Link,
    Name,
    Page,
    Panel,
    Strong,
    Table,
    Text,
)
from memorisk.report.cells import cell_limits, cell_text, cell_value, inline_text
from memorisk.report.columns import is_missing
from memorisk.report.figures.sheet import palette_css
from memorisk.report.result import REDACTED_PAGE
from memorisk.report.text import name_html, visible

_MISSING = Markup('<span aria-hidden="true">–</span><span class="vh">not available</span>')
_FOLD_AT_LEAST = 5
PAGE_WIDTH, FIGURE_WIDTH = 890.0, 520.0
"""Widths in pixels of a table on a desk screen: next to the contents, and below a figure."""
_LETTER, _HEADING_LETTER, _CELL_PADDING, _ARROW = 8.2, 9.5, 12.0, 18.0
"""Widths in pixels of a letter of a cell and of a heading, of a cell's padding, and of the arrow that sorts."""
_ROW_HEADING, _WIDE, _MORE_WIDTH = 128.0, 208.0, 64.0
"""Least widths in pixels of a column that names the row, of one of sentences, and of the one that opens a row."""
_TEXT_LETTERS, _MEASURED_ROWS = 32, 50
"""Letters after which a text wraps, and number of rows whose cells are measured."""
_PERCENT = re.compile(r"(\d) %")


def render_page(page: Page) -> str:
    """Write a page as HTML.

    Args:
        page: Page to render.

    Returns:
        Text of the file; it holds no lone surrogate and can be written as UTF-8.
    """
    numbers = count(1)
    style, script = style_sheet(), _file("page.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return (
        template_environment()
        .get_template("page.html")
        .render(
            page=page,
            redacted_note=REDACTED_PAGE,
            holds_images=holds_images([*page.lead, *(block for s in page.sections for block in s.blocks)]),
            plain_title=inline_text(page.title),
            style=Markup(style),
            script=Markup(script),
            policy=policy,
            next_id=lambda: f"b{next(numbers)}",
        )
    )


def holds_images(blocks: Sequence[Block]) -> bool:
    """Say whether any of these blocks shows a picture of the data, which the page states on its first line.

    Args:
        blocks: Blocks, with those that lie in them.
    """
    return any(
        any(item.data_uri for item in block.items)
        if isinstance(block, Gallery)
        else holds_images(block.blocks)
        if isinstance(block, Callout | Details | Panel)
        else False
        for block in blocks
    )


def states_images(html: str) -> bool:
    """Say whether a rendered page states on its first line that it holds images.

    Args:
        html: Text of the page.
    """
    return '<span class="held">' in html


def inline_html(text: Text) -> Markup:
    """Return inline pieces as HTML; a plain ``str`` is this project's own wording, but escaped all the same."""
    pieces: Sequence[Inline] = [text] if isinstance(text, str | Name | Strong | Link) else text
    return Markup("").join(_piece_html(p) for p in pieces)


def cell_html(row: dict[str, Any], column: Column) -> Markup:
    """Return the content of one cell."""
    value = row.get(column.source)
    if is_missing(value):
        return Markup('<span class="unknown">{}</span>').format(column.missing) if column.missing else _MISSING
    written = cell_value(row, column)
    if written in column.tones:
        return Markup('<span class="badge {}">{}</span>').format(column.tones[written], written)
    html = name_html(written) if column.format == "text" or isinstance(value, str) else escape(written)
    if not (limits := cell_limits(row, column)):
        return html
    return Markup('{} <span class="ci">[{}, {}]</span>').format(html, *limits)


def sort_key(row: dict[str, Any], column: Column) -> str:
    """Return the key by which the page's script sorts a numeric cell; empty for a missing value."""
    value = row.get(column.source)
    if not column.numeric or value is None or is_missing(value) or isinstance(value, str):
        return ""
    return repr(float(value))


def table_rows(table: Table) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Return a table's visible rows, the rows folded away, and the number of further rows; a handful is not folded."""
    frame = table.frame[[c for c in _sources(table) if c in table.frame]]
    rows_in_sight = frame.iloc[: table.most_rows]
    rows = [dict(zip(rows_in_sight.columns, r, strict=True)) for r in rows_in_sight.itertuples(index=False, name=None)]
    cut = table.visible_rows if len(rows) >= table.visible_rows + _FOLD_AT_LEAST else len(rows)
    return rows[:cut], rows[cut:], len(frame) - len(rows)


def fitting_columns(table: Table, width: float = PAGE_WIDTH) -> tuple[list[Column], list[Column]]:
    """Divide the columns of a table into those that a page has room for, and those that each row folds away.

    The widths are estimated from the headings and the first rows. The first columns stay in sight, and a column that
    names the row stays wherever it lies.

    Args:
        table: Table with its columns.
        width: Width of its place in pixels.

    Returns:
        Columns in sight, and folded ones.
    """
    rows, _, _ = table_rows(table)
    needed = [_width(column, rows[:_MEASURED_ROWS]) for column in table.columns]
    if sum(needed) <= width:
        return list(table.columns), []
    room, in_sight, folded = width - _MORE_WIDTH, list[Column](), list[Column]()
    for column, own in zip(table.columns, needed, strict=True):
        fits = not folded and own <= room
        (in_sight if fits or column.row_heading else folded).append(column)
        room -= own
    return in_sight, folded


def _width(column: Column, rows: Sequence[dict[str, Any]]) -> float:
    """Estimate the width of a column in pixels: its longest cell on one line if it holds numbers, else a few words."""
    longest = max((len(cell_text(row, column)) for row in rows), default=0)
    heading = _ARROW + _HEADING_LETTER * max(map(len, column.heading.split()), default=0)
    least = max(heading, _ROW_HEADING * column.row_heading, _WIDE * column.wide)
    return _CELL_PADDING + max(least, _LETTER * (longest if column.numeric else min(longest, _TEXT_LETTERS)))


def _sources(table: Table) -> list[str]:
    """Return the columns of the frame that the table shows."""
    columns = [s for c in table.columns for s in (c.source, *(c.interval or ()))]
    return list(dict.fromkeys(columns))


def _piece_html(piece: Inline) -> Markup:
    if isinstance(piece, Name):
        return name_html(piece.text)
    if isinstance(piece, Strong):
        return Markup("<strong>{}</strong>").format(piece.text)
    if isinstance(piece, Link):
        return Markup('<a href="#{}">{}</a>').format(piece.section, piece.text)
    return escape(_PERCENT.sub("\\1\N{NO-BREAK SPACE}%", visible(piece)))


def _hash(text: str) -> str:
    """Return a content policy's name for an inline script or style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _file(name: str) -> str:
    """Return a file of the templates folder, with the line ends that a browser hashes."""
    text = resources.files("memorisk.report").joinpath("templates", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n").strip()


@cache
def style_sheet() -> str:
    """Return the report's style sheet, which the pages of ``memorisk view`` share."""
    return palette_css() + "\n" + _file("page.css")


@cache
def template_environment() -> jinja2.Environment:
    """Return the environment of the templates, which escapes everything and fails on any unknown name."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inline"] = inline_html
    environment.filters["name"] = name_html
    environment.filters["visible"] = visible
    environment.filters["kind"] = lambda block: type(block).__name__.lower()
    environment.globals.update(
        cell=cell_html,
        sort_key=sort_key,
        table_rows=table_rows,
        fitting_columns=fitting_columns,
        page_width=PAGE_WIDTH,
        figure_width=FIGURE_WIDTH,
    )
    return environment
