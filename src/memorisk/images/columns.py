"""Tables that describe images, read as text, with the columns of image, label, group and split found by name.

The options may name a column. Otherwise the first of the usual names that the table has is taken; names are compared in
lower case without blanks and punctuation. The manifest's notes list what was guessed.

`read_csv` reads every CSV and TSV table (also gzipped) that a user gives, as text. It examines the first lines
before it parses anything: the encoding, the separator, columns of one name, the number of columns. The number of lines
bounds the cells, which rows shorter than the header would otherwise multiply without end.
"""

import codecs
import csv
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
"""Mean number of characters that a column's name may have, which bounds the length of the first line."""
_PIECE = 1 << 20
SEPARATORS = ",;\t|"
"""Characters that may separate columns; a first line ``sep=:`` of a spreadsheet names another."""
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?[;,\t ]*', re.IGNORECASE)
_NUMBERS = ("", "id", "no", "nr", "num", "number", "nummer", "code", "uid")
_PERSONS = tuple(
    f"{who}{number}"
    for who in ("patient", "patienten", "pat", "subject", "participant", "person")
    for number in _NUMBERS
    if (who, number) != ("pat", "")
)
"""Names of columns of people's ids, in order: those of patients first. A side (``eye``) is a part of a person."""
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
        *("group", "groupid", *_PERSONS, "mrn", "identity", "patientname", "case", "caseid", "lesion", "lesionid"),
        *("video", "videoid", "eyeid"),
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
_MARK = r"-?[01](?:\.0*)?"
_WORD_OR_MARK = rf"(?:{_MARK}|true|false)"
_MARKS = re.compile(
    rf"(?:(?:\w+\.)?(?:array|tensor)\(\s*)?[\[(]\s*({_WORD_OR_MARK}(?:[\s,;]+{_WORD_OR_MARK})+)\s*,?\s*[\])]"
    rf"(?:(?:,\s*\w+=[\w.]+)*\s*\))?|({_MARK}(?:\|{_MARK})+)",
    re.IGNORECASE,
)
"""Marks in brackets, as Python, NumPy and PyTorch print them, or joined by ``|``."""
_POINT = re.compile(r"\.0*$")


def read_csv(path: Path, *, types: Any = str) -> pd.DataFrame:
    """Read a table with a header line; its values stay text as they are (``007`` and ``NA`` are kept).

    Args:
        path: Path of the file, UTF-8 or UTF-16, plain or gzipped.
        types: Types of the columns, as pandas takes them; text by default.

    Raises:
        InputError: The file is not a regular file of such text; its first line is a title; two columns have one name;
            it has too many columns or cells, unpacks to too much, or its rows are longer than its header.
        ValueError: pandas cannot read it.
    """
    refuse_special(path)
    form = _csv_form(path)
    twice = [name for name, n in Counter(form.names).items() if n > 1 and name.strip()]
    if twice:
        raise InputError(f"{one_line(path)}: several columns are called {one_line(twice[0], 60)!r}; rename them")
    n_lines, n_bytes = _size(path, form.encoding)
    check_table(path, n_lines, len(form.names), n_bytes)
    with _unpacked(path) as stream:
        table = pd.read_csv(
            stream,
            sep=form.separator,
            dtype=types,
            keep_default_na=False,
            encoding=form.encoding,
            skiprows=form.lines_above,
        )
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"{one_line(path)}: its rows have more values than its header has names")
    return table


@dataclass(frozen=True)
class _CsvForm:
    """Form of a table, read from its first lines."""

    encoding: str
    separator: str
    names: list[str]
    """Names of the columns."""
    lines_above: int
    """Number of lines above the line of the names."""


