"""Where jobs run: in this process, or side by side in processes of this machine (joblib's loky).

A job is a function and a picklable argument; it leaves its result in the run folder, written atomically, and returns
only a small value. Failures are collected: one broken job does not take the finished ones with it.
"""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from joblib import Parallel, delayed

from memorisk.runs.errors import GOES_ON, InputError, MemoriskError, one_line


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its place in the list, and its value or its error."""

    index: int
    value: Any = None
    error: str | None = None
    bad_input: bool = False


def run_jobs(
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    *,
    processes: int = 1,
    threads: int = 1,
    on_done: Callable[[Outcome], None] | None = None,
) -> list[Any]:
    """Run ``function(job)`` for every job and return the values in order.

    Args:
        function: Importable by name, since other processes import it.
        jobs: Picklable arguments.
        processes: How many run side by side.
        threads: Threads each may use in native code.
        on_done: Called in this process as each job ends, in the order they end.

    Raises:
        MemoriskError: Some jobs failed; the others ran to their end and what they wrote stays.
    """
    outcomes: list[Outcome] = []
    source: Iterable[Outcome]
    if processes <= 1 or len(jobs) <= 1:
        source = (_attempt(function, job, i) for i, job in enumerate(jobs))
    else:
        settings: dict[str, Any] = {  # joblib's stubs take the types of its defaults for the only ones
            "n_jobs": min(processes, len(jobs)),
            "backend": "loky",
            "return_as": "generator_unordered",
            "inner_max_num_threads": threads,
            "pre_dispatch": "all",
            "batch_size": 1,
            "initializer": _end_with,  # before any job: an idle worker must not outlive its parent either
            "initargs": (os.getpid(),),
            "max_nbytes": None,  # arguments travel by pipe: nothing is left in shared memory when a run is killed
        }
        pool = Parallel(**settings)
        work = (delayed(_attempt)(function, job, i) for i, job in enumerate(jobs))
        source = cast(Iterable[Outcome], pool(work))
    with warnings.catch_warnings():
        # loky replaces a worker whose memory grew, as that of one that trains does, and warns of it; no job is lost.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
        for outcome in source:
            outcomes.append(outcome)
            if on_done:
                on_done(outcome)
    failed = sorted((o for o in outcomes if o.error is not None), key=lambda o: o.index)
    if failed:
        if failed[0].bad_input:
            raise InputError(failed[0].error)
        kept = f"; {GOES_ON}" if len(jobs) > 1 else ""
        raise MemoriskError(f"{len(failed)} of {len(jobs)} jobs failed, the first with: {failed[0].error}{kept}")
    return [o.value for o in sorted(outcomes, key=lambda o: o.index)]


def _attempt(function: Callable[[Any], Any], job: Any, index: int) -> Outcome:
    try:
        return Outcome(index, value=function(job))
    except InputError as error:
        return Outcome(index, error=str(error), bad_input=True)
    except MemoriskError as error:
        return Outcome(index, error=str(error))
    except Exception as error:  # collected here, raised once with the others by run_jobs
        return Outcome(index, error=f"{type(error).__name__}: {one_line(error)}")


_watched: set[int] = set()


def _end_with(parent: int) -> None:
    """End this worker when the process that started it is gone: a killed run leaves no orphans at work."""
    if parent in _watched:
        return
    _watched.add(parent)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
