"""Tables that describe images, read as text, with the columns of image, label, group and split found by name.

The options may name a column; otherwise the first of the usual names that the table has is taken, compared in lower
case without blanks and punctuation. The manifest's notes list what was guessed.

`read_csv` reads every CSV and TSV table (also gzipped) that a user gives, as text. It examines the first line
before it parses anything: the separator, columns of one name, the number of columns. The number of lines bounds the
cells, which rows shorter than the header would otherwise multiply without end.
"""

import csv
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import read_table, refuse_special
from memorisk.runs.folder import is_run
from memorisk.runs.size_limits import MAX_COLUMNS, GzipStream, check_table
from memorisk.runs.tables import unquote_table

_AS_UTF8 = "save it as UTF-8 (Excel: CSV UTF-8; elsewhere: iconv -f WINDOWS-1252 -t UTF-8 TABLE > NEW), or as Parquet"
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


Role = Literal["path", "image", "label", "group", "split", "dataset"]

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "path": ("path", "filepath", "imagepath", "relpath", "relativepath", "file", "filename", "imagefile", "dicompath"),
    "image": (
        *("image", "imageid", "imageindex", "imagename", "img", "imgid", "imgname", "isicid", "sopinstanceuid"),
        *("sopuid", "dicomid", "id"),
    ),
    "label": (
        *("label", "labels", "class", "classname", "target", "dx", "diagnosis", "finding", "findings"),
        *("findinglabel", "findinglabels", "category", "disease", "y"),
    ),
    "group": (
        *("group", "groupid", "patient", "patientid", "subject", "subjectid", "person", "personid", "participantid"),
        *("identity", "case", "caseid", "lesion", "lesionid", "video", "videoid", "eye", "eyeid"),
    ),
    "split": ("split", "subset", "partition"),
    "dataset": ("dataset", "datasetname"),
}
SPLITS = {
    **dict.fromkeys(("train", "training", "trainset", "tr"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "validate", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "testset"), "test"),
}
NO_FINDING = "none"
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_YES, _NO = frozenset(("1", "1.0", "true", "yes")), frozenset(("0", "0.0", "-1", "-1.0", "", "false", "no"))


def plain_name(name: object) -> str:
    """A column's name in lower case, letters and digits only."""
    return re.sub(r"[^0-9a-z]", "", str(name).lower())


def shown_names(columns: Iterable[object]) -> list[str]:
    """Names of columns as messages show them, each on one line."""
    return [one_line(c, 60) for c in columns]


def pick(columns: Iterable[object], role: Role, chosen: str | None, source: str) -> str | None:
    """The column for a role: the one that is named, else the first usual name that occurs, else None.

    Raises:
        InputError: The named column does not exist.
    """
    names = [str(c) for c in columns]
    if chosen is not None:
        if chosen not in names:
            raise unknown_name(f"{role} column of {one_line(source)}:", chosen, shown_names(names))
        return chosen
    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain_name(name), name)
    return next((by_plain[usual] for usual in USUAL_NAMES[role] if usual in by_plain), None)


def canonical_split(value: str) -> str:
    """``train``, ``val`` or ``test`` for their usual spellings; any other name as it is."""
    return SPLITS.get(value.strip().lower(), value.strip())


def text(value: Any) -> str:
    """A value as text: whole floats without a point, missing values empty, bytes decoded."""
    if (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, (float, np.floating)) and np.isnan(value))
    ):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def texts(values: Iterable[Any]) -> list[str]:
    """Values as text, each by :func:`text`."""
    return [text(v) for v in values]


