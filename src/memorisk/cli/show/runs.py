"""Terminal output of finished runs of every kind, by their first screen, and of the plans of dry runs."""

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from memorisk.cli.show.common import plain_console, plain_table, plain_text, print_json, print_list, print_rows
from memorisk.report.blocks import Table
from memorisk.report.cells import cell_text, inline_text
from memorisk.report.first_screen import FirstScreen, first_screen
from memorisk.report.numbers import to_json
from memorisk.report.quantities import plan_rows
from memorisk.report.result import Result


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
        print_list(console, heading, sentences)
    print_rows(console, screen.warnings.items(), before="Warning: ")
    print_rows(console, (("Note", inline_text(note)) for note in screen.notes))
    print_rows(console, ((what, str(folder / name)) for what, name in files.items()) if folder else ())


def print_table(console: Console, table: Table) -> None:
    """Print the columns of a table that its frame has, in full: what is narrow wraps, and nothing is cut."""
    columns = [column for column in table.columns if column.source in table.frame]
    if not len(table.frame):
        console.print(plain_text(f"{table.caption} {table.empty}"), soft_wrap=True)
        return
    grid = plain_table([c.heading for c in columns], left=[c.heading for c in columns if not c.numeric])
    for row in table.frame.to_dict("records"):
        grid.add_row(*(plain_text(cell_text({str(name): value for name, value in row.items()}, c)) for c in columns))
    console.print(grid)
    console.print(plain_text(table.caption), soft_wrap=True)


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
