"""Paper 004's table 3: FID, IRS and MemRate of a generator, by how it is conditioned; before and after the loop.

Reads the rows that runs kept (`loop_quality` makes them) and lays them out; needs no network.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.synthesize.result import TableThreeRow
from memorisk.report.blocks import Column, Table, number, words
from memorisk.report.numbers import from_json, to_json
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json

COMPLETION_FILE = "synthesize.json"
FIGURES = ("FID", "IRS", "MemRate")
SETS = ("before", "kept", "reference")
CONDITION_ORDER = ("label-noise", "prediction", "prediction-label", "ensemble", "ensemble-label")
"""Order of the rows, as in the paper; other conditions follow."""
OF_LOOP = "the threshold of the loop"
_CHOSEN_BY_IT = "by the detector that chose at this threshold the rate after the loop is 0 by its making"


def table_three(runs: Sequence[str | Path]) -> pd.DataFrame:
    """Return the rows of several runs, in the paper's order.

    Args:
        runs: Run folders of ``memorisk synthesize`` that came to their end.

    Returns:
        A row for each run: run, generator, conditioning, n, features, memorized_by, memorized_at, paired, no_rate (why
        it has no MemRate; empty where it has one); and of every figure
        (``fid``, ``irs``, ``memrate``) ``_before``, ``_kept`` and ``_reference``, each with ``_low`` and ``_high``.

    Raises:
        InputError: A folder holds no finished run, or one that kept nothing.
    """
    rows = []
    for run in runs:
        try:
            completion = read_json(Path(run) / COMPLETION_FILE)
        except (OSError, ValueError):
            raise InputError(
                f"{one_line(run)} holds no finished run of synthesize: there is no {COMPLETION_FILE} in it"
            ) from None
        row = completion.get("table_three")
        if not isinstance(row, dict):
            raise InputError(f"{one_line(run)} kept too few images to measure their quality")
        rows.append({"run": str(run), **_flat(from_json(TableThreeRow, row))})
    order = {name: place for place, name in enumerate(CONDITION_ORDER)}
    rows.sort(key=lambda row: order.get(str(row["conditioning"]), len(order)))
    return pd.DataFrame(rows)


def _flat(row: TableThreeRow) -> dict[str, Any]:
    """Return the row with a column for each number."""
    columns = {name: value for name, value in to_json(row).items() if name != "figures"}
    for figure in FIGURES:
        for what in SETS:
            limits = row.figures[figure].get(what)
            for name, end in (("estimate", ""), ("low", "_low"), ("high", "_high")):
                columns[f"{figure.lower()}_{what}{end}"] = float(getattr(limits, name, np.nan))
    return columns


def table_three_block(row: TableThreeRow) -> Table:
    """Return the row as a table of a report."""
    flat = _flat(row)
    caption = f"FID and IRS of {row.n:,} images by {row.features}; {rate_words(flat)}."
    return table_three_table(pd.DataFrame([flat]), caption)


def table_three_table(frame: pd.DataFrame, caption: str = "") -> Table:
    """Return rows of `table_three` as a table.

    Args:
        frame: Rows.
        caption: Caption of the table; by default the features and detectors of the rows.
    """
    columns = [
        words("conditioning", "Conditioning", row=True),
        number("n", "Images", "count"),
    ]
    for figure in FIGURES:
        unit = "percent" if figure == "MemRate" else "decimal"
        for what in SETS:
            source = f"{figure.lower()}_{what}"
            limits = (f"{source}_low", f"{source}_high")
            columns.append(Column(source=source, heading=f"{figure}, {what}", format=unit, interval=limits))
    if not caption:
        each = [f"{row['conditioning']}: {row['features']}; {rate_words(row)}." for row in frame.to_dict("records")]
        caption = " ".join(each)
    return Table(frame=frame, columns=columns, caption=caption)


def rate_words(row: Mapping[Any, Any]) -> str:
    """Say by which detector a row has its MemRate, at what and of what; or why it has none.

    Args:
        row: Row of `table_three`.
    """
    if reason := row.get("no_rate"):
        return str(reason)
    pairs = "with the training image it was conditioned on" if row["paired"] else "with any training image"
    text = f"MemRate by {row['memorized_by']}, {row['memorized_at']}, {pairs}"
    return f"{text}; {_CHOSEN_BY_IT}" if row["memorized_at"] == OF_LOOP else text
