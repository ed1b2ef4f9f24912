"""SHA-256 of files: fingerprints that are remembered while a file is unchanged.

A file is recognised by its path, size, modification time and status-change time. The last one makes this safe: a
program may set a modification time back, but not the time at which it did so. A file that was touched within two
seconds before its fingerprint is not remembered, since a second change could carry the same times. One change
remains unnoticed: a change on a file system that keeps none of these times; delete the cache folder then.
"""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from memorisk.images.manifest import BUILTIN
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
    """Return the SHA-256 of each file's bytes.

    Args:
        files: Paths, each once; the name of a built-in image is its own fingerprint.
        cache: Folder where fingerprints are remembered; None to hash every file.
        processes: Number of processes that hash where there is much to hash.

    Returns:
        Fingerprint by path; "absent" for a file that cannot be opened, and for anything but a regular file.
    """
    hashes = {file: file for file in files if file.startswith(BUILTIN)}
    stamps = {file: _stamp(file) for file in files if file not in hashes}
    hashes |= {file: "absent" for file, stamp in stamps.items() if stamp is None}
    present = {file: stamp for file, stamp in stamps.items() if stamp is not None}
    book = None if cache is None or not present else cache / "checksums" / f"{_place(present)}.parquet"
    remembered = _recall(book, present)
    hashes |= remembered
    new = [file for file in present if file not in remembered]
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
    """Return the name of the book of fingerprints, one for each folder that holds all files of a manifest."""
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
    except OSError:  # the results are right without a cache
        pass