def _csv_form(path: Path) -> _CsvForm:
    """Return the form of a table.

    Raises:
        InputError: The first line is longer than any header, or is a title.
    """
    longest = MAX_COLUMNS * _NAME
    with _unpacked(path) as stream:
        head = stream.read(4 * longest)
    encoding, separators, lines_above = _encoding(head), SEPARATORS, 0
    whole = head.decode(encoding, errors="ignore")
    text = whole.lstrip("\r\n")
    line = text.partition("\n")[0]
    if len(line) > longest:
        raise InputError(f"{one_line(path)}: its first line has more than {longest:,} characters, so it is not a table")
    if separator_line := _SEPARATOR_LINE.fullmatch(line.strip("\r")):
        separators, text = separator_line[1], text.partition("\n")[2]
        lines_above = whole[: len(whole) - len(text)].count("\n")
    rows = {one: of_one for one in separators if (of_one := _first_rows(text, one)) is not None}
    if not rows:
        raise ValueError("its first line is none of a table")
    separator = max(rows, key=lambda one: (_agree(*rows[one]), text.partition("\n")[0].count(one)))
    names, first = rows[separator]
    others = [len((_first_rows(text, one) or ([], []))[1]) for one in SEPARATORS] if len(names) == 1 else []
    unnamed = [value for name, value in zip(names[1:], first[1:], strict=False) if value.strip() and not name.strip()]
    if any(n > 1 for n in others) or len(unnamed) > (1 if sum(map(bool, names)) > 1 else 0):
        number = whole[: len(whole) - len(text)].count("\n") + 1
        raise InputError(
            f"{one_line(path)}: line {number} ({one_line(text.partition(chr(10))[0].strip(), 60)}) names "
            f"{sum(map(bool, names))} of {max([len(first), *others])} columns; the line of the columns' names must be "
            "the first: leave out titles and comments above it"
        )
    return _CsvForm(encoding, separator, names, lines_above)


def _encoding(head: bytes) -> str:
    """Return the encoding of a text by its mark, or by the empty bytes of UTF-16."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if head[1:4:2] == b"\0\0" and head[0:4:2].isalnum():
        return "utf-16-le"
    return "utf-16-be" if head[0:4:2] == b"\0\0" and head[1:4:2].isalnum() else "utf-8-sig"


def _first_rows(text: str, separator: str) -> tuple[list[str], list[str]] | None:
    """Return the first two rows of a table, the second empty if it is missing; None where the first has no end."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        names = next(rows, [])
    except csv.Error:
        return None
    with suppress(csv.Error):
        return names, next((row for row in rows if row), [])
    return names, []


def _agree(names: list[str], first: list[str]) -> bool:
    return len(names) == len(first) > 1


def _size(path: Path, encoding: str) -> tuple[int, int]:
    """Count the lines and bytes of the unpacked table.

    Raises:
        InputError: A line is in another encoding.
    """
    lines = size = 0
    decoder = codecs.getincrementaldecoder(encoding)()
    with _unpacked(path) as stream:
        while piece := stream.read(_PIECE):
            try:
                decoder.decode(piece)
            except UnicodeDecodeError as error:
                number = lines + error.object[: error.start].count(b"\n") + 1
                raise InputError(f"{one_line(path)}: line {number:,} is not UTF-8 text; {_AS_UTF8}") from None
            lines, size = lines + piece.count(b"\n"), size + len(piece)
    return lines, size


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with GzipStream(path) if packed else path.open("rb") as stream:  # type: ignore[attr-defined]
        yield stream  # type: ignore[misc]


Role = Literal["path", "image", "label", "group", "split", "dataset"]


def plain_name(name: object) -> str:
    """Return a column's name in lower case, with letters and digits only."""
    return re.sub(r"[^0-9a-z]", "", str(name).lower())


def shown_names(columns: Iterable[object]) -> list[str]:
    """Return the names of columns as messages show them, each on one line."""
    return [one_line(c, 60) for c in columns]


