"""CSV files that a spreadsheet opens without computing anything: the only place where memorisk writes CSV.

Ids, patients and classes come from the user's data, and a spreadsheet takes text that begins with ``=``, ``+``, ``-``,
``@``, a tab or a line break for a formula (OWASP, "CSV injection"). Such text gets a single quote in front. Text also
gets one where such a sign follows a separator or a double quote, since a spreadsheet may split cells there. Spaces and
quotes in front of the sign do not make it harmless, so that ``'=x`` becomes ``''=x``: one quote more, always. Reading
takes exactly that quote away, and a name that begins with a quote (``'t Hooft``) is written as it is. A number, as
``-1`` or ``+0.5``, is no formula and stays a number.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from memorisk.runs.files import write_text

_BEGINNING = r'(?:\A|(?<=[,;|"\t\r\n]))'  # where a cell begins, or could begin if a reader splits at this character
_SIGN = r"[' ]*[=+\-@\t\r\n＝＋－＠]"  # wide forms too: some spreadsheets take them for the plain ones
_UNQUOTED = re.compile(f"{_BEGINNING}(?={_SIGN})")
_QUOTED = re.compile(f"{_BEGINNING}'(?={_SIGN})")
_SPECIAL = re.compile(r'[,;|"\t\r\n]|\A\s|\s\Z')  # text that is put between double quotes
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


def quote_formulas(text: str) -> str:
    """Put a single quote before everything in a text that a spreadsheet could take for a formula.

    Example:
        >>> quote_formulas("=1+1"), quote_formulas("'=x"), quote_formulas("'t Hooft"), quote_formulas("-1")
        ("'=1+1", "''=x", "'t Hooft", '-1')
    """
    return text if _NUMBER.fullmatch(text) else _UNQUOTED.sub("'", text)


def unquote_formulas(text: str) -> str:
    """Undo `quote_formulas`; text that it would not have changed is left as it is.

    Example:
        >>> unquote_formulas("'=1+1"), unquote_formulas("''=x"), unquote_formulas("'t Hooft")
        ('=1+1', "'=x", "'t Hooft")
    """
    return _QUOTED.sub("", text)


def unquote_table(table: pd.DataFrame) -> pd.DataFrame:
    """Undo `quote_formulas` in every text of a table, names of columns included."""
    named = table.rename(columns=lambda name: unquote_formulas(name) if isinstance(name, str) else name)
    return named.map(lambda value: unquote_formulas(value) if isinstance(value, str) else value)


def csv_line(values: Iterable[Any]) -> str:
    """Join values to one line of CSV, without a line break: missing ones are empty, numbers as Python shows them."""
    return ",".join(_cell(value) for value in values) or '""'  # readers skip a line without anything


def write_csv(path: str | Path, table: pd.DataFrame) -> None:
    """Write a table as CSV (UTF-8, commas, a line of column names), atomically.

    Args:
        path: The file.
        table: A row a line; its index is left out.
    """
    rows = zip(*(column.array for _, column in table.items()), strict=True)
    write_text(path, "".join(f"{csv_line(values)}\n" for values in (table.columns, *rows)))


def _cell(value: Any) -> str:
    if not isinstance(value, str):
        return "" if pd.isna(value) else str(value)
    quoted = quote_formulas(value)
    return f'"{quoted.replace(chr(34), chr(34) * 2)}"' if _SPECIAL.search(quoted) else quoted
