"""Local copy of what a URL names, brought up to date at each call.

Below the cache folder, ``mirrors/KEY/`` holds the copy (``tree/NAME``, where NAME is the last part of the URL) and a
record of each file at the storage (size, and checksum or time where the storage reports one). A file whose entry at
the storage changed is fetched again, and a file that the storage no longer has is removed. An interrupted copy
continues file by file. Hidden files (``.name``) are not copied.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from memorisk.runs.arrays import write_guard
from memorisk.runs.errors import RESUME_HINT, InputError, MemoriskError, one_line
from memorisk.runs.files import fingerprint, fsync_folder, write_text
from memorisk.runs.locks import folder_lock
from memorisk.runs.storage.filesystem import PART, Entry, Storage
from memorisk.runs.storage.locations import ORIGIN, TREE, cache_folder, url_of

MIRRORS, MIRROR_RECORD = "mirrors", "book.jsonl"
TABLES = frozenset((".csv", ".tsv", ".txt", ".parquet", ".pq"))


def local_source(source: str | Path, store: Path | None = None, *, whole_folder: bool = False) -> Path:
    """Return a local file or folder with the content of a source.

    Args:
        source: A path, returned as it is, or a URL, whose copy is made or brought up to date.
        store: The cache folder (`cache_folder`).
        whole_folder: Whether to copy, for the URL of a file, all files of its folder, such as the images of a table.

    Raises:
        InputError: The URL names nothing or holds a password, or a file name leads out of the copy.
        MemoriskError: The storage does not answer, or the disk is full; files that were fetched stay.
    """
    url = url_of(source)
    if url is None:
        return Path(source)
    storage = Storage(url)
    kind = storage.kind()
    if kind is None:
        raise InputError(f"{url}: there is nothing of that name")
    name = Path(url).name
    if kind == "file" and whole_folder:
        above = url.rpartition("/")[0]
        return local_source(f"{above}/" if above.endswith(":/") else above, store) / name
    folder = cache_folder(store) / MIRRORS / fingerprint(url)
    with ExitStack() as held:
        with write_guard(folder.parent, f"a copy of {url}"):
            for place in (folder.parent, folder, folder / TREE):
                place.mkdir(mode=0o700, exist_ok=True)
            held.enter_context(folder_lock(folder, wait=True))
            write_text(folder / ORIGIN, f"{url}\n")
        target = folder / TREE / (name or "images")
        entries = {n: e for n, e in _entries(storage).items() if not _is_hidden(n)}
        if kind == "folder":
            target.mkdir(mode=0o700, exist_ok=True)
            if not entries:
                raise InputError(f"{url} holds no files")
            _update(storage, entries, target, folder / MIRROR_RECORD)
        else:
            _update(storage, {target.name: next(iter(entries.values()))}, target.parent, folder / MIRROR_RECORD)
    return target


def _entries(storage: Storage) -> dict[str, Entry]:
    try:
        return storage.entries()
    except FileNotFoundError:
        raise InputError(f"{storage.url}: there is nothing of that name") from None


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def name_url_in_error(error: MemoriskError, local: Path, source: str | Path) -> MemoriskError:
    """Return an error about a copy with the URL that the user gave in its place."""
    return type(error)(str(error).replace(str(local), url_of(source) or str(source)))


def _update(storage: Storage, entries: Mapping[str, Entry], target: Path, book: Path) -> None:
    """Make a folder hold exactly these files of a storage.

    Args:
        storage: Storage that holds the files.
        entries: Entries by relative name.
        target: Folder of the copy; other files in it are removed.
        book: File with the recorded state of each file.

    Raises:
        MemoriskError: The storage does not answer, or the disk is full; files that were fetched stay.
    """
    states = _read_record(book)
    current = [n for n in entries if states.get(n) == _recorded_state(entries[n], target / n)]
    _remove_others(target, set(entries))
    _write_record(book, {n: states[n] for n in current})
    needed = {n: e for n, e in entries.items() if n not in current}
    if not needed:
        return
    _refuse_too_much(storage, needed, target)
    for name in needed:
        (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {entry: name for name, entry in needed.items()}
    parts = {entry: _part(target / name) for entry, name in names.items()}
    with book.open("a", encoding="utf-8") as lines:

        def done(entry: Entry) -> None:
            """Give a complete file its name, and record it."""
            name = names[entry]
            parts[entry].chmod(0o600)
            parts[entry].replace(target / name)
            lines.write(json.dumps([name, *_recorded_state(entry, target / name)]) + "\n")
            lines.flush()

        try:
            storage.fetch_all(parts, done)
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)
    fsync_folder(target)


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name[:60]}.{fingerprint(path.name)}{PART}")


def _recorded_state(entry: Entry, path: Path) -> list[object]:
    """Return the state of a file at the storage and of its copy, so that a change of either is noticed."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return []
    return [entry.size, entry.stamp, status.st_size, status.st_mtime_ns]


def _read_record(book: Path) -> dict[str, list[object]]:
    states: dict[str, list[object]] = {}
    try:
        for line in book.read_text(encoding="utf-8").splitlines():
            try:
                name, *state = json.loads(line)
                states[name] = state
            except (ValueError, TypeError):  # a line that a kill cut short
                continue
    except (OSError, UnicodeDecodeError):
        return {}
    return states


def _write_record(book: Path, states: Mapping[str, list[object]]) -> None:
    write_text(book, "".join(json.dumps([name, *state]) + "\n" for name, state in states.items()))


def _remove_others(target: Path, names: set[str]) -> None:
    """Remove files of other names from a folder, and empty folders."""
    for above, folders, files in os.walk(target, topdown=False):
        for name in files:
            path = Path(above) / name
            if path.relative_to(target).as_posix() not in names:
                path.unlink()
        for name in folders:
            path = Path(above) / name
            if path.is_symlink():
                path.unlink()
            elif path.relative_to(target).as_posix() in names:  # a folder there was, a file there is
                shutil.rmtree(path)
            elif not any(path.iterdir()):
                path.rmdir()


def _refuse_too_much(storage: Storage, needed: Mapping[str, Entry], target: Path) -> None:
    """Announce the transfer, and refuse one that does not fit on the disk.

    Raises:
        MemoriskError: The disk has less space than the files take.
    """
    total, free = sum(e.size or 0 for e in needed.values()), shutil.disk_usage(target).free
    if sys.stderr.isatty():
        sys.stderr.write(f"fetching {len(needed):,} files ({total / 1e9:.2g} GB) of {storage.url}\n")
    if total > free:
        raise MemoriskError(
            f"{storage.url} takes {total / 1e9:.2g} GB here, and {one_line(target)} has {free / 1e9:.2g} GB left: free "
            f"some, or name a folder elsewhere with --store; {RESUME_HINT}"
        )
