"""Page and Markdown of the benchmark: the leaderboard, tables 1 to 4, figures 1, 2 and 4, and what was run.

Figures are drawn from the frames of the tables, so that a figure cannot differ from its table. The Markdown of the
tables is for committing, that of the leaderboard for the terminal.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Fact,
    Facts,
    Figure,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Strong,
    Table,
    Text,
    estimate,
)
from memorisk.report.columns import column_numbers, column_texts, count, estimate_arrays, is_missing, percent
from memorisk.report.figures.intervals import series_plot
from memorisk.studies.detectors.cells import LOSS_NAMES
from memorisk.studies.detectors.detection import Detector
from memorisk.studies.detectors.results import COLUMNS, Benchmark
from memorisk.studies.engine.study import StudyReport
from memorisk.studies.engine.tables import (
    StudyTable,
    TableLayout,
    escape_markdown,
    failure_blocks,
    has_values,
    markdown_table,
    table_blocks,
    texts_as_missing,
)

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
    caption = (
        "Published: mean over the measures of the detection ratio of validation copies, with the standard error over "
        "measures, which is what the published code draws. Corrected: test copies that are recognised as what they are "
        "copies of, by the measure chosen on validation, with the exact 95 % interval over patients."
    )
    words = [f"{len(frame)} detectors; {most}", Name(str(best["name"])),
             f": {percent(best['detected'])}."]  # fmt: skip
    columns = [
        Column(source="model", heading="Model", row_heading=True),
        *(Column(source=s, heading=h) for s, h in (("pretraining", "Pre-training"), ("loss", "Loss"))),
        estimate("mean", "Published mean [± standard error]", "percent"),
        estimate("detected", "Corrected [95 %]", "percent"),
    ]
    table = Table(frame=frame, columns=columns, caption="The drawn numbers.")
    title = "Figure 1: network architectures in their configurations"
    return [Figure(svg=svg, title=title, caption=caption, alternative=words, table=table)]


def measure_figure(table: StudyTable) -> Figure:
    """Draw figure 2 or 4: the measures under a loss.

    Args:
        table: Table of `tables.measure_tables`.
    """
    own, loss = table.ours, table.name.removeprefix("measures_")
    series = {PUBLISHED: estimate_arrays(own, "published"), CORRECTED: estimate_arrays(own, "detected")}
    svg = series_plot(column_texts(own, "measure"), series, x_title="Share of copies", reference=None, cut=False)
    first = own.to_dict("records")[0]
    caption = (
        "Means over detectors. Published: detection ratio of validation copies; its 95 % interval is of the spread "
        "between networks and is not drawn for one alone. Corrected: test copies, with 95 % limits over patients."
    )
    equal = int((own["detected"] == first["detected"]).sum())
    most = "detects most test copies" if equal == 1 else f"and {equal - 1} more detect as many test copies"
    words = f"{len(own)} measures; {first['measure']} {most}: {percent(first['detected'])}."
    columns = [
        Column(source="measure", heading="Measure", row_heading=True),
        estimate("published", "Published [its 95 %]", "percent"),
        estimate("detected", "Corrected [95 %]", "percent"),
    ]
    drawn = Table(frame=own, columns=columns, caption="The drawn numbers.")
    title = f"{NUMBERED[loss]}: measures, {LOSS_NAMES[loss]}"
    return Figure(svg=svg, title=title, caption=caption, alternative=words, table=drawn)


CAPTIONS = {
    "cells": "Every requested detector.",
    "folders": "Where each detector that was trained lies.",
    "fitted": "What was taken from training images.",
    "refused": "A form that has no number.",
}  # fmt: skip
"""Captions of tables without intervals."""
LAYOUT = TableLayout(columns=COLUMNS, captions=CAPTIONS)


def benchmark_page(result: Benchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page."""
    sections = [
        Section("Leaderboard", [*_board_blocks(result), *architecture_figure(result.figure_1)], "leaderboard"),
        Section("Best combinations", _tables(result, "table_1"), "combinations"),
        Section("Training", _tables(result, "trained", "table_3"), "training"),
        Section("Pre-training and architecture", _tables(result, "table_2", "table_4"), "networks"),
        Section("Measures", _measures(result), "measures"),
        Section("What was run", [*_pools(result), *_tables(result, "cells", "folders", "fitted", "refused")], "setup"),
        Section("How to read this", [Steps(_how_to_read(result))], "reading"),
    ]
    return Page(
        title="Copy detectors",
        subtitle=["Which detector recognises copies of patients' images? ", Name(result.source)],
        lead=_lead(result),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id. Distances of every query are in cells/, who is in which "
                          "part in split.parquet.")],
    )  # fmt: skip


