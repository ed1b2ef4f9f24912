"""What all output to the terminal shares: progress, rows and reasons, JSON, numbers in words."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from memorisk.runs.errors import one_line
from memorisk.runs.files import json_value
from memorisk.runs.workload import Progress as Reporter

LOG_SECONDS = 30.0
STATUS = {"pass": "PASSED", "fail": "NOT READY FOR RELEASE", "undecided": "COULD NOT BE DECIDED"}


@contextmanager
def progress_bar() -> Iterator[Reporter]:
    """A progress bar on standard error; where that is no terminal but a log, a line every ``LOG_SECONDS``."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _log_lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            """Move the bar of a stage, which its first call adds."""
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total or None)
            bar.update(tasks[stage], completed=done, total=total or None)

        yield report


def _log_lines() -> Reporter:
    """A line with the time of day at most every ``LOG_SECONDS``: a short command stays silent."""
    last = [time.monotonic()]

    def report(stage: str, done: int, total: int) -> None:
        """Write a line, unless the last one is too recent."""
        if time.monotonic() - last[0] < LOG_SECONDS:
            return
        last[0] = time.monotonic()
        counted = f" {done:,}/{total:,}" if total else ""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {one_line(stage, 200)}{counted}\n")
        sys.stderr.flush()

    return report


def signed(value: float | None, digits: int = 2) -> str:
    """A number with its sign; where there is none, the word for that.

    Args:
        value: The number; None or NaN where it is missing.
        digits: Decimals.
    """
    return "unknown" if value is None or value != value else f"{value:+.{digits}f}"


def limits(low: float | None, high: float | None, digits: int = 2) -> str:
    """Two limits with their signs; one word where there is no interval.

    Args:
        low: The lower one; None or NaN where it is missing.
        high: The upper one.
        digits: Decimals.
    """
    ends = [signed(end, digits) for end in (low, high)]
    return ends[0] if ends[0] == ends[1] == signed(None) else " to ".join(ends)


def print_rows(console: Console, rows: Iterable[tuple[str, str]], before: str = "") -> None:
    """Print names, each with its value on the same line.

    Args:
        console: Where.
        rows: Names and values.
        before: What stands before each name.
    """
    for name, value in rows:
        console.print(Text(f"{before}{name}: {value}"), soft_wrap=True)


def print_reasons(
    console: Console, title: str, why: Iterable[str], heading: str, ways: Iterable[str], *, sentence: str = ""
) -> None:
    """Print a verdict: its title, its reasons, and what would decide it.

    Args:
        console: Where.
        title: Of the verdict, in bold.
        why: The reasons.
        heading: Above the ways, where there are any.
        ways: What would decide it, or settle what is open.
        sentence: Below the title: what a reader is to conclude.
    """
    console.print()
    console.print(Text(title, style="bold"))
    if sentence:
        console.print(Text(sentence), soft_wrap=True)
    for reason in why:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    print_list(console, heading, ways)


def print_list(console: Console, heading: str, lines: Iterable[str]) -> None:
    """Print indented lines below their heading; nothing where there are none."""
    for number, line in enumerate(lines):
        if not number:
            console.print(Text(heading))
        console.print(Text(f"  {line}"), soft_wrap=True)


def percent(estimate: float, low: float, high: float, digits: int = 1) -> str:
    """A share with its limits in percent."""
    share, *ends = (f"{100 * value:.{digits}f}" for value in (estimate, low, high))
    return f"{share} % ({ends[0]} to {ends[1]} %)"


def plain_console() -> Console:
    """Standard output; a hundred columns where nobody looks, so that piped output does not depend on a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=100)


def print_json(value: Any) -> None:
    """Write a value as JSON."""
    sys.stdout.write(json.dumps(json_value(value), indent=2, ensure_ascii=False) + "\n")
