"""One process a folder: an advisory lock that dies with its process, or a marker file where there are no locks.

The kernel releases the lock when the process ends, however it ends. A lock file that was left behind (by ``kill
-9``, a power cut, another machine) is never in the way: what the file says only names the holder.

Where a file system has no such locks (Lustre without ``-o flock``, some network shares), `marker_lock` holds the
folder by a file that only one process can make, and that names it. Such a file outlives a process that is killed,
so that whoever meets it must judge. A holder of this machine is looked up by number, time of start and boot, so
that another process of the same number is not taken for it. Of another machine nothing can be known: the folder is
refused, and the message says what to remove.
"""

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorisk.runs.errors import InputError, one_line

PAUSE = 0.5
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> dict[str, Any]:
    """What a lock says of its holder: number, machine, since when, and what tells it from others of its number."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    own = {"boot": _boot(), "started": _started(os.getpid())}
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since, **own}


def describe_holder(held: Any) -> str:
    """A holder in words; whatever a damaged file may say."""
    if isinstance(held, dict) and {"pid", "host", "since"} <= set(held):
        pid, host, since = (one_line(held[key], 80) for key in ("pid", "host", "since"))
        return f"process {pid} on {host} since {since}"
    return "another process"


@contextmanager
def marker_lock(
    folder: Path, *, name: str, wait: bool = False, enough: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Hold a folder by a file ``name.held`` in it.

    Args:
        folder: An existing folder.
        name: Of the lock.
        wait: Wait for another holder instead of refusing.
        enough: Asked now and then while one waits: whether it was long enough.

    Raises:
        InputError: Another process holds the folder, or one of another machine may.
    """
    marker = folder / f"{name}.held"
    own = json.dumps(this_process()).encode()
    while True:
        try:
            handle = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            if _remove_stale(marker):
                continue
            if not wait or (enough is not None and enough()):
                refuse_marked(folder, name)
            time.sleep(PAUSE)
    try:
        os.write(handle, own)
    finally:
        os.close(handle)
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)


def refuse_marked(folder: Path, name: str) -> None:
    """Refuse a folder whose marker is another's; one that was left behind is no reason.

    Raises:
        InputError: It is held, or may be by another machine.
    """
    marker = folder / f"{name}.held"
    held = _read(marker)
    if held is None or not _may_run(held):
        return
    far = isinstance(held, dict) and held.get("host") != socket.gethostname()
    cure = f", or remove {one_line(marker)} if that process is no more" if far or not isinstance(held, dict) else ""
    raise InputError(
        f"{one_line(folder)} is in use by {describe_holder(held)}: wait for it, or choose another folder{cure}"
    )


def _read(marker: Path) -> Any:
    """What a marker says; None where there is none, text where it is damaged."""
    try:
        data = marker.read_bytes()
    except OSError:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return "damaged"


def _remove_stale(marker: Path) -> bool:
    """Take away a marker that was left behind; it is moved first, so that of two who judge it one removes it."""
    judged = _read(marker)
    if judged is None:
        return True
    if _may_run(judged):
        return False
    aside = marker.with_name(f"{marker.name}.{os.getpid()}")
    try:
        marker.rename(aside)
    except FileNotFoundError:
        return True
    if _read(aside) != judged:  # another was quicker, and this is its own
        os.link(aside, marker)
    aside.unlink()
    return True


def _may_run(held: Any) -> bool:
    """Whether a holder may still run: yes, unless it is of this machine and is known to be gone."""
    if not isinstance(held, dict) or held.get("host") != socket.gethostname():
        return True
    if held.get("boot") != _boot():
        return False
    started = _started(held.get("pid"))
    return started is not None and started == held.get("started")


def _boot() -> str:
    """Which start of this machine it is; "" where the system does not say."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _started(pid: Any) -> str | None:
    """When a process started, in the system's ticks; "" where it does not say, None where there is no such process."""
    if not isinstance(pid, int) or isinstance(pid, bool) or pid < 1:
        return None
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "" if not Path("/proc/self/stat").exists() else None


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
        if not _acquire(handle, folder, wait, enough):
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


def _acquire(handle: int, folder: Path, wait: bool, enough: Callable[[], bool] | None) -> bool:
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
    return describe_holder(held)
