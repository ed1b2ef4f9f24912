"""A folder of images with ``metadata.csv``, ``.jsonl`` or ``.parquet``, as ``datasets`` calls an image folder.

Each such file describes the images of its folder and of those below it: its column ``file_name`` is a path from there,
the others are label, group and whatever else is known of the images. Where several files describe one image, the
nearest does. A label there replaces the one of the folders' names; a folder called train, val or test is a split then,
wherever it stands.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from memorisk.images.columns import SPLITS, label_column, label_values, read_described, texts
from memorisk.images.exports.clean_manifest import FILE_NAME, MANIFEST, read_manifest_bytes
from memorisk.images.options import ImageOptions
from memorisk.images.paths import composed, refuse_escape
from memorisk.images.sources.draft import Draft
from memorisk.images.sources.labels import take_columns
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.formats.csv_tables import unquote_table

NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


@dataclass(frozen=True)
class Metadata:
    """What the files say, one below the other."""

    files: tuple[str, ...]
    """Relative paths."""
    table: pd.DataFrame
    """Their rows; a column that a file lacks is empty there."""
    paths: list[str]
    """Of each row the image's path from the folder."""


def folder_metadata(root: Path, files: list[str], options: ImageOptions) -> Metadata | None:
    """The metadata of a folder, or None where there is none or another table is to be joined.

    Args:
        root: The folder.
        files: Relative paths of its files that are no images.
        options: ``labels_csv`` takes the place of metadata.

    Raises:
        InputError: A file cannot be read, or names something outside the folder.
    """
    if options.labels_csv is not None:
        return None
    found: list[tuple[str, pd.DataFrame]] = []
    for file in sorted((f for f in files if f.rsplit("/", 1)[-1] in NAMES), key=lambda f: f.count("/")):
        table = read_described(root / file)
        if file.endswith(MANIFEST) and read_manifest_bytes((root / file).read_bytes()) is not None:
            table = unquote_table(table)
        if FILE_NAME in table.columns:
            found.append((file, table))
    if not found:
        return None
    paths, escaping = [], []
    for file, table in found:
        for name in texts(table[FILE_NAME]):
            path = _below(file.rpartition("/")[0], name)
            paths.append(path or "")
            escaping += [name] if path is None else []
    refuse_escape(escaping, root.name, f"{FILE_NAME} is a path below the folder that the metadata lie in")
    joined = pd.concat([table for _, table in found], ignore_index=True)
    return Metadata(tuple(file for file, _ in found), joined, paths)


def join_metadata(draft: Draft, metadata: Metadata, options: ImageOptions) -> None:
    """Give a draft's rows what the metadata say of them: label, group, split and other columns.

    Raises:
        InputError: A file describes an image twice, or a named column does not exist.
    """
    source = " and ".join(metadata.files)
    rows: dict[str, int] = {}
    for row, path in enumerate(metadata.paths):
        rows[composed(path)] = row  # of several files the deeper one comes later
    _refuse_twice(metadata)
    chosen = [rows.get(composed(path)) for path in draft.table["path"].tolist()]
    matched = [row for row in chosen if row is not None]
    draft.notes.append(
        f"{one_line(source)}: {len(matched):,} of {len(chosen):,} images have a row, {len(set(matched)):,} of "
        f"{len(metadata.paths):,} rows an image."
    )
    used = {FILE_NAME}
    others = metadata.table.drop(columns=FILE_NAME)
    label = None if options.label_from is not None else label_column(others, options.label_column, source)
    if label is not None:
        labels = label_values(metadata.table, label, source)
        draft.table["label"] = ["" if row is None else labels[row] for row in chosen]
        draft.notes.append(f"Label: column {one_line(label, 60)} of {one_line(source)}, not the folders' names.")
        folders = [path.lower().split("/")[:-1] for path in draft.table["path"].tolist()]
        draft.table["split"] = [next((SPLITS[f] for f in reversed(of) if f in SPLITS), "") for of in folders]
        used.update([label] if label in metadata.table.columns else [part.strip() for part in label.split(",")])
    take_columns(draft, metadata.table, chosen, options, used=used, source=source)


def _refuse_twice(metadata: Metadata) -> None:
    """Refuse an image that two rows of one file describe.

    Raises:
        InputError: There are some.
    """
    seen, twice = set(), []
    folders = {file.rpartition("/")[0] for file in metadata.files}
    for path in metadata.paths:
        twice += [path] if path in seen else []
        seen.add(path)
    if twice and len(folders) == len(metadata.files) == 1:
        raise InputError(
            f"{one_line(metadata.files[0])}: {len(twice):,} images have several rows ({listed(twice)}); give each one"
        )


def _below(folder: str, name: str) -> str | None:
    """A row's path from the source's folder; None where it leaves the folder of its metadata."""
    parts = [part for part in name.strip().replace("\\", "/").split("/") if part != "."]
    if not parts or parts[0] == "" or ".." in parts or ":" in parts[0]:
        return None
    return "/".join([*folder.split("/"), *parts]) if folder else "/".join(parts)
