"""The cells of a study that are not done, run where they are to run; what fails is noted while the others finish."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.worker import Outcome
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Progress
from memorisk.studies.engine.cells import CellFolder


class StudyCell(Protocol):
    """A unit of a study's work that leaves its results on the disk."""

    @property
    def key(self) -> str:
        """Return the key of everything that decides its results: cells with one key are one."""
        ...

    @property
    def name(self) -> str:
        """Name the cell in words, on one line."""
        ...

    @property
    def done(self) -> bool:
        """Return whether its results are there."""
        ...


Cell = TypeVar("Cell", bound=StudyCell)
Ended = Callable[[Cell, str | None], None]
"""Called with a cell that ended, and why it failed."""


def missing_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Those that are not done, each key once."""
    return list({cell.key: cell for cell in cells if not cell.done}.values())


def run_cells(
    run: RunFolder,
    cells: Sequence[Cell],
    work: Callable[[Cell], object],
    progress: Progress,
    *,
    stage: str,
    processes: int = 1,
    threads: int = 1,
    place: Placement | None = None,
    together: Callable[[Sequence[Cell], Ended[Cell]], None] | None = None,
) -> dict[str, str]:
    """Run the cells that are not done; the same command goes on where a killed one stopped.

    Args:
        run: The study's folder.
        cells: All of them.
        work: Of one; importable and with picklable cells where other processes run it.
        progress: Called with (stage, done, total).
        stage: Its name.
        processes: Cells side by side.
        threads: Of each, in native code.
        place: A cluster, and what a cell needs of it; this machine if not given.
        together: Runs all of them in place of `work`, as several networks in one computation do.

    Returns:
        Why cells failed, by their name.

    Raises:
        MemoriskError: The run broke, and by no cell's fault.
    """
    waiting, failed = missing_cells(cells), {}
    total = len({cell.key for cell in cells})
    done = total - len(waiting)
    progress(stage, done, total)

    def ended(cell: Cell, error: str | None) -> None:
        """Count it, and note why it failed."""
        nonlocal done
        done += 1
        if error is not None:
            failed[cell.name] = one_line(error, 300)
            if isinstance(cell, CellFolder):
                cell.fail(failed[cell.name])
            run.log("failed", cell=cell.name, why=error)
        progress(stage, done, total)

    def outcome(of: Outcome) -> None:
        """Take the outcome of a job."""
        ended(waiting[of.index], of.error)

    try:
        if together is not None:
            together(waiting, ended)
        else:
            run_jobs(work, waiting, processes=processes, threads=threads, on_done=outcome, place=place)
    except MemoriskError as error:
        if not failed:
            raise
        run.log("incomplete", why=str(error))
    return failed


def named_progress(progress: Progress, name: str) -> Progress:
    """The same, with the name of a part before each stage.

    Args:
        progress: Called with (stage, done, total).
        name: Of the part.
    """
    return lambda stage, done, total: progress(f"{name}: {stage}", done, total)
