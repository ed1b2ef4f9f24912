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

from memorisk.report.blocks import Column, Inline, Link, Name, Page, Strong, Table, Text
from memorisk.report.cells import cell_limits, cell_value, inline_text
from memorisk.report.columns import is_missing
from memorisk.report.figures.sheet import palette_css
from memorisk.report.result import REDACTED_PAGE
from memorisk.report.text import name_html, visible

_MISSING = Markup('<span aria-hidden="true">–</span><span class="vh">not available</span>')
_FOLD_AT_LEAST = 5
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
            plain_title=inline_text(page.title),
            style=Markup(style),
            script=Markup(script),
            policy=policy,
            next_id=lambda: f"b{next(numbers)}",
        )
    )


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
    environment.globals.update(cell=cell_html, sort_key=sort_key, table_rows=table_rows)
    return environment
