"""Results of a study on disk, read once for all of its tables: cells, explanations, comparisons of regimes.

A part that is absent or damaged is listed in a line and does not affect the others (``StudyReading.unread``,
``StudyCell.unexplained``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from memorisk.audits.arms import REGIMES
from memorisk.audits.classifier.evidence import SCORES, WHOLE, Evidence, evidence_from_table
from memorisk.audits.classifier.explanations.run import FOLDER as EXPLAIN
from memorisk.audits.classifier.explanations.run import SUMMARY as EXPLAINED
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.rendering import load_result
from memorisk.report.columns import column_texts, rows
from memorisk.report.result import Result
from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.files import read_json, read_table
from memorisk.runs.folder import read_config
from memorisk.studies.engine.layout import read_layout
from memorisk.studies.rare_distinctive.rarity_cells import Cell, cell_from_run

Part = TypeVar("Part")

LAYOUT = read_layout(__package__, "study")
"""Schemas of the tables and the page."""

DEFENCES = "defences"
"""Name of a comparison of regimes, which follows that of its data set."""

READ_ERRORS = (MemoriskError, OSError, ValueError, KeyError, TypeError)
"""Errors of an absent or damaged file, those of this project and those of the libraries that read it."""


@dataclass(frozen=True)
class StudyRuns:
    """Finished parts of a study."""

    cells: dict[tuple[str, str], Path]
    """Finished folders of `audit classifier` by architecture and data set; a folder may hold an intervention and
    ``explain/``."""
    defences: dict[str, Path] = field(default_factory=dict)
    """Finished folders of `audits.classifier.retraining.defences.audit_defences` by data set."""
    protocol: str = "corrected"
    """Protocol of the study: "paper" or "corrected"."""
    bases: dict[tuple[str, str], str] = field(default_factory=dict)
    """User's reading of what makes a class distinctive, by data set and class; only printed (tables 3, 6)."""
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons why parts are not there, by their name."""
    pictured: frozenset[str] = frozenset()
    """Data sets whose images the user chose to show."""


@dataclass(frozen=True, eq=False)
class StudyCell:
    """One architecture on one data set.

    Attributes:
        architecture: Name of the architecture in the study.
        dataset: Name of the data set in the study.
        result: Result of the audit.
        config: Settings of the run.
        rarity: Scores M by seed and image.
        explained: Tables of ``memorisk explain`` by name; empty where there are none.
        explanation: Summary of the explanation.
        unexplained: Reason why the tables are missing; else empty.
    """

    architecture: str
    dataset: str
    result: Result
    config: dict[str, Any]
    rarity: Cell
    explained: dict[str, pd.DataFrame]
    explanation: dict[str, Any]
    unexplained: str

    @property
    def name(self) -> str:
        """Return both names on one line."""
        return part_name(self.dataset, self.architecture)

    @property
    def intervention(self) -> pd.DataFrame | None:
        """Return the table of its intervention, if it had one."""
        return self.result.tables.get("intervention")


@dataclass(frozen=True, eq=False)
class StudyDefence:
    """One data set under several regimes.

    Attributes:
        dataset: Name of the data set in the study.
        table: Table of ``audits.classifier.retraining.defences``, one row per regime.
        results: Result of the whole audit, by regime.
        cells: Scores M by seed and image, by regime.
        accuracy_members: Share of canaries answered right by the models trained on them, by regime.
    """

    dataset: str
    table: pd.DataFrame
    results: dict[str, Result]
    cells: dict[str, Cell]
    accuracy_members: dict[str, float]


@dataclass(frozen=True, eq=False)
class StudyReading:
    """Parts of a study that the tables are made of.

    Attributes:
        cells: Cells in the study's order.
        defences: Comparisons of regimes in the study's order.
        bases: User's readings of classes, as in `StudyRuns`.
        unread: Reasons why parts are not there: they failed, or could not be read.
    """

    cells: list[StudyCell]
    defences: list[StudyDefence]
    bases: Mapping[tuple[str, str], str]
    unread: dict[str, str]

    @property
    def datasets(self) -> list[str]:
        """Return the data sets of the cells, in the study's order."""
        return list(dict.fromkeys(cell.dataset for cell in self.cells))

    @property
    def architectures(self) -> list[str]:
        """Return the architectures of the cells, in the study's order."""
        return list(dict.fromkeys(cell.architecture for cell in self.cells))


