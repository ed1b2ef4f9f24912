"""A run that is kept at a URL while it is made in a private folder of this machine.

At the start what is at the URL is brought over and checked; from then on every file that is finished is put there
(`pushing`), so that a run that was cut short at any point is an unfinished run there, with which the same command goes
on, also on another machine. Whoever reads a run wants a whole one (`read_run`).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from memorisk.runs.cache import cache_folder
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_text
from memorisk.runs.fingerprint import file_fingerprint, fingerprint
from memorisk.runs.folder import CONFIG
from memorisk.runs.lock import folder_lock
from memorisk.runs.storage.claim import CLAIM, Claim
from memorisk.runs.storage.index import INDEX, RunIndex, files_there
from memorisk.runs.storage.mirror import local_source
from memorisk.runs.storage.origins import ORIGIN, TREE
from memorisk.runs.storage.pushing import Pusher
from memorisk.runs.storage.storage import Storage
from memorisk.runs.storage.urls import below, url_of
from memorisk.runs.unfinished import write_guard

RUNS, BOOK = "runs", "pushed.json"


@contextmanager
def kept_run(out: str | Path, store: Path | None = None) -> Iterator[Path]:
    """The folder of this machine in which to make a run that is kept at a URL; a path is itself.

    Args:
        out: What the user named as the run folder.
        store: The cache folder (`memorisk.runs.cache.cache_folder`), where the run lies while it is made and after.

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
        yield held.enter_context(_pushed(storage, folder))


def run_folder(url: str, store: Path | None) -> Path:
    """The private folder for what is kept at a URL, made on first use."""
    folder = cache_folder(store) / RUNS / fingerprint(url)
    with write_guard(folder.parent, f"the run at {url}"):
        for made in (folder.parent, folder, folder / TREE):
            made.mkdir(mode=0o700, exist_ok=True)
        write_text(folder / ORIGIN, f"{url}\n")
    return folder


@contextmanager
def _pushed(storage: Storage, folder: Path) -> Iterator[Path]:
    work = folder / TREE / (Path(storage.url).name or "run")
    _refuse_other(storage)
    claim = Claim(storage.url)
    claim.take()
    try:
        pusher = Pusher(storage, claim, folder / BOOK, work)
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
    for name, told in ({} if index is None else index.files).items():
        path = folder / name
        if not path.is_file() or (path.stat().st_size, file_fingerprint(path)) != told:
            raise InputError(f"{below(url, name)} is not what was put there: it was changed or damaged")
    return folder


def refuse_unfinished(url: str) -> None:
    """Refuse what a command is to look at, and write beside, while it is being made, or after it was cut short.

    Raises:
        InputError: It is no whole run.
        MemoriskError: The storage does not answer.
    """
    _whole(url)


def _whole(url: str) -> RunIndex | None:
    """What is known of the run at a URL; None where something else is there.

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


def seen_run(url: str, store: Path | None = None) -> Path:
    """The folder of this machine with what is at a URL, to look at; one that does not exist where nothing is there.

    Raises:
        InputError: The URL cannot be read.
        MemoriskError: The storage does not answer, or the disk is full.
    """
    if Storage(url).kind() == "folder" and files_there(Storage(url)):
        return local_source(url, store)
    return run_folder(url, store) / TREE / (Path(url).name or "run")
