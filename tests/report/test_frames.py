"""Columns as arrays, whatever they came as."""

import numpy as np
import pandas as pd

from memorisk.report.columns import booleans, column_numbers, column_texts, largest_first, rows

TABLE = pd.DataFrame(
    {
        "m": pd.array([1, None, 3], dtype="Int64"),
        "o": pd.Series([0.5, None, "text"], dtype=object),
        "b": pd.array([True, None, False], dtype="boolean"),
        "name": pd.Series(["a", None, "\udc80"], dtype=object),
    }
).set_axis([7, 3, 5])


def test_numbers_take_what_is_a_number():
    np.testing.assert_array_equal(column_numbers(TABLE, "m"), [1, np.nan, 3])
    np.testing.assert_array_equal(column_numbers(TABLE, "o"), [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(column_numbers(TABLE, "absent"), [np.nan] * 3)


def test_truths_and_texts():
    assert booleans(TABLE, "b").tolist() == [True, False, False]
    assert booleans(TABLE, "absent").tolist() == [False] * 3
    assert column_texts(TABLE, "name") == ["a", "", "\udc80"]
    assert column_texts(TABLE, "absent") == ["", "", ""]


def test_rows_and_order_go_by_place_not_by_index():
    assert rows(TABLE, np.array([False, True, True])).index.tolist() == [3, 5]
    assert largest_first(TABLE, "m").index.tolist() == [5, 7, 3]
    ties = pd.DataFrame({"m": [1.0, 2.0, 1.0, np.nan, 2.0]})
    assert largest_first(ties, "m").index.tolist() == [1, 4, 0, 2, 3]
