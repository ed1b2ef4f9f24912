"""The trend over copies as the study reads it: binary outcomes, unequal levels, patients as units."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memorisk.statistics.copy_slopes import mean_slope, share_slope
from memorisk.studies.generators import memorization

LEVELS = np.repeat([1, 4, 16, 64], [250, 16, 16, 16])


def test_the_p_of_a_deal_is_uniform_where_copies_change_nothing() -> None:
    rng = np.random.default_rng(5)
    found = [memorization.permutation_p(rng.random(len(LEVELS)) < 0.3, LEVELS, seed=i, draws=199) for i in range(200)]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 200)
    assert 0.4 < np.mean(found) < 0.65
    assert memorization.permutation_p(np.log2(LEVELS), LEVELS, seed=0) == 1 / 10_000


def reading(values: np.ndarray, copies: np.ndarray, monkeypatch: pytest.MonkeyPatch, share: float = 0.5) -> Any:
    """A reading of one generator whose patients have these outcomes."""
    monkeypatch.setattr(memorization, "named_columns", lambda cell: {"arm": "a"})
    cell = SimpleNamespace(options=SimpleNamespace(seed=0))
    read = SimpleNamespace(cell=cell, detector="pixels:8", step=1, patient_copies=copies, flagged=values > 0,
                           nearness=values, share=SimpleNamespace(estimate=share))  # fmt: skip
    return SimpleNamespace(last=[read])


def test_slopes_and_their_limits_are_those_of_the_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).normal(0.3 * np.log2(LEVELS), 1.0)
    row = memorization.trend_rows(reading(values, LEVELS, monkeypatch)).to_dict("records")[0]
    for name, slope in (("flagged", share_slope(values > 0, LEVELS)), ("nearness", mean_slope(values, LEVELS))):
        assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == (slope.estimate, slope.low, slope.high)
        assert row[f"{name}_low"] > 0
        assert row[f"{name}_p"] == 1 / 10_000


def test_outcomes_without_any_difference_have_a_slope_of_0(monkeypatch: pytest.MonkeyPatch) -> None:
    row: dict[str, Any] = memorization.trend_rows(reading(np.ones(len(LEVELS)), LEVELS, monkeypatch)).iloc[0].to_dict()
    assert row["flagged"] == pytest.approx(0)
    assert float(row["flagged_low"]) < 0 < float(row["flagged_high"])
    assert np.isnan(row["nearness_low"])
    assert row["flagged_p"] == row["nearness_p"] == 1


def test_nobody_is_flagged_where_held_out_patients_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    few = reading(np.where(LEVELS > 4, 1.0, -1.0), LEVELS, monkeypatch, share=float("nan"))
    row = memorization.trend_rows(few).to_dict("records")[0]
    assert all(np.isnan(row[name]) for name in ("flagged", "flagged_low", "flagged_high", "flagged_p"))
    assert row["nearness_low"] > 0
    levels = memorization.level_rows(few)
    assert np.isnan(levels["share"].to_numpy()).all()
    assert levels["level_patients"].tolist() == [250, 16, 16, 16]


def test_a_generator_without_repeated_images_has_no_trend(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = reading(np.arange(50.0), np.ones(50, dtype=int), monkeypatch)
    assert not len(memorization.trend_rows(plain))
    assert not len(memorization.level_rows(plain))


def test_levels_have_the_shares_of_their_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.where(LEVELS >= 16, 1.0, -1.0)
    found = memorization.level_rows(reading(values, LEVELS, monkeypatch))
    assert found["share"].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert found["level_patients"].tolist() == [250, 16, 16, 16]
