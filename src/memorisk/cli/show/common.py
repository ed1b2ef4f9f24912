"""Parts that all output to the terminal shares: progress, rows and reasons, JSON, numbers in words."""

import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from memorisk.runs.errors import one_line
from memorisk.runs.files import json_value
from memorisk.runs.workload import Opening, no_progress
from memorisk.runs.workload import Progress as Reporter

if TYPE_CHECKING:
    pass

LOG_SECONDS = 30.0
NOTEBOOK_SECONDS = 0.5
ValueT = TypeVar("ValueT")


@contextmanager
def progress_bar() -> Iterator[Reporter]:
    """Show a progress bar on standard error, or below a notebook's cell; in a log one line per ``LOG_SECONDS``."""
    console = Console(stderr=True)
    stages = _Stages()
    if console.is_jupyter:
        write = _notebook_writer()
        try:
            with _repeated(stages, NOTEBOOK_SECONDS, write):
                yield stages
        finally:
            write("")  # a notebook is kept: how far it was is not
    elif not console.is_terminal:
        with _repeated(stages, LOG_SECONDS, _write_line):
            yield stages
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[details]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            stages.bar = bar
            yield stages


def showing_progress(function: ValueT) -> ValueT:
    """Return a function that shows progress as the command does, unless the caller gives ``progress``.

    Args:
        function: Any public name.
    """
    parameter = inspect.signature(function).parameters.get("progress") if inspect.isfunction(function) else None
    if parameter is None or parameter.default is not no_progress:
        return function

    @wraps(function)  # type: ignore[arg-type]
    def shown(*values: Any, **named: Any) -> Any:
        """Call the function with a bar."""
        if "progress" in named:
            return function(*values, **named)  # type: ignore[operator]
        with progress_bar() as progress:
            return function(*values, progress=progress, **named)  # type: ignore[operator]

    return shown  # type: ignore[return-value]


class _Stages:
    """The stages of a command, one open at a time: a stage closes where the next one opens.

    Attributes:
        bar: Shows them in a terminal; None elsewhere.
        opening: Opening that a log does not show yet.
    """

    bar: Progress | None = None
    opening: str = ""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID] = {}
        self._begun: dict[str, tuple[float, int, int]] = {}
        self._now: tuple[str, int, int] | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Move a stage, which its first call opens; an opening stays above the bar."""
        if isinstance(stage, Opening):
            if self.bar is None:
                self.opening = stage
            else:
                self.bar.console.print(Text(stage), soft_wrap=True)
            return
        if self._now is not None and self._now[0] != stage:
            self._close(self._now[0])
        self._begun.setdefault(stage, (time.monotonic(), int(done), getattr(done, "images", 0)))
        self._now = stage, done, total
        if self.bar is not None:
            if stage not in self._tasks:
                self._tasks[stage] = self.bar.add_task(one_line(stage, 200), total=total or None, details="")
            details = ", ".join(self._details(stage, done))
            self.bar.update(self._tasks[stage], completed=done, total=total or None, details=details)

    def _close(self, stage: str) -> None:
        """Fill the bar of a stage that is over; what it counted may be less than was planned."""
        if self.bar is not None:
            task = self.bar.tasks[self.bar.task_ids.index(self._tasks[stage])]
            self.bar.update(self._tasks[stage], completed=task.total or 1, total=task.total or 1)

    def _details(self, stage: str, done: int) -> list[str]:
        """Return the loss and speed, where a training tells them."""
        begun, _, images = self._begun[stage]
        loss, n = getattr(done, "loss", None), getattr(done, "images", 0) - images
        seconds = time.monotonic() - begun
        speed = [f"{n / seconds:,.0f} images/s"] if n > 0 and seconds > 0 else []
        return [*([] if loss is None else [f"loss {loss:.3g}"]), *speed]

    def line(self) -> str:
        """Return the open stage in a line; empty where none has begun."""
        if self._now is None:
            return ""
        stage, done, total = self._now
        begun, first, _ = self._begun[stage]
        remaining = []
        if total and first < done < total:
            remaining = [
                f"{timedelta(seconds=round((total - done) * (time.monotonic() - begun) / (done - first)))} left"
            ]
        counted = f" {done:,}/{total:,}" if total else ""
        return ", ".join([f"{one_line(stage, 200)}{counted}", *self._details(stage, done), *remaining])


@contextmanager
def _repeated(stages: _Stages, seconds: float, write: Callable[[str], object]) -> Iterator[None]:
    """Write the open stage every so many seconds, also while nothing is reported: a short command stays silent."""
    over = threading.Event()

    def repeat() -> None:
        """Write until it is over."""
        while not over.wait(seconds):
            if stages.opening:
                write(stages.opening)
                stages.opening = ""
            if line := stages.line():
                write(line)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _write_line(line: str) -> None:
    """Write a line with the time of day."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


def _notebook_writer() -> Callable[[str], object]:
    """Give what replaces one line below a notebook's cell; it needs no widgets."""
    display = import_module("IPython.display").display  # there where a notebook is
    handle: Any = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda line: handle.update({"text/plain": line}, raw=True)


def signed(value: float | None, digits: int = 2) -> str:
    """Return a number with its sign; without one, the word for that.

    Args:
        value: The number; None or NaN where it is missing.
        digits: Decimals.
    """
    return "unknown" if value is None or value != value else f"{value:+.{digits}f}"


def plain_text(text: str) -> Text:
    """Return a text for the terminal: a page's non-breaking spaces, which a search would not find, are plain ones."""
    return Text(text.replace("\N{NO-BREAK SPACE}", " "))


def print_rows(console: Console, rows: Iterable[tuple[str, str]], before: str = "") -> None:
    """Print names, each with its value on the same line.

    Args:
        console: Console to print to.
        rows: Names and values.
        before: Text before each name.
    """
    for name, value in rows:
        console.print(plain_text(f"{before}{name}: {value}"), soft_wrap=True)


def plain_table(headings: Sequence[str], *, left: Sequence[str] = ()) -> Table:
    """Make a table for the terminal: where it is narrow, the widest columns wrap, and nothing is cut.

    Args:
        headings: Headings of the columns; the first column holds words, the others numbers.
        left: Headings of further columns of words, which begin at the left.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        words = heading in (headings[0], *left)
        table.add_column(heading, justify="left" if words else "right", overflow="fold")
    return table


def print_list(console: Console, heading: str, lines: Iterable[str]) -> None:
    """Print indented lines below their heading; nothing where there are none."""
    for number, line in enumerate(lines):
        if not number:
            console.print(Text(heading))
        console.print(plain_text(f"  {line}"), soft_wrap=True)


def plain_console() -> Console:
    """Return standard output; a hundred columns where it is piped, so that the output does not depend on a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=100)


def print_json(value: Any) -> None:
    """Write a value as JSON."""
    sys.stdout.write(json.dumps(json_value(value), indent=2, ensure_ascii=False) + "\n")
