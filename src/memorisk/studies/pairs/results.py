"""Result of a benchmark before it is laid out: its numbers, and its findings in sentences.

The sentences are for the terminal, the page and Markdown alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memorisk.report.columns import column_texts, decimal, is_missing, largest_first, percent
from memorisk.report.columns import rows as chosen_rows
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.pairs.auc import macro_average
from memorisk.studies.engine.boards import with_limits
from memorisk.studies.engine.layout import StudyLayout, read_layout
from memorisk.studies.engine.rows import limits
from memorisk.studies.engine.study import FinishedStudy
from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.pairs.cells import Cell, reid_pairs
from memorisk.studies.pairs.division import TEST, VALIDATION, Division
from memorisk.studies.pairs.options import Options

MACRO = "Macro average"
LAYOUTS = {kind: read_layout(__package__, "setup", kind) for kind in ("reid", "copies")}
"""Schemas of the tables and the page of each benchmark."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PairBenchmark(FinishedStudy):
    """Numbers of a benchmark."""

    kind: str
    """Kind of the benchmark: "reid" or "copies"."""
    source: str
    """Short name of the images."""
    options: Options
    """Options of the benchmark."""
    reference: str
    """Name of the detector that all others are compared with."""
    board: pd.DataFrame
    """Leaderboard with one row per detector, the best first (`frames`)."""
    figures: dict[str, pd.DataFrame]
    """Numbers of the figures that are in no table, by name."""
    missing: dict[str, str]
    """Baselines of the paper that are not at hand, and what to give to have them."""
    division: Division
    """Division of the patients."""

    @property
    def layout(self) -> StudyLayout:
        """Return the schemas of its tables and its page."""
        return LAYOUTS[self.kind]


def overall(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the macro average; with one data set, its rows.

    Args:
        frame: Table with a column ``dataset``.
    """
    macro = [dataset == MACRO for dataset in column_texts(frame, "dataset")]
    return chosen_rows(frame, macro) if any(macro) else frame


def macro_row(
    rows: Sequence[Mapping[str, Any]], intervals: Mapping[str, Sequence[JackknifeInterval]], paper: str = "",
    *counts: str,
) -> dict[str, object]:  # fmt: skip
    """Return the macro average of the rows of several data sets.

    Args:
        rows: Rows of one detector, one per data set.
        intervals: Intervals of each estimate by data set, by the estimate's column.
        paper: Column whose plain mean the paper prints; empty for none.
        *counts: Columns that are summed.
    """
    row: dict[str, object] = {"dataset": MACRO}
    for name, each in intervals.items():
        row |= limits(name, macro_average(each))
    if paper:
        row[paper] = float(np.mean([float(one[paper]) for one in rows]))
    return row | {name: sum(int(one[name]) for one in rows) for name in counts}


def ranked(rows: Sequence[Mapping[str, object]], column: str) -> pd.DataFrame:
    """Return a leaderboard in the order of a column, the largest first, equal ones in their order."""
    board = pd.DataFrame(list(rows))
    return largest_first(board, column).reset_index(drop=True) if len(board) else board


def setup_tables(kind: str, cells: Sequence[Cell], missing: Mapping[str, str]) -> list[StudyTable]:
    """Return the tables on what was run.

    Args:
        kind: Name of the benchmark.
        cells: Cells of the benchmark.
        missing: Baselines that are not at hand, and what to give to have them.
    """
    rows = {
        "parts": _part_rows(cells[0]),
        "detectors": [cell.row(compares=cell.contender.compares) for cell in cells],
        "missing": [{"detector": name, "give": give} for name, give in missing.items()],
    }
    return [fill_table(LAYOUTS[kind], name, of_table) for name, of_table in rows.items()]


def _part_rows(cell: Cell) -> list[dict[str, object]]:
    """Count images, patients and pairs by part and data set."""
    d, rows = cell.division, []
    for part in (VALIDATION, TEST):
        pairs = {p.dataset: p for p in reid_pairs(cell, part)}
        for name in d.names:
            row: dict[str, object] = {"dataset": name, "part": part, "images": len(d.rows(part, name))}
            row |= {"patients": d.patients(part, name), "repeated": d.repeated(part, name), "pairs": 0}
            if listed := pairs.get(name):
                row |= {"pairs": len(listed.weight), "largest": listed.largest_share, "identical": listed.identical}
            rows.append(row)
    return rows


_DIFFERENCE = ("difference", "difference_low", "difference_high")


def findings(result: PairBenchmark) -> list[str]:
    """Describe the findings: the best detector, which ones differ from the reference, what is missing.

    Args:
        result: Benchmark with at least one detector.
    """
    return [
        *(_reid(result) if result.kind == "reid" else _copies(result)),
        *_reference_words(result),
        *_missing_words(result),
    ]


def _reid(result: PairBenchmark) -> list[str]:
    rows = result.board.to_dict("records")
    first, suffix = rows[0], "_paper" if result.options.protocol == "paper" else ""
    what = "AUC" if len(result.division.names) == 1 else "macro-averaged AUC"
    place = _first_place(rows, f"auc{suffix}", "has the largest", "have the same")
    leader = f"{place} {what}, {with_limits(first, f'auc{suffix}', decimal)}"
    at = f" {first['at']}" if first["at"] and not suffix else ""
    sentences = [f"{leader}; the specificity{at} of {first['detector']} is {_share(first, f'specificity{suffix}')}."]
    if not is_missing(first["auc_paper"]):
        sentences.append(
            f"Counted as papers do, every pair alike, its AUC is {decimal(first['auc_paper'])}; every patient alike it "
            f"is {decimal(first['auc'])}."
        )
    return sentences


def _copies(result: PairBenchmark) -> list[str]:
    rows = result.board.to_dict("records")
    leader = _first_place(rows, "recall", "recognises most", "recognise as many")
    return [
        f"{leader} of the strongest copies, {_share(rows[0], 'recall')}, at the threshold above which half of the "
        "validation pairs of two patients lie."
    ]


def _first_place(rows: list[dict], column: str, alone: str, tied: str) -> str:
    """Name the leading detector, or all that nothing separates, followed by the words for one or for several."""
    equal = [str(row["detector"]) for row in rows if row[column] == rows[0][column]]
    if len(equal) < 2 or len(rows) < 2:
        return f"{rows[0]['detector']} {alone}"
    return f"Nothing separates {', '.join(equal)}: they {tied}"


def _reference_words(result: PairBenchmark) -> list[str]:
    """Name the detectors that an interval without 0 distinguishes from the reference."""
    better, worse, open_ = [], [], []
    for row in result.board.to_dict("records"):
        values = [row.get(name) for name in _DIFFERENCE]
        if row["detector"] == result.reference or any(is_missing(v) for v in values):
            continue
        low, high = float(str(values[1])), float(str(values[2]))
        (better if low > 0 else worse if high < 0 else open_).append(str(row["detector"]))
    sentences = []
    for names, what in ((better, "better than"), (worse, "worse than"), (open_, "not distinguishable from")):
        if names:
            sentences.append(f"By paired intervals over patients {what} {result.reference}: {', '.join(names)}.")
    return sentences


def _missing_words(result: PairBenchmark) -> list[str]:
    if not result.missing:
        return []
    return [f"Not at hand and not measured: {', '.join(result.missing)}; the table below says what to give."]


def _share(row: dict, name: str) -> str:
    if is_missing(row.get(name)):
        return "not measurable"
    return percent(row[name]) if is_missing(row.get(f"{name}_low")) else with_limits(row, name)
