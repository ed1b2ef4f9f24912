r"""SHA-256 of files and of folders, as ``sha256sum`` prints it, so that users can check one without memorisk.

A folder's checksum is that of the listing of its files, made in it by ``find . -type f -printf '%P\0' | LC_ALL=C sort
-z | xargs -0 sha256sum | sha256sum``. The module needs Python's own library alone: a gate on releases runs where no
image library is installed.

A file that a run or a cache reads again has a record, ``NAME.checksum``, which is written before the file gets its name
(`memorisk.runs.files.atomic_path`); files of a finished result have theirs together, in `SEAL`. A reader calls
`is_intact` where the file can be made anew, and `refuse_damaged` where it cannot. Each process reads a file once for
this, as long as its size and times stay the same.
"""

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from memorisk.runs.errors import DamagedError, InputError, one_line

SEAL = "result.sha256"
"""Name of the listing of a finished run's result files, without itself."""
RECORD = ".checksum"
"""Suffix of the name of a record, after the name of its file; ``sha256sum -c`` reads it."""
_SETTLED_NS = 2_000_000_000
_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


@dataclass(frozen=True)
class Checksum:
    """Identity of a file, or of all files of a folder, by content."""

    sha256: str
    """SHA-256 of the file's bytes, or of the folder's listing."""
    files: int
    """Number of files."""
    bytes: int
    """Size of all of them in bytes."""


def file_sha256(path: str | Path) -> str:
    """Compute the SHA-256 of a file's bytes, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def file_version(path: Path) -> tuple[int, ...]:
    """Return numbers that differ between versions of a file: its size, times and inode.

    The time of the call is one of them while the last change is recent: a second change could carry the same times.
    """
    status, now = path.stat(), time.time_ns()
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_size, *times, status.st_ino, now if now - max(times) < _SETTLED_NS else 0)


@lru_cache(maxsize=4096)
def _sha256_of_version(path: Path, _version: tuple[int, ...]) -> str:
    """Compute the SHA-256 of a version of a file."""
    return file_sha256(path)


def _current_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, computed once for each of its versions."""
    return _sha256_of_version(path, file_version(path))


def record_of(path: Path) -> Path:
    """Return the place of a file's record."""
    return path.with_name(f"{path.name}{RECORD}")


def _is_as_recorded(path: Path) -> bool | None:
    """Return whether a file matches its record, which has two lines while the file is replaced; None without one."""
    try:
        lines = record_of(path).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return None
    return _line(_current_sha256(path), path.name) in lines


