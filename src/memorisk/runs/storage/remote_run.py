"""A run that is kept at a URL while it is made in a private folder of this machine.

At the start what is at the URL is brought over and checked. From then on every file that is finished is uploaded,
so that a run that was cut short at any point is an unfinished run there, with which the same command goes on, also
on another machine. Whoever reads a run wants a whole one (`read_run`).

Files take their names when they are whole, and are uploaded oldest first, so that the URL always holds a run as it
once stood in the folder. Hidden files and folders are not finished and stay here.
"""

import hashlib
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from memorisk.runs.arrays import write_guard
from memorisk.runs.errors import RESUME_HINT, InputError, MemoriskError
from memorisk.runs.files import PARTIAL_NAMES, file_fingerprint, fingerprint, write_text
from memorisk.runs.folder import CONFIG
from memorisk.runs.locks import folder_lock
from memorisk.runs.storage.bookkeeping import CLAIM, INDEX, Claim, RunIndex, files_there, left_unfinished
from memorisk.runs.storage.filesystem import PART, Storage
from memorisk.runs.storage.locations import ORIGIN, TREE, cache_folder, child_url, url_of
from memorisk.runs.storage.mirror import local_source, remove_others

UPLOAD_SECONDS = 5.0
"""Least time between two looks for finished files."""
_LAST = frozenset(("verdict.json", "training.json", "result.sha256", "report.html"))
_IN_MEMORY = 64 << 20
_BATCH_BYTES = 256 << 20  # bytes, and
_BATCH_FILES = 500  # files, that are put between two writings of the index
_FileState = tuple[int, int, int]


