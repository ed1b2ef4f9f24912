"""Leaderboard of a benchmark: what it shows, first on the page and in Markdown alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from memorisk.report.blocks import Block, Callout, Column, Name, Paragraph, Table, Text
from memorisk.report.columns import percent
from memorisk.studies.engine.pages import finding_blocks, lead_blocks
from memorisk.studies.engine.tables import TABLES, escape_markdown, markdown_table, texts_as_missing

LEADERBOARD = "leaderboard"


@dataclass(frozen=True)
class Board:
    """Leaderboard of a benchmark, without rows where no detector was measured."""

    rows: pd.DataFrame
    """Detectors, the best first."""
    columns: Sequence[Column]
    """Columns that are shown."""
    question: str
    """Question that the findings answer."""
    findings: Sequence[Text]
    """Sentences on the first places."""

    def text(self) -> str:
        """Format findings and leaderboard as Markdown; empty without a detector."""
        if not len(self.rows):
            return ""
        lines = "\n".join(f"- {plain_text(item)}" for item in self.findings)
        return "\n\n".join([lines, "## Leaderboard", markdown_table(self.rows, self.columns)])

    def lead(self, facts: Mapping[str, int], failed: Mapping[str, str]) -> list[Block]:
        """Return the blocks that begin the page.

        Args:
            facts: Numbers of detectors and of what they were measured on.
            failed: Reason of each failure, by name.
        """
        answer = Callout("warning", "No detector was measured", [Paragraph("The failures are listed below.")])
        if len(self.rows):
            answer = Callout("note", self.question, finding_blocks(self.findings))
        return lead_blocks(answer, {"Detectors": len(self.rows), **facts}, failed)

    def blocks(self, caption: str, columns: Sequence[Column] = ()) -> list[Block]:
        """Return the leaderboard as a table; nothing without a detector.

        Args:
            caption: Caption of the table.
            columns: Columns in place of the leaderboard's own.
        """
        if not len(self.rows):
            return []
        saved = f"{TABLES}/{LEADERBOARD}.parquet"
        return [
            Table(frame=texts_as_missing(self.rows), columns=columns or self.columns, caption=caption, elsewhere=saved)
        ]


def plain_text(text: Text) -> str:
    """Format a sentence as Markdown; names are escaped.

    Args:
        text: Sentence, which may hold names.
    """
    pieces: Sequence = [text] if not isinstance(text, Sequence) or isinstance(text, str) else text
    return "".join(piece if isinstance(piece, str) else escape_markdown(piece.text) for piece in pieces)


def named_list(names: Sequence[str]) -> list[str | Name]:
    """Return names with commas between them."""
    return [piece for name in names for piece in (", ", Name(name))][1:]


def with_limits(row: Mapping, name: str, write: Callable[[object], str] = percent) -> str:
    """Format an estimate of a row with its limits, as in "12.0 % (95 %: 3.0 % to 20.0 %)".

    Args:
        row: Row of a table.
        name: Column of the estimate.
        write: Format of the numbers.
    """
    return f"{write(row[name])} (95 %: {write(row[f'{name}_low'])} to {write(row[f'{name}_high'])})"
