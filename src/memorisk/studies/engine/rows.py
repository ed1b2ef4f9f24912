"""Rows of tables: estimates with their limits as columns, and rows chosen by the values of columns."""

from typing import Any, Protocol

import numpy as np
import pandas as pd

from memorisk.report.columns import column_texts, rows


class Interval(Protocol):
    """Estimate with its limits, of any statistic."""

    @property
    def estimate(self) -> float:
        """Return the estimate."""
        ...

    @property
    def low(self) -> float:
        """Return the lower limit."""
        ...

    @property
    def high(self) -> float:
        """Return the upper limit."""
        ...


def limits(name: str, interval: Interval) -> dict[str, float]:
    """Return an estimate with its limits as columns.

    Args:
        name: Name of the estimate's column.
        interval: Interval of the estimate, with NaN where it is not known.
    """
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def fields_of(source: object, *names: str) -> dict[str, Any]:
    """Return fields of a result as columns of their names.

    Args:
        source: Result of a statistic.
        *names: Names of its fields.
    """
    return {name: getattr(source, name) for name in names}


def rows_of(frame: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows in which columns have these values, compared as texts.

    Args:
        frame: Table.
        **values: Values by column.
    """
    chosen = np.ones(len(frame), dtype=bool)
    for column, value in values.items():
        chosen &= np.array([text == str(value) for text in column_texts(frame, column)], dtype=bool)
    return rows(frame, chosen)


def distinct(frame: pd.DataFrame, *columns: str) -> list[tuple[str, ...]]:
    """Return the different values of some columns as texts, in the order of the rows."""
    return list(dict.fromkeys(zip(*(column_texts(frame, column) for column in columns), strict=True)))
