"""Run the cells of a study that are not done; failures are noted while the other cells finish."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.worker import Outcome
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Opening, Progress
from memorisk.studies.engine.cells import CellFolder


class StudyCell(Protocol):
    """A unit of a study's work that leaves its results on the disk."""

    @property
    def key(self) -> str:
        """Return the key of everything that decides its results; cells with the same key count once."""
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
"""Function that is called with a cell that ended, and the reason if it failed."""


def missing_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that are not done, each key once."""
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
    """Run the cells that are not done; the same command resumes where a killed one stopped.

    Args:
        run: Folder of the study.
        cells: All cells of the study.
        work: Function that runs one cell; it must be importable and cells picklable where other processes run it.
        progress: Function that is called with (stage, done, total).
        stage: Name of the stage.
        processes: Number of cells that run at the same time.
        threads: Threads of native code of each cell.
        place: Cluster, and what a cell needs of it; this machine if not given.
        together: Function that runs all of them in place of `work`, as several networks in one computation do.

    Returns:
        Reasons why cells failed, by name.

    Raises:
        MemoriskError: The run broke, and no cell caused it.
    """
    waiting, failed = missing_cells(cells), {}
    total = len({cell.key for cell in cells})
    done = total - len(waiting)
    progress(stage, done, total)

    def ended(cell: Cell, error: str | None) -> None:
        """Count the cell, and note why it failed."""
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
    """Return the same function with the name of a part before each stage.

    Args:
        progress: Function that is called with (stage, done, total).
        name: Name of the part.
    """

    def named(stage: str, done: int, total: int) -> None:
        """Name the part; the opening of a part stays an opening."""
        text = f"{name}: {stage}"
        progress(Opening(text) if isinstance(stage, Opening) else text, done, total)

    return named
