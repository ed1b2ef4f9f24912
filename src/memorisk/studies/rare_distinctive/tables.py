"""Tables 1 to 11 of paper 000 from finished runs, in the paper's layout, the corrected numbers beside.

One builder a table (``study_tables_*``), one reading of the disk for all of them (``studies.rare_distinctive.parts``).
What is not there leaves a table empty with the reason, never an error. The numbers of the figures are in the tables'
``extra``, so that a figure cannot differ from its table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from memorisk.audits.classifier.evidence_summary import beside_guessing
from memorisk.studies.rare_distinctive.columns import COLUMNS, EXTRA_TITLES
from memorisk.studies.rare_distinctive.parts import DEFENCES, StudyReading, StudyRuns, StudyTable, read_runs
from memorisk.studies.rare_distinctive.tables_classes import table_1, table_5, table_8
from memorisk.studies.rare_distinctive.tables_defence import table_4, table_11
from memorisk.studies.rare_distinctive.tables_distinct import table_2, table_3, table_6, table_7
from memorisk.studies.rare_distinctive.tables_setup import table_9, table_10
from memorisk.studies.rare_distinctive.text import escaped, markdown

__all__ = ["StudyRuns", "StudyTable", "study_tables", "table_heading", "tables_markdown"]


def study_tables(runs: StudyRuns, *, draws: int = 9999, seed: int = 0) -> list[StudyTable]:
    """Every table of the paper from what is finished.

    Args:
        runs: Finished parts of a study. A part that cannot be read is left out and told in the tables' ``missing``.
        draws: Random permutations behind the p-values of table 1, where not all are visited.
        seed: Of those.

    Returns:
        Tables 1 to 11 in their order; an empty one says why.
    """
    reading = read_runs(runs)
    found = [
        table_1(reading, draws=draws, seed=seed),
        table_2(reading),
        table_3(reading),
        table_4(reading),
        table_5(reading),
        table_6(reading),
        table_7(reading),
        table_8(reading),
        table_9(reading),
        table_10(reading),
        table_11(reading),
    ]
    doubts = _doubts(reading)
    return [_with_unread(_with_doubts(table, doubts), reading.unread) for table in found]


def _doubts(reading: StudyReading) -> tuple[str, ...]:
    """The cells whose models learned nothing that can be told from guessing: what they remember says little."""
    lines = []
    for cell in reading.cells:
        utility = cell.result.summary.get("utility") or {}
        if utility.get("beats_guessing") is False:
            lines.append(
                f"{cell.dataset}, {cell.architecture}: its models are not surely better than guessing on unseen images "
                f"({beside_guessing(utility)}), so that these numbers say little"
            )
    return tuple(lines)


def _with_doubts(table: StudyTable, doubts: tuple[str, ...]) -> StudyTable:
    """Tell them below the tables of what models remember; set-up and defences have accuracies of their own."""
    if table.name in ("table_4", "table_9", "table_10", "table_11"):
        return table
    return replace(table, missing=(*table.missing, *doubts))


def _with_unread(table: StudyTable, unread: Mapping[str, str]) -> StudyTable:
    """Also tell the parts that failed or cannot be read, where the table would show them."""
    of_defences = table.name in ("table_4", "table_11")
    lines = [f"{name}: {why}" for name, why in unread.items() if name.endswith(f", {DEFENCES}") == of_defences]
    return replace(table, missing=(*table.missing, *lines))


def table_heading(table: StudyTable) -> str:
    """Number and title, as in "Table 3. Distinctiveness manipulation"."""
    return f"Table {table.name.removeprefix('table_')}. {table.title}"


def tables_markdown(tables: Iterable[StudyTable]) -> str:
    """The tables as Markdown: the paper's layout, ours, what differs and why, what is missing.

    Args:
        tables: Of `study_tables`.
    """
    return "\n\n".join(_markdown(table) for table in tables)


def _markdown(table: StudyTable) -> str:
    blocks = [f"## {table_heading(table)}"]
    if table.why_empty:
        blocks.append(f"Empty: {table.why_empty}.")
    else:
        blocks += ["As the paper prints it:", markdown(table.paper)]
        blocks += ["Corrected, intervals are 95 %:", markdown(table.ours, COLUMNS[table.name])]
        for name, frame in table.extra.items():
            blocks += [f"{EXTRA_TITLES[name]}:", markdown(frame, COLUMNS[name])]
    blocks.append(table.note)
    if table.missing:
        blocks.append("\n".join(f"- {escaped(line)}" for line in table.missing))
    return "\n\n".join(blocks)
