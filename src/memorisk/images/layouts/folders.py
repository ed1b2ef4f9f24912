"""Folders: class folders of ordinary images or NIfTI volumes, a tree of DICOM files, images with a file of metadata.

The class of an image is the folder it lies in. A train, val or test folder above the classes gives the split; where
the images' own folders have such names they are splits, not classes. Where all images lie in one folder of a neutral
name (``images``), the set has no classes.

``metadata.csv``, ``.jsonl`` or ``.parquet`` make what ``datasets`` calls an image folder. Each such file describes
the images of its folder and of those below it. Its column ``file_name`` is a path from there; the others are label,
group and further data of the images. Where several files describe one image, the nearest counts. A label
there replaces the one of the folders' names; a folder called train, val or test is then a split, at any level.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from memorisk.images.clean_set import CLEAN_MANIFEST, FILE_NAME_COLUMN, read_manifest_bytes
from memorisk.images.columns import SPLITS, label_column, label_values, read_described, texts
from memorisk.images.identity import normal_ids
from memorisk.images.layouts.dicom import dicom_draft
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.draft_steps import finish_draft, refuse_unused
from memorisk.images.layouts.files import Walk, plain_stem, refuse_escape, walk_files
from memorisk.images.layouts.label_tables import one_each, take_columns
from memorisk.images.layouts.shards import hub_shards, load_shards
from memorisk.images.manifest import TABLE_FILE, TEXT_FILE, Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import SHARDS, Kind, file_format
from memorisk.images.readers.suffixes import KIND_BY_SUFFIX, suffix
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.runs.tables import unquote_table

NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_NOT_CLASSES = frozenset(
    (
        "images",
        "image",
        "img",
        "imgs",
        "pictures",
        "photos",
        "data",
        "files",
        "raw",
        "png",
        "jpg",
        "jpeg",
        "nii",
        "nifti",
    )
)
_TEXTS = frozenset(
    (".txt", ".md", ".rst", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".log")
) | {".html", ".htm", ".xml", ".py", ".ipynb", ".sha256", ".md5"}
_BEGINNING = 8192
_LAYOUTS: dict[Kind, str] = {"raster": "folder", "dicom": "dicom", "nifti": "nifti"}
_STRAY = 0.1
"""Largest share of image files that may be of another kind than the rest and be skipped; above it the user decides."""
_MASKS = re.compile(
    r"(ground[_ -]?truths?|masks?|gt|seg(mentations?)?|segmentation(class|object)|annotations?|labels?(tr|ts)?)", re.I
)
"""Pattern of the names of folders of masks."""
_FURTHER = re.compile(r"(.+?)[_. -]([A-Za-z][A-Za-z_-]*)")
"""Pattern of a file's stem that consists of another file's stem and a word without digits."""
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".7z", ".rar")


@dataclass(frozen=True)
class Metadata:
    """Metadata files of a folder, one below the other."""

    files: tuple[str, ...]
    """Paths of the files, relative to the folder."""
    table: pd.DataFrame
    """Table of their rows; a column that a file lacks is empty there."""
    paths: list[str]
    """Path of the image from the folder, for each row."""
    file_of_row: list[int]
    """Number of the file that holds each row."""

    def rows_of_images(self, images: list[str]) -> list[list[int]]:
        """Return the rows that describe each image; where several files do, those of the deepest one."""
        rows: dict[str, list[int]] = {}
        for row, (path, file) in enumerate(zip(normal_ids(self.paths), self.file_of_row, strict=True)):
            of_path = rows.setdefault(path, [])
            if of_path and self.file_of_row[of_path[0]] != file:
                of_path.clear()  # the deeper file comes later
            of_path.append(row)
        return [rows.get(path, []) for path in normal_ids(images)]


def folder_metadata(root: Path, files: list[str], options: ImageOptions) -> Metadata | None:
    """Return the metadata of a folder, or None where it has none or another table is to be joined.

    Args:
        root: Path of the folder.
        files: Relative paths of the folder's files that are not images.
        options: Options of reading; ``labels_csv`` replaces metadata.

    Raises:
        InputError: A file cannot be read, or names something outside the folder.
    """
    if options.labels_csv is not None:
        return None
    tables: list[tuple[str, pd.DataFrame]] = []
    for file in sorted((f for f in files if f.rsplit("/", 1)[-1] in NAMES), key=lambda f: f.count("/")):
        table = read_described(root / file)
        if file.endswith(CLEAN_MANIFEST) and read_manifest_bytes((root / file).read_bytes()) is not None:
            table = unquote_table(table)
        if FILE_NAME_COLUMN in table.columns:
            tables.append((file, table))
    if not tables:
        return None
    paths, escaping, file_of_row = [], [], []
    for number, (file, table) in enumerate(tables):
        file_of_row += [number] * len(table)
        for name in texts(table[FILE_NAME_COLUMN]):
            path = _below(file.rpartition("/")[0], name)
            paths.append(path or "")
            escaping += [name] if path is None else []
    refuse_escape(escaping, root.name, f"{FILE_NAME_COLUMN} is a path below the folder that the metadata lie in")
    joined = pd.concat([table for _, table in tables], ignore_index=True)
    return Metadata(tuple(file for file, _ in tables), joined, paths, file_of_row)


def join_metadata(draft: Draft, metadata: Metadata, options: ImageOptions) -> None:
    """Add the metadata of the images to a draft's rows: label, group, split and other columns.

    Raises:
        InputError: Rows of one image disagree, or a named column does not exist.
    """
    source = " and ".join(metadata.files)
    rows = metadata.rows_of_images(draft.table["path"].tolist())
    matched = [of_image[0] for of_image in rows if of_image]
    draft.notes.append(
        f"{one_line(source)}: {len(matched):,} of {len(rows):,} images have a row, {len(set(matched)):,} of "
        f"{len(metadata.paths):,} rows an image."
    )
    used = {FILE_NAME_COLUMN}
    others = metadata.table.drop(columns=FILE_NAME_COLUMN)
    label = None if options.label_from is not None else label_column(others, options.label_column, source)
    if label is not None:
        labels = label_values(metadata.table, label, source)
        draft.table["label"] = one_each(rows, labels, "label", metadata.paths, source)
        draft.labels_from_folders = False
        draft.notes.append(f"Label: column {one_line(label, 60)} of {one_line(source)}, not the folders' names.")
        folders = [path.lower().split("/")[:-1] for path in draft.table["path"].tolist()]
        draft.table = draft.table.drop(columns="split", errors="ignore")
        splits = [next((SPLITS[f] for f in reversed(of) if f in SPLITS), "") for of in folders]
        if any(splits):
            draft.table["split"] = splits
        used.update([label] if label in metadata.table.columns else [part.strip() for part in label.split(",")])
    take_columns(draft, metadata.table, rows, options, used=used, key=FILE_NAME_COLUMN, source=source)


def _below(folder: str, name: str) -> str | None:
    """Return a row's path from the source's folder; None where it leaves the folder of its metadata."""
    parts = [part for part in name.strip().replace("\\", "/").split("/") if part != "."]
    if not parts or parts[0] == "" or ".." in parts or ":" in parts[0]:
        return None
    return "/".join([*folder.split("/"), *parts]) if folder else "/".join(parts)


def load_folder(root: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of a folder.

    Raises:
        InputError: The folder has no images, mixed kinds without a layout, links that leave it, or names that are not
            UTF-8, or :func:`memorisk.images.layouts.draft_steps.finish_draft` refuses it.
    """
    walk = walk_files(root, follow_links=options.follow_links)
    refuse_escape(walk.escaping, root.name or ".", "follow_links accepts them")
    by_kind, others, tables = _by_kind(root, walk.files)
    if tables and options.layout in ("auto", "shards") and (shards := hub_shards(root, tables)):
        _refuse_mixed(root, by_kind, len(shards), options)
        return load_shards(root, shards, options, root.resolve().name or "images")
    kind = _chosen_kind(root, by_kind, others, options)
    draft = Draft(
        table=pd.DataFrame(), root=root, name=root.resolve().name or "images", skipped=[*walk.skipped], kind=kind
    )
    metadata = None if kind == "dicom" else folder_metadata(root, others, options)
    if metadata is None:
        refuse_unused(options, root.name, allowed=("label_column",) if kind == "dicom" else ())
    else:
        others = [file for file in others if file not in metadata.files]
    _note_others(draft, walk, by_kind, others, kind, options)
    if kind == "dicom":
        return finish_draft(dicom_draft(draft, by_kind["dicom"], options), options)
    files = by_kind.get(kind, [])
    draft.table = pd.DataFrame({"image": files, "path": files}, dtype=object)
    _note_masks(draft, files)
    labels, splits = folder_labels(files)
    if options.labels_csv is None:
        draft.table["label"], draft.labels_from_folders = labels, True
    if any(splits):
        draft.table["split"] = splits
    if metadata is not None:
        join_metadata(draft, metadata, options)
    return finish_draft(draft, options)


