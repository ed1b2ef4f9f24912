"""The kept set on the disk: copies of the files, or links to them, in a folder that has its name only when it is whole.

What is written is checked to be what was looked at. A file with several images (pages, frames, slices) is kept whole
or not at all; of arrays (.npy, .npz) the rows are written. Metadata in the files go along as they are.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from memorisk.images.cache import cache_folder, content_fingerprints
from memorisk.images.formats import file_format
from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.wording import listed
from memorisk.runs.checksums import files_below, listed_checksum
from memorisk.runs.errors import NO_SPACE, InputError, MemoriskError, one_line, several
from memorisk.runs.files import fsync_folder
from memorisk.runs.fingerprint import file_fingerprint
from memorisk.runs.progress import Progress

KEPT = "kept"
_BUILDING, _OLD = ".kept.building", ".kept.old"
_ARRAYS = ("npy", "npz")


@dataclass(frozen=True)
class KeptSet:
    """What was written."""

    files: int
    """In the folder."""
    links: int
    """Of these hard links."""
    symbolic: int
    """Of these symbolic links."""


def check_keepable(asked: Manifest) -> None:
    """Refuse, before anything is computed, a set whose images cannot be written one by one.

    Args:
        asked: All synthetic images.

    Raises:
        InputError: They have no files, or are arrays of a format that is not written.
    """
    if asked.root is None or any(str(path).startswith(BUILTIN) for path in asked.table["path"]):
        raise InputError("the synthetic images have no files that could be kept: give a folder, a table, .npy or .npz")
    names = _array_files(asked)
    for name in names:
        known = file_format(asked.root / name)
        if known is None or known.name not in _ARRAYS or len(names) > 1 or _member(asked) is None:
            raise InputError(
                f"{one_line(name, 80)}: of arrays, one .npy, or one array of images in a .npz, can be filtered; save "
                "the images as such, or as files"
            )


def whole_files(asked: Manifest, kept: np.ndarray) -> np.ndarray:
    """[N] which images of a set can be kept where some are rejected: those with a rejected one in their file cannot.

    Args:
        asked: All synthetic images, [N].
        kept: [N] images that are not rejected themselves.
    """
    if _array_files(asked):
        return kept
    index = np.unique(asked.table["path"].to_numpy(dtype=str), return_inverse=True)[1]
    whole = np.ones(index.max(initial=-1) + 1, dtype=bool)
    whole[index[~kept]] = False
    return kept & whole[index]


def fingerprints(asked: Manifest, store: Path | None) -> dict[str, str]:
    """The content of every file of a set, by relative path, as it was decoded.

    Args:
        asked: All synthetic images.
        store: Folder of decoded images, where contents are remembered.
    """
    assert asked.root is not None
    paths = list(dict.fromkeys(str(path) for path in asked.table["path"]))
    files = [str(asked.root / path) for path in paths]
    found = content_fingerprints(files, cache_folder(store))
    return {path: found[file] for path, file in zip(paths, files, strict=True)}


def write_kept(
    out: Path, asked: Manifest, kept: np.ndarray, contents: Mapping[str, str], *, how: str, progress: Progress
) -> KeptSet:
    """Write the kept images to ``out/kept``, replacing what an earlier run left there.

    Args:
        out: The run folder, held by this process.
        asked: All synthetic images, [N].
        kept: [N], of `whole_files`.
        contents: Of `fingerprints`, taken when the images were decoded.
        how: "copy" or "link".
        progress: Called with (stage, done, total).

    Raises:
        MemoriskError: No space is left, or a file is not what it was when it was decoded.
        InputError: A file cannot be read.
    """
    building = out / _BUILDING
    shutil.rmtree(building, ignore_errors=True)
    try:
        building.mkdir(mode=0o700)
        if _array_files(asked):
            made = _write_array(building, asked, kept, contents)
        else:
            made = _write_files(building, asked, kept, contents, how, progress)
        _make_private(building)
        os.sync()
    except OSError as error:
        shutil.rmtree(building, ignore_errors=True)
        if error.errno in NO_SPACE:
            raise MemoriskError(
                f"no space left for the kept images in {one_line(out)}: free some, or keep link"
            ) from None
        raise InputError(f"{one_line(error.filename, 120)}: {one_line(error.strerror or error, 120)}") from None
    _put_in_place(out, building)
    return made


def kept_sha256(out: Path) -> str:
    """What identifies the kept set as it was written: a statement of the run compares the folder with it.

    Args:
        out: The run folder.
    """
    return listed_checksum(out / KEPT, files_below(out / KEPT)).sha256


def remove_kept(out: Path) -> None:
    """Remove a kept set and what is left of unfinished ones."""
    for name in (KEPT, _BUILDING, _OLD):
        shutil.rmtree(out / name, ignore_errors=True)


def _put_in_place(out: Path, building: Path) -> None:
    """Give the folder its name; a kill in between leaves the old set, none, or the new one, never half of one."""
    final, old = out / KEPT, out / _OLD
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    building.rename(final)
    fsync_folder(out)
    shutil.rmtree(old, ignore_errors=True)


def _write_files(
    building: Path, asked: Manifest, kept: np.ndarray, contents: Mapping[str, str], how: str, progress: Progress
) -> KeptSet:
    assert asked.root is not None
    paths = list(dict.fromkeys(asked.table["path"].to_numpy(dtype=object)[kept]))
    put = _link if how == "link" else partial(_copy, seen=contents)
    done = {"hard": 0, "symbolic": 0, "copied": 0}
    for number, path in enumerate(paths):
        target = building / str(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        done[put(Path(os.path.realpath(asked.root / str(path))), target, str(path))] += 1
        progress("writing kept images", number + 1, len(paths))
    if how == "link":
        _refuse_changed([str(p) for p in paths if file_fingerprint(building / str(p)) != contents[str(p)]])
    return KeptSet(len(paths), done["hard"], done["symbolic"])


def _copy(source: Path, target: Path, path: str, *, seen: Mapping[str, str]) -> str:
    shutil.copyfile(source, target)
    if file_fingerprint(target) != seen[path]:
        _refuse_changed([path])
    return "copied"


def _link(source: Path, target: Path, path: str) -> str:
    try:
        os.link(source, target)
        return "hard"
    except OSError:  # another file system, or one that has or allows none
        target.symlink_to(source)
        return "symbolic"


def _make_private(building: Path) -> None:
    """Take the access of other users from what was written; files that are links are the user's own, and left alone."""
    for path in building.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
        elif not path.is_symlink() and path.stat().st_nlink == 1:
            path.chmod(0o600)


