"""One process a folder: an advisory lock that dies with its process.

The kernel releases the lock when the process ends, however it ends, so a lock file that was left behind (by ``kill
-9``, a power cut, another machine) is never in the way: what the file says only names the holder. Where a file system
has no such locks (Lustre without ``-o flock``, some network shares), `marker_lock` holds the folder by a file
instead.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.storage.marker_lock import PAUSE, marker_lock, refuse_marked, this_process, who

LOCK = ".lock"
_NO_LOCKS = frozenset((errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL))
_TRIES, _PAUSE = 4, 0.05  # another command may look, for a moment, whether the folder is free


@contextmanager
def folder_lock(
    folder: Path, *, name: str = LOCK, wait: bool = False, enough: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Hold the folder for this process.

    Args:
        folder: An existing folder.
        name: The lock file's name in it.
        wait: Wait for another holder to finish instead of refusing.
        enough: Asked now and then while one waits; whoever has waited long enough is refused.

    Raises:
        InputError: Another process holds the folder; it is named.
    """
    handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _taken(handle, folder, wait, enough):
            with marker_lock(folder, name=name, wait=wait, enough=enough):
                yield
            return
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(this_process()).encode(), 0)
        yield
    finally:
        os.close(handle)


def refuse_held(folder: Path) -> None:
    """Refuse a run folder that another process holds, before any work; nothing is written.

    Raises:
        InputError: It is held; the holder is named.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:  # nobody ever held it, or it is not for us to look
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(folder, handle) from None
    except OSError:
        refuse_marked(folder, LOCK)
    finally:
        os.close(handle)


def _taken(handle: int, folder: Path, wait: bool, enough: Callable[[], bool] | None) -> bool:
    """Whether the kernel holds the file for us; False where the file system has no locks.

    Raises:
        InputError: Another process holds it.
    """
    left = _TRIES
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait and enough is None else fcntl.LOCK_NB))
            return True
        except BlockingIOError:
            left -= 1
            if enough() if wait and enough is not None else not left:
                raise _in_use(folder, handle) from None
            time.sleep(PAUSE if wait else _PAUSE)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise


def _in_use(folder: Path, handle: int) -> InputError:
    return InputError(f"{one_line(folder)} is in use by {_holder(handle)}: wait for it, or choose another folder")


def _holder(handle: int) -> str:
    """Who holds a lock file, as far as it says."""
    try:
        held: Any = json.loads(os.pread(handle, 4096, 0))
    except (OSError, ValueError, RecursionError):
        held = None
    return who(held)
