"""One process per folder, by `filelock`: the kernel's lock, or a marker file where the file system has no locks.

The kernel releases the lock when the process ends, however it ends. A lock file that was left behind (by ``kill
-9``, a power cut, another machine) is never in the way: it only names the holder, which `filelock` does not do.

Where a file system has no such locks (Lustre without ``-o flock``, some network shares), a file ``NAME.held`` that
only one process can make holds the folder. It outlives a process that is killed; `filelock` takes it over if its
process ran on this machine and is known to be gone (by number, time of start and boot). The state of another machine
is unknown: the folder is refused, and the message names the file to remove.
"""

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorisk.runs.errors import InputError, one_line

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
ANSWERS_LOCK = ".answers.lock"
"""Name of the lock on a person's answers on a run: viewers write into its folder one after the other."""
PAUSE = 0.5
"""Seconds between two attempts of a process that waits for as long as ``enough`` allows."""
_NO_LOCKS = frozenset((errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL))
_PATIENCE = 0.2  # seconds: another command may check, for a moment, whether the folder is free


def this_process() -> dict[str, Any]:
    """Describe this process in a lock file: its number, its machine, its start."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


@contextmanager
def folder_lock(
    folder: Path, *, name: str = LOCK, wait: bool = False, enough: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Hold the folder for this process.

    Args:
        folder: Path of an existing folder.
        name: Name of the lock file in it.
        wait: Whether to wait for another holder to finish instead of refusing.
        enough: Function called now and then while the process waits; once it returns True, the folder is refused.

    Raises:
        InputError: Another process holds the folder; it is named.
    """
    lock = _acquire(folder, name, wait, enough)
    try:
        (folder / name).write_text(json.dumps(this_process()), encoding="utf-8")
        yield
    finally:
        lock.release()


def refuse_held(folder: Path) -> None:
    """Refuse a run folder that another process holds, before any work; the check writes nothing.

    Raises:
        InputError: Another process holds the folder; the message names it.
    """
    if not (folder / LOCK).exists():  # no process ever held it
        return
    try:
        _acquire(folder, LOCK).release()
    except OSError:  # this user may not open the lock
        return


def _acquire(folder: Path, name: str, wait: bool = False, enough: Callable[[], bool] | None = None) -> "BaseFileLock":
    """Acquire the lock.

    Raises:
        InputError: Another process holds it.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    marker = folder / f"{name}.held"
    timeout, pause = -1 if wait else _PATIENCE, PAUSE if enough else _PATIENCE / 4
    lock: BaseFileLock = FileLock(folder / name, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        try:
            lock.acquire(timeout, pause, cancel_check=enough)
        except Timeout:
            raise
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            lock = SoftFileLock(marker, mode=0o600, thread_local=False)
            lock.acquire(timeout, pause, cancel_check=enough)
    except Timeout:
        raise _in_use(folder, folder / name, marker if isinstance(lock, SoftFileLock) else None) from None
    return lock


def _in_use(folder: Path, file: Path, marker: Path | None) -> InputError:
    """Return the refusal, with the holder that a lock file names, even if the file is damaged."""
    try:
        with file.open("rb") as stream:
            held: Any = json.loads(stream.read(4096))
    except (OSError, ValueError, RecursionError):
        held = None
    has_holder = isinstance(held, dict) and {"pid", "host", "since"} <= set(held)
    holder = "another process"
    if has_holder:
        pid, host, since = (one_line(held[key], 80) for key in ("pid", "host", "since"))
        holder = f"process {pid} on {host} since {since}"
    far = marker is not None and not (has_holder and held["host"] == socket.gethostname())
    cure = f", or remove {one_line(marker)} if that process is no more" if far else ""
    return InputError(f"{one_line(folder)} is in use by {holder}: wait for it, or choose another folder{cure}")
