"""Common steps of published sets: `load_published` makes a manifest of a `PublishedSet`.

The steps are the same for all: the folder is found, the set's rows are read, files are matched to them, and the rest is
listed and noted. The sets follow paper 000, A.6, and METHODS section 1 ("Data sets"). Labels and groups are the data
set's own; options that would choose others are refused, since the folder can also be read as a plain folder or table.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from memorisk.images.columns import read_described, shown_names, texts, with_numbers
from memorisk.images.identity import normal_id, normal_ids
from memorisk.images.layouts.draft import Draft, keep_user_columns
from memorisk.images.layouts.draft_steps import finish_draft
from memorisk.images.layouts.files import (
    is_within,
    plain_stem,
    refuse_escape,
    walk_files,
)
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import Kind
from memorisk.images.readers.suffixes import KIND_BY_SUFFIX, suffix
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

_DEPTH = 2  # levels of folders that an archive puts around the data, or that a user named too deep
_FIXED = (
    *("image_root", "image_column", "path_column", "label_column", "group_column", "split_column", "dataset_column"),
    *("labels_csv", "label_from", "group_from"),
)


def refuse_choices(options: ImageOptions, name: str) -> None:
    """Refuse options that choose images, labels or groups: an official data set has its own.

    Raises:
        InputError: One of these options is set.
    """
    chosen = [field for field in _FIXED if getattr(options, field) is not None]
    chosen += ["layout"] if options.layout != "auto" else []
    if chosen:
        raise InputError(
            f"{name}: {' and '.join(chosen)} cannot be set, the data set's own images, labels and groups are read; "
            f"leave it out, or give the folder or its table without '{name}:'"
        )


def find_root(folder: Path, name: str, holds: Callable[[Path], bool], expected: str, draft_notes: list[str]) -> Path:
    """Return the folder that holds the data: the given one, or the only one up to two levels below that does.

    Args:
        folder: Folder that the user named.
        name: Name of the data set.
        holds: Function that returns whether a folder is the one.
        expected: Contents by which the folder is recognised, in words.
        draft_notes: List of notes, to which a sentence is added where the data lie in another folder.

    Raises:
        InputError: The folder does not exist or is inside the data set, or none or several below it fit.
    """
    if not folder.is_dir():
        raise InputError(f"{name}: the folder {one_line(folder)} does not exist")
    level = [folder]
    for _ in range(_DEPTH + 1):
        roots = [place for place in level if holds(place)]
        if len(roots) > 1:
            places = listed([place.relative_to(folder).as_posix() for place in roots])
            raise InputError(f"{name}: {one_line(folder)} holds several such data sets ({places}); name one of them")
        if roots:
            if roots[0] != folder:
                below = roots[0].relative_to(folder).as_posix()
                draft_notes.append(f"The data set was found in the folder {one_line(below)} below the one named.")
            return roots[0]
        level = [child for place in level for child in _subfolders(place)]
    above = next((parent for parent in list(folder.resolve().parents)[:_DEPTH] if holds(parent)), None)
    if above is not None:
        raise InputError(f"{name}: {one_line(folder)} is a part of the data set; give {name}:{one_line(above)}")
    here = listed(sorted(child.name for child in _subfolders(folder)), 6) or "no folders"
    raise InputError(
        f"{name}: {one_line(folder)} does not hold {expected} (it holds {here}); name the folder that does"
    )


def folders_down(folder: Path) -> list[Path]:
    """Return the folder and those up to two levels below it, where :func:`find_root` looks."""
    folders = level = [folder]
    for _ in range(_DEPTH):
        level = [child for place in level for child in _subfolders(place)]
        folders = folders + level
    return folders


def refuse_links_out(root: Path, files: Iterable[Path], options: ImageOptions, name: str) -> None:
    """Refuse files of a data set that are links to somewhere outside its folder.

    Raises:
        InputError: The data set has such files and ``follow_links`` is not set.
    """
    real_root = os.path.realpath(root)
    leading = [path.name for path in files if not is_within(real_root, os.path.realpath(path))]
    refuse_escape([] if options.follow_links else leading, name, "follow_links accepts them")


def _subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, without links and hidden ones; empty where it cannot be opened."""
    try:
        folders = [p for p in folder.iterdir() if p.is_dir() and not p.is_symlink() and not p.name.startswith(".")]
    except OSError:
        return []
    return sorted(folders)


