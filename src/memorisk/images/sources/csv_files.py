"""CSV and TSV tables (also gzipped), read as text: the one way for every table that a user gives.

The first line is looked at before anything is parsed: the separator, columns of one name, the number of columns. The
number of lines bounds the cells, which rows shorter than the header would otherwise multiply without end.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pandas as pd

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import refuse_special
from memorisk.runs.formats.bounds import MAX_COLUMNS, GzipStream, check_table

_NAME = 128
"""Characters that a column's name may have on average, for the length of the first line."""
_PIECE = 1 << 20


def read_csv(path: Path, *, separators: str = ",", types: Any = str) -> pd.DataFrame:
    """A table with a header line; what stands in it is kept (``007`` and ``NA`` stay that).

    Args:
        path: The file, UTF-8, plain or gzipped.
        separators: Of the columns: the one that occurs most often in the header, the first where none does.
        types: Of the columns, as pandas takes them; text if not given.

    Raises:
        InputError: It is no regular file; two columns have one name; it has too many columns or cells, unpacks to too
            much, or its rows are longer than its header.
        ValueError: pandas cannot read it.
    """
    refuse_special(path)
    names, separator = _header(path, separators)
    twice = [name for name, n in Counter(names).items() if n > 1 and name.strip()]
    if twice:
        raise InputError(f"{one_line(path)}: several columns are called {one_line(twice[0], 60)!r}; rename them")
    n_lines, n_bytes = _size(path)
    check_table(path, n_lines, len(names), n_bytes)
    with _unpacked(path) as stream:
        table = pd.read_csv(stream, sep=separator, dtype=types, keep_default_na=False, encoding="utf-8-sig")
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"{one_line(path)}: its rows have more values than its header has names")
    return table


def _header(path: Path, separators: str) -> tuple[list[str], str]:
    """Names of the columns, and what separates them."""
    longest = MAX_COLUMNS * _NAME
    with _unpacked(path) as stream:
        text = stream.read(4 * longest).decode("utf-8-sig", errors="ignore").lstrip("\r\n")
    line = text[:end] if (end := text.find("\n")) >= 0 else text
    if len(line) > longest:
        raise InputError(f"{one_line(path)}: its first line has more than {longest:,} characters, so it is no table")
    separator = max(separators, key=line.count)
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), []), separator
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _size(path: Path) -> tuple[int, int]:
    """Lines and bytes of the unpacked table."""
    lines = size = 0
    with _unpacked(path) as stream:
        while piece := stream.read(_PIECE):
            lines, size = lines + piece.count(b"\n"), size + len(piece)
    return lines, size


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with GzipStream(path) if packed else path.open("rb") as stream:  # type: ignore[attr-defined]
        yield stream  # type: ignore[misc]