def _note_masks(draft: Draft, files: list[str]) -> None:
    """Note files whose names extend another image's: masks and further versions of it count as images, too."""
    stems = {file: plain_stem(file.rsplit("/", 1)[-1]) for file in files}
    in_masks = [file for file in files if any(_MASKS.fullmatch(folder) for folder in file.split("/")[:-1])]
    images = set(stems.values()) - {stems[file] for file in in_masks}
    others = {file: match for file, stem in stems.items() if (match := _FURTHER.fullmatch(stem)) and match[1] in images}
    words = Counter(match[2] for match in others.values())
    further = [file for file in files if file in in_masks or (file in others and words[others[file][2]] > 1)]
    if further and len(further) < len(files):
        draft.notes.append(
            f"{plural(len(further), 'file is', 'files are')} called as another image or lie in a folder of masks "
            f"({listed(further, 3)}): masks and further versions of an image count as images here, and without patient "
            "ids as patients; move them out of the folder if they are none."
        )


def folder_labels(files: list[str]) -> tuple[list[str], list[str]]:
    """Return the class and the split of each relative path by the module's rule; empty where there is none."""
    folders = [file.split("/")[:-1] for file in files]
    own = {parts[-1].lower() for parts in folders if parts}
    own_are_splits = bool(own) and own <= set(SPLITS)
    nameless = len(own) == 1 and own <= _NOT_CLASSES
    labels, splits = [], []
    for parts in folders:
        above = parts if own_are_splits else parts[:-1]
        split = next((SPLITS[part.lower()] for part in reversed(above) if part.lower() in SPLITS), "")
        labels.append("" if own_are_splits or nameless or not parts else parts[-1])
        splits.append(split)
    return labels, splits


