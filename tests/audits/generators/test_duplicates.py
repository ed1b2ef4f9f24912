"""The trend over copies as the study reads it: binary outcomes, unequal levels, patients as units."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memorisk.audits.generators import duplicates
from memorisk.statistics.trend import duplicate_trend

LEVELS = np.repeat([1, 4, 16, 64], [250, 16, 16, 16])


def slope_of(share: np.ndarray) -> float:
    """The slope that least squares on log2 copies converges to, of these shares at these levels."""
    x = np.log2(LEVELS)
    return float(np.polyfit(x, share[np.searchsorted([1, 4, 16, 64], LEVELS)], 1)[0])


@pytest.mark.parametrize(
    ("share", "least"), [((0.05,) * 4, 0.0), ((0.05, 0.2, 0.6, 0.9), 0.91), ((0.1, 0.5, 0.9, 0.97), 0.91)]
)
def test_an_interval_above_0_may_be_believed(share: tuple[float, ...], least: float) -> None:
    rng, runs = np.random.default_rng(3), 250
    true = round(slope_of(np.array(share)), 12)
    inside, above_zero = 0, 0
    for _ in range(runs):
        flagged = rng.random(len(LEVELS)) < np.array(share)[np.searchsorted([1, 4, 16, 64], LEVELS)]
        found = duplicate_trend(flagged[:, None].astype(float), LEVELS).slope
        inside += found.low <= true <= found.high
        above_zero += found.low > 0
    assert above_zero / runs <= (0.05 if true == 0 else 1)  # 0.025, and what 250 runs allow
    assert inside / runs >= least


def test_the_p_of_a_deal_is_uniform_where_copies_change_nothing() -> None:
    rng = np.random.default_rng(5)
    found = [duplicates.permutation_p(rng.random(len(LEVELS)) < 0.3, LEVELS, seed=i, draws=199) for i in range(200)]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 200)
    assert 0.4 < np.mean(found) < 0.65
    assert duplicates.permutation_p(np.log2(LEVELS), LEVELS, seed=0) == 1 / 10_000


def reading(values: np.ndarray, copies: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A reading of one generator whose patients have these outcomes."""
    monkeypatch.setattr(duplicates, "named_columns", lambda cell: {"arm": "a"})
    cell = SimpleNamespace(options=SimpleNamespace(seed=0))
    read = SimpleNamespace(cell=cell, detector="pixels:8", step=1, patient_copies=copies, flagged=values > 0,
                           nearness=values)  # fmt: skip
    return SimpleNamespace(last=[read])


def test_outcomes_without_any_difference_have_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    row = duplicates.trend_rows(reading(np.ones(len(LEVELS)), LEVELS, monkeypatch)).to_dict("records")[0]
    assert row["flagged"] == 0
    assert np.isnan(row["flagged_low"])


def test_a_generator_without_repeated_images_has_no_trend(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = reading(np.arange(50.0), np.ones(50, dtype=int), monkeypatch)
    assert not len(duplicates.trend_rows(plain))
    assert not len(duplicates.level_rows(plain))


def test_levels_have_the_shares_of_their_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.where(LEVELS >= 16, 1.0, -1.0)
    found = duplicates.level_rows(reading(values, LEVELS, monkeypatch))
    assert found["share"].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert found["level_patients"].tolist() == [250, 16, 16, 16]