def part_name(dataset: str, part: str) -> str:
    """Return the name of a cell or a comparison, on one line."""
    return f"{one_line(dataset, 60)}, {one_line(part, 60)}"


def read_runs(runs: StudyRuns) -> StudyReading:
    """Read every finished part; parts that cannot be read are listed and left out.

    Args:
        runs: Runs of the study.
    """
    unread = dict(runs.failed)
    cells, defences = [], []
    for (architecture, dataset), folder in runs.cells.items():
        name = part_name(dataset, architecture)
        cells += _read_or_explain(lambda a=architecture, d=dataset, f=folder: _read_cell(a, d, Path(f)), name, unread)
    for dataset, folder in runs.defences.items():
        defences += _read_or_explain(
            lambda d=dataset, f=folder: _read_defence(d, Path(f)), part_name(dataset, DEFENCES), unread
        )
    return StudyReading(cells, defences, runs.bases, unread)


def _read_or_explain(read: Callable[[], Part], name: str, unread: dict[str, str]) -> list[Part]:
    """Return the part, or nothing after noting the reason."""
    try:
        return [read()]
    except READ_ERRORS as error:
        unread.setdefault(name, one_line(error, 200))
        return []


def _read_cell(architecture: str, dataset: str, folder: Path) -> StudyCell:
    result = load_result(folder)
    findings = [label != WHOLE for label in column_texts(result.per_class, "label")]
    result = result.replace(per_class=rows(result.per_class, findings))  # the paper's classes
    rarity = cell_from_run(folder, architecture=architecture, dataset=dataset)
    tables, summary, why = _read_explained(folder / EXPLAIN, result)
    return StudyCell(architecture, dataset, result, dict(read_config(folder)), rarity, tables, summary, why)


def _read_explained(folder: Path, result: Result) -> tuple[dict[str, pd.DataFrame], dict[str, Any], str]:
    """Return tables and summary of the cell's explanation; else why there are none."""
    if not (folder / EXPLAINED).is_file():
        return {}, {}, "was not explained (memorisk explain)"
    try:
        summary: dict[str, Any] = dict(read_json(folder / EXPLAINED))
        tables = {
            name: read_table(folder / f"{name}.parquet")
            for name in ("atypicality_summary", "probes", "distances")
            if (folder / f"{name}.parquet").is_file()
        }
    except READ_ERRORS as error:
        return {}, {}, f"has an explanation that cannot be read ({one_line(error, 100)}): explain it again"
    of = (summary.get("data_hash"), summary.get("seeds"))
    if of != (result.verdict.get("data_hash"), result.summary.get("seeds")):
        return {}, {}, "was explained before its seeds or images changed: explain it again"
    return tables, summary, ""


def _read_defence(dataset: str, folder: Path) -> StudyDefence:
    table = read_table(folder / REGIMES.table)
    results, cells, members = {}, {}, {}
    for regime in table["regime"].astype(str):
        results[regime] = load_result(folder / regime)
        cells[regime] = cell_from_run(folder / regime, architecture=regime, dataset=dataset)
        members[regime] = accuracy_on_members(evidence_from_table(read_scores(folder / regime / SCORES)))
    return StudyDefence(dataset, table, results, cells, members)


def accuracy_on_members(evidence: Evidence) -> float:
    """Compute the share of right answers of each model on the canaries that it was trained on, as table 4 seems to.

    ``sum(member * correct) / sum(member)`` over models and canaries (paper 000, table 4, "Acc. %").

    Args:
        evidence: Table of scores.
    """
    canary = evidence.items.split == "canary"
    member = np.concatenate([evidence.member_a, evidence.member_b])[:, canary]
    correct = np.concatenate([evidence.correct_a, evidence.correct_b])[:, canary]
    return float(correct[member].mean()) if member.any() else float("nan")