def _by_kind(root: Path, files: list[str]) -> tuple[dict[Kind, list[str]], list[str], list[str]]:
    """Return image files by kind, the other files, and the Parquet and Arrow files among those.

    A usual suffix is trusted: the reader checks the content.
    """
    by_kind: dict[Kind, list[str]] = {}
    others, tables = [], []
    for file in files:
        kind = KIND_BY_SUFFIX.get(suffix(file))
        if kind is None:
            inside = file_format(root / file)
            kind = inside.kind if inside is not None else None
            tables += [file] if inside is not None and inside.module == SHARDS else []
        if kind is None or kind == "arrays":
            others.append(file)
        else:
            by_kind.setdefault(kind, []).append(file)
    return by_kind, others, tables


def _refuse_mixed(root: Path, by_kind: dict[Kind, list[str]], n_shards: int, options: ImageOptions) -> None:
    """Refuse a folder with images as files and in shards.

    Raises:
        InputError: The folder has both, and no layout chooses one.
    """
    if by_kind and options.layout == "auto":
        layouts = " or ".join([*(_LAYOUTS[kind] for kind in by_kind), "shards"])
        raise InputError(
            f"{one_line(root)}: holds image files ({sum(map(len, by_kind.values())):,}) and files with images in their "
            f"rows ({n_shards:,} of Parquet or Arrow); choose with --layout: {layouts}"
        )


def _is_text(path: Path) -> bool:
    """Return whether a file is text by its name and by its beginning: notes, tables, a licence next to the images."""
    if path.suffix.lower() not in _TEXTS and path.name not in ("LICENSE", "README"):
        return False
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(_BEGINNING)
    except OSError:
        return False


