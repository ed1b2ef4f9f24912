"""Processes: child processes that import nothing from the current folder; Ctrl-C and SIGTERM that end a command.

Python puts the current folder first on the path of ``python -c`` (which is how multiprocessing starts its fork
server, its resource tracker and spawned processes), of ``python -m``, and of notebooks. A ``numpy.py`` that lies
among the images would then run in place of NumPy. Every process that memorisk starts, it starts in `safe_start` or
by `safe_command`; both keep the current folder off the path of the child and of the child's own children.

Ctrl-C ends a command within seconds, also where a library waits for workers that will not answer any more. So does
SIGTERM, by which containers and schedulers stop a job: without a handler Python would leave its semaphores behind.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

from memorisk.runs.errors import InputError

if TYPE_CHECKING:
    from multiprocessing.forkserver import ForkServer

SAFE_ENVIRONMENT = {"PYTHONSAFEPATH": "1"}
"""Variables in the environment of a child, so that its own children are safe, too."""
_lock = threading.RLock()
GRACE_SECONDS = 5.0
_STOPS = (signal.SIGINT, signal.SIGTERM)
_KILLED_BY = 128
"""Number that shells add to the number of the signal that ended a process, for its exit code."""


@cache
def _server() -> "ForkServer":
    """Return our own server, since one that other code started may search the current folder."""
    from multiprocessing.forkserver import ForkServer  # here, since the help starts no process

    return ForkServer()


def _working_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 (the very text that Python puts on the path)
    except OSError:  # it was removed
        return None


_began_in = _working_folder()


def _implicit() -> list[int]:
    """Return the places on sys.path that name the current folder without an order of the user."""
    places = [i for i, entry in enumerate(sys.path) if entry in ("", ".")]
    by_module = getattr(sys.modules.get("__main__"), "__spec__", None) is not None  # python -m
    if by_module and not sys.flags.safe_path and _began_in in sys.path:
        places.append(sys.path.index(_began_in))
    return sorted(places)


def child_path() -> list[str]:
    """Return a child's search path for modules: sys.path without the current folder, unless the user set it."""
    implicit = _implicit()
    return [entry for i, entry in enumerate(sys.path) if i not in implicit]


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Take the current folder off sys.path, and put it back afterwards; other changes in between stay."""
    with _lock:
        removed = [(i, sys.path[i]) for i in _implicit()]
        for i, _ in reversed(removed):
            del sys.path[i]
        try:
            yield
        finally:
            for i, entry in removed:
                sys.path.insert(i, entry)


@contextmanager
def environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and set them back afterwards.

    Args:
        variables: Values of the variables by name.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def safe_start() -> Iterator[None]:
    """Guard a block in which multiprocessing starts processes: without the current folder and the caller's script.

    Raises:
        InputError: Python runs with ``-E``: its children would ignore the environment that keeps them safe.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise InputError(
            "Python runs with -E, and processes that it starts would import from the current folder: start it with "
            "-P as well, or with -I in place of -E"
        )
    with _lock, without_current_folder(), environment_variables(SAFE_ENVIRONMENT), _no_main_module(), _own_server():
        yield


def start_server(modules: Sequence[str]) -> None:
    """Start the fork server of memorisk, which imports these modules; one that runs already stays as it is.

    It imports modules of memorisk only: its path is Python's own, and only its workers get the caller's.
    """
    with safe_start():
        _server().set_forkserver_preload([name for name in modules if name.partition(".")[0] == "memorisk"])
        _server().ensure_running()


def safe_command(code: str) -> list[str]:
    """Return the command of a new Python process that runs this code; its environment should hold `SAFE_ENVIRONMENT`.

    The child gets the caller's path when it has begun, so that no ``sitecustomize`` of the user's folders runs in it.
    """
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {child_path()!r}; {code}"]


def leave_current_folder() -> None:
    """Keep this process from importing out of the current folder, and its children too: for a program of its own."""
    global _began_in
    for i in reversed(_implicit()):
        del sys.path[i]
    _began_in = None  # an entry for this folder that is added later comes from the user
    os.environ.update(SAFE_ENVIRONMENT)


@contextmanager
def _own_server() -> Iterator[None]:
    """Have multiprocessing fork from our own server."""
    from multiprocessing import forkserver

    before = forkserver.connect_to_new_process
    forkserver.connect_to_new_process = _server().connect_to_new_process
    try:
        yield
    finally:
        forkserver.connect_to_new_process = before


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep new processes from running the caller's script again.

    Python runs the main script in each of them, to find functions that it defines, and so a script without
    ``if __name__ == "__main__":`` would start itself again. Jobs are functions of importable modules.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def stopped_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a command that was stopped: 130 after Ctrl-C, 143 after SIGTERM."""
    return _KILLED_BY + (stop.args[0] if stop.args else signal.SIGINT)


@contextmanager
def prompt_interrupt(line: str, *, grace: float = GRACE_SECONDS) -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C as usual, and on SIGTERM; end the process if it still runs after ``grace``.

    A pool of processes that is interrupted while its workers start may wait for them for ever. Finished work is in
    files by then, and workers end with their parent.

    Args:
        line: Line written to standard error where the process had to be ended, unless it was written already.
        grace: Seconds that the process has to end by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised = threading.Event()

    def leave(stop: KeyboardInterrupt) -> None:
        """End the process at once."""
        if not raised.is_set():
            sys.stderr.write(line)
            sys.stderr.flush()
        os._exit(stopped_code(stop))

    def interrupted(number: int, _frame: FrameType | None) -> None:
        """Interrupt, and end the process if that takes too long."""
        stop = KeyboardInterrupt(number)
        timer = threading.Timer(grace, leave, [stop])
        timer.daemon = True
        timer.start()
        raise stop

    before = {number: signal.signal(number, interrupted) for number in _STOPS}
    try:
        yield
    except KeyboardInterrupt:
        raised.set()  # the handler of the interrupt reports it
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
