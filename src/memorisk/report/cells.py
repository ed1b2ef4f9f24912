"""Cells of a table and pieces of running text as plain text: one form for pages, the terminal and notebooks."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from memorisk.report.blocks import Column, Link, Name, Strong, Text
from memorisk.report.columns import FORMATS, decimal, is_missing
from memorisk.report.text import visible

DASH = "\N{EN DASH}"


def inline_text(text: Text) -> str:
    """Return inline pieces as plain text on one line."""
    pieces = [text] if isinstance(text, str | Name | Strong | Link) else text
    return visible("".join(piece if isinstance(piece, str) else piece.text for piece in pieces))


def cell_text(row: Mapping[str, Any], column: Column) -> str:
    """Return the content of a cell, its interval in brackets."""
    value = cell_value(row, column)
    limits = cell_limits(row, column)
    return visible(f"{value} [{', '.join(limits)}]" if limits else value)


def cell_value(row: Mapping[str, Any], column: Column) -> str:
    """Return the value of a cell in the format of its column; a text among numbers stays as it is."""
    value = row.get(column.source)
    if is_missing(value):
        return column.missing or DASH
    return str(value) if column.numeric and isinstance(value, str) else _format(column)(value)


def cell_limits(row: Mapping[str, Any], column: Column) -> list[str]:
    """Return the two limits of a cell; none where the value or a limit is missing, or the column has no interval."""
    limits = [row.get(name) for name in column.interval or ()]
    if any(is_missing(value) for value in (row.get(column.source), *limits)):
        return []
    return [_format(column)(limit) for limit in limits]


def _format(column: Column) -> Any:
    return partial(decimal, gates=column.gates) if column.format == "decimal" else FORMATS[column.format]