def _chosen_kind(root: Path, by_kind: dict[Kind, list[str]], others: list[str], options: ImageOptions) -> Kind:
    """Return the kind of images to take: without a layout that of nearly all; a few others are listed as not read.

    Raises:
        InputError: The folder has no images, or many of several kinds and no layout chooses one.
    """
    kinds: dict[str, Kind] = {layout: kind for kind, layout in _LAYOUTS.items()}
    if options.layout in kinds:
        return kinds[options.layout]
    if options.layout != "auto":
        raise InputError(f"layout {options.layout} is for a file; {one_line(root)} is a folder")
    if not by_kind:
        suffixes = (".csv", ".tsv", ".parquet", ".npz", ".npy", ".h5", ".hdf5", ".gz")
        tables = [f for f in others if suffix(f) in suffixes and not f.lower().endswith(_ARCHIVES)]
        hint = f"; give one of its files instead ({listed(tables, 3)})" if tables else _ways_out(others)
        raise InputError(f"{one_line(root)}: no images in this folder ({len(others):,} other files){hint}")
    most = max(by_kind, key=lambda kind: len(by_kind[kind]))
    n = sum(map(len, by_kind.values()))
    if n - len(by_kind[most]) > _STRAY * n:
        counts = ", ".join(f"{len(files):,} {kind}" for kind, files in by_kind.items())
        layouts = " or ".join(_LAYOUTS[kind] for kind in by_kind)
        raise InputError(f"{one_line(root)}: holds images of several kinds ({counts}); choose with --layout: {layouts}")
    return most


def _ways_out(others: list[str]) -> str:
    """Suggest a remedy for a folder without images: one that torchvision wrote, or one of archives; else empty."""
    names = {file.rsplit("/", 1)[-1] for file in others}
    if {"data_batch_1", "batches.meta"} <= names or {"train", "test", "meta"} <= names:
        return (
            "; CIFAR's Python version is pickled, which is never loaded: get the binary version (cifar10:FOLDER, "
            "cifar100:FOLDER), or in Python save what torchvision read (memorisk.save_dataset)"
        )
    sets = {
        "data_batch_1.bin": "cifar10",
        "train_X.bin": "stl10",
        "train_32x32.mat": "svhn",
        "train.bin": "cifar100",
    }
    dataset = next((sets[name] for name in sets if name in names), None)
    if dataset:
        return f"; is it {dataset}:FOLDER?"
    archives = [file for file in others if file.lower().endswith(_ARCHIVES)]
    return f"; unpack {listed(archives, 3)}" if archives else ""


def _note_others(
    draft: Draft, walk: Walk, by_kind: dict[Kind, list[str]], others: list[str], kind: Kind, options: ImageOptions
) -> None:
    """List the files that are not taken.

    Raises:
        InputError: File names are not UTF-8 and ``skip_unreadable`` is not set.
    """
    if walk.not_utf8 and not options.skip_unreadable:
        raise InputError(
            f"{one_line(draft.name)}: {len(walk.not_utf8):,} file names are not UTF-8 ({listed(walk.not_utf8)}); "
            "rename them, or skip_unreadable leaves them out"
        )
    for file in walk.not_utf8:
        draft.skip(file, "the file name is not UTF-8")
    for file in others:
        text = TABLE_FILE if suffix(file) in (".csv", ".tsv", ".jsonl") and options.labels_csv is None else TEXT_FILE
        draft.skip(file, text if _is_text(draft.root / file) else "of a kind that is not read")
    for other, files in by_kind.items():
        if other != kind:
            for file in files:
                rest = f"the others are {kind}" if options.layout == "auto" else f"the layout is {options.layout}"
                draft.skip(file, f"{other}, where {rest}")
    for reason, n in Counter(reason for _, reason in draft.skipped).items():
        paths = [path for path, why in draft.skipped if why == reason]
        draft.notes.append(f"{n:,} {'file' if n == 1 else 'files'} left out, {reason}: {listed(paths, 3)}.")
