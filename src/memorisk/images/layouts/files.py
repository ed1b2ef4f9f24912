"""Files of a folder: regular files in a fixed order, inside the folder of their manifest.

`walk_files` also lists links that leave the folder, and hidden files, which are not read. `FileFinder` finds a file
by the path, name or stem that a table gives.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from memorisk.images.identity import normal_id
from memorisk.images.manifest import HIDDEN_FILE, LINKED_FOLDER
from memorisk.runs.errors import InputError, listed, one_line

_OF_SYSTEMS = frozenset(
    (
        *("__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "picasa.ini", "zbthumbnail.info"),
        *("@eadir", "#recycle", "@recycle", "#snapshot", "~snapshot", "@recently-snapshot", "@tmp", "@__thumb"),
        *("$recycle.bin", "recycler", "lost+found", "system volume information", "network trash folder"),
        *("temporary items", "__pycache__", "_gsdata_"),
    )
)
"""Files and folders that systems, network drives, viewers and programs keep among a user's files, in lower case."""
_NUMBERED_OF_SYSTEMS = re.compile(r"@syno\w+|found\.[0-9]{3}|\$windows\.~\w+")
"""Further such names, in lower case, of which a part differs between systems."""
_BACKUP = re.compile(r".*~|~\$.*|#.*#", re.DOTALL)
"""Names of editors' backups and of marks for an open file."""
_UNFINISHED = re.compile(r".*\.(bak|orig|tmp|part|partial|crdownload|swp)", re.DOTALL)
"""Names of files that are backups or not written to their end; folders may have such names."""


def is_within(root: str, path: str) -> bool:
    """Return whether a real path is a folder or lies in it (both absolute, links resolved)."""
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def refuse_escape(values: Iterable[str], source: str, how: str) -> None:
    """Raise for paths that leave the folder, listing the first; nothing happens if there are none.

    Raises:
        InputError: Some paths leave the folder.
    """
    paths = list(values)
    if paths:
        verb = "leads" if len(paths) == 1 else "lead"
        raise InputError(
            f"{one_line(source)}: {len(paths):,} {'path' if len(paths) == 1 else 'paths'} {verb} out of the folder "
            f"({listed(paths)}); {how}"
        )


def plain_stem(name: str) -> str:
    """Return a file name without its suffix; ``.nii.gz`` counts as one."""
    lower = name.lower()
    for double in (".nii.gz", ".dcm.gz"):
        if lower.endswith(double):
            return name[: -len(double)]
    return PurePosixPath(name).stem


class FileFinder:
    """Finder of the files that a table names, under a root, which it never leaves.

    A name is taken as a path below the root; failing that by its last part, with or without suffix, and then the
    folders above it must agree as far as both sides have any (``00000001_000.png`` is found in ``images_001/images``).
    """

    def __init__(self, root: Path, files: Callable[[], Iterable[str]], *, follow_links: bool) -> None:
        """Keep ``files``, which returns the image files below the root as relative POSIX paths when first needed."""
        self.root = root
        self.real_root = os.path.realpath(root)
        self.escaping: list[str] = []
        self.ambiguous: list[str] = []
        self._follow = follow_links
        self._files = files
        self._folders: dict[str, str] = {}
        self._by_name: dict[str, list[str]] | None = None

    def find(self, value: str) -> str | None:
        """Return the relative path of the file that a value names; None if it does not exist, or is refused.

        An absolute path names its own file alone; any other value may be the end of a path.

        Values that leave the root and names that several files share are collected in ``escaping`` and ``ambiguous``.
        """
        name = value.strip()
        if not name or "\0" in name:
            return None
        relative = self._relative(name)
        if relative is None:
            self.escaping.append(value)
            return None
        if os.path.lexists(os.path.join(self.root, relative)):  # noqa: PTH118
            return relative if self._stays(relative, value) else None
        if "\\" in name:
            windows = PureWindowsPath(name)
            if windows.drive or windows.root or ".." in windows.parts:
                self.escaping.append(value)
                return None
            return self.find(windows.as_posix())
        return None if os.path.isabs(name) else self._by_end(relative, value)  # noqa: PTH117

    def _relative(self, name: str) -> str | None:
        """Return a name as a normal relative path, or None where its text alone leads out of the root."""
        base = os.path.abspath(self.root)  # noqa: PTH100
        full = os.path.normpath(os.path.join(base, name))  # noqa: PTH118
        if is_within(base, full) and full != base:
            return os.path.relpath(full, base).replace(os.sep, "/")
        if is_within(self.real_root, full) and full != self.real_root:
            return os.path.relpath(full, self.real_root).replace(os.sep, "/")
        return None

    def _stays(self, relative: str, value: str) -> bool:
        """Return whether a file that exists lies in the root when its links are resolved."""
        if self._follow:
            return True
        folder, name = os.path.split(relative)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(os.path.join(self.root, folder))  # noqa: PTH118
        real = os.path.join(self._folders[folder], name)  # noqa: PTH118
        if os.path.islink(real):  # noqa: PTH114
            real = os.path.realpath(real)
        if is_within(self.real_root, real):
            return True
        self.escaping.append(value)
        return False

    def _by_end(self, relative: str, value: str) -> str | None:
        """Return the file whose path ends like the value, with or without a suffix."""
        if self._by_name is None:
            self._by_name = {}
            for file in self._files():
                for key in _keys(file):
                    self._by_name.setdefault(key, []).append(file)
        *folders, name = normal_id(relative).split("/")
        matches = [(n, f) for f in self._by_name.get(name, []) if (n := _shared_folders(f, folders)) is not None]
        most = max((n for n, _ in matches), default=0)
        files = [f for n, f in matches if n == most]
        if len(files) > 1:
            self.ambiguous.append(value)
            return None
        return files[0] if files else None


