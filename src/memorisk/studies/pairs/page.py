"""The page of both benchmarks, and the leaderboard as the terminal and Markdown show it."""

from collections.abc import Sequence

from memorisk.report.blocks import Block, Callout, Column, Name, Page, Paragraph, Steps, Table, Text
from memorisk.studies.engine.pages import lead_blocks, study_page
from memorisk.studies.engine.tables import escape_markdown, filled_columns, markdown_table, texts_as_missing
from memorisk.studies.pairs.figures import joint_figure, score_figures, strength_figures, strongest_figure
from memorisk.studies.pairs.results import PairBenchmark, findings


def board_text(result: PairBenchmark) -> str:
    """Format the sentences and the leaderboard as Markdown; empty without a measured detector.

    Args:
        result: Benchmark with its numbers.
    """
    if not len(result.board):
        return ""
    lines = "\n".join(f"- {escape_markdown(line)}" for line in findings(result))
    return "\n\n".join([lines, "## Leaderboard", markdown_table(result.board, board_columns(result))])


def board_columns(result: PairBenchmark) -> Sequence[Column]:
    """Return the columns of the leaderboard that hold something, those of the protocol first."""
    columns = filled_columns(result.board, result.layout.frames["leaderboard"].columns)
    if result.options.protocol == "corrected":
        return columns
    return sorted(columns, key=lambda c: (not c.row_heading, not c.source.endswith("_paper")))


def pair_page(result: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        result: Result of `benchmark_reid` or of `benchmark_copies`.
    """
    blocks = {"leaderboard": _board_blocks(result), "figure_1": joint_figure(result), "division": _division(result)}
    if result.kind == "reid":
        blocks["figure_6"] = score_figures(result, result.table("false_matches").ours)
    else:
        blocks |= {"figure_5": strength_figures(result), "strongest_figure": strongest_figure(result)}
    subtitle = [result.layout.page.subtitle, Name(result.source)]
    return study_page(result.layout, result.tables, blocks, lead=_lead(result), subtitle=subtitle)


def _lead(result: PairBenchmark) -> list[Block]:
    """Lay out the blocks before the contents: the findings, counts, and failures."""
    answer = Callout("warning", "No detector was measured", [Paragraph("The failures are listed below.")])
    if len(result.board):
        lines: list[Text] = [[Name(line)] for line in findings(result)]
        answer = Callout("note", result.layout.sentences["question"], [Steps(lines)])
    d = result.division
    facts = {
        "Detectors": len(result.board),
        "Data sets": len(d.names),
        "Test patients": d.patients("test"),
        "Test images": len(d.rows("test")),
        "Failed": len(result.failed),
    }
    return lead_blocks(answer, facts, result.failed)


def _board_blocks(result: PairBenchmark) -> list[Block]:
    if not len(result.board):
        return []
    caption = f"{result.layout.frames['leaderboard'].title} The reference is {result.reference}."
    frame, saved = texts_as_missing(result.board), "tables/leaderboard.parquet"
    return [Table(frame=frame, columns=board_columns(result), caption=caption, elsewhere=saved)]


def _division(result: PairBenchmark) -> list[Block]:
    """Describe how the patients were divided."""
    split = "as given" if result.division.how == "given" else "drawn by patient"
    notes: list[Text] = [[Name(note)] for note in result.division.notes]
    return [Steps([f"Validation and test patients: {split}.", *notes])]
