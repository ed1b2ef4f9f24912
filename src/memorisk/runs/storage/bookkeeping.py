"""The two objects that memorisk itself keeps at the URL of a run: the claim of a process, and the index of files.

The claim names who works at a URL; it is a small object, renewed while its process lives. Storages know no lock
that dies with its process, and the clocks of two machines need not agree. So a claim of the same machine is judged
by whether its process lives; one of another machine that is recent by its clock is respected; one that is old is
watched, and taken over only where it is not renewed meanwhile. Whoever writes a claim reads it again after a
moment, so that of two that wrote at once one holds it; whoever lost it uploads nothing more.

The index is written before the files are. It names each file's size and hash and, of those that are being uploaded,
what they were, so that after a cut a file is known to be the old one, the new one, or damaged. Only the last index
of a run says that it is whole.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorisk.runs.errors import CONTENT_ERRORS, InputError, MemoriskError, one_line
from memorisk.runs.storage.filesystem import PART, Entry, Storage
from memorisk.runs.storage.locations import child_url, refuse_names

CLAIM = ".memorisk-claim.json"
BEAT_SECONDS = 20.0
STALE_SECONDS = 300.0
"""Age of a claim of another machine from which it is watched instead of respected."""
WATCH_SECONDS = 2.2 * BEAT_SECONDS
_SETTLE_SECONDS = 0.3
_HELD: set[str] = set()  # tokens of the claims that this process holds, so that it knows those that it left behind


class Claim:
    """This process's claim on a URL.

    Attributes:
        lost: Whoever took it over, as messages name it; None while it is held.
    """

    def __init__(self, url: str) -> None:
        self._storage = Storage(url)  # of its own: a long push must not keep it from being renewed
        self._token = secrets.token_hex(8)
        self._since = _now()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="memorisk-claim", daemon=True)
        self.lost: str | None = None

    def take(self) -> None:
        """Hold the URL, or refuse.

        Raises:
            InputError: Another process works there; it is named, and when it is thought to be gone.
            MemoriskError: The storage does not answer.
        """
        claim = self._read()
        if claim is not None:
            self._judge(claim)
        started = time.monotonic()
        self._write()
        time.sleep(max(_SETTLE_SECONDS, 3 * (time.monotonic() - started)))
        claim = self._read()
        if claim is None or claim.get("token") != self._token:
            raise InputError(f"{self._storage.url} is in use by {describe_claim(claim or {})}: wait for it")
        _HELD.add(self._token)
        self._thread.start()

    def check(self) -> None:
        """Make sure, before something is written, that the URL is still held.

        Raises:
            MemoriskError: Another process took it over.
        """
        claim = self._read()
        if claim is not None and claim.get("token") != self._token:
            self.lost = describe_claim(claim)
        if self.lost is not None:
            raise MemoriskError(f"{self._storage.url} was taken over by {self.lost} while this process was silent")

    def release(self) -> None:
        """Give the URL back."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        _HELD.discard(self._token)
        try:
            claim = self._read()
            if claim is not None and claim.get("token") == self._token:
                self._storage.remove(CLAIM)
        except MemoriskError:  # it is found to be stale then
            return

    def _renew(self) -> None:
        """Say every few seconds that this process lives, until it ends or another holds the URL."""
        while not self._ended.wait(BEAT_SECONDS):
            try:
                self.check()
                if not self._ended.is_set():
                    self._write()
            except MemoriskError:
                if self.lost is not None:
                    return

    def _judge(self, claim: Mapping[str, Any]) -> None:
        """Go on where a claim is stale.

        Raises:
            InputError: It is not.
        """
        url = self._storage.url
        if claim.get("machine") == _machine() and isinstance(claim.get("pid"), int):
            left_behind = claim["pid"] == os.getpid() and claim.get("token") not in _HELD
            if _started(claim["pid"]) == claim.get("started") and not left_behind:
                raise InputError(f"{url} is in use by {describe_claim(claim)}: wait for it, or name another place")
            return
        silent = _seconds_since(claim.get("beat"))
        if silent is not None and abs(silent) < STALE_SECONDS:
            raise InputError(
                f"{url} is in use by {describe_claim(claim)}, which was there {abs(silent):.0f} seconds ago: wait for "
                "it; if "
                f"that machine is gone, the same command goes on in {(STALE_SECONDS - silent) / 60:.0f} minutes"
            )
        sys.stderr.write(
            f"{url} is held by {describe_claim(claim)}, silent since {one_line(claim.get('beat'), 40)}: "
            f"watching it for {WATCH_SECONDS:.0f} seconds before taking it over\n"
        )
        time.sleep(WATCH_SECONDS)
        again = self._read()
        if again is not None and again != claim:
            raise InputError(
                f"{url} is in use by {describe_claim(again)}, whose clock differs from this one's: wait for it"
            )

    def _read(self) -> dict[str, Any] | None:
        data = self._storage.read(CLAIM)
        try:
            claim = None if data is None else json.loads(data)
        except (ValueError, RecursionError):
            return {}
        return claim if claim is None or isinstance(claim, dict) else {}

    def _write(self) -> None:
        claim = {"token": self._token, "host": socket.gethostname(), "pid": os.getpid(), "since": self._since}
        claim |= {"machine": _machine(), "started": _started(os.getpid()), "beat": _now()}
        self._storage.put(CLAIM, json.dumps(claim).encode())


