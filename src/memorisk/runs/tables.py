"""Tables as files: CSV that a spreadsheet opens without computing anything, and Parquet checked before it is read.

This is the only module in which memorisk writes CSV. Ids, patients and classes come from the user's data, and a
spreadsheet takes text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break for a formula (OWASP, "CSV
injection"). Such text gets a single quote in front. Text also gets one where such a sign follows a separator or a
double quote, since a spreadsheet may split cells there. Spaces and quotes in front of the sign do not make it
harmless, so ``'=x`` becomes ``''=x``: one quote more, always. Reading removes exactly that quote, and a
name that begins with a quote (``'t Hooft``) is written as it is. A number, as ``-1`` or ``+0.5``, is not a formula and
stays a number.

Repeating values take next to no bytes in Parquet: a run of equal values is one, and a long text is stored once in a
dictionary however many rows have it. The declared size of a Parquet file is therefore compared with its bytes.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from memorisk.runs.checksums import refuse_damaged
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_text
from memorisk.runs.size_limits import EXPANSION, FREE_BYTES, check_table, check_unpacked

_BEGINNING = r'(?:\A|(?<=[,;|"\t\r\n]))'  # where a cell begins, or could begin if a reader splits at this character
_SIGN = r"[' ]*[=+\-@\t\r\n＝＋－＠]"  # wide forms too: some spreadsheets take them for the plain ones
_UNQUOTED = re.compile(f"{_BEGINNING}(?={_SIGN})")
_QUOTED = re.compile(f"{_BEGINNING}'(?={_SIGN})")
_SPECIAL = re.compile(r'[,;|"\t\r\n]|\A\s|\s\Z')  # text that is put between double quotes
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_ROWS = 1 << 16


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
    renamed = table.rename(columns=lambda name: unquote_formulas(name) if isinstance(name, str) else name)
    return renamed.map(lambda value: unquote_formulas(value) if isinstance(value, str) else value)


def csv_line(values: Iterable[Any]) -> str:
    """Join values to one line of CSV, without a line break: missing ones are empty, numbers as Python shows them."""
    return ",".join(_cell(value) for value in values) or '""'  # readers skip a line without anything


def write_csv(path: str | Path, table: pd.DataFrame) -> None:
    """Write a table as CSV (UTF-8, commas, one line of column names), atomically.

    Args:
        path: Path of the file.
        table: Table to write, one row per line; its index is left out.
    """
    rows = zip(*(column.array for _, column in table.items()), strict=True)
    write_text(path, "".join(f"{csv_line(values)}\n" for values in (table.columns, *rows)))


def _cell(value: Any) -> str:
    if not isinstance(value, str):
        return "" if pd.isna(value) else str(value)
    quoted = quote_formulas(value)
    return f'"{quoted.replace(chr(34), chr(34) * 2)}"' if _SPECIAL.search(quoted) else quoted


def open_columns(path: Path) -> pq.ParquetFile:
    """Open a table to read a few columns, with texts as codes of the distinct ones: no text is expanded twice.

    Raises:
        InputError: The table has more columns or cells than its bytes can describe, or two columns of one name.
        DamagedError: The file differs from its record.
        OSError: The file cannot be opened.
        ValueError: The file is not Parquet.
    """
    refuse_damaged(path)
    schema = _checked_file(path).schema_arrow
    texts = [name for name in schema.names if pa.types.is_string(schema.field(name).type)
             or pa.types.is_large_string(schema.field(name).type)]  # fmt: skip
    return pq.ParquetFile(path, read_dictionary=texts)


def check_parquet(path: Path) -> None:
    """Refuse a table of more columns, cells or text than its bytes can describe, or with two columns of one name.

    Raises:
        InputError: The table is such a one.
        OSError: The file cannot be opened.
        ValueError: The file is not Parquet.
    """
    texts = _repeating_texts(_checked_file(path).metadata)
    if texts:
        _check_texts(path, texts, path.stat().st_size)


def _checked_file(path: Path) -> pq.ParquetFile:
    """Open a table, and refuse one of more columns or cells than its bytes can describe.

    Raises:
        InputError: The table has more.
    """
    file = pq.ParquetFile(path)
    metadata, stored = file.metadata, path.stat().st_size
    check_table(path, metadata.num_rows, metadata.num_columns, stored)
    twice = [name for name, n in Counter(file.schema_arrow.names).items() if n > 1]
    if twice:
        raise InputError(f"{one_line(path)}: several columns are called {one_line(twice[0], 60)!r}; rename them")
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    check_unpacked(path, "the table", sum(max(0, group.total_byte_size) for group in groups), stored)
    return file


def _repeating_texts(metadata: pq.FileMetaData) -> list[str]:
    """Return the flat columns whose values could take more than a file may, if all rows had the longest."""
    limit, columns = max(FREE_BYTES, EXPANSION * metadata.serialized_size), []
    for column in range(metadata.num_columns):
        chunks = [metadata.row_group(i).column(column) for i in range(metadata.num_row_groups)]
        most = sum(chunk.num_values * chunk.total_uncompressed_size for chunk in chunks)
        flat = chunks and "." not in chunks[0].path_in_schema and chunks[0].physical_type == "BYTE_ARRAY"
        if flat and most > limit and any("DICTIONARY" in code for chunk in chunks for code in chunk.encodings):
            columns.append(chunks[0].path_in_schema)
    return columns


def _check_texts(path: Path, columns: list[str], stored: int) -> None:
    """Refuse columns whose texts are far longer than the file, counted without writing them out.

    Raises:
        InputError: The texts are longer.
    """
    file, total = pq.ParquetFile(path, read_dictionary=columns), 0
    for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
        for values in batch.columns:
            lengths = np.asarray([len(value) for value in values.dictionary.to_pylist()], dtype=np.int64)
            total += int(lengths[values.indices.drop_null().to_numpy()].sum())
        check_unpacked(path, "the text of the table", total, stored)
