"""What came of a benchmark, before it is laid out; and the tables that say what was run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from memorisk.report.blocks import Column
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.division import TEST, VALIDATION, Division
from memorisk.studies.pairs.options import Options
from memorisk.studies.pairs.pairing import part_pairs
from memorisk.studies.pairs.preparing import Prepared
from memorisk.studies.rare_distinctive.parts import StudyTable


@dataclass(frozen=True, eq=False)
class PairBenchmark:
    """Every number of a benchmark."""

    kind: str
    """"reid" or "copies"."""
    source: str
    """Short name of the images."""
    options: Options
    """As it was asked for."""
    reference: str
    """Name of the detector that all others are compared with."""
    board: pd.DataFrame
    """A row a detector, the best first (`frames`)."""
    tables: list[StudyTable]
    """All tables."""
    figures: dict[str, pd.DataFrame]
    """The numbers of the figures that are no table's, by name."""
    columns: Mapping[str, Sequence[Column]]
    """How the tables are shown."""
    failed: dict[str, str]
    """Why detectors are not there, by name."""
    missing: dict[str, str]
    """Baselines of the paper that are not at hand, and what to give to have them."""
    division: Division
    """Who was asked about whom."""

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def table(self, name: str) -> StudyTable:
        """A table by its name."""
        return next(table for table in self.tables if table.name == name)


def setup_tables(ready: Prepared) -> list[StudyTable]:
    """Who is in which part, what was run, and which baselines are not at hand.

    Args:
        ready: The benchmark.
    """
    return [_parts(ready), _detectors(ready.cells), _missing(ready.missing)]


def _parts(ready: Prepared) -> StudyTable:
    d, rows = ready.division, []
    for part in (VALIDATION, TEST):
        pairs = {p.dataset: p for p in part_pairs(d, part, d.names, seed=ready.options.seed)}
        for name in d.names:
            row: dict[str, object] = {"dataset": name, "part": part, "images": len(d.rows(part, name))}
            row |= {"patients": d.patients(part, name), "repeated": d.repeated(part, name), "pairs": 0}
            if name in pairs:
                found = pairs[name]
                row |= {"pairs": len(found.weight), "largest": found.largest_share, "identical": found.identical}
            rows.append(row)
    note = (
        "Validation patients make the thresholds, test patients are judged. Positive pairs grow with the square of a "
        "patient's images: the last columns say how much of them the eight patients with most images own."
    )
    return StudyTable("parts", "Who is asked", pd.DataFrame(), pd.DataFrame(rows), note)


def _detectors(cells: Sequence[Cell]) -> StudyTable:
    rows = []
    for cell in cells:
        row: dict[str, object] = {"detector": cell.name, "state": "measured" if cell.done else "not run"}
        row |= {"compares": cell.contender.compares}
        if cell.done:
            told = cell.described
            row |= {name: told.get(name) for name in ("dimension", "weights", "preprocessing")}
            row["notes"] = " ".join(told.get("notes") or [])
        elif cell.failure:
            row |= {"state": "failed", "notes": cell.failure}
        rows.append(row)
    note = "A detector that failed is tried again by the same command."
    return StudyTable("detectors", "Detectors", pd.DataFrame(), pd.DataFrame(rows), note)


def _missing(missing: Mapping[str, str]) -> StudyTable:
    rows = [{"detector": name, "give": give} for name, give in missing.items()]
    why = "" if rows else "no baseline that was asked for is missing"
    return StudyTable("missing", "Baselines that are not at hand", pd.DataFrame(), pd.DataFrame(rows), "", why)


def failures(cells: Sequence[Cell]) -> dict[str, str]:
    """Why detectors are not there, by name."""
    return {cell.name: cell.failure or "not run" for cell in cells if not cell.done}