def _refuse_changed(paths: Sequence[str]) -> None:
    """Stop where what would be kept is not what was looked at.

    Raises:
        MemoriskError: It is so.
    """
    if paths:
        raise MemoriskError(
            f"{several(len(paths), 'synthetic image has', 'synthetic images have')} changed while they were filtered "
            f"({listed(paths, 3)}); nothing is kept: issue the same command again"
        )


def _array_files(asked: Manifest) -> list[str]:
    """Files of arrays among those of a set."""
    assert asked.root is not None
    paths = list(dict.fromkeys(str(path) for path in asked.table["path"]))
    if "member" not in asked.table or "frame" not in asked.table:
        return []
    return [path for path in paths if (known := file_format(asked.root / path)) is not None and known.kind == "arrays"]


def _member(asked: Manifest) -> str | None:
    """The one array of images in a file; None where there are several."""
    members = asked.table["member"].unique().tolist()
    return str(members[0]) if len(members) == 1 else None


def _write_array(building: Path, asked: Manifest, kept: np.ndarray, contents: Mapping[str, str]) -> KeptSet:
    """The rows of a file of arrays; of an archive those of every array with a row an image."""
    assert asked.root is not None
    (path,) = _array_files(asked)
    source, target = asked.root / path, building / Path(path).name
    rows = np.sort(asked.table["frame"].to_numpy(dtype=np.int64)[kept])
    found = np.load(source, allow_pickle=False, mmap_mode="r")
    with target.open("wb") as file:
        if isinstance(found, np.ndarray):
            np.save(file, found[rows], allow_pickle=False)
        else:
            with found:
                arrays = {name: found[name] for name in found.files}
            n = len(arrays[str(_member(asked))])
            np.savez(file, **{k: v[rows] if v.ndim and len(v) == n else v for k, v in arrays.items()})
    if file_fingerprint(source) != contents[path]:
        _refuse_changed([path])
    return KeptSet(1, 0, 0)