def _sealed(path: Path) -> str | None:
    """Return the SHA-256 of a file by the seal of its folder or of the folder above; None without a seal."""
    for folder, name in ((path.parent, path.name), (path.parent.parent, f"{path.parent.name}/{path.name}")):
        try:
            return sealed_files(folder).get(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None


def write_record(path: Path, *contents: Path) -> None:
    """Write the record of a file.

    Args:
        path: Path of the file.
        *contents: Files that have the content of the file, the new one first.
    """
    from memorisk.runs.files import write_bytes

    write_bytes(record_of(path), b"".join(_line(file_sha256(content), path.name) for content in contents))


def remove_recorded(path: Path) -> None:
    """Remove a file, and its record after it, where they exist."""
    path.unlink(missing_ok=True)
    record_of(path).unlink(missing_ok=True)


def move_recorded(path: Path, target: Path) -> None:
    """Give a file another name in its file system, and its record with it."""
    write_record(target, path)
    path.replace(target)
    record_of(path).unlink(missing_ok=True)


def is_intact(path: str | Path) -> bool:
    """Return whether a file exists and matches its record; a warning names a file that does not.

    A file without a record is not intact: an earlier memorisk wrote it, or the record was lost.

    Args:
        path: Path of a file that was written with a record, and that the caller makes anew where it is not intact.
    """
    file = Path(path)
    try:
        intact = file.is_file() and bool(_is_as_recorded(file))
    except OSError:
        intact = False
    if not intact and os.path.lexists(file):
        warn_of_damage(file)
    return intact


def warn_of_damage(file: Path) -> None:
    """Name a file that differs from what was written, and is made anew; once for each version of it and its record."""
    changes = [place.stat().st_mtime_ns if place.exists() else 0 for place in (file, record_of(file))]
    _warn_once(one_line(file), *changes)


@lru_cache(maxsize=1024)
def _warn_once(name: str, _changed: int, _recorded: int) -> None:
    logging.getLogger(__name__).warning("%s is not what was written: it is made anew", name)


def refuse_damaged(path: str | Path, cure: str = "restore it, or begin in a new folder") -> None:
    """Refuse a file that differs from its record, or from the seal of the result that it is part of.

    Args:
        path: Path of the file. A file without record and seal, or an absent one, is left to its reader: it may come
            from elsewhere.
        cure: Remedy for the message.

    Raises:
        DamagedError: The content differs.
    """
    file, by = Path(path), ""
    if not file.is_file():
        return
    recorded = _is_as_recorded(file)
    if recorded is False:
        by = record_of(file).name
    elif recorded is None and _sealed(file) not in (None, _current_sha256(file)):
        by = SEAL
    if by:
        raise DamagedError(f"{one_line(file)} is damaged: it is not what {by} says: {cure}")


def checksum(path: str | Path) -> Checksum:
    """Compute the checksum of a file, or of everything in a folder.

    Args:
        path: Path of a file or a folder.

    Raises:
        InputError: The path does not exist, cannot be read, is empty, or holds entries that `files_below` refuses.
    """
    place = Path(path)
    try:
        if place.is_file():
            return Checksum(file_sha256(place), 1, place.stat().st_size)
        if not place.is_dir():
            raise InputError(f"{one_line(place)} does not exist")
        names = files_below(place)
        if not names:
            raise InputError(f"{one_line(place)} holds no file")
        return listed_checksum(place, names)
    except OSError as error:
        where = one_line(error.filename or place, 120)
        raise InputError(f"{where} cannot be read: {one_line(error.strerror or error, 80)}") from None


def files_below(folder: Path) -> list[str]:
    """Return the relative names of all files of a folder, hidden ones too, in the order of their bytes.

    Args:
        folder: Path of the folder.

    Raises:
        InputError: The folder holds an entry without bytes of its own to check: a link, whose text names a place of
            this machine, a pipe or a device, or a folder without files, whose name would be released all the same.
    """
    names_below: list[str] = []
    for above, inner, names in os.walk(folder, onerror=_stop):
        for name in sorted((*inner, *names)):
            place = Path(above) / name
            if why := _uncheckable(place):
                place_shown = one_line(os.path.relpath(str(place), folder), 120)
                raise InputError(
                    f"{one_line(folder)} holds {why} ({place_shown}): put the files there, or take it away"
                )
        names_below += [os.path.relpath(str(Path(above) / name), folder) for name in names]
    return sorted(names_below, key=os.fsencode)


def _uncheckable(place: Path) -> str:
    """Explain why a checksum of this part would not hold or would miss it; empty for a file or a folder."""
    if place.is_symlink():
        return "a link"
    if place.is_dir():
        return "" if any(place.iterdir()) else "an empty folder"
    return "" if place.is_file() or not place.exists() else "a pipe, a socket or a device"


def listing_sha256(listing: Mapping[str, str]) -> str:
    """Compute the SHA-256 of a listing as ``sha256sum`` prints it, names in byte order.

    Args:
        listing: SHA-256 of each file by its name.
    """
    digest = hashlib.sha256()
    for name in sorted(listing, key=os.fsencode):
        digest.update(_line(listing[name], name))
    return digest.hexdigest()


def list_folder(folder: Path) -> dict[str, str]:
    """Compute the SHA-256 of every file of a folder, hidden ones too, by its name relative to it.

    Args:
        folder: Path of the folder.

    Raises:
        InputError: The same errors as `files_below`.
    """
    return {name: file_sha256(folder / name) for name in files_below(folder)}


def listed_checksum(folder: Path, names: Iterable[str]) -> Checksum:
    """Compute the checksum of some files of a folder.

    Args:
        folder: Folder of the files.
        names: Names of the files, relative to the folder, each once.
    """
    digest, files, size = hashlib.sha256(), 0, 0
    for name in sorted(names, key=os.fsencode):
        digest.update(_line(file_sha256(folder / name), name))
        files, size = files + 1, size + (folder / name).stat().st_size
    return Checksum(digest.hexdigest(), files, size)


def write_seal(folder: Path, names: Iterable[str]) -> None:
    """Write the seal of a finished run's files; ``sha256sum -c result.sha256`` checks them.

    Args:
        folder: Path of the run folder.
        names: Names of its files, relative to it.
    """
    from memorisk.runs.files import write_bytes

    ordered = sorted(names, key=os.fsencode)
    write_bytes(folder / SEAL, b"".join(_line(file_sha256(folder / name), name) for name in ordered))


def sealed_files(folder: Path) -> dict[str, str]:
    """Return the seal of a folder: the SHA-256 of each file, by its name relative to the folder.

    Args:
        folder: Folder with a seal.

    Raises:
        DamagedError: The seal has another form than `write_seal` gives it, in any byte.
    """
    content = (folder / SEAL).read_bytes()
    files = {os.fsdecode(line[66:]): line[:64].decode("ascii", "replace") for line in content.split(b"\n") if line}
    if content != b"".join(_line(value, name) for name, value in files.items()) or not all(
        _SHA256.fullmatch(value) for value in files.values()
    ):
        raise DamagedError(
            f"{one_line(folder)}: {SEAL} is not what the run wrote: it has another form; restore it, or begin in a new "
            "folder"
        )
    return files


def changed_files(folder: Path) -> list[str]:
    """Return the files of a sealed folder that differ from the seal, or are missing.

    Args:
        folder: Folder with a seal.
    """
    return [name for name, value in sealed_files(folder).items() if not _holds(folder / name, value)]


def _holds(path: Path, value: str) -> bool:
    """Return whether a file of this SHA-256 exists; a path that no file can have does not exist."""
    try:
        return path.is_file() and file_sha256(path) == value
    except OSError:
        return False


def _line(value: str, name: str) -> bytes:
    r"""Return one line of ``sha256sum``; for a name with a line break or a backslash it begins with ``\``."""
    escaped = "".join(_ESCAPES.get(character, character) for character in name)
    return ("\\" if escaped != name else "").encode() + f"{value}  ".encode() + os.fsencode(escaped) + b"\n"


def _stop(error: OSError) -> None:
    """Raise the error of a folder that cannot be listed: its files would be missing unnoticed."""
    raise error
