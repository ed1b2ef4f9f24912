"""The run folder of a benchmark: opened, its tables as Parquet and Markdown, its page, the terminal's leaderboard."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memorisk.report.blocks import Column, Page
from memorisk.report.page import render_page
from memorisk.runs.environment import machine, versions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_table, write_text
from memorisk.runs.folder import RunFolder, check_out, open_run
from memorisk.studies.detectors.tables import heading, told
from memorisk.studies.pairs.preparing import Prepared
from memorisk.studies.pairs.results import PairBenchmark
from memorisk.studies.rare_distinctive.parts import StudyTable
from memorisk.studies.rare_distinctive.text import escaped, markdown

TABLES, REPORT, SPLIT = "tables", "report.html", "split.parquet"


def check_tables_only(folder: Path, tables_only: bool) -> None:
    """Refuse to lay out a run that is not there.

    Raises:
        InputError: It is not.
    """
    if tables_only and not folder.is_dir():
        raise InputError(f"--out {one_line(folder)} is not there: a benchmark that was never run has no tables")


@contextmanager
def open_bench(
    folder: Path, ready: Prepared, config: Mapping[str, Any], identity: Mapping[str, Any]
) -> Iterator[RunFolder]:
    """Open the run folder, write who is in which part, and log begin and end.

    Args:
        folder: Of the run.
        ready: The benchmark.
        config: Its settings.
        identity: What may not change in the folder.

    Raises:
        InputError: The folder holds something else.
    """
    check_out(folder, {"run": identity}, identity=["run"])
    with open_run(folder, {**config, "run": dict(identity)}, identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        write_table(run / SPLIT, ready.division.table(ready.store.manifest))
        yield run
        run.log("finished", failed=[cell.name for cell in ready.cells if not cell.done])


def write_bench(run: RunFolder, found: PairBenchmark, page: Page) -> None:
    """Every table as Parquet and Markdown, and the page.

    Args:
        run: The run folder.
        found: The benchmark.
        page: Its page.
    """
    folder = run.subfolder(TABLES)
    frames = {"leaderboard": found.board, **found.figures}
    for table in found.tables:
        frames |= {f"{table.name}_paper": table.paper, f"{table.name}_ours": table.ours}
    for name, frame in frames.items():
        if len(frame.columns):
            write_table(folder / f"{name}.parquet", frame)
    write_text(folder / "tables.md", tables_text(found))
    write_text(run / REPORT, render_page(page))


def tables_text(found: PairBenchmark) -> str:
    """All tables as Markdown, the leaderboard first.

    Args:
        found: The benchmark.
    """
    blocks = [board_text(found)] if len(found.board) else []
    for table in found.tables:
        blocks.append(f"## {heading(table)}")
        if table.why_empty:
            blocks.append(f"Empty: {table.why_empty}.")
            continue
        if len(table.paper.columns):
            blocks += ["As the paper prints it:", markdown(table.paper), "Corrected, intervals are 95 %:"]
        blocks += [markdown(table.ours, shown(found, table)), escaped(table.note)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def board_text(found: PairBenchmark) -> str:
    """The sentences and the leaderboard as Markdown; empty without a measured detector.

    Args:
        found: The benchmark.
    """
    from memorisk.studies.pairs.wording import findings

    if not len(found.board):
        return ""
    said = "\n".join(f"- {escaped(line)}" for line in findings(found))
    return "\n\n".join([said, "## Leaderboard", markdown(found.board, board_columns(found))])


def board_columns(found: PairBenchmark) -> list[Column]:
    """The columns of the leaderboard that tell something, those of the protocol first."""
    columns = [c for c in found.columns["leaderboard"] if told(found.board, c.source)]
    if found.options.protocol == "corrected":
        return columns
    return sorted(columns, key=lambda c: (not c.row_heading, not c.source.endswith("_paper")))


def shown(found: PairBenchmark, table: StudyTable) -> list[Column]:
    """The columns of a table's corrected numbers that hold something."""
    return [c for c in found.columns[table.name] if told(table.ours, c.source)]
