"""Jobs in a worker of a cluster, the check of workers before the first job, and signs that a worker lives.

A job sets the threads and the random state of its process while it runs, so that one process runs one job at a time
whatever number of threads its worker has: results are those of this machine, byte for byte.

`LifeSigns` holds when each worker was last heard of.
"""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from memorisk.runs.environment import versions
from memorisk.runs.errors import FULL_DISK_CODES, InputError, MemoriskError, UserCodeError, one_line
from memorisk.runs.processes import SAFE_ENVIRONMENT, environment_variables
from memorisk.runs.user_code.plugins import plugin_versions

_VERSIONED_LIBRARIES = ("memorisk", "numpy", "torch", "timm")
"""Libraries whose version a result may depend on."""
_PATIENCE = 10.0  # seconds that a shared disk may take to show a new file
INSPECTION_SECONDS = 20.0
"""Seconds to wait for a worker that is checked before it takes jobs; more than a shared disk may take."""
_MARK_PREFIX = ".seen-"


class LifeSigns:
    """Time for which each of several workers has shown no sign of life, by this machine's clock alone.

    Clocks of machines differ, so that only a change of a sign counts. A look shows only that no sign came since the
    look before, and adds at most twice the usual time between looks: a process that could not look for an hour,
    stopped or cut off, does not take all workers for dead.
    """

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._last: dict[Any, tuple[Any, float]] = {}

    def quiet(self, signs: Mapping[Any, Any], every: float) -> dict[Any, float]:
        """Return the seconds since each sign last changed.

        Args:
            signs: Present sign of each worker, by name; workers that are not named are forgotten.
            every: Seconds between looks.
        """
        now = time.monotonic()
        more, self._looked = min(now - self._looked, 2 * every), now
        changes = {}
        for name, sign in signs.items():
            before, seconds = self._last.get(name, (None, 0.0))
            changes[name] = (sign, seconds + more if sign == before else 0.0)
        self._last = changes
        return {name: seconds for name, (_, seconds) in changes.items()}


def silence_message(worker: str, seconds: float) -> str:
    """Return the line that says whose jobs were given to others."""
    name = one_line(worker, 80)
    return f"no sign of life of worker {name} for {seconds:.0f} seconds: its jobs are given to others"


_process_lock = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job: its place in the list, and its value or its error."""

    index: int
    value: Any = None
    error: str | None = None
    bad_input: bool = False
    user_code: bool = False
    """The error is one of the user's own function."""


OnOutcome = Callable[[Outcome], None]
"""Function that is called as each job ends."""


def attempt(function: Callable[[Any], Any], job: Any, index: int) -> Outcome:
    """Run a job; what it raises is its outcome, too."""
    try:
        return Outcome(index, value=function(job))
    except InputError as error:
        return Outcome(index, error=str(error), bad_input=True)
    except MemoriskError as error:
        return Outcome(index, error=str(error), user_code=isinstance(error, UserCodeError))
    except OSError as error:
        if error.errno in FULL_DISK_CODES:
            where = f" for {one_line(error.filename, 120)}" if error.filename else ""
            return Outcome(index, error=f"no space left on the disk{where}: free some")
        return Outcome(index, error=f"{type(error).__name__}: {one_line(error)}")
    except (Exception, SystemExit) as error:  # collected here, raised once with the others by run_jobs
        return Outcome(index, error=f"{type(error).__name__}: {one_line(error)}")


@dataclass(frozen=True)
class WorkerRequirements:
    """Conditions that every worker must meet, so that results do not depend on the worker and arrive at the caller."""

    marks: tuple[str, ...]
    """Files in the folders where jobs read and write."""
    versions: dict[str, str]
    """Versions of the libraries that results depend on."""

    def refuses(self) -> str | None:
        """Explain why this process does not qualify; None if it does. A new file on a shared disk is waited for."""
        until = time.monotonic() + _PATIENCE
        while missing := [mark for mark in self.marks if not Path(mark).exists()]:
            if time.monotonic() > until:
                return (
                    f"it does not see {one_line(_mark_path(missing[0]), 120)}, where jobs read and write: put run "
                    "folder, image store (store) and weights on storage that all machines mount under one path"
                )
            time.sleep(0.2)
        here = result_versions()
        for name in sorted(here.keys() | self.versions.keys()):
            if here.get(name) != self.versions.get(name):
                return (
                    f"it has {name} {here.get(name, 'not at all')}, and where the command was given it is "
                    f"{self.versions.get(name, 'not installed')}: install the same, since results may depend on it"
                )
        return None


