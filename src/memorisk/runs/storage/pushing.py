"""Puts the finished files of a run's folder to its URL while the run is made, oldest first.

Files take their names when they are whole, and what is put first was finished first, so that the URL always holds a
run as it once stood in the folder. Hidden files and folders are not finished and stay here.
"""

import hashlib
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memorisk.runs.errors import GOES_ON, InputError, MemoriskError
from memorisk.runs.files import UNFINISHED, write_text
from memorisk.runs.fingerprint import file_fingerprint
from memorisk.runs.storage.claim import Claim
from memorisk.runs.storage.index import RunIndex, files_there, left_unfinished
from memorisk.runs.storage.storage import PART, Storage
from memorisk.runs.storage.urls import below

PUSH_SECONDS = 5.0
"""Least time between two looks for finished files."""
_LAST = frozenset(("verdict.json", "training.json", "result.sha256", "report.html"))
_IN_MEMORY = 64 << 20
_AT_ONCE = 256 << 20  # bytes, and
_FILES_AT_ONCE = 500  # files, that are put between two writings of the index
_Told = tuple[int, int, int]


class Pusher:
    """A run's folder, its URL, and what of the one is at the other."""

    def __init__(self, storage: Storage, claim: Claim, book: Path, work: Path) -> None:
        self._storage, self._claim, self._book, self._work = storage, claim, book, work
        self._index = RunIndex()
        self._seen: dict[str, _Told] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="memorisk-push", daemon=True)

    def bring_over(self) -> None:
        """Make the folder what the URL holds, or leave it where this machine was the last to put something there.

        Raises:
            InputError: A file there is damaged.
            MemoriskError: The storage does not answer, or the disk is full.
        """
        for name in left_unfinished(self._storage):
            self._storage.remove(name)
        there = RunIndex.read(self._storage)
        version = "" if there is None else there.version
        if version in self._own_versions() and self._work.is_dir():
            self._index = there or RunIndex()
        else:
            self._work.mkdir(mode=0o700, exist_ok=True)
            self._book.unlink(missing_ok=True)
            entries = files_there(self._storage)
            self._index = there or RunIndex(files={n: (e.size or 0, "") for n, e in entries.items()})
            self._remove_others()
            self._fetch()
            write_text(self._book, json.dumps([version]))
        for name in self._index.unsure:  # put again, or gone since
            self._index.files.pop(name, None)
        for name, told in self._scan().items():
            if self._index.files.get(name) == (told[0], file_fingerprint(self._work / name)):
                self._seen[name] = told

    def _own_versions(self) -> list[str]:
        """The last two versions of the index that this machine wrote or found; "" where there was none."""
        try:
            return json.loads(self._book.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []

    def _remove_others(self) -> None:
        """Remove what the URL does not hold, or holds otherwise."""
        files = self._index.files
        for path in sorted(self._work.rglob("*"), reverse=True):
            name = path.relative_to(self._work).as_posix()
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif name not in files or files[name] != (path.stat().st_size, file_fingerprint(path)):
                path.unlink()

    def _fetch(self) -> None:
        """Bring over what the index names and is not here."""
        index, entries, wanted = self._index, files_there(self._storage), {}
        for name in index.files:
            if (self._work / name).is_file():
                continue
            if name in entries:
                (self._work / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                wanted[entries[name]] = name
            elif name not in index.unsure:
                raise InputError(f"{below(self._storage.url, name)} is gone: restore it, or name another place")
        parts = {entry: self._work / f"{name}{PART}" for entry, name in wanted.items()}
        try:
            self._storage.fetch_all(parts, lambda entry: self._check(wanted[entry], parts[entry]))
        except FileNotFoundError:
            raise MemoriskError(f"{self._storage.url}: a file went away while it was read; {GOES_ON}") from None

    def _check(self, name: str, part: Path) -> None:
        """Give a file that came its name, if it is what the index says; one that was being put may be half there.

        Raises:
            InputError: It is damaged.
        """
        index = self._index
        found = (part.stat().st_size, file_fingerprint(part))
        if index.files[name][1] in ("", found[1]) or found[1] == index.unsure.get(name):
            part.chmod(0o600)
            part.replace(self._work / name)
            index.files[name] = found
            return
        part.unlink()
        if name not in index.unsure:
            raise InputError(
                f"{below(self._storage.url, name)} is not what was put there: it was changed or damaged; restore it, "
                "or name another place"
            )

    def _scan(self) -> dict[str, _Told]:
        """Size, time and number of every finished file."""
        found = {}
        for above, folders, files in os.walk(self._work):
            folders[:] = [f for f in folders if not f.startswith(".")]
            for name in files:
                path = Path(above) / name
                if name.startswith(".") or any(path.match(pattern) for pattern in UNFINISHED):
                    continue
                if (told := _told(path)) is not None:
                    found[path.relative_to(self._work).as_posix()] = told
        return found

    def start(self) -> None:
        """Begin to put what gets finished."""
        self._thread.start()

    def _go_on(self) -> None:
        pause = PUSH_SECONDS
        while not self._ended.wait(pause):
            started = time.monotonic()
            try:
                self._push()
            except Exception:  # tried again, and said at the end
                if self._claim.lost is not None:
                    return
            pause = max(PUSH_SECONDS, 5 * (time.monotonic() - started))

    def leave(self) -> None:
        """Put what is done once more, where that works; the run is not over."""
        self._end()
        try:
            self._push()
        except Exception:  # whatever ended the run is to be told
            return

    def finish(self) -> None:
        """Put everything, and say that it is whole.

        Raises:
            MemoriskError: It cannot be put; it stays here.
        """
        self._end()
        try:
            self._push(whole=True)
        except (MemoriskError, OSError) as error:
            why = str(error).removesuffix(f"; {GOES_ON}")
            raise MemoriskError(f"what is done lies in {self._work}, but {why}; {GOES_ON}") from None

    def _end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _push(self, *, whole: bool = False) -> None:
        """Put what changed since the last time, then remove what is gone; last of all say whether that is the run."""
        found = self._scan()
        changed = [name for name, told in found.items() if self._seen.get(name) != told]
        changed.sort(key=lambda name: (name.rpartition("/")[2] in _LAST, found[name][1], name))
        known = self._index
        gone = sorted({*known.files, *known.unsure, *known.gone} - set(found))
        if not changed and not gone and not (whole and not known.whole):
            return
        self._claim.check()
        for batch in _batches(changed, found):
            self._put(batch, found)
        if gone:
            kept = {n: v for n, v in self._index.files.items() if n in found}
            self._write(RunIndex(kept, gone=gone))
            for name in gone:
                self._storage.remove(name)
        if self._index.unsure or self._index.gone or (whole and not self._index.whole):
            self._write(RunIndex(self._index.files, whole=whole))

    def _put(self, names: list[str], found: dict[str, _Told]) -> None:
        """Put some files, the index before them."""
        before, contents = self._index.files, {}
        for name in names:
            content = _Content.of(self._work / name, found[name][0])
            if content is not None and before.get(name) != content.told:
                contents[name] = content
        if contents:
            unsure = {name: before[name][1] if name in before else None for name in contents}
            files = before | {name: content.told for name, content in contents.items()}
            self._write(RunIndex(files, unsure, self._index.gone))
            for name, content in contents.items():
                self._storage.put(name, content.source())
        self._seen |= {name: found[name] for name in names if _told(self._work / name) == found[name]}

    def _write(self, index: RunIndex) -> None:
        """Put an index; this machine remembers first that it is its own."""
        index.version = secrets.token_hex(8)
        write_text(self._book, json.dumps([self._index.version, index.version]))
        index.write(self._storage)
        self._index = index


def _batches(names: list[str], found: dict[str, _Told]) -> Iterator[list[str]]:
    """The names in their order, a few hundred megabytes at a time."""
    batch: list[str] = []
    for name in names:
        if batch and (len(batch) == _FILES_AT_ONCE or sum(found[n][0] for n in batch) + found[name][0] > _AT_ONCE):
            yield batch
            batch = []
        batch.append(name)
    if batch:
        yield batch


@dataclass(frozen=True)
class _Content:
    """What a file held when it was looked at; a large one is read again when it is put."""

    told: tuple[int, str]
    data: bytes | None
    path: Path

    @staticmethod
    def of(path: Path, size: int) -> "_Content | None":
        """The first ``size`` bytes: a file that is appended to is taken as it was; None where it is gone."""
        try:
            if size > _IN_MEMORY:
                return _Content((size, file_fingerprint(path)), None, path)
            with path.open("rb") as file:
                data = file.read(size)
        except FileNotFoundError:
            return None
        return _Content((len(data), hashlib.blake2b(data, digest_size=32).hexdigest()[:32]), data, path)

    def source(self) -> Path | bytes:
        """What to put."""
        return self.path if self.data is None else self.data


def _told(path: Path) -> _Told | None:
    """Size, time and number of a regular file."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino) if stat.S_ISREG(status.st_mode) else None