def benchmark_report(result: Benchmark) -> StudyReport:
    """Write the report of a benchmark.

    Args:
        result: Benchmark with its numbers.
    """
    board = result.board.rows
    frames = {"leaderboard": board, "numbers": result.numbers, "figure_1": result.figure_1}
    beside = [markdown_table(board, board_columns(board, "beside"))] if len(board) else []
    return StudyReport(page=benchmark_page(result), layout=LAYOUT, frames=frames, opening=[board_text(result), *beside])


def _lead(result: Benchmark) -> list[Block]:
    board = result.board.rows
    blocks: list[Block] = []
    if len(board):
        blocks.append(Callout("note", "What is found of the copies of patients who chose nothing?",
                              [Steps(findings(result))]))  # fmt: skip
    else:
        blocks.append(Callout("warning", "No detector was measured", [Paragraph("The failures are listed below.")]))
    blocks.append(
        Facts(
            [
                Fact("Detectors", count(len(board))),
                Fact("Measures", count(len(result.options.chosen_measures))),
                Fact("Test patients", count(board["n_patients"].iloc[0] if len(board) else 0)),
                Fact("References in each pool", count(result.references)),
                Fact("Failed", count(len(result.failed))),
            ]
        )
    )
    return [*blocks, *failure_blocks(result.failed)]


def findings(result: Benchmark) -> list[Text]:
    """Describe the benchmark in a few sentences."""
    board, options = result.board.rows, result.options
    by = {str(row["name"]): row for row in board.to_dict("records")}
    row = by[result.board.chosen]
    limits = f"{percent(row['detected'])} (95 %: {percent(row['detected_low'])} to {percent(row['detected_high'])})"
    sentences: list[Text] = [
        [
            *_first_place(result, row), f" by {row['measure']}{_tied_measures(row)}: of {options.strength} "
            f"copies of {count(row['n_patients'])} test patients it finds {limits}, where a new patient is flagged "
            f"with probability {percent(1 - options.specificity)}; {percent(row['flagged'])} of "
            f"{count(result.patients['test_null'] // 2)} new patients were.",
        ]
    ]  # fmt: skip
    if len(board) > 1:
        first = result.board.undecided
        names: list[str | Name] = []
        for i, name in enumerate(first):
            names += ([", "] if i else []) + [Name(name)]
        wording = ("Paired tests put ", " before every other detector.") if len(first) == 1 else (
            "Paired tests do not tell which of these is first: ", ".")  # fmt: skip
        sentences.append([wording[0], *names, wording[1]])
    sentences += _published_words(result)
    return sentences


def _first_place(result: Benchmark, row: dict[str, Any]) -> list[str | Name]:
    """Name the leading detector, and say whether validation patients chose it: a tie chooses none."""
    tied = result.board.tied
    if len(result.board.rows) == 1:
        return ["The only detector is ", Name(tied[0])]
    if len(tied) == 1:
        return ["Validation patients chose ", Name(tied[0])]
    names: list[str | Name] = []
    for i, name in enumerate(tied):
        names += ([", "] if i else []) + [Name(name)]
    same = f" find {percent(row['validation'])} of their copies each, and nothing separates them. "
    return ["Validation patients chose no detector: ", *names, same, "The first that was named, ", Name(tied[0])]


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
    dropped = {"n_seeds"} if set(column_numbers(board, "n_seeds")) == {1.0} else set()
    if np.allclose(board["detected"], board["detected_all"]):
        dropped |= {"detected_all"}
    available = [c for c in COLUMNS[name] if c.source in board and c.source not in dropped]
    return [c for c in available if has_values(board, c.source)]