def _keys(file: str) -> Iterator[str]:
    name = normal_id(file.rsplit("/", 1)[-1])
    yield name
    stem = plain_stem(name)
    if stem != name:
        yield stem


def _shared_folders(file: str, folders: list[str]) -> int | None:
    """Count the folders above a file that agree with those above a name; None if one differs.

    One path may have more folders than the other: a table made elsewhere has others above, a plain name has none.
    """
    own = normal_id(file).split("/")[:-1]
    pairs = list(zip(reversed(own), reversed(folders), strict=False))
    return len(pairs) if all(a == b for a, b in pairs) else None


@dataclass
class Walk:
    """Files of a folder, and the other entries found with them."""

    files: list[str] = field(default_factory=list)
    """Paths of the files, relative, in POSIX form, sorted."""
    escaping: list[str] = field(default_factory=list)
    """Paths of links that lead out of the folder."""
    not_utf8: list[str] = field(default_factory=list)
    """Names that are not UTF-8, with the strange bytes escaped."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Hidden files and folders, links within the folder, devices, pipes and the like, with the reason."""


def walk_files(root: Path, *, follow_links: bool) -> Walk:
    """List all files below a folder.

    Hidden files and folders (``.name``), files that systems and network drives leave in folders (`_OF_SYSTEMS`),
    editors' backups and unfinished files are skipped; a folder of these is one entry. A
    linked folder is entered only with ``follow_links``, each folder once.

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
            if _is_left_over(entry):
                walk.skipped.append((relative, HIDDEN_FILE))
                continue
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if not is_within(real_root, real) and not follow_links:
                    walk.escaping.append(relative)
                    continue
                if _leads_to_folder(entry) and (not follow_links or real in visited):
                    walk.skipped.append((relative, LINKED_FOLDER))
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
    for paths in (walk.files, walk.escaping, walk.not_utf8, walk.skipped):
        paths.sort()
    return walk


def _is_left_over(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is hidden, of a system, a backup or unfinished."""
    lower = entry.name.lower()
    return (
        lower.startswith(".")
        or lower in _OF_SYSTEMS
        or any(names.fullmatch(lower) for names in (_NUMBERED_OF_SYSTEMS, _BACKUP))
        or (_UNFINISHED.fullmatch(lower) is not None and not _leads_to_folder(entry))
    )


def _entries(root: Path, folder: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    try:
        with os.scandir(root / folder) as entries:
            yield from ((entry, folder + entry.name) for entry in entries)
    except OSError as error:
        raise InputError(
            f"{one_line(root / folder)}: the folder cannot be opened ({one_line(error.strerror)})"
        ) from None


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one; a link to itself or to nothing does not count."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a device, a pipe or a socket, or a link to one; a link to nothing is absent."""
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
