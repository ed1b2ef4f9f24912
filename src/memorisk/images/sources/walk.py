"""What lies in a folder: regular files in a fixed order, links that leave it, and hidden files, which are not read."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from memorisk.images.decoding.formats import Kind
from memorisk.images.manifest import HIDDEN, LINKED
from memorisk.images.paths import within
from memorisk.runs.errors import InputError, one_line

KIND_BY_SUFFIX: dict[str, Kind] = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff"), "raster"),
    **dict.fromkeys((".jp2", ".j2k", ".pgm", ".ppm", ".pnm"), "raster"),
    **dict.fromkeys((".dcm", ".dicom"), "dicom"),
    **dict.fromkeys((".nii", ".nii.gz"), "nifti"),
}


_OF_SYSTEMS = frozenset(("__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini"))
"""What archives of macOS and folders of Windows hold beside a user's files, in lower case."""


@dataclass
class Walk:
    """The files of a folder and what was found beside them."""

    files: list[str] = field(default_factory=list)
    """Relative POSIX paths, sorted."""
    escaping: list[str] = field(default_factory=list)
    """Links that lead out of the folder."""
    not_utf8: list[str] = field(default_factory=list)
    """Names that are not UTF-8, with the strange bytes escaped."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Hidden files and folders, links within the folder, devices, pipes and the like, with the reason."""


def suffix(path: str) -> str:
    """A file's suffix in lower case; ``.nii.gz`` counts as one."""
    lower = path.lower()
    return ".nii.gz" if lower.endswith(".nii.gz") else PurePosixPath(lower).suffix


def walk_files(root: Path, *, follow_links: bool) -> Walk:
    """All files below a folder.

    Hidden files and folders (``.name``) and what operating systems leave in folders (`_OF_SYSTEMS`) are skipped; a
    folder of these is one entry. A linked folder is entered only with ``follow_links``, each folder once.

    Raises:
        InputError: A folder cannot be opened.
    """
    walk = Walk()
    real_root = os.path.realpath(root)
    visited = {real_root}
    pending = [""]
    while pending:
        folder = pending.pop()
        for entry, relative in _entries(root, folder):
            if entry.name.startswith(".") or entry.name.lower() in _OF_SYSTEMS:
                walk.skipped.append((relative, HIDDEN))
                continue
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if not within(real_root, real) and not follow_links:
                    walk.escaping.append(relative)
                    continue
                if _leads_to_folder(entry) and (not follow_links or real in visited):
                    walk.skipped.append((relative, LINKED))
                    continue
            if _leads_to_folder(entry):
                visited.add(os.path.realpath(entry.path))
                pending.append(relative + "/")
            elif _is_special(entry):
                walk.skipped.append((relative, "not a regular file"))
            elif _is_utf8(relative):
                walk.files.append(relative)
            else:
                walk.not_utf8.append(one_line(os.fsencode(relative).decode("utf-8", errors="backslashreplace")))
    for found in (walk.files, walk.escaping, walk.not_utf8, walk.skipped):
        found.sort()
    return walk


def _entries(root: Path, folder: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    try:
        with os.scandir(root / folder) as entries:
            yield from ((entry, folder + entry.name) for entry in entries)
    except OSError as error:
        raise InputError(
            f"{one_line(root / folder)}: the folder cannot be opened ({one_line(error.strerror)})"
        ) from None


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or a link to one; a link to itself leads nowhere, as one to nothing."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Whether it is a device, a pipe or a socket, or a link to one; a link to nothing is an absent file."""
    try:
        return not stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return not entry.is_symlink()


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
