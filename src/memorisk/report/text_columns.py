"""Tables with any file name in them, as Parquet and back.

Parquet holds UTF-8 only, while the name of a file may hold bytes that are not: Python shows those as lone surrogates.
Such a column is stored with backslash escapes, and the table's own metadata says so; every other column is stored as it
is, so that any Parquet reader shows the usual names. The same metadata restores the dtype that a text column had.
"""

import re
from typing import Any

import numpy as np
import pandas as pd

_KEY = "memorisk_columns"
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\\\|\\u(d[89a-f][0-9a-f]{2})")


def escape(text: str) -> str:
    """Write backslashes twice and lone surrogates as backslash, u and four digits; :func:`unescape` undoes it."""
    return _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text.replace("\\", "\\\\"))


def unescape(text: str) -> str:
    """The text that :func:`escape` was given."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\\", text)


def to_storable(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """A copy of the table that Parquet can hold, with the columns' true names and dtypes in its metadata.

    Args:
        table: Any table with text columns (``object`` or ``str``) and columns of NumPy's or pandas' plain types.
        name: Its name, for messages.

    Raises:
        ValueError: If columns repeat or are not named by text, the index carries a name or text, or a column of objects
            holds something other than text and missing values.
    """
    if not all(isinstance(c, str) for c in table.columns) or not table.columns.is_unique:
        raise ValueError(f"table {name!r}: columns must be named by text, each once; got {list(table.columns)}")
    if table.index.name is not None or not (len(table) == 0 or pd.api.types.is_integer_dtype(table.index)):
        raise ValueError(f"table {name!r}: its index is not stored; make it a column with reset_index()")
    stored: dict[str, pd.Series] = {}
    described: list[dict[str, Any]] = []
    for column, values in table.items():
        column = str(column)
        series, description = _storable_column(values.reset_index(drop=True), f"{name}.{column}")
        stored[escape(column)] = series
        described.append({"name": column, **description})
    out = pd.DataFrame(stored, index=pd.RangeIndex(len(table)))
    out.attrs[_KEY] = {"columns": described, "names": str(table.columns.dtype)}
    return out


def from_storable(table: pd.DataFrame) -> pd.DataFrame:
    """The table that :func:`to_storable` was given; a table written by something else comes back as it is."""
    recorded = table.attrs.get(_KEY)
    if recorded is None or len(recorded["columns"]) != len(table.columns):
        return table
    parts = [_restored_column(table.iloc[:, i], d) for i, d in enumerate(recorded["columns"])]
    out = pd.concat(parts, axis=1) if parts else pd.DataFrame(index=pd.RangeIndex(len(table)))
    out.columns = pd.Index([d["name"] for d in recorded["columns"]], dtype=recorded["names"])
    return out


def _storable_column(series: pd.Series, where: str) -> tuple[pd.Series, dict[str, Any]]:
    """The column as Parquet holds it, and what is needed to undo that."""
    if series.dtype != object:
        return series, {"dtype": str(series.dtype)}
    missing = series.isna().to_numpy()
    values = series.to_numpy()
    odd = next((v for v in values[~missing] if not isinstance(v, str)), None)
    if odd is not None:
        raise ValueError(
            f"column {where}: objects must be text, got {type(odd).__name__}; give the column a plain dtype"
        )
    escaped = any(_SURROGATE.search(v) for v in values[~missing])
    absent = "none" if any(v is None for v in values[missing]) else "nan"
    text = [None if m else (escape(v) if escaped else v) for v, m in zip(values, missing, strict=True)]
    return pd.Series(text, dtype=object), {"dtype": "object", "escaped": escaped, "missing": absent}


def _restored_column(series: pd.Series, description: dict[str, Any]) -> pd.Series:
    """The column with its own dtype again."""
    if description["dtype"] != "object":
        return series if str(series.dtype) == description["dtype"] else series.astype(description["dtype"])
    absent = None if description["missing"] == "none" else np.nan
    missing = series.isna().to_numpy()
    text = [
        absent if m else (unescape(v) if description["escaped"] else v) for v, m in zip(series, missing, strict=True)
    ]
    values = np.empty(len(text), dtype=object)
    values[:] = text
    return pd.Series(values, dtype=object)
