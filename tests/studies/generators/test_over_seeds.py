"""Several seeds as one row."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from memorisk.studies.generators.results import combine_seeds, mean_over_seeds

ENDS = (0.0, 1.0)


def of(*rows: tuple[float, float, float]) -> tuple[float, float, float]:
    estimate, low, high = (np.array(column) for column in zip(*rows, strict=True))
    return combine_seeds(estimate, low, high, ends=ENDS)


def test_one_seed_keeps_its_own_limits() -> None:
    assert of((0.5, 0.3, 0.8)) == (0.5, 0.3, 0.8)


def test_seeds_that_agree_keep_the_limits_of_what_they_were_read_on() -> None:
    assert of((1.0, 0.9, 1.0), (1.0, 0.92, 1.0)) == (1.0, pytest.approx(0.91), 1.0)


def test_seeds_that_differ_have_students_interval_cut_at_the_ends() -> None:
    estimate, low, high = of((0.2, 0.19, 0.21), (0.4, 0.39, 0.41), (0.3, 0.29, 0.31))
    half = stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    assert (estimate, low, high) == pytest.approx((0.3, 0.3 - half, 0.3 + half))
    assert of((0.0, 0.0, 0.1), (0.9, 0.8, 1.0))[1:] == (0.0, 1.0)


def test_a_seed_without_a_value_is_left_out_and_none_is_none() -> None:
    nan = float("nan")
    assert of((0.5, 0.4, 0.6), (nan, nan, nan)) == (0.5, 0.4, 0.6)
    assert all(np.isnan(value) for value in of((nan, nan, nan)))
    assert of((0.5, nan, nan))[0] == 0.5


def test_rows_that_differ_in_the_seed_alone_become_one() -> None:
    table = pd.DataFrame(
        {"arm": ["a", "a", "b"], "seed": [0, 1, 0], "x": [0.2, 0.4, 0.5], "x_low": [0.1, 0.3, 0.4],
         "x_high": [0.3, 0.5, 0.6], "n": [10, 20, 5]}
    )  # fmt: skip
    found = mean_over_seeds(table, ["arm"], {"x": ENDS}, ["n"])
    assert found["arm"].tolist() == ["a", "b"]
    assert found["n_seeds"].tolist() == [2, 1]
    assert found["n"].tolist() == [15.0, 5.0]
    assert found["x"].tolist() == pytest.approx([0.3, 0.5])
