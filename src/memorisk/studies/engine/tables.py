"""Tables of a study: their files, their Markdown, their blocks on a page.

A table has two forms: the paper's layout, with text in every cell, and the corrected numbers with their intervals.
`fill_table` joins the rows of a study to the table's schema (`layout`), which says how they are shown, in Markdown and
on its page alike.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from memorisk.report.blocks import Block, Callout, Column, Heading, Name, Paragraph, Steps, Strong, Table
from memorisk.report.cells import cell_text
from memorisk.report.columns import column_texts
from memorisk.report.text import visible
from memorisk.studies.engine.layout import StudyLayout, TableSchema

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
    layout: StudyLayout = field(default_factory=StudyLayout)
    """Schemas of the study."""
    columns: Sequence[Column] = ()
    """Columns of the corrected numbers, where they differ from run to run; else those of the schema."""
    doubts: tuple[str, ...] = ()
    """Reasons why numbers of the study say little, one line each; its page begins with them."""

    @property
    def schema(self) -> TableSchema:
        """Return the schema of the table."""
        return self.layout.tables.get(self.name, TableSchema())

    @property
    def heading(self) -> str:
        """Format the heading as in "Table 3. Distinctiveness manipulation"; the title alone without a number."""
        number = self.name.removeprefix("table_")
        return f"Table {number}. {self.title}" if number != self.name else self.title

    def views(self) -> Iterator["View"]:
        """Yield the corrected numbers, then the frames that belong to them."""
        schema, own = self.schema, f"{self.name}_ours"
        title = CORRECTED if len(self.paper.columns) else schema.caption or INTERVALS
        yield View(title, self.ours, self._shown(self.ours, self.columns or schema.columns), own)
        if schema.again is not None:
            yield View(schema.again.title, self.ours, self._shown(self.ours, schema.again.columns), own)
        for name, frame in self.extra.items():
            form = self.layout.frames.get(name)
            if form is not None and form.title:
                columns = self._shown(frame, form.columns)
                yield View(form.title, frame, columns, f"{self.name}_{name}", form.with_figure)

    def _shown(self, frame: pd.DataFrame, columns: Sequence[Column]) -> list[Column]:
        return list(columns) if self.layout.empty_columns else filled_columns(frame, columns)


@dataclass(frozen=True)
class View:
    """Numbers of a table as they are shown below the paper's layout."""

    title: str
    frame: pd.DataFrame
    columns: Sequence[Column]
    file: str
    """Name of the Parquet file that holds all of them."""
    with_figure: bool = False
    """Whether a figure of the page shows them."""


Rows = pd.DataFrame | Iterable[Mapping[str, Any] | Sequence[Any]]
"""Rows of a table: a frame, or per row a mapping or the values in the order of the headings."""


def fill_table(
    layout: StudyLayout,
    name: str,
    ours: Rows,
    *,
    paper: Rows = (),
    note: Sequence[str] = (),
    why_empty: str = "",
    missing: Sequence[str] = (),
    extra: Mapping[str, pd.DataFrame] | None = None,
    columns: Sequence[Column] = (),
) -> StudyTable:
    """Fill a table of a study; one without rows says why.

    Args:
        layout: Schemas of the study.
        name: Name of the table in them.
        ours: Rows with the corrected numbers.
        paper: Rows of the table as the paper prints it, under the headings of the schema where they have none.
        note: Sentences after the note of the schema.
        why_empty: Reason why there are no rows, in place of the schema's.
        missing: Rows that the study has and the table lacks, one line each.
        extra: Further numbers that belong to it, by name.
        columns: Columns, where they differ from run to run.
    """
    schema, numbers = layout.tables[name], _frame(ours)
    lines = paper if isinstance(paper, pd.DataFrame) else list(paper)
    printed = _frame(lines, schema.paper if len(lines) or not len(numbers) else ())
    why = "" if len(numbers) else why_empty or schema.empty
    words = " ".join([schema.note, *note])
    return StudyTable(
        name, schema.title, printed, numbers, words, why, tuple(missing), dict(extra or {}), layout, columns
    )


def _frame(rows: Rows, headings: Sequence[str] = ()) -> pd.DataFrame:
    if isinstance(rows, pd.DataFrame):
        return rows
    return pd.DataFrame(list(rows), columns=pd.Index(headings) if headings else None)


def filled_columns(frame: pd.DataFrame, columns: Iterable[Column]) -> list[Column]:
    """Return the columns of a frame that hold something.

    Args:
        frame: Numbers of a table.
        columns: Columns that may be shown.
    """
    return [column for column in columns if has_values(frame, column.source)]


def table_frames(tables: Sequence[StudyTable]) -> dict[str, pd.DataFrame]:
    """Return every form of every table by the name of its file; a form without columns is left out."""
    every = {
        f"{table.name}_{form}": frame
        for table in tables
        for form, frame in {"paper": table.paper, "ours": table.ours, **table.extra}.items()
    }
    return {name: frame for name, frame in every.items() if len(frame.columns)}


def tables_markdown(tables: Sequence[StudyTable], opening: Sequence[str] = ()) -> str:
    """Format all tables as Markdown.

    Args:
        tables: Tables in their order.
        opening: Paragraphs before the tables.
    """
    blocks = [*opening, *(block for table in tables for block in _markdown(table))]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _markdown(table: StudyTable) -> list[str]:
    blocks = [f"## {table.heading}"]
    if table.why_empty:
        blocks.append(f"Empty: {table.why_empty}.")
    else:
        first, *others = table.views()
        if len(table.paper.columns):
            blocks += ["As the paper prints it:", markdown_table(table.paper), "Corrected, intervals are 95 %:"]
        blocks.append(markdown_table(first.frame, first.columns))
        for view in others:
            blocks += [f"{view.title.removesuffix('.')}:", markdown_table(view.frame, view.columns)]
        blocks.append(escape_markdown(table.note))
    return [*blocks, "\n".join(f"- {escape_markdown(line)}" for line in (*table.missing, *table.doubts))]


def table_blocks(*tables: StudyTable) -> list[Block]:
    """Lay out tables on the page: the paper's layout where there is one, the corrected numbers, and how they are made.

    Args:
        *tables: Tables, one after the other.
    """
    return [block for table in tables for block in _blocks(table)]


def _blocks(table: StudyTable) -> list[Block]:
    blocks: list[Block] = [Heading(table.heading)]
    if table.why_empty:
        blocks.append(Paragraph(f"Empty: {table.why_empty}."))
    else:
        if len(table.paper.columns):
            columns = [Column(source=str(c), heading=str(c), row_heading=i == 0) for i, c in enumerate(table.paper)]
            blocks.append(_block(View("As the paper prints it.", table.paper, columns, f"{table.name}_paper")))
        views = [view for view in table.views() if not view.with_figure]
        blocks += [_block(replace(view, frame=texts_as_missing(view.frame))) for view in views]
        if table.note:
            blocks.append(Paragraph([Strong(table.layout.note_heading), Name(table.note)]))
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


def escape_markdown(text: str) -> str:
    """Escape a text of unknown origin for one line of Markdown: nothing in it is markup."""
    return visible(text).translate(_SPECIAL).replace("](", "]\\(")


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(escape_markdown(text) for text in texts) + " |"
