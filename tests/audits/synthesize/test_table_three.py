"""MemRate of table 3: none where nothing says which score means one identity, and 0 by its making told as that."""

import re
from pathlib import Path

import pandas as pd

from memorisk.audits.synthesize.table_three import table_three
from memorisk.cli.show.generators import show_table_three
from memorisk.report.columns import booleans, column_numbers
from memorisk.statistics.copies.memorization_rate import memorization_rate
from tests.audits.synthesize.conftest import run

ENDS = [f"memrate_{what}" for what in ("before", "kept", "reference")]


def shown(table: pd.DataFrame, capsys) -> str:
    """What the terminal says of it."""
    show_table_three(table, as_json=False)
    return capsys.readouterr().out


def test_a_threshold_that_was_given_makes_no_memrate_of_pixels(place: Path, capsys) -> None:
    row = run(place, "given", images=12, threshold=-0.8).verdict["table_three"]
    assert row["figures"]["MemRate"] == {}
    assert row["figures"]["FID"]["kept"]["estimate"] > 0
    assert "pixels, euclidean gives no probability" in row["no_rate"]
    table = table_three([place / "given"])
    assert all(pd.isna(column_numbers(table, name)).all() for name in ENDS)
    told = shown(table, capsys)
    assert all(re.search(rf"MemRate, {when}", told) for when in ("before", "kept", "reference"))
    assert "–" in told
    assert row["no_rate"] in told
    assert row["no_rate"] in (place / "given" / "report.html").read_text()


def test_at_a_calibrated_threshold_the_rate_after_the_loop_is_no_finding(place: Path, capsys) -> None:
    found = run(place, "calibrated", images=12)
    row, first = found.verdict["table_three"], column_numbers(found.per_image, "attempt") == 0
    rates = row["figures"]["MemRate"]
    rejected = ~booleans(found.per_image, "kept")[first]
    assert rates["before"]["estimate"] == memorization_rate(rejected, None).estimate
    assert (rates["kept"]["estimate"], row["no_rate"]) == (0, "")
    said = "by the detector that chose at this threshold the rate after the loop is 0 by its making"
    assert said in shown(table_three([place / "calibrated"]), capsys)
    assert said in (place / "calibrated" / "report.html").read_text()
