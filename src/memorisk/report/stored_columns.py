"""Columns of a run's tables as pages need them: each read on its first use, and looked up by row or by value."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memorisk.report.result import unescape
from memorisk.runs.tables import open_columns

_FEW = 1000  # number of rows below which cells are read one after the other


class Columns:
    """Columns of a table, which are read on their first use.

    Args:
        path: Path of a Parquet file of a run; None for a table in memory.
        known: Columns that are in memory, by name.
        names: Names of columns in the table by the other names that callers use, as in ``{"name": "image"}``.
    """

    def __init__(
        self, path: Path | None, known: Mapping[str, pa.Array] | None = None, names: Mapping[str, str] | None = None
    ) -> None:
        self._file: pq.ParquetFile | None = None if path is None else open_columns(path)
        self._held, self._names = dict(known or {}), dict(names or {})
        self._there = frozenset(self._held if self._file is None else self._file.schema_arrow.names)
        self._escaped = frozenset() if self._file is None else _escaped(self._file)

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Columns":
        """Return the columns of a table in memory."""
        arrow = pa.Table.from_pandas(table, preserve_index=False)
        return cls(None, {name: _one(arrow[name]) for name in arrow.column_names})

    def __len__(self) -> int:
        """Return the number of rows."""
        if self._file is not None:
            return int(self._file.metadata.num_rows)
        return len(next(iter(self._held.values()), ()))

    def __contains__(self, name: str) -> bool:
        """Return whether the table has such a column."""
        return self._names.get(name, name) in self._there

    def text(self, name: str, row: int) -> str:
        """Return the text of a cell; empty where it has none."""
        value = self._column(name)[int(row)].as_py() if name in self else None
        return "" if value is None or value != value else self._unescaped(name, str(value))

    def texts(self, name: str, rows: np.ndarray | None = None) -> list[str]:
        """Return the texts of some rows, or of all; empty where a row has none."""
        if name not in self:
            return [""] * (len(self) if rows is None else len(rows))
        if rows is not None and len(rows) < _FEW:
            return [self.text(name, row) for row in rows]
        codes, values = self.codes(name)
        texts = np.array([*(self._unescaped(name, value) for value in values), ""], dtype=object)
        return texts[codes if rows is None else codes[rows]].tolist()

    def numbers(self, name: str) -> np.ndarray:
        """Return a column as [n] float64; NaN for missing values."""
        if name not in self:
            return np.full(len(self), np.nan)
        return self._column(name).cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)

    def booleans(self, name: str) -> np.ndarray:
        """Return a column as [n] truth values; False for missing ones."""
        if name not in self:
            return np.zeros(len(self), dtype=bool)
        return pc.fill_null(self._column(name), False).to_numpy(zero_copy_only=False).astype(bool)

    def codes(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Return a number for each text, [n], and the texts by number; -1 for a missing text."""
        column = self._coded(name)
        values = ["" if value is None else str(value) for value in column.dictionary.to_pylist()]
        return pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64), values

    def row_of(self, name: str, value: str) -> int | None:
        """Return the first row with a text; None where no row has it."""
        if self._names.get(name, name) in self._escaped:
            return next((row for row, text in enumerate(self.texts(name)) if text == value), None)
        column = self._coded(name)
        try:
            code = pc.index(column.dictionary, value).as_py()
        except (UnicodeEncodeError, pa.ArrowInvalid):  # not a text that Parquet could hold
            return None
        row = -1 if code < 0 else pc.index(column.indices, pa.scalar(code, column.indices.type)).as_py()
        return None if row < 0 else int(row)

    def _column(self, name: str) -> pa.Array:
        """Return a column, read once."""
        stored = self._names.get(name, name)
        if stored not in self._held:
            assert self._file is not None
            self._held[stored] = _one(self._file.read([stored], use_threads=False)[stored])
        return self._held[stored]

    def _coded(self, name: str) -> pa.DictionaryArray:
        """Return a column of texts as codes."""
        stored, column = self._names.get(name, name), self._column(name)
        if not pa.types.is_dictionary(column.type):
            column = self._held[stored] = column.cast(pa.string()).dictionary_encode()
        return column

    def _unescaped(self, name: str, text: str) -> str:
        return unescape(text) if self._names.get(name, name) in self._escaped else text


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    if pa.types.is_dictionary(column.type) and column.num_chunks > 1:
        column = column.unify_dictionaries()
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _escaped(file: pq.ParquetFile) -> frozenset[str]:
    """Return the columns whose texts were escaped when they were stored (`report.result.to_storable`)."""
    raw = (file.schema_arrow.metadata or {}).get(b"PANDAS_ATTRS")
    try:
        described = json.loads(raw)["memorisk_columns"]["columns"] if raw else []
        return frozenset(str(one["name"]) for one in described if one.get("escaped"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return frozenset()
