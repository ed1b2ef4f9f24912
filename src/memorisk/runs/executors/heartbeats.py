"""Signs of life of workers: when each was last heard of, and a file by which one that has a job shows that it lives."""

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.runs.errors import one_line


class Signs:
    """For how long each of several has shown no sign of life, by this machine's clock alone.

    Clocks of machines differ, so that what counts is that a sign changes. A look says no more than that nothing was
    heard since the one before, and adds twice the usual time between looks at the most: whoever could not look for an
    hour, stopped or cut off, does not take all for dead.
    """

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._last: dict[Any, tuple[Any, float]] = {}

    def quiet(self, signs: Mapping[Any, Any], every: float) -> dict[Any, float]:
        """Seconds since each sign last changed.

        Args:
            signs: What each shows now; those that are not named are forgotten.
            every: Seconds between looks.
        """
        now = time.monotonic()
        more, self._looked = min(now - self._looked, 2 * every), now
        told = {}
        for name, sign in signs.items():
            before, seconds = self._last.get(name, (None, 0.0))
            told[name] = (sign, seconds + more if sign == before else 0.0)
        self._last = told
        return {name: seconds for name, (_, seconds) in told.items()}


def silence(worker: str, seconds: float) -> str:
    """The line that says whose jobs were given to others."""
    name = one_line(worker, 80)
    return f"no sign of life of worker {name} for {seconds:.0f} seconds: its jobs are given to others"


@dataclass(frozen=True)
class Pulse:
    """A file on shared storage that a worker makes when it begins a job, touches while it lives, and removes."""

    path: str
    every: float
    """Seconds between touches."""

    def remove(self) -> None:
        """Remove the file of a worker that is not asked any more: it makes no other."""
        with suppress(OSError):
            Path(self.path).unlink(missing_ok=True)

    def seen(self) -> int | None:
        """A number that changes as long as the worker lives; None where none has begun, or where it cannot be read."""
        with suppress(OSError):
            return Path(self.path).stat().st_mtime_ns
        return None

    def worker(self) -> str:
        """Who has the job."""
        with suppress(OSError, ValueError):
            return Path(self.path).read_text(encoding="utf-8")
        return "that cannot be named"

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Keep the file until this is left."""
        over = threading.Event()

        def touch() -> None:
            """Until it is over, or the file is gone."""
            while not over.wait(self.every):
                try:
                    os.utime(self.path)
                except FileNotFoundError:
                    return
                except OSError:  # a shared disk that is away for a while
                    continue

        with suppress(OSError):
            Path(self.path).write_text(f"{socket.gethostname()} (process {os.getpid()})", encoding="utf-8")
        thread = threading.Thread(target=touch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            self.remove()
