"""One detector of a benchmark: what it found, in ``cells/KEY``; ``cell.json`` is written last and marks it as done.

Why a detector failed stands in ``failed.json`` until it runs through; the others are finished all the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from memorisk.audits.cell_folder import CellFolder
from memorisk.images.store import ImageStore
from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.executors.pool import Outcome, run_jobs
from memorisk.runs.folder import RunFolder
from memorisk.runs.progress import Progress, quiet
from memorisk.studies.pairs.contenders import Contender
from memorisk.studies.pairs.division import TRAINING, VALIDATION, Division
from memorisk.studies.pairs.judges import Judge, open_judge
from memorisk.studies.pairs.options import Options
from memorisk.studies.unique_features.results import Arrays, read_result, write_result
from memorisk.training.engine.workplace import LOCAL, Workplace, open_workplace

CELLS = "cells"


@dataclass(frozen=True, eq=False)
class Cell(CellFolder):
    """A detector with all that its measurement needs."""

    contender: Contender
    """Which."""
    out: Path
    """The run folder."""
    key: str
    """Of what decides its scores, but for the division and the seed, which the run folder fixes."""
    store: ImageStore
    """The images."""
    division: Division
    """Who is asked about whom."""
    options: Options
    """Of the benchmark."""
    device: str
    """Where networks are computed."""
    parts: tuple[str, ...]
    """Names of the results that it leaves."""
    workplace: Workplace = LOCAL
    """Where features are computed and all pairs are looked at."""

    @property
    def name(self) -> str:
        """Of the detector."""
        return self.contender.name

    @property
    def folder(self) -> Path:
        """Where its results are."""
        return self.out / CELLS / self.key

    @property
    def missing(self) -> tuple[str, ...]:
        """Results that are not there yet."""
        return tuple(name for name in self.parts if not self._file(name).is_file())

    def write(self, name: str, arrays: Arrays) -> None:
        """Leave a result."""
        write_result(self._file(name), arrays)

    def read(self, name: str) -> Arrays:
        """A result."""
        return read_result(self._file(name))

    def judge(self, progress: Progress = quiet) -> Judge:
        """What compares images as this detector does."""
        o, reference = self.options, self.division.rows(TRAINING)
        if len(reference) < 2:
            reference = self.division.rows(VALIDATION)
        return open_judge(
            self.contender, self.store, reference, size=o.network_size, precision=o.precision, device=self.device,
            workplace=self.workplace, progress=progress,
        )  # fmt: skip

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.npz"


Work = Callable[[Cell, Judge], None]
"""Leaves all results of a cell that are missing."""


def waiting(cells: Sequence[Cell]) -> list[Cell]:
    """Those that are not done; the same detector under two names is one."""
    return list({cell.key: cell for cell in cells if not cell.done}.values())


def run_cells(run: RunFolder, cells: Sequence[Cell], work: Work, progress: Progress) -> None:
    """Run the cells that are not done, one after the other; what fails is noted for the tables.

    Args:
        run: The run folder.
        cells: All of them.
        work: Of one.
        progress: Called with (stage, done, total).

    Raises:
        MemoriskError: The run broke, and by no detector's fault.
    """
    todo = waiting(cells)
    if not todo:
        return
    run.subfolder(CELLS)
    done = 0
    progress("measuring detectors", done, len(todo))

    def measure(cell: Cell) -> None:
        """One detector, from what is there already."""
        cell.make_folder()
        before = torch.get_num_threads()
        torch.set_num_threads(cell.options.threads)
        try:
            judge = cell.judge()
            work(cell, judge)
            cell.finish({"detector": cell.name, **judge.described, "at_half": judge.at_half})
        finally:
            torch.set_num_threads(before)
        cell.forget_failure()

    def finished(of: Outcome) -> None:
        """Count it, and note why it failed."""
        nonlocal done
        done += 1
        cell = todo[of.index]
        if of.error is not None:
            why = one_line(of.error, 300)
            cell.fail(cell.name, why)
            run.log("failed", detector=cell.name, why=why)
        progress("measuring detectors", done, len(todo))

    options = todo[0].options
    try:
        with open_workplace(
            options, options.store, run.path, device=todo[0].device, threads=options.threads
        ) as workplace:
            run_jobs(measure, [replace(cell, workplace=workplace) for cell in todo], on_done=finished)
    except MemoriskError as error:
        if not any(cell.failure for cell in todo):
            raise
        run.log("incomplete", why=str(error))
