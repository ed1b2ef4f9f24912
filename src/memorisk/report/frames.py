"""A table's columns as plain arrays, whatever dtype they came with and whether they are there at all."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.report.formats import is_missing


def numbers(table: pd.DataFrame, column: str) -> np.ndarray:
    """A column as ``[n]`` float64; NaN for what is missing, for text, and for a column that is not there."""
    out = np.full(len(table), np.nan)
    if column in table:
        for i, value in enumerate(table[column]):
            if not is_missing(value) and not isinstance(value, str):
                out[i] = float(value)
    return out


def truths(table: pd.DataFrame, column: str) -> np.ndarray:
    """A column as ``[n]`` booleans; False for what is missing and for a column that is not there."""
    if column not in table:
        return np.zeros(len(table), dtype=bool)
    return np.array([not is_missing(v) and bool(v) for v in table[column]], dtype=bool)


def texts(table: pd.DataFrame, column: str) -> list[str]:
    """A column as texts; empty for what is missing and for a column that is not there."""
    if column not in table:
        return [""] * len(table)
    return ["" if is_missing(v) else str(v) for v in table[column]]


def rows(table: pd.DataFrame, chosen: np.ndarray | Sequence[bool]) -> pd.DataFrame:
    """The rows where a mask is true."""
    return table.take(np.flatnonzero(np.asarray(chosen, dtype=bool)).tolist())


def largest_first(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows by a number, largest first, equal ones in their order, those without one at the end."""
    values = numbers(table, column)
    return table.take(np.argsort(np.where(np.isnan(values), np.inf, -values), kind="stable").tolist())
