"""What the tables of the study say of the numbers behind their figures, and where there is no figure."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memorisk.report.columns import column_numbers, column_texts
from memorisk.studies.engine.number_texts import NONE
from memorisk.studies.generators import memorization
from memorisk.studies.generators.tables import generator_table, table_3
from tests.studies.generators.test_paired import HELD, N, read

WHO = {"dataset": "Digits", "arm": "a", "kind": "dit", "conditioning": "ensemble", "n_images": N, "repeated": False}
OF_PATIENTS = {"n_patients": 50}


def headings(table: Any) -> dict[str, str]:
    """Of the shown columns, by what they show."""
    return {column.source: str(column.heading) for column in next(table.views()).columns}


def reading(*reads: Any, quality: pd.DataFrame | None = None) -> Any:
    """A study of some readings."""
    return SimpleNamespace(last=list(reads), quality=pd.DataFrame() if quality is None else quality)


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memorization, "named_columns", lambda cell: WHO | OF_PATIENTS)


def test_table_3_says_of_how_many_pairs_its_rates_are() -> None:
    one, other = read(0.5), read(0.5)
    cut = {"pair_score": one.arrays["pair_score"][:100], "pair_row": one.arrays["pair_row"][:100]}
    shown = table_3(reading(SimpleNamespace(**vars(one) | {"arrays": one.arrays | cut})))
    assert headings(shown)["n_pairs"] == "Pairs"
    assert headings(shown)["n_held_pairs"] == "Held-out pairs"
    assert shown.ours[["n_pairs", "n_held_pairs"]].to_numpy().tolist() == [[100, HELD]]
    assert "MemRate is empty" not in shown.note
    assert table_3(reading(other)).ours["n_pairs"].tolist() == [N]


@pytest.mark.parametrize(("left", "why"), [(0, "none: no copies were measured"), (10, "none: 49 held-out patients")])
def test_table_3_leaves_a_rate_without_a_threshold_empty_and_says_why(left: int, why: str) -> None:
    """Pixels give no probability: without enough copies of held-out patients nothing says what is identical."""
    one = read(0.9, copies=left > 0)
    if left:
        of_few = {name: one.arrays[name][:left] for name in ("copy_score", "beside_score", "beside_row")}
        one = SimpleNamespace(**vars(one) | {"arrays": one.arrays | of_few, "held_groups": one.held_groups[:left]})
    shown = table_3(reading(one))
    assert np.isnan(column_numbers(shown.ours, "mem_rate")).all()
    assert not {"mem_rate", "held_rate", "excess", "n_pairs"} & set(headings(shown))
    assert column_texts(shown.ours, "threshold")[0].startswith(why)
    assert "MemRate is empty where nothing says" in shown.note
    assert shown.paper["Mem-Rate (%) ↓"].tolist() == [NONE]
    assert NONE not in shown.paper["IRS ↑"].tolist()


def test_kinds_side_by_side_say_how_many_patients_are_behind_their_figures() -> None:
    figure = {"figure": "FID", "better": "lower", "features": "pixels:8", "n_real": N, "n_synthetic": 90}
    figure |= {"estimate": 3.0, "low": 2.0, "high": 4.0, "n_reference": 70, "reference": 2.5}
    counted = {"n_real_patients": 50, "n_reference_patients": 30}
    quality = pd.DataFrame([WHO | figure | counted | {"seed": seed} for seed in (0, 1)])
    shown = generator_table(reading(quality=quality))
    said = headings(shown)
    assert said["n_real_patients"] == "Training patients"
    assert said["n_reference_patients"] == "Held-out patients"
    assert shown.ours[["n_real_patients", "n_reference_patients"]].to_numpy().tolist() == [[50, 30]]
    before = generator_table(reading(quality=quality.drop(columns="n_reference_patients")))  # of a file without them
    assert "n_reference_patients" not in headings(before)
    assert before.ours["estimate"].tolist() == [3.0]
