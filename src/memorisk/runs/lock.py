"""One process a folder: an advisory lock that dies with its process.

The kernel releases the lock when the process ends, however it ends, so a stale lock file is never in the way.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from memorisk.runs.errors import InputError


@contextmanager
def folder_lock(folder: Path, *, name: str = ".lock", wait: bool = False) -> Iterator[None]:
    """Hold the folder for this process.

    Args:
        folder: An existing folder.
        name: The lock file's name in it.
        wait: Wait for another holder to finish instead of refusing.

    Raises:
        InputError: Another process holds the folder; it is named.
    """
    path = folder / name
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise InputError(
                f"{folder} is in use by {_holder(handle)}: wait for it, or choose another folder"
            ) from None
        os.ftruncate(handle, 0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode(), 0)
        yield
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    try:
        held = json.loads(os.pread(handle, 4096, 0))
        return f"process {held['pid']} on {held['host']} since {held['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