def describe_claim(claim: Mapping[str, Any]) -> str:
    """Describe a claim in words."""
    if not {"pid", "host", "since"} <= set(claim):
        return "another process"
    return f"process {one_line(claim['pid'], 12)} on {one_line(claim['host'], 60)} since {one_line(claim['since'], 40)}"


def _machine() -> str:
    """Identify this start of the machine, and the container if it is in one; the host's name if neither is known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str | None:
    """Return when a process of this machine started, to tell it from another with its number; None if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "running"
    return "running"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _seconds_since(when: object) -> float | None:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(str(when))).total_seconds()
    except (ValueError, TypeError):
        return None


INDEX = ".memorisk-files.json"


@dataclass
class RunIndex:
    """Index of the files at a URL.

    Attributes:
        files: Size and hash of each file.
        unsure: Files that are being put, with the hash that they had, or None where they were not there.
        gone: Files that are being removed.
        whole: Whether the run is finished and all of it is there.
        version: Changes with every writing.
    """

    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    unsure: dict[str, str | None] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    whole: bool = False
    version: str = ""

    @staticmethod
    def read(storage: Storage) -> "RunIndex | None":
        """The index at a URL, if there is one.

        Raises:
            InputError: It is damaged.
        """
        data = storage.read(INDEX)
        if data is None:
            return None
        try:
            document = json.loads(data)
            files = {str(n): (int(s), str(h)) for n, (s, h) in document["files"].items()}
            unsure = {str(n): h for n, h in document["unsure"].items()}
            index = RunIndex(
                files, unsure, [str(n) for n in document["gone"]], bool(document["whole"]), str(document["version"])
            )
        except CONTENT_ERRORS:
            raise InputError(f"{child_url(storage.url, INDEX)} is damaged: restore it, or name another place") from None
        refuse_names({**index.files, **index.unsure, **dict.fromkeys(index.gone)}, storage.url)
        return index

    def write(self, storage: Storage) -> None:
        """Put the index at a URL."""
        storage.put(INDEX, json.dumps(vars(self), ensure_ascii=True).encode())


def files_there(storage: Storage) -> dict[str, Entry]:
    """List the files at a URL, without memorisk's own records and the leftovers of a killed push."""
    entries = _entries(storage)
    return {n: e for n, e in entries.items() if n not in (CLAIM, INDEX) and not _is_unfinished(n)}


def left_unfinished(storage: Storage) -> list[str]:
    """List the files without a final name that a killed push left at a URL."""
    return [name for name in _entries(storage) if _is_unfinished(name)]


def _entries(storage: Storage) -> dict[str, Entry]:
    try:
        return storage.entries()
    except FileNotFoundError:
        return {}


def _is_unfinished(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(PART)
