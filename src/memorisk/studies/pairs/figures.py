"""Figures 1, 4, 5 and 6 of paper 004, from the frames of the tables, so that a figure cannot differ from its table.

Figure 1 shows re-identification against copies, one point for each detector that is in both benchmarks.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.alterations.families import ALL_FAMILIES
from memorisk.report.blocks import Block, Inline, Name, Paragraph
from memorisk.report.columns import column_numbers, column_texts, count, decimal, estimate_arrays, percent
from memorisk.report.figures.curves import MOST_DETECTORS, strength_plot
from memorisk.report.figures.histograms import score_plot
from memorisk.report.figures.intervals import joint_plot, series_plot
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_table
from memorisk.studies.engine.figures import drawn, series_of
from memorisk.studies.engine.rows import distinct, rows_of
from memorisk.studies.pairs.results import PairBenchmark, overall
from memorisk.studies.pairs.scores import RULE_WORDS

MOST_HISTOGRAMS = 12


def joint_figure(result: PairBenchmark) -> list[Block]:
    """Draw figure 1: re-identification against copies."""
    frame = result.figures.get("figure_1")
    if frame is None:
        other = "copies" if result.kind == "reid" else "reid"
        return [Paragraph(f"Figure 1 compares this with bench {other}: name its run folder after --{other}.")]
    if not len(frame):
        return [Paragraph("No detector is in both benchmarks under one name, so that figure 1 has no point.")]
    x, y = (estimate_arrays(frame, name) for name in ("auc", "recall"))
    svg = joint_plot(
        column_texts(frame, "detector"), x, y, column_numbers(frame, "dimension"), x_title="Re-identification: AUC",
        y_title="Copies: recall at the strongest",
    )  # fmt: skip
    caption = (
        "Macro averages with their 95 % intervals; a larger point is a longer vector. A detector for both tasks lies "
        "in the upper right corner."
    )
    words: list[Inline] = []
    for row in frame.to_dict("records"):
        words += [Name(str(row["detector"])), f": AUC {decimal(row['auc'])}, recall {percent(row['recall'])}. "]
    columns = result.layout.frames["figure_1"].columns
    return [drawn(svg, "Figure 1: re-identification and copies", caption, words, frame, columns)]


def score_figures(result: PairBenchmark, thresholds: pd.DataFrame) -> list[Block]:
    """Draw figure 6: all pairs by score, one drawing for each detector and data set.

    Args:
        result: Benchmark with its numbers.
        thresholds: Rows of the table of false matches.
    """
    frame = result.figures["figure_6"]
    if not len(frame):
        return [Paragraph("No detector compares one against all.")]
    blocks: list[Block] = []
    keys = distinct(frame, "detector", "dataset")
    for detector, dataset in keys[:MOST_HISTOGRAMS]:
        own = rows_of(frame, detector=detector, dataset=dataset)
        edges = np.r_[column_numbers(own, "from"), column_numbers(own, "to")[-1]]
        same, different, below = (column_numbers(own, name) for name in ("same", "different", "different_below"))
        thresholds_here = rows_of(thresholds, detector=detector, dataset=dataset)
        marks = {str(r["at"]): float(r["threshold"]) for r in thresholds_here.to_dict("records")}
        counts = {"of one patient": same, "of two patients": different}
        svg = score_plot(edges, counts, x_title="Score", marks=marks)
        under = int(below.sum())
        sentence = f": all {count(int(same.sum()))} pairs of one patient and all "
        sentence += f"{count(int(different.sum()) + under)} of two, each as a share of its own"
        sentence += f"; {count(under)} of two lie below the axis." if under else "."
        words = f"Pairs of one patient reach from {edges[0]:.4g} to {edges[-1]:.4g}."
        caption = [Name(detector), ", ", Name(dataset), sentence]
        blocks.append(drawn(svg, "Figure 6: all pairs by score", caption, words))
    if len(keys) > MOST_HISTOGRAMS:
        blocks.append(Paragraph(f"{len(keys) - MOST_HISTOGRAMS} more are in tables/figure_6.parquet."))
    return blocks


def strongest_figure(result: PairBenchmark) -> list[Block]:
    """Draw figure 4: recall of the strongest copies, both thresholds, macro-averaged."""
    if not len(result.board):
        return []
    frame = overall(result.table("figure_4").ours)
    names = [str(name) for name in result.board["detector"]]
    series = series_of(frame, "rule", "detector", names, ("recall", "recall_low", "recall_high"))
    series = {f"at {words}": series[words] for words in RULE_WORDS.values() if words in series}
    svg = series_plot(names, series, x_title="Recall of the strongest copies", reference=None, cut=False)
    caption = (
        "Mean over families and data sets of the share of copies that are recognised as their source, at the strongest "
        "of each family, with 95 % intervals over patients. The drawn numbers are those of the table below."
    )
    best = result.board.to_dict("records")[0]
    equal = int((result.board["recall"] == best["recall"]).sum())
    most = " recognises most" if equal == 1 else f" and {equal - 1} more recognise as many"
    most += f": {percent(best['recall'])}."
    words = [f"{len(names)} detectors; ", Name(str(best["detector"])), most]
    return [drawn(svg, "Figure 4: copies, strongest", caption, words)]


def strength_figures(result: PairBenchmark) -> list[Block]:
    """Draw figure 5: recall against strength, one drawing per family, macro-averaged, at 50 % specificity."""
    frame = result.figures["figure_5"]
    if not len(frame):
        return []
    names = [str(name) for name in result.board["detector"]]
    chosen = names[:MOST_DETECTORS]
    if result.reference in names and result.reference not in chosen:
        chosen[-1] = result.reference
    blocks: list[Block] = []
    columns = result.layout.frames["figure_5"].columns
    for family in dict.fromkeys(column_texts(frame, "family")):
        own = rows_of(frame, family=family, rule=RULE_WORDS["specificity"]).to_dict("records")
        strengths = list(dict.fromkeys(float(r["strength"]) for r in own))
        by = {(str(r["detector"]), float(r["strength"])): float(r["recall"]) for r in own}
        lines = {name: [by.get((name, s), np.nan) for s in strengths] for name in chosen}
        svg = strength_plot(strengths, lines, x_title=ALL_FAMILIES[family].axis, y_title="Recall")
        words: list[Inline] = []
        for name, values in lines.items():
            words += [Name(name), f": {percent(values[-1])} at the strongest. "]
        caption = "Threshold of 50 % specificity on validation pairs; mean over data sets, every patient alike."
        if len(names) > len(chosen):
            caption += f" The {len(chosen)} detectors drawn are the first of the leaderboard and the reference."
        table, numbers = "The drawn numbers, of all detectors.", pd.DataFrame(own)
        blocks.append(drawn(svg, f"Figure 5: {family}", caption, words, numbers, columns, table=table))
    return blocks


def steepest_family(result: PairBenchmark) -> dict[str, str]:
    """Return the family by which the first detector's recall changes most, with its ends; nothing without strengths."""
    frame = result.figures.get("figure_5")
    if frame is None or not len(frame) or not len(result.board):
        return {}
    own = rows_of(frame, detector=result.board["detector"].iloc[0], rule=RULE_WORDS["specificity"])
    ends = {}
    for family in dict.fromkeys(column_texts(own, "family")):
        recall = column_numbers(rows_of(own, family=family).sort_values("strength"), "recall")
        ends[family] = (recall[0], recall[-1])
    family, (weakest, strongest) = max(ends.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    return {"family": family, "weakest": percent(weakest), "strongest": percent(strongest)}


BOARD = Path("tables") / "leaderboard.parquet"


def read_board(run: Path, kind: str) -> pd.DataFrame:
    """Read the leaderboard of the other benchmark's run.

    Args:
        run: Folder of the run.
        kind: Required kind of the benchmark: "reid" or "copies".

    Raises:
        InputError: The folder holds no such run.
    """
    file = run / BOARD
    needed = "auc" if kind == "reid" else "recall"
    if not file.is_file():
        raise InputError(f"{one_line(run)} holds no finished run of bench {kind}: there is no {BOARD} in it")
    board = read_table(file)
    if needed not in board or "detector" not in board:
        raise InputError(f"{one_line(run)} is a run of another benchmark; name one of bench {kind}")
    return board


def figure_1_frame(reid: pd.DataFrame, copies: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of figure 1: detectors of the same name in both leaderboards.

    Args:
        reid: Leaderboard of `bench reid`.
        copies: Leaderboard of `bench copies`.
    """
    if not len(reid) or not len(copies):
        return pd.DataFrame()
    reid_columns = reid[["detector", "section", "dimension", "auc", "auc_low", "auc_high"]]
    return reid_columns.merge(copies[["detector", "recall", "recall_low", "recall_high"]], on="detector", how="inner")
