"""Tables 1 to 11 of paper 000 from finished runs, in the paper's layout, with the corrected numbers.

`class_tables` and `intervention_tables` have one builder per table; `results` reads the disk once for all of them.
Missing parts leave a table empty with the reason, never an error. The numbers of the figures are in the tables'
``extra``, so that a figure cannot differ from its table.
"""

from collections.abc import Mapping
from dataclasses import replace

from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.rare_distinctive.class_tables import table_1, table_5, table_8, table_9, table_10
from memorisk.studies.rare_distinctive.intervention_tables import table_2, table_3, table_4, table_6, table_7, table_11
from memorisk.studies.rare_distinctive.results import DEFENCES, StudyReading, StudyRuns, read_runs


def study_tables(runs: StudyRuns, *, draws: int = 9999, seed: int = 0) -> list[StudyTable]:
    """Return every table of the paper from what is finished.

    Args:
        runs: Finished parts of a study. A part that cannot be read is left out and listed in the tables' ``missing``.
        draws: Number of random permutations behind the p-values of table 1, where not all are visited.
        seed: Random seed of the permutations.

    Returns:
        Tables 1 to 11 in their order; an empty one gives the reason.
    """
    reading = read_runs(runs)
    others = (table_2, table_3, table_4, table_5, table_6, table_7, table_8, table_9, table_10, table_11)
    tables = [table_1(reading, draws=draws, seed=seed), *(table(reading) for table in others)]
    tables[0] = replace(tables[0], doubts=_untrained_cells(reading))
    return [_add_unread_parts(table, reading.unread) for table in tables]


def _untrained_cells(reading: StudyReading) -> tuple[str, ...]:
    """List the cells whose models are not surely better than guessing: what they remember means little."""
    lines = []
    for cell in reading.cells:
        utility = ClassifierSummary.read(cell.result.summary).utility
        if utility is not None and utility.beats_guessing is False:
            lines.append(
                f"{cell.dataset}, {cell.architecture}: its models are not surely better than guessing on unseen images "
                f"({utility.words}), so that these numbers say little"
            )
    return tuple(lines)


def _add_unread_parts(table: StudyTable, unread: Mapping[str, str]) -> StudyTable:
    """List the parts that failed or cannot be read, where the table would show them."""
    of_defences = table.name in ("table_4", "table_11")
    lines = [f"{name}: {why}" for name, why in unread.items() if name.endswith(f", {DEFENCES}") == of_defences]
    return replace(table, missing=(*table.missing, *lines))