def pick(columns: Iterable[object], role: Role, chosen: str | None, source: str) -> str | None:
    """Return the column for a role: the named one, else the first usual name that occurs, else None.

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
    """Return ``train``, ``val`` or ``test`` for their usual spellings; any other name as it is."""
    return SPLITS.get(value.lower(), value)


def text(value: Any) -> str:
    """Return a value as text: whole floats without a point, missing values empty, bytes decoded.

    A float too large to distinguish neighbouring whole numbers is written in scientific notation: its last digits are
    not those of the original id.
    """
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
        exact = 2.0 ** (np.finfo(type(value)).nmant + 1)
        return str(int(value)) if abs(value) < exact else f"{float(value):.16e}"
    return str(value)


def texts(values: Iterable[Any]) -> list[str]:
    """Return values as text, each by :func:`text`; a column of short floats is read in its own type."""
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind == "f":
        values = np.asarray(values)
    return [text(v) for v in values]


def read_described(path: Path, *, quoted: bool | None = None) -> pd.DataFrame:
    """Read a CSV or TSV (also gzipped), JSON lines or Parquet file.

    Values of CSV stay text as they are (``007`` and ``NA`` are kept). Only from a CSV that memorisk wrote does the
    function remove the quotes that memorisk put before formulas (`memorisk.runs.tables`).

    Args:
        path: Path of the file.
        quoted: Whether memorisk wrote the file; by default, whether it lies in a folder that memorisk wrote.

    Raises:
        InputError: The file is not such a table, two columns have one name, or it has too many columns or cells.
    """
    try:
        refuse_special(path)
        with path.open("rb") as file:
            head = file.read(4)
        if head == b"PAR1":
            return _read_parquet(path)
        if head[:1] == b"{":
            return _read_json_lines(path)
        table = read_csv(path)
        return unquote_table(table) if (is_run(path.parent) if quoted is None else quoted) else table
    except pd.errors.EmptyDataError:
        raise InputError(f"{one_line(path)}: the table is empty") from None
    except UnicodeDecodeError:
        raise InputError(f"{one_line(path)}: the table is not UTF-8 text; {_AS_UTF8}") from None
    except (OSError, EOFError, ValueError, zlib.error, pd.errors.ParserError, RecursionError) as error:
        reason = "the file does not exist" if isinstance(error, FileNotFoundError) else one_line(error, 160)
        raise InputError(f"{one_line(path)}: cannot be read as a table ({reason})") from None


def _read_json_lines(path: Path) -> pd.DataFrame:
    """Read a table with a JSON object in each line; objects, and lists of objects or lists, are left out.

    Raises:
        InputError: The objects have more names than any table has columns.
        ValueError: A line is not an object, or names a value twice.
    """
    rows: list[dict[str, Any]] = []
    names: set[str] = set()
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            values = json.loads(line, object_pairs_hook=_once_each) if line.strip() else {}
            if not isinstance(values, dict):
                raise ValueError(f"line {number} is not a JSON object")
            if values:
                rows.append({k: None if _is_nested(v) else v for k, v in values.items()})
                names.update(values)
                check_table(path, len(rows), len(names), path.stat().st_size)
    return pd.DataFrame(rows, dtype=object)


def _is_nested(value: Any) -> bool:
    """Return whether a value of JSON is an object, or a list that holds one or another list."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value))


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON and refuse a repeated name, whose last value would win unnoticed.

    Raises:
        ValueError: A name occurs twice.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"{one_line(twice, 60)!r} occurs twice in one object")
    return values


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return read_table(path)
    except InputError:
        raise
    except Exception as error:  # Arrow has errors of many kinds for a broken file
        raise ValueError(one_line(error, 120)) from None


def with_numbers(column: pd.Series) -> pd.Series:
    """Return a text column as numbers where every value is one (or empty); codes such as ``007`` stay text."""
    values = column.tolist()
    if not all(isinstance(v, str) for v in values):
        return column
    filled = [v for v in values if v]
    if not filled or not all(_NUMBER.fullmatch(v) for v in filled):
        return column
    return pd.Series(pd.to_numeric(pd.Series([v or None for v in values], dtype=object)), name=column.name)


