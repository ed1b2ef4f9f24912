"""Files below a URL: listed and fetched through fsspec, with repeated tries where a connection breaks.

fsspec's own listing leaves out a folder that could not be read, and the mirror would take its files for removed ones.
Therefore this module walks the folders one by one where the storage has folders.
"""

import ftplib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from memorisk.runs.errors import FULL_DISK_CODES, RESUME_HINT, InputError, MemoriskError
from memorisk.runs.storage.locations import LIBRARIES, child_url, redact_urls, refuse_names

ResultT = TypeVar("ResultT")
WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try after a broken connection."""
PART = ".part"
"""Ending of a file that is being fetched."""
_OBJECTS = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "memory"))
_PARALLEL = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "http", "https", "file"))
_HTTP = frozenset(("http", "https"))
_PARALLEL_FETCHES = 8
_MAX_DEPTH = 64
_STAMPS = (
    *("etag", "md5hash", "content_md5", "content-md5", "crc32c", "checksum", "blob_id", "generation"),
    *("lastmodified", "last_modified", "last-modified", "mtime", "modify", "updated", "modificationtime"),
    *("created", "ino"),
)  # fmt: skip
_REFUSED = (PermissionError, NotImplementedError, NotADirectoryError, IsADirectoryError)
_TRY_LATER = (408, 425, 429)  # of the answers 400 to 499 of a web server


@dataclass(frozen=True)
class Entry:
    """A file of a storage.

    Attributes:
        place: Name of the file for the storage.
        size: Number of bytes; None where the storage does not report it.
        stamp: Checksum, version and time that the storage reports; empty where it reports none.
    """

    place: str
    size: int | None
    stamp: str


class Storage:
    """Files below a URL (as `locations.url_of` gives it); a storage is used by one thread, except in `fetch_all`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.protocol = url.partition("://")[0]
        self._fs: Any = None
        self.root = self._connect()

    def _connect(self) -> str:
        """Open the file system and return the name of its root.

        Raises:
            InputError: Its library is missing, or its settings are wrong.
        """

        def opened() -> tuple[Any, str]:
            """Return the file system and the root."""
            from fsspec.core import url_to_fs

            return url_to_fs(self.url, skip_instance_cache=True, use_listings_cache=False)

        try:
            self._fs, root = self._again("reached", opened, connect=False)
        except ImportError:
            library = LIBRARIES[self.protocol]
            raise InputError(
                f"{self.protocol}:// needs {library}, which is not installed: python -m pip install {library}"
            ) from None
        return root if self.protocol in _HTTP else root.rstrip("/")

    def _again(self, what: str, action: Callable[[], ResultT], *, connect: bool = True) -> ResultT:
        """Do an action and return its value; reopen a broken connection and try again.

        Raises:
            FileNotFoundError: The file or folder does not exist.
            InputError: The storage refuses access.
            MemoriskError: The storage does not answer, or the local disk is full.
        """
        for wait in (*WAITS, None):
            try:
                return action()
            except (FileNotFoundError, ImportError, MemoriskError):
                raise
            except Exception as error:
                if isinstance(error, OSError) and error.errno in FULL_DISK_CODES:
                    raise
                if _is_missing(error):
                    raise FileNotFoundError(self.url) from None
                if _is_refusal(error):
                    raise InputError(
                        f"{self.url} cannot be {what} ({_reason(error)}); credentials are read from the environment "
                        "(docs/storage.md)"
                    ) from None
                if wait is None:
                    raise MemoriskError(
                        f"{self.url} cannot be {what} ({_reason(error)}), also after {len(WAITS)} more tries; "
                        f"{RESUME_HINT}"
                    ) from None
                time.sleep(wait)
                if connect:
                    self._reconnect()
        raise AssertionError("the last try returns or raises")

    def _reconnect(self) -> None:
        """Reopen the file system; where that fails, the old one fails at the next try, and this is called again."""
        from fsspec.core import url_to_fs

        try:
            self._fs = url_to_fs(self.url, skip_instance_cache=True, use_listings_cache=False)[0]
        except Exception:
            return

    def kind(self) -> str | None:
        """Return ``file``, ``folder``, or None where the URL names nothing."""

        def entry_type() -> str | None:
            """Ask the storage for the type of its entry."""
            if self.protocol == "ftp" and self.root in ("", "/"):
                return "folder"
            try:
                info = self._fs.info(self.root)
            except FileNotFoundError:
                return None
            if info["type"] == "file" and self.protocol in _HTTP:
                return "folder" if info.get("mimetype") == "text/html" else "file"
            return {"file": "file", "directory": "folder"}.get(info["type"])

        return self._again("read", entry_type)

    def entries(self) -> dict[str, Entry]:
        """List the files below the URL by relative name, sorted; a file has its own name.

        Raises:
            InputError: A name would lead out of a local copy, or a file is a symbolic link.
            FileNotFoundError: The URL names nothing.
            MemoriskError: The storage does not answer.
        """
        listing = self._again("listed", lambda: list(self._listed()))
        names = [name for name, _ in listing]
        refuse_names(names, self.url)
        folders = {name[:at] for name in names for at in range(len(name)) if name[at] == "/"}
        both = sorted(folders & set(names))
        if both:
            raise InputError(
                f"{child_url(self.url, both[0])} is a file and a folder at once, which no disk here can hold"
            )
        return dict(sorted(listing))

    def _listed(self) -> Iterator[tuple[str, Entry]]:
        name = self.root.rstrip("/").rpartition("/")[2]
        if self.protocol in _OBJECTS:
            listing = self._fs.find(self.root, detail=True)
            for place, info in listing.items():
                if info.get("type", "file") == "file" and not place.endswith("/"):
                    yield place.removeprefix(self.root).removeprefix("/") or name, _entry(info)
            return
        if self.kind() == "file":
            yield unquote(name) if self.protocol in _HTTP else name, _entry(self._fs.info(self.root))
            return
        yield from self._walked(self.root, "", 0)

    def _walked(self, folder: str, above: str, depth: int) -> Iterator[tuple[str, Entry]]:
        if depth > _MAX_DEPTH:
            raise InputError(f"{child_url(self.url, above)}: folders lie deeper than {_MAX_DEPTH}")
        links = []
        for info in self._fs.ls(folder or "/", detail=True):
            place = info["name"]
            name = place.rstrip("/")[len(folder.rstrip("/")) :].removeprefix("/")
            if self.protocol in _HTTP:
                if "?" in name or "#" in name or not name:  # links that sort the listing
                    continue
                name = unquote(name)
            relative = f"{above}{name}"
            if info.get("islink") or info["type"] == "link":
                links.append(relative)
            elif info["type"] == "directory":
                refuse_names([relative], self.url)
                yield from self._walked(place, f"{relative}/", depth + 1)
            elif info["type"] == "file":
                yield relative, _entry(self._fs.info(place) | {"name": place} if info["size"] is None else info)
        if links:
            raise InputError(
                f"{self.url} holds symbolic links ({child_url(self.url, links[0])}), which are not followed: put the "
                "files themselves there, or name the folder that they lead to"
            )

    def fetch(self, entry: Entry, target: Path) -> None:
        """Write a file of the storage to a path, in place of an earlier file.

        Raises:
            FileNotFoundError: The storage no longer has the file.
            MemoriskError: The transfer stays incomplete, or the disk is full.
        """

        def fetched() -> None:
            """Fetch the file once, and whole."""
            if self.protocol == "ftp":
                with target.open("wb") as file:
                    self._fs.ftp.retrbinary(f"RETR {entry.place}", file.write, blocksize=1 << 20)
            else:
                self._fs.get_file(entry.place, str(target))
            if entry.size is not None and target.stat().st_size != entry.size:
                raise EOFError(f"{target.stat().st_size:,} of {entry.size:,} bytes arrived")

        try:
            self._again("read", fetched)
        except OSError as error:
            if error.errno in FULL_DISK_CODES:
                raise MemoriskError(f"no space left for what is at {self.url}: free some; {RESUME_HINT}") from None
            raise

    def fetch_all(self, jobs: dict[Entry, Path], done: Callable[[Entry], None]) -> None:
        """Fetch files, several at once where the storage can; call ``done`` after each file, one call at a time.

        Raises:
            MemoriskError: A file was removed meanwhile, a transfer stays incomplete, or the disk is full.
        """
        try:
            self._fetch_all(jobs, done)
        except FileNotFoundError:
            raise MemoriskError(f"{self.url}: a file was removed while it was fetched; {RESUME_HINT}") from None

    def _fetch_all(self, jobs: dict[Entry, Path], done: Callable[[Entry], None]) -> None:
        if self.protocol not in _PARALLEL or len(jobs) < 2:
            for entry, target in jobs.items():
                self.fetch(entry, target)
                done(entry)
            return
        one = threading.Lock()

        def job(pair: tuple[Entry, Path]) -> None:
            """Fetch one of the files."""
            self.fetch(*pair)
            with one:
                done(pair[0])

        with ThreadPoolExecutor(_PARALLEL_FETCHES) as pool:
            try:
                list(pool.map(job, jobs.items()))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _entry(info: dict[str, Any]) -> Entry:
    """Return the entry of a file from the properties that the storage reports."""
    properties = {str(key).lower(): value for key, value in info.items()}
    stamp = " ".join(f"{key}={properties[key]}" for key in _STAMPS if properties.get(key))
    return Entry(info["name"], None if info["size"] is None else int(info["size"]), stamp)


def _is_missing(error: Exception) -> bool:
    return isinstance(error, ftplib.error_perm) and str(error)[:3] == "550" and "denied" not in str(error).lower()


def _is_refusal(error: Exception) -> bool:
    """Return whether another try would be refused again."""
    if isinstance(error, ftplib.error_perm):
        return True
    status = getattr(error, "status", None)  # aiohttp
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _TRY_LATER
    return isinstance(error, _REFUSED) or type(error).__name__ in ("NoCredentialsError", "ClientAuthenticationError")


def _reason(error: Exception) -> str:
    return redact_urls(" ".join(str(error).split()) or type(error).__name__)[:160]
