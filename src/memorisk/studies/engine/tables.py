"""Tables of a study: their files, their Markdown, their blocks on a page.

A table has two forms: the paper's layout, with text in every cell, and the corrected numbers with their intervals. A
`TableLayout` describes how a study shows them, in Markdown and on its page alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from memorisk.report.blocks import Block, Callout, Column, Heading, Name, Paragraph, Steps, Strong, Table
from memorisk.report.columns import FORMATS, column_texts, is_missing
from memorisk.report.text import visible

TABLES = "tables"
MOST_ROWS = 40
"""Rows of a table in Markdown; the others are counted."""
CORRECTED, INTERVALS = "Corrected. Intervals are 95 %.", "Intervals are 95 %."
_SPECIAL = str.maketrans({c: "\\" + c for c in "\\|`*<"})


@dataclass(frozen=True)
class StudyTable:
    """One table of a study, filled from what is finished, in the paper's layout and corrected."""

    name: str
    """Name as in "table_3", or a word where the paper has no number."""
    title: str
    """Title of the table."""
    paper: pd.DataFrame
    """Cells in the paper's layout, every value as text formatted as printed there; without columns where it has
    none."""
    ours: pd.DataFrame
    """Numbers with intervals, p-values and units."""
    note: str
    """Note on how the table is made, or what differs from the paper and why."""
    why_empty: str = ""
    """Reason why the table could not be filled; empty where it could."""
    missing: tuple[str, ...] = ()
    """Rows that the study has and the table lacks, one line each."""
    extra: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Further numbers that belong to it, as those of its figures, by name."""

    @property
    def heading(self) -> str:
        """Format the heading as in "Table 3. Distinctiveness manipulation"; the title alone without a number."""
        number = self.name.removeprefix("table_")
        return f"Table {number}. {self.title}" if number != self.name else self.title


class View(NamedTuple):
    """Numbers of a table as they are shown below the paper's layout."""

    title: str
    frame: pd.DataFrame
    columns: Sequence[Column]
    file: str
    """Name of the Parquet file that holds all of them."""


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """Layout of a study's tables."""

    columns: Mapping[str, Sequence[Column]]
    """Columns of the corrected numbers, by the table's name, and of further frames, by theirs."""
    captions: Mapping[str, str] = field(default_factory=dict)
    """Captions on the page of tables without intervals, by name."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Titles of further frames that are shown, by their name."""
    with_figures: frozenset[str] = frozenset()
    """Further frames that the page shows with their figures and not here."""
    again: Mapping[str, tuple[str, Sequence[Column]]] = field(default_factory=dict)
    """Title and columns of a second look at the corrected numbers, by the table's name."""
    note: str = "How it is made. "
    """Note before a table's own."""
    empty_columns: bool = False
    """Whether columns that hold nothing are shown."""

    def shown(self, frame: pd.DataFrame, name: str) -> list[Column]:
        """Return the columns of a frame that hold something.

        Args:
            frame: Numbers of the table.
            name: Name of the frame in `columns`.
        """
        return [c for c in self.columns[name] if self.empty_columns or has_values(frame, c.source)]

    def views(self, table: StudyTable) -> Iterator[View]:
        """Yield the corrected numbers, then the frames that belong to them."""
        title = CORRECTED if len(table.paper.columns) else self.captions.get(table.name, INTERVALS)
        yield View(title, table.ours, self.shown(table.ours, table.name), f"{table.name}_ours")
        if table.name in self.again:
            title, columns = self.again[table.name]
            yield View(title, table.ours, [c for c in columns if has_values(table.ours, c.source)],
                       f"{table.name}_ours")  # fmt: skip
        for name in table.extra:
            if name in self.extra:
                frame = table.extra[name]
                yield View(self.extra[name], frame, self.shown(frame, name), f"{table.name}_{name}")


def table_frames(tables: Sequence[StudyTable]) -> dict[str, pd.DataFrame]:
    """Return every form of every table by the name of its file; a form without columns is left out."""
    every = {
        f"{table.name}_{form}": frame
        for table in tables
        for form, frame in {"paper": table.paper, "ours": table.ours, **table.extra}.items()
    }
    return {name: frame for name, frame in every.items() if len(frame.columns)}


