"""Terminal output of finished runs of every kind, by their first screen, and of the plans of dry runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

from memorisk.cli.show.common import plain_console, plain_table, plain_text, print_json, print_list, print_rows
from memorisk.report.blocks import Table
from memorisk.report.cells import cell_text, inline_text
from memorisk.report.first_screen import MOST_SENTENCES, FirstScreen, first_screen
from memorisk.report.numbers import to_json
from memorisk.report.quantities import plan_rows
from memorisk.report.result import Result

_WORD = 24
"""Length from which a word may be broken."""
_ANY_WIDTH = 10_000
_GAP = 2
"""Width of the space around the text of a column."""


def show_outcome(outcome: Any, kind: str, out: Path | None, *, as_json: bool) -> None:
    """Print the first screen of a finished run, and where its report is.

    Args:
        outcome: Result of the run, as its function returned it.
        kind: Name of its kind.
        out: Run folder; None where nothing was written.
        as_json: Print the verdict as JSON instead.
    """
    if as_json:
        print_json(outcome.verdict if isinstance(outcome, Result) else outcome.as_json())
        return
    screen = first_screen(outcome, kind)
    show_screen(screen, {} if out is None else {**screen.files, "Report": "report.html"}, out)


def show_screen(screen: FirstScreen, files: Mapping[str, str], folder: Path | None) -> None:
    """Print tables and facts, then the verdict, which stays in sight, notes, and the places of files.

    Args:
        screen: First screen of a run, or of a comparison of runs.
        files: Names of files by what they are.
        folder: Folder of the files; None for none.
    """
    console = plain_console()
    for table in screen.tables:
        print_table(console, table)
    print_rows(console, ((f.label, f"{f.value} ({f.note})" if f.note else f.value) for f in screen.facts))
    console.print()
    console.print(Text(screen.headline.upper(), style="bold"), soft_wrap=True)
    for sentence in screen.sentences:
        console.print(plain_text(inline_text(sentence)), soft_wrap=True)
    for heading, sentences in screen.lists.items():
        print_list(console, heading, sentences if folder is None else _first(sentences))
    print_rows(console, screen.warnings.items(), before="Warning: ")
    print_rows(console, (("Note", inline_text(note)) for note in screen.notes))
    print_rows(console, ((what, str(folder / name)) for what, name in files.items()) if folder else ())


def _first(sentences: Sequence[str]) -> Sequence[str]:
    """Return the sentences that the page has in sight, and the number of those that it folds."""
    n_more = len(sentences) - MOST_SENTENCES
    return sentences if n_more <= 1 else [*sentences[:MOST_SENTENCES], f"{n_more} more in the report"]


def print_table(console: Console, table: Table) -> None:
    """Print the columns of a table that its frame has, in full: words and headings wrap, and numbers never do.

    Where the columns do not fit the width, those that do not are printed below, each block with the first column.
    """
    columns = [column for column in table.columns if column.source in table.frame]
    if not len(table.frame):
        console.print(plain_text(f"{table.caption} {table.empty}"), soft_wrap=True)
        return
    rows = [{str(name): value for name, value in row.items()} for row in table.frame.to_dict("records")]
    printed = [_PrintedColumn(c.heading, c.numeric, [plain_text(cell_text(row, c)) for row in rows]) for c in columns]
    for number, block in enumerate(_blocks(printed, console.width)):
        if number:
            console.print()
        grid = plain_table([column.heading for column in block], left=[c.heading for c in block if not c.numeric])
        for cells in zip(*(column.cells for column in block), strict=True):
            grid.add_row(*cells)
        if Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), grid).maximum > console.width:
            for drawn, column in zip(grid.columns, block, strict=True):  # rich would wrap what is widest: intervals
                drawn.width = column.width if column.numeric else None
        console.print(grid)
    console.print(plain_text(table.caption), soft_wrap=True)


@dataclass(frozen=True)
class _PrintedColumn:
    """Column of a table in the terminal."""

    heading: str
    numeric: bool
    cells: list[Text]

    @property
    def width(self) -> int:
        """Fewest characters in which no number, and no word of up to `_WORD` letters, is broken."""
        texts = [cell.plain for cell in self.cells]
        words = [word for text in (texts if not self.numeric else []) for word in text.split()]
        longest = max((cell_len(word) for word in [*words, *self.heading.split()]), default=0)
        return max([min(longest, _WORD), *(cell_len(text) for text in texts if self.numeric)])


def _blocks(columns: Sequence[_PrintedColumn], width: int) -> list[list[_PrintedColumn]]:
    """Divide columns into blocks that fit the width, each with the first column; one column at least is added."""
    first, *others = columns
    blocks, used = [[first]], first.width + _GAP
    for column in others:
        if used + _GAP + column.width > width and len(blocks[-1]) > 1:
            blocks.append([first])
            used = first.width + _GAP
        blocks[-1].append(column)
        used += _GAP + column.width
    return blocks


def show_plan(plan: Any, *, as_json: bool, before: str = "") -> None:
    """Print the plan of a dry run: its titled fields, its tables, and its cost.

    Args:
        plan: Plan: a dataclass whose annotations title its fields, or values by their names.
        as_json: Print every field as JSON instead.
        before: Text before each name.
    """
    if as_json:
        print_json(to_json(plan) if is_dataclass(plan) else plan)
        return
    console = plain_console()
    rows = plan_rows(plan) if is_dataclass(plan) else [(str(name), str(value)) for name, value in plan.items()]
    print_rows(console, rows, before=before)
    tables: Sequence[Table] = getattr(plan, "tables", ())
    for table in tables:
        print_table(console, table)
