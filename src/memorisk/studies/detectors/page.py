"""Page and Markdown of the benchmark: the leaderboard, tables 1 to 4, figures 1, 2 and 4, and what was run.

Figures are drawn from the frames of the tables, so that a figure cannot differ from its table. The Markdown of the
tables is for committing, that of the leaderboard for the terminal.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from memorisk.report.blocks import Block, Column, Figure, Name, Paragraph, Strong, Text
from memorisk.report.columns import column_numbers, column_texts, count, estimate_arrays, is_missing, percent
from memorisk.report.figures.intervals import series_plot
from memorisk.studies.detectors.cells import LOSS_NAMES
from memorisk.studies.detectors.detection import Detector
from memorisk.studies.detectors.pools import PARTS
from memorisk.studies.detectors.results import LAYOUT, Benchmark
from memorisk.studies.engine.boards import LEADERBOARD, Board, named_list, with_limits
from memorisk.studies.engine.figures import drawn
from memorisk.studies.engine.pages import answer_numbers, study_page
from memorisk.studies.engine.study import StudyReport
from memorisk.studies.engine.tables import StudyTable, filled_columns, markdown_table, table_blocks

PUBLISHED, CORRECTED = "as published, validation", "corrected, test"
_LABELS = ("name", "model", "pretraining", "loss")
NUMBERED = {"triplet": "Figure 2", "infonce": "Figure 4", "none": "Figure 2, untrained"}


def architecture_frame(measured: Sequence[Detector], board: pd.DataFrame, strength: str) -> pd.DataFrame:
    """Return the numbers of figure 1.

    Each detector has its published mean over measures with the standard error, and its corrected detection.

    Args:
        measured: Detectors of the benchmark.
        board: Rows of the leaderboard.
        strength: Strength of the copies.
    """
    records = []
    by = {d.name: d for d in measured}
    for row in board.to_dict("records"):
        values = list(by[row["name"]].published_values(strength).values())
        middle = float(np.mean(values)) if values else np.nan
        error = float(scipy.stats.sem(values)) if len(values) > 1 else np.nan
        columns = {k: row[k] for k in (*_LABELS, "measure", "detected", "detected_low", "detected_high")}
        records.append({**columns, "mean": middle, "mean_low": middle - error, "mean_high": middle + error})
    return pd.DataFrame(records)


def architecture_figure(frame: pd.DataFrame) -> list[Block]:
    """Draw figure 1: network architectures in their configurations."""
    if not len(frame):
        return []
    pairs = zip(column_texts(frame, "pretraining"), column_texts(frame, "loss"), strict=True)
    below = [", ".join(part for part in pair if part) for pair in pairs]
    series = {PUBLISHED: estimate_arrays(frame, "mean"), CORRECTED: estimate_arrays(frame, "detected")}
    svg = series_plot(
        column_texts(frame, "model"), series, x_title="Share of copies", reference=None, cut=False, sublabels=below
    )
    best = frame.to_dict("records")[0]
    equal = int((frame["detected"] == best["detected"]).sum())
    most = "most test copies are detected by " if equal == 1 else f"nothing separates the first {equal}, among them "
    words = [f"{len(frame)} detectors; {most}", Name(str(best["name"])),
             f": {percent(best['detected'])}."]  # fmt: skip
    title = "Figure 1: network architectures in their configurations"
    return [drawn(svg, title, LAYOUT.sentences["figure_1"], words, frame, LAYOUT.frames["figure_1"].columns)]


def measure_figure(table: StudyTable) -> Figure:
    """Draw figure 2 or 4: the measures under a loss.

    Args:
        table: Table of `tables.measure_tables`.
    """
    own, loss = table.ours, table.name.removeprefix("measures_")
    series = {PUBLISHED: estimate_arrays(own, "published"), CORRECTED: estimate_arrays(own, "detected")}
    svg = series_plot(column_texts(own, "measure"), series, x_title="Share of copies", reference=None, cut=False)
    first = own.to_dict("records")[0]
    equal = int((own["detected"] == first["detected"]).sum())
    most = "detects most test copies" if equal == 1 else f"and {equal - 1} more detect as many test copies"
    words = f"{len(own)} measures; {first['measure']} {most}: {percent(first['detected'])}."
    title = f"{NUMBERED[loss]}: measures, {LOSS_NAMES[loss]}"
    return drawn(svg, title, LAYOUT.sentences["measures"], words, own, LAYOUT.frames["measures"].columns)


def benchmark_report(result: Benchmark) -> StudyReport:
    """Report the leaderboard, the tables and the figures.

    Args:
        result: Result of `benchmark_detectors`.
    """
    board, beside, options = board_of(result), board_columns(result.board.rows, "beside"), result.options
    caption = LAYOUT.sentences["board"].format(strength=options.strength)
    below = "The same detectors: other copies, and what their detection is made of."
    note = [Paragraph([Strong(LAYOUT.note_heading), LAYOUT.sentences["board_note"]])] if len(board.rows) else []
    blocks = {
        LEADERBOARD: [*board.blocks(caption), *note, *board.blocks(below, beside)],
        "figure_1": architecture_figure(result.figure_1),
        "measures": _measures(result),
        "pools": _pools(result),
    }
    facts = {
        "Measures": len(options.chosen_measures),
        "Test patients": board.rows["n_patients"].iloc[0] if len(board.rows) else 0,
        "References in each pool": len(result.parts.pools["test"]),
    }
    page = study_page(
        LAYOUT, result.tables, blocks, lead=board.lead(facts, result.failed),
        subtitle=[LAYOUT.page.subtitle, Name(result.source)], specificity=percent(options.specificity),
        answers={"measures": _measure_answer(result)},
    )  # fmt: skip
    frames = {LEADERBOARD: board.rows, "numbers": result.numbers, "figure_1": result.figure_1}
    opening = [board.text(), *([markdown_table(board.rows, beside)] if len(board.rows) else [])]
    return StudyReport(page=page, frames=frames, opening=opening)


def board_of(result: Benchmark) -> Board:
    """Return the leaderboard with its findings.

    Args:
        result: Result of `benchmark_detectors`.
    """
    rows, question = result.board.rows, "How many copies does the chosen detector find?"
    return Board(rows, board_columns(rows), question, findings(result) if len(rows) else [])


def findings(result: Benchmark) -> list[Text]:
    """Describe the benchmark in a few sentences."""
    board, options = result.board.rows, result.options
    by = {str(row["name"]): row for row in board.to_dict("records")}
    row = by[result.board.chosen]
    limits = with_limits(row, "detected")
    sentences: list[Text] = [
        [*_first_place(result), f" finds {limits} of {options.strength} copies of {count(row['n_patients'])} test "
         "patients."],
        f"It finds them by {row['measure']}{_tied_measures(row)}, where a new patient is flagged with probability "
        f"{percent(1 - options.specificity)}; {percent(row['flagged'])} of "
        f"{count(result.parts.patients('test_null') // 2)} new patients were.",
    ]  # fmt: skip
    if len(board) > 1:
        first = result.board.undecided
        wording = ("Paired tests put ", " before every other detector.") if len(first) == 1 else (
            "Paired tests do not tell which of these is first: ", ".")  # fmt: skip
        sentences.append([wording[0], *named_list(first), wording[1]])
    sentences += _published_words(result)
    return sentences


def _first_place(result: Benchmark) -> list[str | Name]:
    """Name the leading detector, and say whether validation patients chose it: a tie chooses none."""
    tied = result.board.tied
    if len(result.board.rows) == 1:
        return ["The only detector, ", Name(tied[0]), ","]
    if len(tied) == 1:
        return [Name(tied[0]), ", which validation patients chose,"]
    equal = f"{len(tied)} detectors find equally many of validation patients' copies; of these the first one, "
    return [equal, Name(tied[0]), ","]


def _tied_measures(row: dict[str, Any]) -> str:
    """Return in brackets that other measures detect as many; empty without such measures."""
    n = int(row["n_tied"])
    return "" if n == 1 else f" (the first of {n} measures that detect as many of validation patients' copies)"


def _published_words(result: Benchmark) -> list[Text]:
    """Describe the result of the published rules on the same distances."""
    held = [row for row in result.table("table_1").ours.to_dict("records") if row["published_measure"]]
    if not held:
        return []
    first = held[0]
    equal = sum(row["published"] == first["published"] for row in held)
    best = "is best" if equal == 1 else f"is the first of {equal} detectors that nothing separates,"
    sentences: list[Text] = [
        [
            "Under the published rules ", Name(str(first["name"])), f" by {first['published_measure']} {best} with "
            f"{percent(first['published'])} of validation copies" + _corrected_words(first) + ".",
        ]
    ]  # fmt: skip
    return sentences


def _corrected_words(row: dict) -> str:
    """Describe the published best measure's result with the right direction, pools and answers."""
    share = row.get("published_on_test", float("nan"))
    return "" if is_missing(share) else f"; corrected, that measure finds {percent(share)} of test copies"


