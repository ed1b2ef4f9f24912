"""Numbers as a reader sees them."""

import math

import numpy as np
import pandas as pd
import pytest

from memorisk.report.columns import FORMATS, is_missing


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("count", 1234567, "1,234,567"),
        ("count", 3.0, "3"),
        ("count", math.inf, "∞"),
        ("decimal", -0.5, "−0.500"),
        ("decimal", -0.0001, "0.000"),
        ("decimal", -math.inf, "−∞"),
        ("short", 0.125, "0.12"),
        ("mean_count", 1.0, "1"),
        ("mean_count", 1234.0, "1,234"),
        ("mean_count", 1.5, "1.50"),
        ("percent", 0.1234, "12.3\u00a0%"),
        ("percent", 0.0, "0.0\u00a0%"),
        ("percent", 0.0004, "0.040\u00a0%"),
        ("percent", 1.0, "100.0\u00a0%"),
        ("probability", 0.25, "0.250"),
        ("probability", 0.00012, "1.2e−4"),
        ("probability", 0.0, "0"),
        ("yes_no", np.bool_(True), "yes"),
        ("yes_no", False, "no"),
        ("text", 7, "7"),
    ],
)
def test_formats(kind, value, written):
    assert FORMATS[kind](value) == written


@pytest.mark.parametrize("value", [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", False, 0.0, "nan", math.inf])
def test_not_missing(value):
    assert not is_missing(value)