@dataclass
class OfficialFiles:
    """Image files below a folder, found by their names."""

    root: Path
    files: list[str] = field(default_factory=list)
    """Paths of all image files, relative, in POSIX form, sorted."""
    _by_name: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def below(
        cls, root: Path, options: ImageOptions, name: str, kinds: Sequence[Kind] = ("raster",)
    ) -> "OfficialFiles":
        """Walk a folder, for files of these kinds by their suffix.

        Raises:
            InputError: Links lead out of the folder and ``follow_links`` is not set, or a folder cannot be opened.
        """
        walk = walk_files(root, follow_links=options.follow_links)
        refuse_escape(walk.escaping, name, "follow_links accepts them")
        return cls.of(root, [file for file in walk.files if KIND_BY_SUFFIX.get(suffix(file)) in kinds])

    @classmethod
    def of(cls, root: Path, files: list[str]) -> "OfficialFiles":
        """Index these files, given relative to a folder."""
        index = cls(root, files)
        for file in files:
            for key in _names(file):
                index._by_name.setdefault(key, []).append(file)
        return index

    def place(self, names: Sequence[str], name: str, prefer: str | None = None) -> list[str | None]:
        """Return the file of each image, None where it has none.

        Args:
            names: File names, with or without suffix; folders before them do not count.
            name: Name of the data set.
            prefer: Pattern of a folder whose file is chosen where several have the name.

        Raises:
            InputError: A name fits several files.
        """
        chosen: list[str | None] = []
        doubtful = []
        for value in names:
            matches = self._by_name.get(_file_name(value), [])
            preferred = [f for f in matches if prefer and any(fnmatchcase(p, prefer) for p in f.split("/")[:-1])]
            matches = preferred or matches
            if len(matches) > 1:
                doubtful.append(f"{value}: {' and '.join(matches[:2])}")
            chosen.append(matches[0] if matches else None)
        if doubtful:
            raise InputError(
                f"{name}: {len(doubtful):,} images have several files ({listed(doubtful, 2)}); keep one of each"
            )
        return chosen

    def skip_others(self, draft: Draft, table: str, listed_names: Iterable[str], placed: Iterable[str | None]) -> None:
        """List the files that no row of the table names, and second copies of those that one names."""
        listed_keys = {key for value in listed_names for key in _names(value)}
        used = set(placed)
        for file in self.files:
            if file not in used:
                copy = not listed_keys.isdisjoint(_names(file))
                draft.skip(file, "a second file of a listed image" if copy else f"not listed in {table}")


def _names(file: str) -> set[str]:
    """Return a file's name with and without its suffix."""
    last = _file_name(file)
    return {last, plain_stem(last)}


def _file_name(path: str) -> str:
    return normal_id(path.replace("\\", "/").rsplit("/", 1)[-1])