def _board_blocks(result: Benchmark) -> list[Block]:
    board = result.board.rows
    if not len(board):
        return []
    strength = result.options.strength
    caption = (
        f"Detectors by what they find of {strength} copies of test patients, each by the measure that validation "
        "chose, or the first of equals. A place is a range: paired tests over patients, Holm-adjusted over all pairs, "
        "decide which detector is ahead of which."
    )
    note = (
        "Detected: recognised at the threshold, and the nearest reference is the source; one random copy of each "
        "patient, exact intervals over patients. The order is that of these test patients: of many detectors the first "
        "is expected to find less of the next patients' copies."
    )
    columns, saved = board_columns(board), "tables/leaderboard.parquet"
    table = Table(frame=texts_as_missing(board), columns=columns, caption=caption, elsewhere=saved)
    caption = "The same detectors: other copies, and what their detection is made of."
    beside = Table(
        frame=texts_as_missing(board), columns=board_columns(board, "beside"), caption=caption, elsewhere=saved
    )
    return [table, Paragraph([Strong("How it is made. "), note]), beside]


def _tables(result: Benchmark, *names: str) -> list[Block]:
    return table_blocks(LAYOUT, *(result.table(name) for name in names))


def _measures(result: Benchmark) -> list[Block]:
    """Lay out figures 2 and 4, each with its table."""
    tables = [table for table in result.tables if table.name.startswith("measures_")]
    blocks = [block for table in tables for block in (measure_figure(table), *table_blocks(LAYOUT, table))]
    return blocks or [Paragraph("Empty: no detector was measured.")]


def _pools(result: Benchmark) -> list[Block]:
    """Describe the pools."""
    parts = ", ".join(f"{name.replace('_', ' ')} {count(n)}" for name, n in result.patients.items())
    sentences = [
        f"Patients: {parts}. Images: {count(result.n_images)}, references in each pool {count(result.references)}."
    ]
    if result.left_out:
        sentences.append(
            f"{count(result.left_out)} images of one grey level are left out: a copy of them cannot be recognised."
        )
    if not result.groups_given:
        sentences.append("The patients of the images were not given: each image counts as a patient of its own.")
    return [Paragraph(" ".join(sentences))]


def _how_to_read(result: Benchmark) -> list[Text]:
    options = result.options
    return [
        "Train patients train detectors and fit measures; validation patients choose the epoch and the measure of each "
        "detector; test patients choose nothing. The patients of the nulls have no image in any pool.",
        f"Each pool searches as many references and has its own threshold, at which a new patient stays unflagged with "
        f"probability {percent(options.specificity)}; half of the null's patients make it, the other half are the "
        "false flags shown.",
        "Published: tau is a percentile of training images searched among all validation images; cosine and "
        "correlation distances are maximised, covariances refitted in every call, as in the published code. It is "
        "shown for what it does.",
        "Intervals and tests are over patients, for these trainings: another seed may train a better or a worse one.",
        "Each interval holds 95 % by itself, not all of them at once.",
    ]


def board_text(result: Benchmark) -> str:
    """Format the sentences and the leaderboard; empty without a measured detector.

    Args:
        result: Benchmark with its numbers.
    """
    rows = result.board.rows
    if not len(rows):
        return ""
    lines = "\n".join(f"- {_plain(item)}" for item in findings(result))
    return "\n\n".join([lines, "## Leaderboard", markdown_table(rows, board_columns(rows))])


def _plain(text: Text) -> str:
    """Format inline pieces as Markdown."""
    pieces: Sequence = [text] if not isinstance(text, Sequence) or isinstance(text, str) else text
    return "".join(piece if isinstance(piece, str) else escape_markdown(piece.text) for piece in pieces)