def label_values(table: pd.DataFrame, column: str, source: str) -> list[str]:
    """Return the labels of a table: one column, or several of 0 and 1 (``A,B,C``) whose ones are joined by ``|``.

    A row of several columns without a one is labelled ``none``. `label_texts` reads a column of lists.

    Raises:
        InputError: A column does not exist, or holds something other than 0 and 1 where several are named.
    """
    if column in table.columns or "," not in column:
        values = table[column].tolist() if table[column].dtype == object else texts(table[column])
        return label_texts(values, None, column, source)
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
    return [joined_names(row, names) for row in zip(*marks, strict=True)]


def joined_names(marks: Iterable[Any], names: Sequence[str] | None) -> str:
    """Return the names of the classes whose mark is set, joined by ``|``; their positions where they have no names."""
    chosen = [j for j, mark in enumerate(marks) if mark]
    return "|".join(str(j) if names is None else names[j] for j in chosen) or NO_FINDING


def label_texts(values: Sequence[Any], names: Sequence[str] | None, column: str, source: str) -> list[str]:
    """Return labels as text: the classes whose marks are 1 where a value has one mark (0 or 1) per class.

    Other values are read as by `class_texts`.
    """
    values = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    marks = _multi_hot(values, names)
    if marks is None:
        return class_texts(values, names, column, source)
    return ["" if row is None else joined_names(row, names) for row in marks]


def class_texts(values: Sequence[Any], names: Sequence[str] | None, column: str, source: str) -> list[str]:
    """Return the classes of a column as text.

    Args:
        values: Numbers of classes or any single values; or lists of them, whose members are joined by ``|``.
        names: Names of the classes, if the column has any.
        column: Name of the column.
        source: Name of the data set.

    Returns:
        Text for each value: "" for a missing one and for -1 (the mark of ``datasets`` for an unknown class), ``none``
        for an empty list.

    Raises:
        InputError: A number is not the number of a class.
    """

    def of(value: Any) -> str:
        """Return one class as text."""
        if names is None or not isinstance(value, int) or isinstance(value, bool):
            return text(value).strip()
        if value == -1:
            return ""
        if not 0 <= value < len(names):
            raise InputError(
                f"{one_line(source)}: column {one_line(column, 60)} holds class {value}, of {len(names)} (0 to "
                f"{len(names) - 1}); the file and its features do not belong together"
            )
        return names[value]

    return [
        ("|".join(dict.fromkeys(filter(None, map(of, v)))) if v else NO_FINDING) if isinstance(v, list) else of(v)
        for v in values
    ]


def _multi_hot(values: Sequence[Any], names: Sequence[str] | None) -> list[list[bool] | None] | None:
    """Return the marks of each value where all are lists of marks, a mark for each class; None where they are not.

    Lists of class numbers look the same where only the classes 0 and 1 exist. They are marks if all have the
    length of the classes, and one of them has a value twice or 1 before 0, which no set of classes has.
    """
    rows: list[list[str] | None] = []
    for value in values:
        if isinstance(value, str) and (printed := _MARKS.fullmatch(value.strip())):
            row = re.split(r"[\s,;|]+", (printed[1] or printed[2]).lower())
            rows.append([_POINT.sub("", mark) for mark in row])
        elif isinstance(value, list):
            rows.append([item.strip().lower() for item in texts(value)])
        elif text(value).strip():
            return None
        else:
            rows.append(None)
    marks = [row for row in rows if row is not None]
    width = len(names) if names is not None else max(map(len, marks), default=0)
    if width < 2 or any(len(row) != width or not _YES.union(_NO).issuperset(row) for row in marks):
        return None
    if not any(len(set(row)) < width or row != sorted(row) or "true" in row or "false" in row for row in marks):
        return None
    return [None if row is None else [mark in _YES for mark in row] for row in rows]


def label_column(table: pd.DataFrame, name: str | None, source: str) -> str | None:
    """Return the label column (or comma-separated columns), named or guessed; None where the table has none."""
    if name is not None and "," in name and name not in table.columns:
        return name
    return pick(table.columns, "label", name, source)
