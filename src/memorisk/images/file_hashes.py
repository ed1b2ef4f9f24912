"""SHA-256 of files: fingerprints that are remembered while a file stands unchanged, and the file listing of a set.

A file is known again by its path, size, modification time and status-change time. The last one makes this safe: a
program may set a modification time back, but not the time at which it did so. A file that was touched within two
seconds before its fingerprint is not remembered, since a second change could carry the same times. One change
remains unnoticed: that of a file on a file system that keeps none of these times; delete the cache folder then.

The listing of a set holds every file that was read, by the SHA-256 of its bytes, and every file that was not, with
the reason. A release is bytes. An audit looks at resized pixels, and so its result says nothing of a file that it
did not open, nor of one that was exchanged since. The listing ties the two: the bytes behind every image, and a
hash of the pixels that were decoded from them at full resolution, by which a set that was written anew from these
pixels is known again.
"""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.runs.checksums import file_sha256, is_intact
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.files import fingerprint, read_table, write_table
from memorisk.runs.storage.locations import cache_folder

__all__ = ["cache_folder", "content_fingerprints"]

_MIN_AGE_NS = 2_000_000_000
_FILES_PER_JOB = 1000
_MIN_BYTES_FOR_PROCESSES = 64 << 20  # bytes to hash from which other processes start
_STAMPS = ["size", "modified", "changed"]


def content_fingerprints(files: Sequence[str], cache: Path | None, *, processes: int = 1) -> dict[str, str]:
    """SHA-256 of each file's bytes.

    Args:
        files: Paths, each once; names of built-in images stand for themselves.
        cache: Folder where fingerprints are remembered; None to hash every file.
        processes: Processes to hash with where there is much to hash.

    Returns:
        By path; "absent" for a file that cannot be opened, and for what is no regular file.
    """
    hashes = {file: file for file in files if file.startswith(BUILTIN)}
    stamps = {file: _stamp(file) for file in files if file not in hashes}
    hashes |= {file: "absent" for file, stamp in stamps.items() if stamp is None}
    present = {file: stamp for file, stamp in stamps.items() if stamp is not None}
    book = None if cache is None or not present else cache / "checksums" / f"{_place(present)}.parquet"
    known = _recall(book, present)
    hashes |= known
    new = [file for file in present if file not in known]
    if sum(present[file][0] for file in new) < _MIN_BYTES_FOR_PROCESSES:
        processes = 1
    jobs = [new[i : i + _FILES_PER_JOB] for i in range(0, len(new), _FILES_PER_JOB)]
    now = time.time_ns()
    for batch, values in zip(jobs, run_jobs(_fingerprint_batch, jobs, processes=processes), strict=True):
        hashes |= dict(zip(batch, values, strict=True))
    if new and book is not None:
        _remember(book, {file: (stamp, hashes[file]) for file, stamp in present.items()}, now)
    return hashes


def _fingerprint_batch(files: list[str]) -> list[str]:
    values = []
    for file in files:
        try:
            values.append(file_sha256(file))
        except OSError:
            values.append("absent")
    return values


def _stamp(file: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116 - a Path per file would take most of the time
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):  # a device has no end to hash
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _place(files: dict[str, tuple[int, int, int]]) -> str:
    """One book of fingerprints for each folder that holds all files of a manifest."""
    try:
        return fingerprint(os.path.commonpath([os.path.abspath(file) for file in files]))  # noqa: PTH100 - as above
    except ValueError:  # several drives
        return "drives"


def _recall(book: Path | None, present: dict[str, tuple[int, int, int]]) -> dict[str, str]:
    if book is None or not is_intact(book):
        return {}
    try:
        table = read_table(book)
        rows = zip(table["path"], *(table[name] for name in _STAMPS), table["fingerprint"], strict=True)
        return {path: value for path, *stamp, value in rows if present.get(path) == tuple(stamp)}
    except Exception:  # a damaged record only costs a second reading of the files
        return {}


def _remember(book: Path, entries: dict[str, tuple[tuple[int, int, int], str]], now: int) -> None:
    settled = [
        (path, *stamp, value)
        for path, (stamp, value) in entries.items()
        if value != "absent" and max(stamp[1:]) < now - _MIN_AGE_NS
    ]
    try:
        book.parent.mkdir(mode=0o700, exist_ok=True)
        write_table(book, pd.DataFrame(settled, columns=["path", *_STAMPS, "fingerprint"]), recorded=True)
    except OSError:  # a cache that cannot be written is no reason to stop
        pass


COLUMNS = ("path", "bytes", "sha256", "pixels", "label", "reason")
"""``path`` below the set's folder; ``bytes`` and ``sha256`` of the file; ``pixels``, a hash of the decoded image;
``label``; ``reason``, why it was not read (then the columns before it say nothing)."""


def empty_listing() -> pd.DataFrame:
    """Make the listing of images that lie in no file."""
    return _table([])


def list_files(
    manifest: Manifest, sha256: Sequence[str], pixels: Sequence[str], unreadable: pd.DataFrame
) -> pd.DataFrame:
    """List the files of a set, a row an image and a row a file that was not read.

    Args:
        manifest: Images that were read, [n].
        sha256: [n] of the file of each, when it was decoded.
        pixels: [n] hash of each image as it was decoded.
        unreadable: Images that could not be decoded: ``path, reason``.

    Returns:
        `COLUMNS`, in the order of the manifest, files that were not read last; built-in images have no row.
    """
    if manifest.root is None:
        return empty_listing()
    paths = manifest.table["path"].astype(str).tolist()
    sizes = {path: (manifest.root / path).stat().st_size for path in set(paths) if not path.startswith(BUILTIN)}
    read = [row for row in zip(paths, sha256, pixels, manifest.labels.tolist(), strict=True) if row[0] in sizes]
    skipped = pd.concat([unreadable[["path", "reason"]], manifest.skipped[["path", "reason"]]])
    unread = dict(zip(skipped["path"].astype(str), skipped["reason"].astype(str), strict=True))
    return _table(
        [
            *((path, sizes[path], content, image, label, "") for path, content, image, label in read),
            *((path, 0, "", "", "", reason) for path, reason in unread.items()),
        ]
    )


def read_rows(listing: pd.DataFrame) -> pd.DataFrame:
    """Take the rows of images that were read."""
    return listing.take(np.flatnonzero(listing["reason"].to_numpy(dtype=object) == ""))


def unread_rows(listing: pd.DataFrame) -> pd.DataFrame:
    """Take the rows of files that were not read."""
    return listing.take(np.flatnonzero(listing["reason"].to_numpy(dtype=object) != ""))


def _table(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object).astype({"bytes": np.int64})