def tables_markdown(tables: Sequence[StudyTable], layout: TableLayout, opening: Sequence[str] = ()) -> str:
    """Format all tables as Markdown.

    Args:
        tables: Tables in their order.
        layout: Layout of the tables.
        opening: Paragraphs before the tables.
    """
    blocks = [*opening, *(block for table in tables for block in _markdown(table, layout))]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _markdown(table: StudyTable, layout: TableLayout) -> list[str]:
    blocks = [f"## {table.heading}"]
    if table.why_empty:
        blocks.append(f"Empty: {table.why_empty}.")
    else:
        first, *others = layout.views(table)
        if len(table.paper.columns):
            blocks += ["As the paper prints it:", markdown_table(table.paper), "Corrected, intervals are 95 %:"]
        blocks.append(markdown_table(first.frame, first.columns))
        for view in others:
            blocks += [f"{view.title.removesuffix('.')}:", markdown_table(view.frame, view.columns)]
        blocks.append(escape_markdown(table.note))
    return [*blocks, "\n".join(f"- {escape_markdown(line)}" for line in table.missing)]


def table_blocks(layout: TableLayout, *tables: StudyTable) -> list[Block]:
    """Lay out tables on the page: the paper's layout where there is one, the corrected numbers, and how they are made.

    Args:
        layout: Layout of the tables.
        *tables: Tables, one after the other.
    """
    return [block for table in tables for block in _blocks(table, layout)]


def _blocks(table: StudyTable, layout: TableLayout) -> list[Block]:
    blocks: list[Block] = [Heading(table.heading)]
    if table.why_empty:
        blocks.append(Paragraph(f"Empty: {table.why_empty}."))
    else:
        if len(table.paper.columns):
            columns = [Column(source=str(c), heading=str(c), row_heading=i == 0) for i, c in enumerate(table.paper)]
            blocks.append(_block(View("As the paper prints it.", table.paper, columns, f"{table.name}_paper")))
        beside = {f"{table.name}_{name}" for name in layout.with_figures}
        views = [view for view in layout.views(table) if view.file not in beside]
        blocks += [_block(View(view.title, texts_as_missing(view.frame), view.columns, view.file)) for view in views]
        if table.note:
            blocks.append(Paragraph([Strong(layout.note), Name(table.note)]))
    return [*blocks, Steps([Name(line) for line in table.missing])] if table.missing else blocks


def _block(view: View) -> Table:
    caption, elsewhere = f"{view.title.removesuffix('.')}.", f"{TABLES}/{view.file}.parquet"
    return Table(frame=view.frame, columns=view.columns, caption=caption, elsewhere=elsewhere)


def failure_blocks(failed: Mapping[str, str]) -> list[Block]:
    """Return a warning that names each failure and its reason; nothing where nothing failed.

    Args:
        failed: Reason of each failure, by name.
    """
    items = [[Strong("Failed: "), Name(name), ": ", Name(why)] for name, why in failed.items()]
    return [Callout("warning", "Not everything is finished", [Steps(items)])] if items else []


def texts_as_missing(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace empty texts by missing values, which the page shows as a dash."""
    columns = {str(c): [None if isinstance(v, str) and not v else v for v in frame[c]] for c in frame}
    return frame.assign(**{c: v for c, v in columns.items() if any(x is None for x in v)})


def has_values(frame: pd.DataFrame, column: str) -> bool:
    """Return whether any row has a value in a column."""
    return column in frame and any(column_texts(frame, column))


def markdown_table(frame: pd.DataFrame, columns: Sequence[Column] | None = None) -> str:
    """Format a table as Markdown: cells on one line, their special characters escaped.

    Args:
        frame: Table with text in every cell where no columns are given.
        columns: Columns to show, their headings and formats.
    """
    columns_shown = [Column(source=str(c), heading=str(c)) for c in frame.columns] if columns is None else list(columns)
    cut = frame.head(MOST_ROWS)
    lines = [
        _line([c.heading for c in columns_shown]),
        "| " + " | ".join("---:" if c.numeric else "---" for c in columns_shown) + " |",
    ]
    for values in cut.itertuples(index=False, name=None):
        row = dict(zip(cut.columns, values, strict=True))
        lines.append(_line([cell_text(row, column) for column in columns_shown]))
    if len(frame) > len(cut):
        lines += ["", f"{len(frame) - len(cut):,} more rows are not shown here."]
    return "\n".join(lines)


def cell_text(row: dict[str, Any], column: Column) -> str:
    """Format one cell as plain text, with its interval in brackets."""
    value = row.get(column.source)
    if is_missing(value):
        return column.missing or "–"
    written = value if isinstance(value, str) else FORMATS[column.format](value)
    limits = [row.get(c) for c in column.interval or ()]
    if not limits or any(is_missing(v) for v in limits):
        return written
    return f"{written} [{', '.join(FORMATS[column.format](v) for v in limits)}]"


def escape_markdown(text: str) -> str:
    """Escape a text of unknown origin for one line of Markdown: nothing in it is markup."""
    return visible(text).translate(_SPECIAL).replace("](", "]\\(")


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(escape_markdown(text) for text in texts) + " |"