def read_columns(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """Read a table with certain columns; all values stay text as they are.

    Raises:
        InputError: The table cannot be read, is empty, or lacks one of the columns.
    """
    table = read_described(path)
    if not len(table):
        raise InputError(f"{one_line(path.name)}: no images (the table has no rows)")
    for column in needed:
        if column not in table.columns:
            raise InputError(
                f"{one_line(path.name)}: no column {column} among {listed(shown_names(table.columns), 12)}; the "
                "official file has it"
            )
    return table


def column_texts(table: pd.DataFrame, column: str) -> list[str]:
    """Return a column as text, by `normal_id`."""
    return normal_ids(texts(table[column]))


def check_labels(labels: Iterable[str], allowed: Iterable[str], source: str) -> None:
    """Refuse a label that the data set does not have (each of several joined by ``|``).

    Raises:
        InputError: A label is unknown; the message names the nearest known one.
    """
    names = list(allowed)
    for label in {part for value in set(labels) for part in value.split("|")}:
        if label not in names:
            raise unknown_name(f"label in {one_line(source)}:", label, names)


def draft_table(draft: Draft, columns: Mapping[str, Sequence[str | None]], extra: pd.DataFrame | None) -> None:
    """Set a draft's table: its own columns, and the others of the source as they are (``user_<name>`` where needed)."""
    table = pd.DataFrame({name: list(values) for name, values in columns.items()}, dtype=object)
    extra = pd.DataFrame() if extra is None else extra
    columns_named = [str(c) for c in extra.columns if not str(c).startswith("Unnamed:")]
    draft.table = keep_user_columns(table, {c: with_numbers(pd.Series(extra[c])) for c in columns_named})


def leave_out(draft: Draft, keep: Sequence[bool], reason: str) -> None:
    """Drop rows of a draft's table by a rule of the data set, and list them."""
    for image, is_kept in zip(draft.table["image"].tolist(), keep, strict=True):
        if not is_kept:
            draft.skip(image, reason)
    draft.table = draft.table.loc[list(keep)].reset_index(drop=True)


def leave_out_missing(draft: Draft, options: ImageOptions) -> None:
    """Drop rows without a file (``path`` is None), or refuse them.

    Raises:
        InputError: Rows have no file and ``skip_missing`` is not set, or no row has a file.
    """
    table = draft.table
    missing = table["image"][table["path"].isna()].tolist()
    if missing and (len(missing) == len(table) or not options.skip_missing):
        way = "" if len(missing) == len(table) else ", or leave them out by skip_missing"
        raise InputError(
            f"{draft.name}: {len(missing):,} of {len(table):,} images have no file below {one_line(draft.root)} "
            f"({listed(missing)}); unpack all archives of the data set there{way}"
        )
    leave_out(draft, table["path"].notna().tolist(), "no such file")


def note_skipped(draft: Draft) -> None:
    """Note how many files and rows were left out, by reason."""
    for reason, n in Counter(reason for _, reason in draft.skipped).items():
        examples = listed([path for path, why in draft.skipped if why == reason], 3)
        draft.notes.append(f"{n:,} left out, {reason}: {examples}.")


def note_count(draft: Draft, official: int, sentence: str = "the official release has {n:,}") -> None:
    """Note the number of images where it is not the official one."""
    if len(draft.table) != official:
        draft.notes.append(f"{len(draft.table):,} images are here; {sentence.format(n=official)}.")


def listed_splits(
    draft: Draft, images: Sequence[str], lists: Mapping[Path, str], read: Callable[[Path], Iterable[str]]
) -> list[str] | None:
    """Return the official split of each image, empty where no list names it; None, with a note, if a list is absent.

    Args:
        draft: Draft that gets the note.
        images: Names of the images, as ``read`` gives them.
        lists: Split of each list; a note names the lists.
        read: Function that returns the images of a list.

    Raises:
        InputError: An image is in two lists, or a list cannot be read.
    """
    names = " and ".join(path.name for path in lists)
    if not all(path.is_file() for path in lists):
        draft.notes.append(f"No official split: {names} are not both in the folder.")
        return None
    of_image: dict[str, str] = {}
    for path, split in lists.items():
        for image in read(path):
            if of_image.setdefault(image, split) != split:
                raise InputError(f"{draft.name}: {one_line(image)} is in both {names}; get them anew")
    return [of_image.get(image, "") for image in images]


@dataclass
class Rows:
    """Rows of a set, one entry per image; ``None`` where the set has no values."""

    images: Sequence[str]
    source: str = ""
    """Name of the table in messages."""
    labels: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    split: Sequence[str] | None = None
    extra: pd.DataFrame | None = None
    """Other columns of the table."""
    files: Sequence[str] | None = None
    """Names by which the files are searched; by default those of the images."""
    placed: Sequence[str | None] | None = None
    """Files of the images, where the set finds them by a rule of its own."""
    keep: Sequence[bool] | None = None
    reason: str = ""
    """Reason why the rows that are not kept are left out."""
    notes: list[str] = field(default_factory=list)
    late_notes: Callable[[Draft], Iterable[str]] = lambda draft: ()
    """Function that returns notes with counts of the remaining rows."""
    n_images: int | None = None
    """Number to compare with, where it differs from that of the set; 0 for no comparison."""


@dataclass(frozen=True)
class PublishedSet:
    """Published data set: one row of the table of sets.

    Most sets are one table, whose columns are named here. Other sets have ``rows``, a function that reads them.
    """

    name: str
    expected: str
    """Mark of a folder of this set, in words."""
    group_from: str = ""
    """Source of the groups, in words; empty where none are published."""
    group_fallback: str = ""
    """Remedy for images without a group, in words."""
    tables: tuple[str, ...] = ()
    """Names of the table of images, of which a folder has one."""
    image: str = ""
    label: str = ""
    group: str = ""
    classes: tuple[str, ...] = ()
    left_out: str = ""
    """Label whose images are left out."""
    rule: str = ""
    """Rule of label, group and split, noted after the images are matched; ``{table}`` is the table's name."""
    holds: Callable[[Path], bool] | None = None
    """Function that returns whether a folder is the set's, where a table's name does not decide it."""
    rows: Callable[[Path, Draft, ImageOptions], Rows] | None = None
    refuse: Callable[[Path], None] | None = None
    """Function that raises an error with a name for the contents of a folder that is not the set's."""
    prefer: str | None = None
    """Pattern of the folder whose file is chosen where several have the name."""
    kind: Kind | None = "raster"
    """Kind of all files; None where the rows decide it."""
    n_images: int = 0
    """Official number of images; 0 where none is compared."""
    count_note: str = "the official release has {n:,}"
    """Note on the official number where the folder has another one."""


def load_published(published: PublishedSet, folder: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of a published set.

    Args:
        published: Description of the set.
        folder: Folder of the set, or one above it.
        options: Options of reading; ``skip_missing`` leaves out images whose file is absent.

    Raises:
        InputError: A table or images are missing, or a file has another form than the set's.
    """
    notes: list[str] = []
    try:
        root = find_root(
            folder, published.name, published.holds or (lambda f: bool(_table(published, f))), published.expected, notes
        )
    except InputError:
        if published.refuse is not None:
            published.refuse(folder)
        raise
    draft = Draft(table=pd.DataFrame(), root=root, name=published.name, notes=notes, kind=published.kind)
    draft.group_from, draft.group_fallback = published.group_from, published.group_fallback
    rows = table_rows(published, root) if published.rows is None else published.rows(root, draft, options)
    placed = rows.placed
    if placed is None:
        files = OfficialFiles.below(draft.root, options, draft.name)
        names = rows.images if rows.files is None else rows.files
        placed = files.place(names, draft.name, prefer=published.prefer)
        files.skip_others(draft, rows.source, names, placed)
    columns = {"image": rows.images, "path": placed, "label": rows.labels, "group": rows.groups, "split": rows.split}
    present = {name: values for name, values in columns.items() if values is not None}
    draft_table(draft, present | {"dataset": [draft.name] * len(rows.images)}, rows.extra)
    if rows.keep is not None:
        leave_out(draft, rows.keep, rows.reason)
        if draft.table.empty:
            raise InputError(
                f"{draft.name}: every image of {rows.source} is labelled {rows.reason!r}, which is left out"
            )
    leave_out_missing(draft, options)
    draft.notes += [*rows.notes, *rows.late_notes(draft)]
    if official := published.n_images if rows.n_images is None else rows.n_images:
        note_count(draft, official, published.count_note)
    note_skipped(draft)
    return finish_draft(draft, options)


def _table(published: PublishedSet, folder: Path) -> Path | None:
    return next((folder / name for name in published.tables if (folder / name).is_file()), None)


def table_rows(published: PublishedSet, root: Path, path: Path | None = None) -> Rows:
    """Return the rows of a set's table, by the columns that the set names.

    Raises:
        InputError: A column is missing, or a label is unknown.
    """
    path = path or _table(published, root)
    assert path is not None
    used = [published.image, published.group, published.label]
    table = read_columns(path, used)
    images, groups, labels = (column_texts(table, column) for column in used)
    allowed = (*published.classes, published.left_out) if published.left_out else published.classes
    check_labels(labels, allowed, path.name)
    rows = Rows(images, path.name, labels, groups, extra=table.drop(columns=used))
    rows.notes = [published.rule.format(table=path.name)] if published.rule else []
    if published.left_out:
        rows.keep, rows.reason = [label != published.left_out for label in labels], published.left_out
    return rows
