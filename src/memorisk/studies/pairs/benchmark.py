"""What both benchmarks of pairs do: prepare, plan, run, and lay out; a `PairKind` says how they differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from memorisk.runs.files import write_table
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of
from memorisk.runs.workload import Cost, Progress
from memorisk.studies.engine.cells import failures
from memorisk.studies.engine.study import Study, StudyReport, check_entry, check_study, run_study
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.pairs.cells import Cell, CellMeasurement, run_pair_cells
from memorisk.studies.pairs.figures import figure_1_frame, read_board
from memorisk.studies.pairs.page import board_text, pair_page
from memorisk.studies.pairs.plan import BenchmarkSetup, PairBenchPlan, plan_of, prepare
from memorisk.studies.pairs.results import LAYOUTS, PairBenchmark, setup_tables

SPLIT = "split.parquet"


@dataclass(frozen=True)
class PairNumbers:
    """Numbers of a benchmark, computed from its finished cells."""

    board: pd.DataFrame
    """Leaderboard with one row per detector, the best first."""
    tables: Sequence[StudyTable]
    """Tables, in their order, without those on what was run."""
    figures: Mapping[str, pd.DataFrame]
    """Numbers of the figures that are in no table, by name."""


@dataclass(frozen=True, kw_only=True)
class PairKind:
    """One of the two benchmarks."""

    name: str
    """Name of the benchmark: "reid" or "copies"."""
    options: type[Any]
    """Dataclass of its options."""
    other: str
    """Name of the other benchmark, and of the option that names its run for figure 1."""
    parts: Callable[[Any], tuple[str, ...]]
    """Function that names the results of a cell, from the options."""
    work: CellMeasurement
    """Function that measures one detector."""
    cost: Callable[[Cell], Cost]
    """Function that estimates the cost of a detector that is not done."""
    check: Callable[[BenchmarkSetup], None]
    """Function that refuses images and detectors that the benchmark cannot judge."""
    numbers: Callable[[BenchmarkSetup, Any], PairNumbers]
    """Function that computes every number from what is finished."""
    fixed: tuple[str, ...] = ()
    """Options that may not change in a folder, besides the images, their division and the seed."""


def run_benchmark(
    kind: PairKind,
    images: str | Path,
    out: Path,
    settings: Mapping[str, Any],
    progress: Progress,
    *,
    tables_only: bool,
) -> PairBenchmark:
    """Run a benchmark, or resume it, and lay out its tables and figures.

    Args:
        kind: Benchmark to run.
        images: Images, as for `memorisk.audit_classifier`.
        out: Folder of the run.
        settings: Settings by name.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
    """
    options = settings_of(kind.options, settings)
    check_entry(out, options, tables_only=tables_only)
    other = getattr(options, kind.other)
    board = None if other is None else read_board(other, kind.other)
    return run_study(_study(kind, _prepare(kind, images, out, options, progress), board), progress,
                     tables_only=tables_only)  # fmt: skip


def plan_pairs(
    kind: PairKind, images: str | Path, out: Path, settings: Mapping[str, Any], progress: Progress
) -> PairBenchPlan:
    """Plan a benchmark; nothing is computed or written but the store of decoded images.

    Args:
        kind: Benchmark to plan.
        images: Images, as for `memorisk.audit_classifier`.
        out: Folder of the run.
        settings: Settings by name.
        progress: Function that is called with (stage, done, total).
    """
    ready = _prepare(kind, images, out, settings_of(kind.options, settings), progress)
    check_study(_study(kind, ready, None))
    return plan_of(ready, kind.cost)


def _prepare(kind: PairKind, images: str | Path, out: Path, options: Any, progress: Progress) -> BenchmarkSetup:
    ready = prepare(images, out, options, kind.parts(options), progress)
    kind.check(ready)
    return ready


def _study(kind: PairKind, ready: BenchmarkSetup, other: pd.DataFrame | None) -> Study[PairBenchmark]:
    """Return a benchmark as a study.

    Args:
        kind: Benchmark.
        ready: Benchmark before anything is computed.
        other: Leaderboard of the other benchmark, if its run is named.
    """

    def run(folder: RunFolder, progress: Progress) -> None:
        """Write the part of each patient, and measure the detectors."""
        write_table(folder / SPLIT, ready.division.table(ready.store.manifest))
        run_pair_cells(folder, ready.cells, kind.work, progress)

    def report(result: PairBenchmark) -> StudyReport:
        """Report the leaderboard, the tables and the figures."""
        frames = {"leaderboard": result.board, **result.figures}
        return StudyReport(page=pair_page(result), frames=frames, opening=[board_text(result)])

    options = ready.options
    identity = {"benchmark": kind.name, "data_hash": ready.store.data_hash, "division": ready.division_hash}
    identity |= {"seed": options.seed} | {name: getattr(options, name) for name in kind.fixed}
    return Study(
        out=ready.out,
        settings={"images": str(ready.images), "out": str(ready.out), **asdict(options)},
        identity=identity,
        run=run,
        read=lambda: _read(kind, ready, other),
        report=report,
    )


def _read(kind: PairKind, ready: BenchmarkSetup, other: pd.DataFrame | None) -> PairBenchmark:
    """Compute every number from the finished cells."""
    numbers = kind.numbers(ready, ready.options)
    figures = dict(numbers.figures)
    if other is not None:
        boards = {kind.name: numbers.board, kind.other: other}
        figures["figure_1"] = figure_1_frame(boards["reid"], boards["copies"])
    return PairBenchmark(
        kind=kind.name,
        source=ready.store.manifest.name,
        options=ready.options,
        reference=ready.reference,
        board=numbers.board,
        tables=[*numbers.tables, *setup_tables(ready, LAYOUTS[kind.name])],
        figures=figures,
        failed=failures(ready.cells),
        missing=ready.missing,
        division=ready.division,
    )