def board_columns(board: pd.DataFrame, name: str = "leaderboard") -> Sequence[Column]:
    """Return the columns of the leaderboard, or of its second table, that hold something."""
    if not len(board):
        return []
    dropped = {"n_seeds"} if set(column_numbers(board, "n_seeds")) == {1.0} else set()
    if np.allclose(board["detected"], board["detected_all"]):
        dropped |= {"detected_all"}
    return filled_columns(board, [c for c in LAYOUT.frames[name].columns if c.source not in dropped])


def _measures(result: Benchmark) -> list[Block]:
    """Lay out figures 2 and 4, each with its table."""
    tables = [table for table in result.tables if table.name.startswith("measures_")]
    blocks = [block for table in tables for block in (measure_figure(table), *table_blocks(table))]
    return blocks or [Paragraph("Empty: no detector was measured.")]


def _measure_answer(result: Benchmark) -> dict[str, str]:
    """Count the measures that differ from the chosen one, over all losses."""
    tables = [table for table in result.tables if table.name.startswith("measures_")]
    frames = [table.ours for table in tables if "difference" in table.ours]
    return answer_numbers(pd.concat(frames), tables[0].schema.columns, "difference") if frames else {}


def _pools(result: Benchmark) -> list[Block]:
    """Describe the pools."""
    parts = result.parts
    patients = ", ".join(f"{name.replace('_', ' ')} {count(parts.patients(name))}" for name in PARTS)
    sizes = f"Images: {count(len(parts.part))}, references in each pool {count(len(parts.pools['test']))}."
    sentences = [f"Patients: {patients}. {sizes}"]
    if left_out := int((parts.part == "").sum()):
        sentences.append(
            f"{count(left_out)} images of one grey level are left out: a copy of them cannot be recognised."
        )
    if not result.groups_given:
        sentences.append("The patients of the images were not given: each image counts as a patient of its own.")
    return [Paragraph(" ".join(sentences))]
