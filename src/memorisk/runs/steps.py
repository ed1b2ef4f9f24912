"""Progress of trainings, step by step: in this process, in other processes, and on the machines of a cluster.

A training notes its steps with the meter that is open where it runs, if one is. A job in another process has no meter
of the command's: it writes its count into a small file of the run folder, which its machine shares, and the command
reads the files of all jobs. A count is only shown: no computed number depends on it.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

from memorisk.runs.workload import CountProgress

SECONDS = 0.5
"""Seconds between two reports; a loss is read from its device no more often."""


class StepCount(int):
    """Number of finished steps, with their loss and images; a sum with a whole number keeps these."""

    loss: float | None
    """Mean loss of the last step."""
    images: int
    """Number of images trained on so far; 0 where they are not counted."""

    def __new__(cls, done: int, *, images: int = 0, loss: float | None = None) -> Self:
        """Make a count from its numbers."""
        count = super().__new__(cls, done)
        count.loss, count.images = loss, images
        return count

    def __add__(self, other: int) -> "StepCount":
        return StepCount(int(self) + int(other), images=self.images, loss=self.loss)

    __radd__ = __add__


class StepMeter:
    """Counter of the steps of one training after another, which reports them now and then.

    Args:
        report: Function called with (`StepCount`, steps of all trainings).
        total: Number of steps of all trainings; None for one training, which knows its own.
    """

    def __init__(self, report: CountProgress, total: int | None = None) -> None:
        self.report, self.total = report, total
        self._finished = self._done = self._of = self._images = 0
        self._loss: float | None = None
        self._last = float("-inf")

    @property
    def count(self) -> StepCount:
        """Return the current count of steps."""
        return StepCount(self._finished + self._done, images=self._images, loss=self._loss)

    def begin(self, done: int, of: int) -> None:
        """Begin a training of so many steps, of which some were done before."""
        self._done, self._of = done, of
        self._tell()

    def step(self, steps: int, images: int, loss: Callable[[], float] | None) -> None:
        """Note steps that were just finished.

        Args:
            steps: Number of steps, one for each network.
            images: Number of images in these steps.
            loss: Function that returns their mean loss, called only before a report; None to report nothing now.
        """
        self._done += steps
        self._images += images
        if loss is not None and time.monotonic() - self._last >= SECONDS:
            self._loss = loss()
            self._tell()

    def epoch(self, loss: float) -> None:
        """Report a finished and saved epoch, whenever the last report was.

        Args:
            loss: Mean loss of the epoch.
        """
        self._loss = loss
        self._tell()

    def end(self) -> None:
        """End the training, whether all its steps are done or not."""
        self._finished, self._done = self._finished + self._of, 0
        self._of = 0
        self._tell()

    def _tell(self) -> None:
        self._last = time.monotonic()
        self.report(self.count, self.total if self.total is not None else self._finished + self._of)


_open: ContextVar[StepMeter | None] = ContextVar("memorisk_step_meter", default=None)


def open_meter() -> StepMeter | None:
    """Return the meter that is open where this is called."""
    return _open.get()


@contextmanager
def metered(report: CountProgress, total: int | None = None) -> Iterator[StepMeter]:
    """Open a meter for the trainings of this thread.

    Args:
        report: Function as for `StepMeter`.
        total: Number of steps as for `StepMeter`.
    """
    token = _open.set(StepMeter(report, total))
    try:
        yield _open.get()  # type: ignore[misc]
    finally:
        _open.reset(token)


@contextmanager
def written_steps(file: Path) -> Iterator[None]:
    """Write the steps of a job's training into a file while it runs; write nothing where a meter is open already.

    Args:
        file: Path in the run folder; the file is removed afterwards.
    """
    if open_meter() is not None:
        yield
        return

    def write(done: int, total: int) -> None:
        """Replace the file; a disk that is full or away does not stop a training."""
        count = done if isinstance(done, StepCount) else StepCount(done)
        beside = file.with_name(f".{file.name}-{os.getpid()}")
        with suppress(OSError):
            beside.write_text(json.dumps({"done": int(count), "images": count.images, "loss": count.loss}))
            beside.replace(file)

    try:
        with metered(write):
            yield
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


class StepFiles:
    """Counts of the jobs that other processes run, and of those that have ended.

    Args:
        steps: Number of steps of each job, by its file.
        report: Function as for `StepMeter`.
    """

    def __init__(self, steps: Mapping[Path, int], report: CountProgress) -> None:
        self.steps, self.report = dict(steps), report
        self._ended: set[Path] = set()
        self._last: dict[Path, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._failed: BaseException | None = None

    def end(self, *files: Path) -> None:
        """Note that some jobs have ended; an error of a report in the thread is raised here."""
        self._ended.update(files)
        self._raise()
        self.tell()

    def tell(self) -> None:
        """Read the files and report their sum."""
        with self._lock:
            running = [file for file in self.steps if file not in self._ended]
            self._last |= {file: read for file in running if (read := _read(file)) is not None}
            done = sum(self.steps[file] for file in self._ended)
            done += sum(min(self._last[file]["done"], self.steps[file]) for file in running if file in self._last)
            losses = [read["loss"] for read in self._last.values() if isinstance(read["loss"], float)]
            loss = sum(losses) / len(losses) if losses else None
            images = sum(read["images"] for read in self._last.values())
            self.report(StepCount(done, images=images, loss=loss), sum(self.steps.values()))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Report every `SECONDS`, from a thread, while the context is open."""
        over = threading.Event()

        def follow() -> None:
            """Report until the context is closed, or until a report raises an error."""
            while not over.wait(SECONDS):
                try:
                    self.tell()
                except BaseException as error:  # raised in the thread of the command
                    self._failed = error
                    return

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        self._raise()

    def _raise(self) -> None:
        """Raise the error of an earlier report."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed


def _read(file: Path) -> dict[str, Any] | None:
    """Read the file that a job wrote; None where it has written nothing, or its file is gone."""
    try:
        read = json.loads(file.read_text())
        return {"done": int(read["done"]), "images": int(read["images"]), "loss": read["loss"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
