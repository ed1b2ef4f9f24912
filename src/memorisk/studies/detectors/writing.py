"""The benchmark's tables as Markdown, for committing; the leaderboard for the terminal."""

from collections.abc import Sequence

from memorisk.report.blocks import Text
from memorisk.studies.detectors.page import board_columns, findings
from memorisk.studies.detectors.results import Benchmark
from memorisk.studies.detectors.tables import heading, shown_columns
from memorisk.studies.rare_distinctive.text import escaped, markdown


def tables_text(found: Benchmark) -> str:
    """All tables, the leaderboard first.

    Args:
        found: The benchmark.
    """
    blocks = _board(found)
    if blocks:
        blocks.append(markdown(found.board.rows, board_columns(found.board.rows, "beside")))
    for table in found.tables:
        blocks.append(f"## {heading(table)}")
        if table.why_empty:
            blocks.append(f"Empty: {table.why_empty}.")
            continue
        if len(table.paper.columns):
            blocks += ["As the paper prints it:", markdown(table.paper), "Corrected, intervals are 95 %:"]
        blocks.append(markdown(table.ours, shown_columns(table)))
        blocks.append(table.note)
    return "\n\n".join(blocks) + "\n"


def board_text(found: Benchmark) -> str:
    """The sentences and the leaderboard; empty without a measured detector.

    Args:
        found: The benchmark.
    """
    return "\n\n".join(_board(found))


def _board(found: Benchmark) -> list[str]:
    rows = found.board.rows
    if not len(rows):
        return []
    said = "\n".join(f"- {_plain(item)}" for item in findings(found))
    return [said, "## Leaderboard", markdown(rows, board_columns(rows))]


def _plain(text: Text) -> str:
    """Inline pieces as Markdown."""
    pieces: Sequence = [text] if not isinstance(text, Sequence) or isinstance(text, str) else text
    return "".join(piece if isinstance(piece, str) else escaped(piece.text) for piece in pieces)