def read_described(path: Path, *, quoted: bool | None = None) -> pd.DataFrame:
    """Read a CSV or TSV (also gzipped), JSON lines or Parquet file.

    Values of CSV are text as they stand (``007`` and ``NA`` stay that). Only in a CSV that memorisk wrote are the
    quotes taken away that it put before formulas (`memorisk.runs.tables`).

    Args:
        path: The file.
        quoted: Whether memorisk wrote it; by default, whether it lies in a folder that memorisk wrote.

    Raises:
        InputError: The file is no such table, has two columns of one name, or more columns or cells than any.
    """
    try:
        refuse_special(path)
        with path.open("rb") as file:
            head = file.read(4)
        if head == b"PAR1":
            return _read_parquet(path)
        if head[:1] == b"{":
            return _read_json_lines(path)
        table = read_csv(path, separators=",;\t")
        return unquote_table(table) if (is_run(path.parent) if quoted is None else quoted) else table
    except pd.errors.EmptyDataError:
        raise InputError(f"{one_line(path)}: the table is empty") from None
    except UnicodeDecodeError:
        raise InputError(f"{one_line(path)}: the table is not UTF-8 text; {_AS_UTF8}") from None
    except (OSError, EOFError, ValueError, zlib.error, pd.errors.ParserError, RecursionError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else one_line(error, 160)
        raise InputError(f"{one_line(path)}: cannot be read as a table ({reason})") from None


def _read_json_lines(path: Path) -> pd.DataFrame:
    """A table with an object of JSON in each line; values that are objects or lists are left out.

    Raises:
        InputError: The objects have more names than any table has columns.
        ValueError: A line is no object, or names a value twice.
    """
    rows: list[dict[str, Any]] = []
    names: set[str] = set()
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            values = json.loads(line, object_pairs_hook=_once_each) if line.strip() else {}
            if not isinstance(values, dict):
                raise ValueError(f"line {number} is no object of JSON")
            if values:
                rows.append({k: None if isinstance(v, (dict, list)) else v for k, v in values.items()})
                names.update(values)
                check_table(path, len(rows), len(names), path.stat().st_size)
    return pd.DataFrame(rows, dtype=object)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of a name that stands twice the last value would win unnoticed.

    Raises:
        ValueError: One does.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"{one_line(twice, 60)!r} stands twice in one object")
    return values


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return read_table(path)
    except InputError:
        raise
    except Exception as error:  # Arrow has errors of many kinds for a broken file
        raise ValueError(one_line(error, 120)) from None


def with_numbers(column: pd.Series) -> pd.Series:
    """A text column as numbers where every value is one (or empty); codes such as ``007`` stay text."""
    values = column.tolist()
    if not all(isinstance(v, str) for v in values):
        return column
    filled = [v for v in values if v]
    if not filled or not all(_NUMBER.fullmatch(v) for v in filled):
        return column
    return pd.Series(pd.to_numeric(pd.Series([v or None for v in values], dtype=object)), name=column.name)


def label_values(table: pd.DataFrame, column: str, source: str) -> list[str]:
    """Labels of a table: one column, or several columns of 0 and 1 (``A,B,C``) whose ones are joined by ``|``.

    A row of several columns without a one is labelled ``none``.

    Raises:
        InputError: A column does not exist, or holds something other than 0 and 1 where several are named.
    """
    if column in table.columns or "," not in column:
        return [v.strip() for v in texts(table[column])]
    names = [part.strip() for part in column.split(",")]
    marks = []
    for name in names:
        if name not in table.columns:
            raise unknown_name(f"label column of {one_line(source)}:", name, shown_names(table.columns))
        values = [v.strip().lower() for v in texts(table[name])]
        strange = next((v for v in values if v not in _YES and v not in _NO), None)
        if strange is not None:
            raise InputError(f"{one_line(source)}: column {one_line(name)} holds {one_line(strange)!r}, not 0 or 1")
        marks.append([v in _YES for v in values])
    return ["|".join(n for n, m in zip(names, row, strict=True) if m) or NO_FINDING for row in zip(*marks, strict=True)]


def label_column(table: pd.DataFrame, name: str | None, source: str) -> str | None:
    """The label column (or comma-separated columns), named or guessed; None where there is none."""
    if name is not None and "," in name and name not in table.columns:
        return name
    return pick(table.columns, "label", name, source)
