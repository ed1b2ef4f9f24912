"""Columns of tables: text, numbers, estimates with their limits; and an estimate read as three arrays."""

import numpy as np
import pandas as pd

from memorisk.report.blocks import Column
from memorisk.report.columns import column_numbers


def words(source: str, heading: str, *, wide: bool = False, row: bool = False) -> Column:
    """A column of text; one column names the row."""
    return Column(source=source, heading=heading, wide=wide, row_heading=row)


def number(source: str, heading: str, kind: str = "decimal", *, missing: str = "") -> Column:
    """A column of numbers without limits."""
    return Column(source=source, heading=heading, format=kind, missing=missing)


def estimate(
    source: str, heading: str, kind: str = "decimal", low: str = "", high: str = "", *, missing: str = ""
) -> Column:
    """A column of estimates with their limits, which stand in ``SOURCE_low`` and ``SOURCE_high`` if not named."""
    ends = (low or f"{source}_low", high or f"{source}_high")
    return Column(source=source, heading=heading, format=kind, interval=ends, missing=missing)


def estimate_arrays(frame: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[n] estimates, their lower and their upper limits."""
    low, high = f"{column}_low", f"{column}_high"
    return column_numbers(frame, column), column_numbers(frame, low), column_numbers(frame, high)