def _mark_path(mark: str) -> Path:
    """Return the path of a mark that a user knows: its folder if it was made for the purpose, else the file."""
    path = Path(mark)
    return path.parent if path.name.startswith(_MARK_PREFIX) else path


def result_versions() -> dict[str, str]:
    """Return the versions of what results depend on."""
    names = {*_VERSIONED_LIBRARIES, *plugin_versions()}
    return {name: version for name, version in versions().items() if name in names}


@contextmanager
def worker_requirements(folders: Sequence[Path], files: Sequence[Path] = ()) -> Iterator[WorkerRequirements]:
    """Lay out what workers must see while this lasts: an empty file in each folder, or a file of a read-only one.

    Args:
        folders: Folders that jobs read and write.
        files: Files that jobs read; they are left as they are.
    """
    own_marks, marks = [], []
    try:
        for folder in folders:
            mark = folder / f"{_MARK_PREFIX}{secrets.token_hex(8)}"
            try:
                mark.touch(mode=0o600)
                own_marks.append(mark)
            except OSError:
                mark = next((file for file in sorted(folder.iterdir()) if file.is_file()), folder)
            marks.append(str(mark))
        yield WorkerRequirements((*marks, *map(str, files)), result_versions())
    finally:
        for mark in own_marks:
            mark.unlink(missing_ok=True)


def inspect_machine(needs: WorkerRequirements) -> tuple[str, str | None]:
    """Return the name of a worker's machine, and why it cannot take jobs; None where it can."""
    return socket.gethostname(), needs.refuses()


def attempt_remotely(
    function: Callable[[Any], Any], job: Any, index: int, threads: int, needs: WorkerRequirements
) -> Outcome:
    """Run a job in a worker of a cluster: alone in its process, with so many threads of native code.

    Args:
        function: Function of the job.
        job: Argument of the function.
        index: Place of the job in the list.
        threads: Number of threads of native code.
        needs: Requirements that this worker must meet.
    """
    if (why := needs.refuses()) is not None:
        return Outcome(index, error=f"worker {one_line(socket.gethostname(), 60)}: {why}", bad_input=True)
    with _process_lock, threadpool_limits(threads), environment_variables(SAFE_ENVIRONMENT):
        return attempt(function, job, index)


def check_workers(
    seen: Sequence[tuple[str, str | None]],
    cluster: str,
    silent: Sequence[str] = (),
    new: Sequence[str] | None = None,
) -> None:
    """Refuse workers whose results would be others, or would not arrive; name the silent ones.

    Args:
        seen: Answer of each worker: its machine, and why it cannot take jobs.
        cluster: Address of the cluster, for messages.
        silent: Names of workers that did not answer in time; the others work without them.
        new: Names among ``silent`` that the message lists; None for all.

    Raises:
        InputError: There are none, all are silent, or one cannot take jobs.
    """
    if silent and not seen:
        raise InputError(
            f"none of {len(silent)} workers at {one_line(cluster, 80)} answers in time: look whether they are stopped, "
            "or start others"
        )
    if addresses := (silent if new is None else new):
        names = one_line(", ".join(addresses), 160)
        logging.getLogger(__name__).warning("no answer in time of worker %s: jobs go to the others", names)
    if not seen:
        raise InputError(f"the cluster at {one_line(cluster, 80)} has no worker: start one, and give the command again")
    for host, why in seen:
        if why is not None:
            raise InputError(f"worker {one_line(host, 60)}: {why}")


def worker_loss(index: int, times: int) -> Outcome:
    """Return the error of a job whose worker died each time."""
    return Outcome(
        index,
        error=f"its worker died {times} times, as the system does when memory runs out: ask for more (job_memory)",
    )
