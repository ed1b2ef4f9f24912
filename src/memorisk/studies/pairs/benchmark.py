"""What both benchmarks of pairs do: prepare, plan, run, and lay out; `PairStudy` says how they differ."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pandas as pd

from memorisk.runs.files import fingerprint, write_table
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Cost, Progress, total
from memorisk.studies.engine.cells import CELLS, failures
from memorisk.studies.engine.runner import missing_cells, run_cells
from memorisk.studies.engine.study import CellsPlan, ImageStudy, StudyReport, open_study, run_study
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.detectors import read_detectors
from memorisk.studies.pairs.division import TEST, VALIDATION, divide
from memorisk.studies.pairs.figures import figure_1_frame, read_board
from memorisk.studies.pairs.page import board_of, pair_page
from memorisk.studies.pairs.plan import PairBenchPlan
from memorisk.studies.pairs.results import PairBenchmark, setup_tables
from memorisk.studies.pairs.similarity import ImageSimilarity
from memorisk.training.engine.devices import limited_threads
from memorisk.training.features.compute_backend import open_compute_backend

SPLIT = "split.parquet"


class PairNumbers(NamedTuple):
    """Numbers of a benchmark, computed from its finished cells."""

    board: pd.DataFrame
    """Leaderboard with one row per detector, the best first."""
    tables: Sequence[StudyTable]
    """Tables, in their order, without those on what was run."""
    figures: Mapping[str, pd.DataFrame]
    """Numbers of the figures that are in no table, by name."""


class PairStudy(ImageStudy[PairBenchmark]):
    """One of the two benchmarks."""

    kind: ClassVar[str]
    """Name of the benchmark: "reid" or "copies"."""
    other: ClassVar[str]
    """Name of the other benchmark, and of the option that names its run for figure 1."""
    fixed: ClassVar[tuple[str, ...]] = ()
    """Options that may not change in a folder, besides the images, their division and the seed."""
    other_board: pd.DataFrame | None = None
    """Leaderboard of the other benchmark, if its run is named."""

    @staticmethod
    @abstractmethod
    def parts(options: Any) -> tuple[str, ...]:
        """Return the names of the results of a cell."""

    @staticmethod
    @abstractmethod
    def measure(cell: Cell, judge: ImageSimilarity) -> None:
        """Leave all missing results of a cell."""

    @staticmethod
    @abstractmethod
    def cost(cell: Cell) -> Cost:
        """Estimate the cost of a detector that is not done."""

    @abstractmethod
    def numbers(self) -> PairNumbers:
        """Compute every number from what is finished."""

    def prepare(self, progress: Progress) -> None:
        """Read images and detectors, divide the patients; ``missing`` are baselines that are not at hand."""
        progress("reading the detectors", 0, 0)
        contenders, self.missing = read_detectors(self.options)
        self.reference = self.options.reference or contenders[0].name
        super().prepare(progress)
        self.division = d = divide(self.store, contenders, self.options)
        o, device, parts = self.options, self.device, self.parts(self.options)
        self.cells = [Cell(c, self.out, c.key(o, device), self.store, d, o, device, parts) for c in contenders]
        divided = fingerprint([d.part.tolist(), d.groups.tolist(), d.datasets.tolist()], length=16)
        self.identity = {"benchmark": self.kind, "data_hash": self.store.data_hash, "division": divided}
        self.identity |= {name: getattr(self.options, name) for name in ("seed", *self.fixed)}

    def plan(self) -> PairBenchPlan:
        """Return the dry run."""
        d, costs = self.division, [self.cost(cell) for cell in missing_cells(self.cells)]
        return PairBenchPlan(
            cells={cell.name: cell.done for cell in self.cells},
            missing=self.missing,
            images={name: {part: len(d.rows(part, name)) for part in (VALIDATION, TEST)} for name in d.names},
            patients={name: {part: d.patients(part, name) for part in (VALIDATION, TEST)} for name in d.names},
            cost=total(costs) + Cost(bytes_images=self.store.images.nbytes),
            notes=d.notes,
        )

    def cells_plan(self) -> CellsPlan:
        """Count the detectors and their work."""
        plan = self.plan()
        return CellsPlan(n_cells=len(plan.cells), n_finished=sum(plan.cells.values()), cost=plan.cost)

    def run(self, run: RunFolder, progress: Progress) -> None:
        """Write the part of each patient, and measure the detectors, one after the other."""
        write_table(run / SPLIT, self.division.table(self.store.manifest))
        if not (waiting := missing_cells(self.cells)):
            return
        run.subfolder(CELLS)

        def measure(cell: Cell) -> None:
            """Measure one detector; results that are there already are kept."""
            cell.make_folder()
            with limited_threads(o.threads):
                judge = cell.judge()
                self.measure(cell, judge)
                cell.finish({"detector": cell.name, **judge.described, "at_half": judge.at_half})

        o = self.options
        with open_compute_backend(o, o.store, run.path, device=self.device, threads=o.threads) as workplace:
            placed = [replace(cell, workplace=workplace) for cell in waiting]
            run_cells(run, placed, measure, progress, stage="measuring detectors")

    def read(self) -> PairBenchmark:
        """Compute every number from the finished cells."""
        board, tables, drawn = self.numbers()
        figures = dict(drawn)
        if self.other_board is not None:
            boards = {self.kind: board, self.other: self.other_board}
            figures["figure_1"] = figure_1_frame(boards["reid"], boards["copies"])
        return PairBenchmark(
            kind=self.kind,
            source=self.store.manifest.name,
            options=self.options,
            reference=self.reference,
            board=board,
            tables=[*tables, *setup_tables(self.kind, self.cells, self.missing)],
            figures=figures,
            failed=failures(self.cells),
            missing=self.missing,
            division=self.division,
        )

    def report(self, result: PairBenchmark) -> StudyReport:
        """Report the leaderboard, the tables and the figures."""
        frames = {"leaderboard": result.board, **result.figures}
        return StudyReport(page=pair_page(result), frames=frames, opening=[board_of(result).text()])


def run_benchmark(study: PairStudy, progress: Progress, *, tables_only: bool) -> PairBenchmark:
    """Run a benchmark, or resume it, and lay out its tables and figures.

    Args:
        study: Benchmark to run.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
    """
    other: Path | None = getattr(study.options, study.other)
    study.other_board = None if other is None else read_board(other, study.other)
    return run_study(study, progress, tables_only=tables_only)


def plan_pairs(study: PairStudy, progress: Progress) -> PairBenchPlan:
    """Plan a benchmark; nothing is computed or written but the store of decoded images.

    Args:
        study: Benchmark to plan.
        progress: Function that is called with (stage, done, total).
    """
    return open_study(study, progress).plan()
