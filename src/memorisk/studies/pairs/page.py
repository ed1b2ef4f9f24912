"""The page of both benchmarks, and the leaderboard as the terminal and Markdown show it."""

from memorisk.report.blocks import Block, Name, Page, Steps, Text
from memorisk.studies.engine.boards import LEADERBOARD, Board
from memorisk.studies.engine.pages import answer_numbers, study_page
from memorisk.studies.engine.tables import filled_columns
from memorisk.studies.pairs.figures import (
    joint_figure,
    score_figures,
    steepest_family,
    strength_figures,
    strongest_figure,
)
from memorisk.studies.pairs.results import PairBenchmark, findings


def board_of(result: PairBenchmark) -> Board:
    """Return the leaderboard with the columns that hold something, those of the protocol first."""
    columns = filled_columns(result.board, result.layout.frames[LEADERBOARD].columns)
    if result.options.protocol == "paper":
        columns.sort(key=lambda c: (not c.row_heading, not c.source.endswith("_paper")))
    lines: list[Text] = [[Name(line)] for line in findings(result)] if len(result.board) else []
    return Board(result.board, columns, result.layout.sentences["question"], lines)


def pair_page(result: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        result: Result of `benchmark_reid` or of `benchmark_copies`.
    """
    board, d = board_of(result), result.division
    caption = f"{result.layout.frames[LEADERBOARD].title} The reference is {result.reference}."
    blocks = {LEADERBOARD: board.blocks(caption), "figure_1": joint_figure(result), "division": _division(result)}
    if result.kind == "reid":
        blocks["figure_6"] = score_figures(result, result.table("false_matches").ours)
    else:
        blocks |= {"figure_5": strength_figures(result), "strongest_figure": strongest_figure(result)}
    facts = {"Data sets": len(d.names), "Test patients": d.patients("test"), "Test images": len(d.rows("test"))}
    subtitle = [result.layout.page.subtitle, Name(result.source)]
    lead = board.lead(facts, result.failed)
    columns, score = result.layout.frames[LEADERBOARD].columns, "auc" if result.kind == "reid" else "recall"
    answers = {LEADERBOARD: answer_numbers(result.board, columns, score), "strength": steepest_family(result)}
    return study_page(result.layout, result.tables, blocks, lead=lead, subtitle=subtitle, answers=answers)


def _division(result: PairBenchmark) -> list[Block]:
    """Describe how the patients were divided."""
    split = "as given" if result.division.how == "given" else "drawn by patient"
    notes: list[Text] = [[Name(note)] for note in result.division.notes]
    return [Steps([f"Validation and test patients: {split}.", *notes])]