class Uploader:
    """A run's folder, its URL, and what of the one is at the other."""

    def __init__(self, storage: Storage, claim: Claim, book: Path, work: Path) -> None:
        self._storage, self._claim, self._book, self._work = storage, claim, book, work
        self._index = RunIndex()
        self._seen: dict[str, _FileState] = {}
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
        remote = RunIndex.read(self._storage)
        version = "" if remote is None else remote.version
        if version in self._own_versions() and self._work.is_dir():
            self._index = remote or RunIndex()
        else:
            self._work.mkdir(mode=0o700, exist_ok=True)
            self._book.unlink(missing_ok=True)
            entries = files_there(self._storage)
            self._index = remote or RunIndex(files={n: (e.size or 0, "") for n, e in entries.items()})
            same = [n for n, state in self._index.files.items() if _content_state(self._work / n) == state]
            remove_others(self._work, set(same))
            self._fetch()
            write_text(self._book, json.dumps([version]))
        for name in self._index.unsure:  # put again, or gone since
            self._index.files.pop(name, None)
        for name, state in self._scan().items():
            if self._index.files.get(name) == _content_state(self._work / name):
                self._seen[name] = state

    def _own_versions(self) -> list[str]:
        """The last two versions of the index that this machine wrote or found; "" where there was none."""
        try:
            return json.loads(self._book.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []

    def _fetch(self) -> None:
        """Bring over what the index names and is not here."""
        index, entries, missing = self._index, files_there(self._storage), {}
        for name in index.files:
            if (self._work / name).is_file():
                continue
            if name in entries:
                (self._work / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                missing[entries[name]] = name
            elif name not in index.unsure:
                raise InputError(f"{child_url(self._storage.url, name)} is gone: restore it, or name another place")
        parts = {entry: self._work / f"{name}{PART}" for entry, name in missing.items()}
        self._storage.fetch_all(parts, lambda entry: self._check(missing[entry], parts[entry]))

    def _check(self, name: str, part: Path) -> None:
        """Give a file that came its name, if it is what the index says; one that was being put may be half there.

        Raises:
            InputError: It is damaged.
        """
        index = self._index
        state = (part.stat().st_size, file_fingerprint(part))
        if index.files[name][1] in ("", state[1]) or state[1] == index.unsure.get(name):
            part.chmod(0o600)
            part.replace(self._work / name)
            index.files[name] = state
            return
        part.unlink()
        if name not in index.unsure:
            raise InputError(
                f"{child_url(self._storage.url, name)} is not what was put there: it was changed or damaged; restore "
                "it, or name another place"
            )

    def _scan(self) -> dict[str, _FileState]:
        """Size, time and number of every finished file."""
        states = {}
        for above, folders, files in os.walk(self._work):
            folders[:] = [f for f in folders if not f.startswith(".")]
            for name in files:
                path = Path(above) / name
                if name.startswith(".") or any(path.match(pattern) for pattern in PARTIAL_NAMES):
                    continue
                if (state := _file_state(path)) is not None:
                    states[path.relative_to(self._work).as_posix()] = state
        return states

    def start(self) -> None:
        """Begin to put what gets finished."""
        self._thread.start()

    def _go_on(self) -> None:
        pause = UPLOAD_SECONDS
        while not self._ended.wait(pause):
            started = time.monotonic()
            try:
                self._push()
            except Exception:  # tried again, and said at the end
                if self._claim.lost is not None:
                    return
            pause = max(UPLOAD_SECONDS, 5 * (time.monotonic() - started))

    def leave(self) -> None:
        """Put what is done once more, where that works; the run is not over."""
        self._end()
        try:
            self._push()
        except Exception:  # the error that ended the run comes first
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
            why = str(error).removesuffix(f"; {RESUME_HINT}")
            raise MemoriskError(f"what is done lies in {self._work}, but {why}; {RESUME_HINT}") from None

    def _end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _push(self, *, whole: bool = False) -> None:
        """Put what changed since the last time, then remove what is gone; last of all say whether that is the run."""
        states = self._scan()
        changed = [name for name, state in states.items() if self._seen.get(name) != state]
        changed.sort(key=lambda name: (name.rpartition("/")[2] in _LAST, states[name][1], name))
        known = self._index
        gone = sorted({*known.files, *known.unsure, *known.gone} - set(states))
        if not changed and not gone and not (whole and not known.whole):
            return
        self._claim.check()
        for batch in _batches(changed, states):
            self._put(batch, states)
        if gone:
            known_files = {n: v for n, v in self._index.files.items() if n in states}
            self._write(RunIndex(known_files, gone=gone))
            for name in gone:
                self._storage.remove(name)
        if self._index.unsure or self._index.gone or (whole and not self._index.whole):
            self._write(RunIndex(self._index.files, whole=whole))

    def _put(self, names: list[str], states: dict[str, _FileState]) -> None:
        """Put some files, the index before them."""
        before, contents = self._index.files, {}
        for name in names:
            content = _Content.of(self._work / name, states[name][0])
            if content is not None and before.get(name) != content.state:
                contents[name] = content
        if contents:
            unsure = {name: before[name][1] if name in before else None for name in contents}
            files = before | {name: content.state for name, content in contents.items()}
            self._write(RunIndex(files, unsure, self._index.gone))
            for name, content in contents.items():
                self._storage.put(name, content.source())
        self._seen |= {name: states[name] for name in names if _file_state(self._work / name) == states[name]}

    def _write(self, index: RunIndex) -> None:
        """Put an index; this machine remembers first that it is its own."""
        index.version = secrets.token_hex(8)
        write_text(self._book, json.dumps([self._index.version, index.version]))
        index.write(self._storage)
        self._index = index


def _batches(names: list[str], states: dict[str, _FileState]) -> Iterator[list[str]]:
    """The names in their order, a few hundred megabytes at a time."""
    batch: list[str] = []
    for name in names:
        if batch and (len(batch) == _BATCH_FILES or sum(states[n][0] for n in batch) + states[name][0] > _BATCH_BYTES):
            yield batch
            batch = []
        batch.append(name)
    if batch:
        yield batch


@dataclass(frozen=True)
class _Content:
    """Content of a file when it was looked at; a large one is read again when it is put."""

    state: tuple[int, str]
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
        """Return the bytes or the path to put."""
        return self.path if self.data is None else self.data


def _content_state(path: Path) -> tuple[int, str] | None:
    """Size and hash of a file as an index has them; None where there is none."""
    return (path.stat().st_size, file_fingerprint(path)) if path.is_file() else None


def _file_state(path: Path) -> _FileState | None:
    """Size, time and number of a regular file."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino) if stat.S_ISREG(status.st_mode) else None


RUNS, UPLOAD_RECORD = "runs", "pushed.json"


@contextmanager
def kept_run(out: str | Path, store: Path | None = None) -> Iterator[Path]:
    """The folder of this machine in which to make a run that is kept at a URL; a path is itself.

    Args:
        out: What the user named as the run folder.
        store: The cache folder (`memorisk.runs.storage.locations.cache_folder`), where the run lies while it is made
            and after.

    Yields:
        The folder. What is finished in it goes to the URL while the caller works, the rest when it is left.

    Raises:
        InputError: Another process works at the URL, it holds something else, or it cannot be written to.
        MemoriskError: The storage does not answer; what is done stays in the folder here.

    Example:
        >>> with memorisk.kept_run("s3://bucket/runs/skin") as out:  # doctest: +SKIP
        ...     memorisk.audit_classifier("s3://bucket/skin", out=out)
    """
    url = url_of(out, refuse_unknown=True)
    if url is None:
        yield Path(out)
        return
    storage = Storage(url)
    if not storage.writable:
        raise InputError(f"--out {url}: {storage.protocol}:// can only be read; name a place that can be written to")
    folder = run_folder(url, store)
    with ExitStack() as held:
        try:
            held.enter_context(folder_lock(folder))
        except InputError as error:
            raise InputError(str(error).replace(str(folder), url)) from None
        yield held.enter_context(_uploaded(storage, folder))


def run_folder(url: str, store: Path | None) -> Path:
    """The private folder for what is kept at a URL, made on first use."""
    folder = cache_folder(store) / RUNS / fingerprint(url)
    with write_guard(folder.parent, f"the run at {url}"):
        for place in (folder.parent, folder, folder / TREE):
            place.mkdir(mode=0o700, exist_ok=True)
        write_text(folder / ORIGIN, f"{url}\n")
    return folder


@contextmanager
def _uploaded(storage: Storage, folder: Path) -> Iterator[Path]:
    work = folder / TREE / (Path(storage.url).name or "run")
    _refuse_other(storage)
    claim = Claim(storage.url)
    claim.take()
    try:
        pusher = Uploader(storage, claim, folder / UPLOAD_RECORD, work)
        pusher.bring_over()
        pusher.start()
        try:
            yield work
        except BaseException:
            pusher.leave()
            raise
        pusher.finish()
    finally:
        claim.release()


def _refuse_other(storage: Storage) -> None:
    """Refuse a place that holds anything but a run, before anything is written or brought over.

    Raises:
        InputError: It does, or it is a file.
    """
    if storage.kind() == "file":
        raise InputError(f"--out {storage.url} is a file: name a folder that is new, empty or a run to go on with")
    if storage.read(INDEX) is None and (names := files_there(storage)) and CONFIG not in names:
        raise InputError(f"--out {storage.url} holds files that are no run of memorisk: name a new or empty folder")


def read_run(source: str | Path, store: Path | None = None) -> Path:
    """The folder of this machine with a finished run; of a URL a copy, checked by the index that is there.

    Raises:
        InputError: The run at the URL is not whole, or a file of it is damaged.
        MemoriskError: The storage does not answer, or the disk is full.
    """
    url = url_of(source)
    if url is None:
        return Path(source)
    index = _whole(url)
    folder = local_source(url, store)
    for name, expected in ({} if index is None else index.files).items():
        if _content_state(folder / name) != expected:
            raise InputError(f"{child_url(url, name)} is not what was put there: it was changed or damaged")
    return folder


def refuse_unfinished(url: str) -> None:
    """Refuse what a command is to look at, and write beside, while it is being made, or after it was cut short.

    Raises:
        InputError: It is no whole run.
        MemoriskError: The storage does not answer.
    """
    _whole(url)


def _whole(url: str) -> RunIndex | None:
    """Describe the run at a URL; None if something else is there.

    Raises:
        InputError: It is unfinished.
    """
    storage = Storage(url)
    index = RunIndex.read(storage) if storage.kind() == "folder" else None
    begun = index is None and storage.kind() == "folder" and storage.read(CLAIM) is not None
    if begun or (index is not None and not index.whole):
        raise InputError(
            f"{url} holds no finished run (it is being made, or was cut short): issue the run's command again"
        )
    return index


def copy_for_viewing(url: str, store: Path | None = None) -> Path:
    """The folder of this machine with what is at a URL, to look at; one that does not exist where nothing is there.

    Raises:
        InputError: The URL cannot be read.
        MemoriskError: The storage does not answer, or the disk is full.
    """
    if Storage(url).kind() == "folder" and files_there(Storage(url)):
        return local_source(url, store)
    return run_folder(url, store) / TREE / (Path(url).name or "run")
