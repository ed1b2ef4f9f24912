"""Columns of a table: read as plain arrays, and their values written for a reader.

A column is read whatever dtype it has, and whether it exists or not. `FORMATS` has a function for each way
to write a value; the specification of a column names it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from memorisk.statistics.verdicts.tiers import format_against_gates

MINUS = "\N{MINUS SIGN}"
_DECIMALS = 3


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, or pandas' own mark for it."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def text(value: Any) -> str:
    """Write a name or any other value, as it is."""
    return str(value)


def capitalized(sentence: str) -> str:
    """Return a sentence with a capital first letter and the others as they are, since it may contain names."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def count(value: Any) -> str:
    """Write a whole number with commas between thousands; None as "not known"."""
    return "not known" if value is None else _signed(f"{float(value):,.0f}")


def decimal(value: Any, gates: Sequence[float] = ()) -> str:
    """Write a number with three decimals, more where rounding would carry it to or across a gate."""
    return _signed(format_against_gates(float(value), *gates, digits=_DECIMALS))


def short(value: Any) -> str:
    """Write a number with two decimals."""
    return _signed(f"{float(value):.2f}")


def mean_count(value: Any) -> str:
    """Write a mean of counts: a whole one as a count, else with two decimals."""
    number = float(value)
    return count(number) if number.is_integer() else short(number)


def percent(value: Any) -> str:
    """Write a share as a percentage: one decimal, more only where the share is below 0.1 %."""
    share = 100 * float(value)
    digits = 1 if share == 0 or abs(share) >= 0.1 else 3
    return _signed(f"{share:.{digits}f}") + "\N{NO-BREAK SPACE}%"


def probability(value: Any) -> str:
    """Write a p-value: three decimals, or scientific notation where it is below 0.001."""
    p = float(value)
    if p >= 0.001:
        return f"{p:.3f}"
    return "0" if p <= 0 else f"{p:.1e}".replace("e-0", "e-").replace("e-", f"e{MINUS}")


def power(value: Any) -> str:
    """Write a number of any size with two significant digits: ``75000`` as ``7.5e4``."""
    number = float(value)
    if number == 0 or 0.01 <= abs(number) < 1000:
        return _signed(f"{number:.3g}")
    digits, _, exponent = f"{number:.1e}".partition("e")
    return _signed(digits) + "e" + _signed(str(int(exponent)))


def size(value: Any) -> str:
    """Write a number of bytes in the largest unit that it fills, and exactly."""
    number = int(value)
    exact = f"{number:,} bytes"
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next((f"{number / one:.3g} {unit} ({exact})" for one, unit in units if number >= one), exact)


def yes_no(value: Any) -> str:
    """Format a truth value as yes or no."""
    return "yes" if bool(value) else "no"


FORMATS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "text": text,
        "count": count,
        "decimal": decimal,
        "short": short,
        "mean_count": mean_count,
        "percent": percent,
        "probability": probability,
        "power": power,
        "size": size,
        "yes_no": yes_no,
    }
)


def _signed(digits: str) -> str:
    """Return the same number with a true minus sign, and without one before zero."""
    digits = digits.replace("inf", "\N{INFINITY}")
    if digits == "-\N{INFINITY}":
        return MINUS + "\N{INFINITY}"
    if digits.startswith("-"):
        return digits[1:] if not any(c in "123456789" for c in digits) else MINUS + digits[1:]
    return digits


def column_numbers(table: pd.DataFrame, column: str) -> np.ndarray:
    """Return a column as ``[n]`` float64; NaN for missing values, for text, and for a column that does not exist."""
    out = np.full(len(table), np.nan)
    if column in table:
        for i, value in enumerate(table[column]):
            if not is_missing(value) and not isinstance(value, str):
                out[i] = float(value)
    return out


def booleans(table: pd.DataFrame, column: str) -> np.ndarray:
    """Return a column as ``[n]`` booleans; False for missing values and for a column that does not exist."""
    if column not in table:
        return np.zeros(len(table), dtype=bool)
    return np.array([not is_missing(v) and bool(v) for v in table[column]], dtype=bool)


def column_texts(table: pd.DataFrame, column: str) -> list[str]:
    """Return a column as texts; empty for missing values and for a column that does not exist."""
    if column not in table:
        return [""] * len(table)
    return ["" if is_missing(v) else str(v) for v in table[column]]


def rows(table: pd.DataFrame, chosen: np.ndarray | Sequence[bool]) -> pd.DataFrame:
    """Return the rows where a mask is true."""
    return table.take(np.flatnonzero(np.asarray(chosen, dtype=bool)).tolist())


def largest_first(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Sort the rows by a number, largest first, equal ones in their order, those without one at the end."""
    values = column_numbers(table, column)
    return table.take(np.argsort(np.where(np.isnan(values), np.inf, -values), kind="stable").tolist())


def estimate_arrays(frame: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return estimates, their lower and their upper limits, [n] each."""
    low, high = f"{column}_low", f"{column}_high"
    return column_numbers(frame, column), column_numbers(frame, low), column_numbers(frame, high)


def distinct_scored(table: pd.DataFrame, column: str) -> int:
    """Count the different ids of a table, of those with a score where it has a column M; rows where it has no ids.

    Args:
        table: Table of images, or of patients, perhaps in several classes.
        column: Name of the column of ids.
    """
    scored = rows(table, ~np.isnan(column_numbers(table, "M"))) if "M" in table else table
    return len(set(column_texts(scored, column))) if column in scored else len(scored)
