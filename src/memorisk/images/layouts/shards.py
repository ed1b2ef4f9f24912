"""Data sets of the ``datasets`` library on the disk: images, labels and groups in Parquet and Arrow files (shards).

Read with pyarrow alone: a folder that ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote
(``state.json`` lists its shards, ``dataset_dict.json`` a folder for each split); the library's own cache folder
(``name-train.arrow``); Parquet shards as on the Hugging Face hub (``data/train-00000-of-00002.parquet``,
``default/train/0000.parquet``); one Parquet file. An image is the content of a file in a column of structs
(``bytes``, ``path``), or where ``bytes`` is missing the file at ``path``, which must lie below the folder. Labels
that are numbers of classes get the classes' names. An id comes from a column of ids, else from the name in ``path``
where all names differ, else from the row's place.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from memorisk.images.columns import SPLITS, Role, class_texts, label_texts, pick, shown_names, text, texts
from memorisk.images.identity import normal_ids
from memorisk.images.layouts.draft import Draft, keep_user_columns
from memorisk.images.layouts.draft_steps import finish_draft
from memorisk.images.layouts.files import FileFinder, is_within, refuse_escape, walk_files
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import PARQUET, decoding, file_format
from memorisk.images.readers.shards import (
    NOTE,
    Features,
    null_counts,
    read_features,
    shard_columns,
    shard_schema,
)
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

DICT, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
_NUMBERED = re.compile(r"(.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?")


@dataclass(frozen=True)
class Shard:
    """File of a data set that holds rows of it."""

    path: str
    """Path relative to the folder, with ``/``."""
    split: str
    """Split by the data set's name; empty where it has none."""


def saved_shards(folder: Path) -> list[Shard]:
    """Return the shards of a folder that ``save_to_disk`` wrote, as its JSON files list them.

    Raises:
        InputError: A JSON file is broken, names a path outside the folder, or the rows follow a list of indices.
    """
    if not (folder / DICT).is_file():
        state = _json(folder / STATE)
        if state.get("_indices_data_files"):
            raise InputError(
                f"{one_line(folder)}: its rows go by a list of indices, as old versions wrote it; save it again after "
                "dataset.flatten_indices()"
            )
        files = [_plain(entry, folder / STATE) for entry in _list(state.get("_data_files"), folder / STATE)]
        return [Shard(file, text(state.get("_split")) if "_split" in state else "") for file in files]
    names = [_plain(name, folder / DICT) for name in _list(_json(folder / DICT).get("splits"), folder / DICT)]
    return [Shard(f"{name}/{shard.path}", name) for name in names for shard in saved_shards(folder / name)]


def hub_shards(root: Path, files: Iterable[str]) -> list[Shard]:
    """Return the shards among the Parquet and Arrow files of a folder: those with a column of images.

    A split is the text before ``-00000-of-00002``, else a folder or part of the name that is called like one.

    Raises:
        InputError: The shards belong to several configurations, which are several data sets.
    """
    by_folder: dict[str, list[Shard]] = {}
    for file in files:
        *folders, name = file.split("/")
        if name.startswith(("cache-", "tmp")) or not _has_images(root / file):
            continue
        parts = [part for part in folders if part.lower() not in SPLITS and part != "data"]
        by_folder.setdefault("/".join(parts), []).append(Shard(file, _split_of(folders, name.rpartition(".")[0])))
    if len(by_folder) > 1:
        names = listed([name or "the folder itself" for name in sorted(by_folder)])
        raise InputError(f"{one_line(root)}: holds several data sets ({names}); give the folder or file of one")
    return next(iter(by_folder.values()), [])


def is_shard(path: Path, options: ImageOptions) -> bool:
    """Return whether a Parquet or Arrow file holds the images themselves and the options do not make it a list."""
    if options.path_column is not None:
        return False
    try:
        with decoding(path):
            schema = shard_schema(path)
            features = read_features(schema, path.parent)
    except InputError:
        return False  # reading it as a table reports the error
    if options.image_column in schema.names:
        return options.image_column in (*features.images, *features.lists)
    return bool(features.images or features.lists)


def _split_of(folders: list[str], stem: str) -> str:
    numbered = _NUMBERED.fullmatch(stem)
    base = numbered[1] if numbered else stem
    split_folder = next((folder for folder in reversed(folders) if folder.lower() in SPLITS), "")
    token = next((t for t in reversed(re.split(r"[-._ ]+", base)) if t.lower() in SPLITS), "")
    return split_folder or token or (base if numbered else "")


def _has_images(path: Path) -> bool:
    try:
        with decoding(path):
            features = read_features(shard_schema(path), path.parent)
            return bool(features.images or features.lists)
    except InputError:
        return False


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{one_line(path)}: cannot be read ({one_line(error, 120)})") from None
    if not isinstance(document, dict):
        raise InputError(f"{one_line(path)}: is not what dataset.save_to_disk writes")
    return document


def _list(document: Any, path: Path) -> list[Any]:
    if not isinstance(document, list):
        raise InputError(f"{one_line(path)}: is not what dataset.save_to_disk writes")
    return document


def _plain(entry: Any, path: Path) -> str:
    """Return the name of a file or folder in the same folder as a JSON file.

    Raises:
        InputError: The name is not a plain name.
    """
    name = entry.get("filename") if isinstance(entry, dict) else entry
    if not isinstance(name, str) or not name or name in (".", "..") or set(name) & set("/\\\0"):
        raise InputError(f"{one_line(path)}: names {one_line(name, 60)!r}, and no such file lies in its folder")
    return name


@dataclass
class _Part:
    """Rows of one shard."""

    shard: Shard
    columns: dict[str, list[Any]]
    """Values of the columns with a role, by the column's name."""
    extra: pd.DataFrame
    embedded: np.ndarray
    """Whether the image's content is in the shard, [n]."""
    called: list[str]
    """Name that came with each image; empty where it has none."""
    n: int = field(init=False)

    def __post_init__(self) -> None:
        self.n = len(self.embedded)


def load_shards(root: Path, shards: list[Shard], options: ImageOptions, name: str) -> Manifest:
    """Return the manifest of shards; no pixel is decoded.

    Args:
        root: Folder of the shards and of the files that they name.
        shards: Shards in the order of the rows.
        options: Options of reading; ``image_column`` chooses among several columns of images.
        name: Name of the data set.

    Raises:
        InputError: The shards have no column of images, or several and none is named, or different columns; the options
            set frames; files leave the folder; or `memorisk.images.layouts.draft_steps.finish_draft` refuses them.
    """
    if not shards:
        raise InputError(f"{one_line(name)}: no images (no Arrow or Parquet file with rows)")
    if options.path_column is not None or options.frames in ("middle", "all"):
        which = "path_column" if options.path_column is not None else f"frames {options.frames}"
        raise InputError(f"{one_line(name)}: {which} is for files; the images of this data set lie in its rows")
    _refuse_outside(root, shards, options, name)
    draft = Draft(table=pd.DataFrame(), root=root, name=name)
    features, roles = _roles(root, shards, options, draft)
    parts = []
    for shard in shards:
        with decoding(root / shard.path):
            parts.append(_read(root, shard, roles))
    _fill(draft, parts, features, roles, options)
    if "group" in roles and options.group_from is None:
        draft.group_from = f"column {one_line(roles['group'], 60)}"
        draft.group_fallback = "name another group_column, or give a group_from"
    return finish_draft(draft, options)


def _refuse_outside(root: Path, shards: list[Shard], options: ImageOptions, name: str) -> None:
    """Refuse shards that are absent, or links to somewhere outside the folder."""
    real = os.path.realpath(root)
    absent = [shard.path for shard in shards if not (root / shard.path).is_file()]
    if absent:
        raise InputError(f"{one_line(name)}: {len(absent):,} of its files are absent ({listed(absent)})")
    leading = [shard.path for shard in shards if not is_within(real, os.path.realpath(root / shard.path))]
    refuse_escape([] if options.follow_links else leading, name, "follow_links accepts them")


def _roles(root: Path, shards: list[Shard], options: ImageOptions, draft: Draft) -> tuple[Features, dict[str, str]]:
    """Return the role of each column (``pixels`` is the images'), and note what was guessed.

    Raises:
        InputError: The same errors as :func:`load_shards`.
    """
    first = root / shards[0].path
    with decoding(first):
        schema = shard_schema(first)
        features = read_features(schema, first.parent if (first.parent / INFO).is_file() else root)
    if written := (schema.metadata or {}).get(NOTE):
        draft.notes.append(one_line(written.decode(errors="replace"), 200))
    roles = {"pixels": _image_column(schema, features, options, draft.name)}
    for shard in shards[1:]:
        with decoding(root / shard.path):
            other = shard_schema(root / shard.path)
        if set(other.names) != set(schema.names):
            raise InputError(
                f"{one_line(draft.name)}: {one_line(shard.path)} has other columns than {one_line(shards[0].path)}; "
                "they are not parts of one data set, give the folder or file of one"
            )
    others = [n for n in schema.names if n != roles["pixels"]]
    names: dict[Role, str | None] = {
        "label": options.label_column if options.labels_csv is None else None,
        "group": options.group_column if options.labels_csv is None else None,
        "split": options.split_column if options.labels_csv is None else None,
        "dataset": options.dataset_column if options.labels_csv is None else None,
        "image": None,
    }
    unused = {"label": options.labels_csv or options.label_from, "group": options.group_from}
    for role, name in names.items():
        column = None if unused.get(role) else pick(others, role, name, draft.name)
        if role == "label" and column is None and not unused["label"]:
            column = _only_classes(others, features, draft)
        if column is not None and column not in roles.values():
            roles[role] = column
    if options.group_column is None and roles.get("group") == roles["pixels"]:
        del roles["group"]
    if written and "group" not in roles and options.group_from is None and options.labels_csv is None:
        draft.notes.append(
            "No group: each image is its own. Name a key of its items with group_column, or give "
            "memorisk.save_dataset a value for each image (groups)."
        )
    roles_shown = ", ".join(
        f"{'images are' if r == 'pixels' else r + ' is'} {one_line(c, 60)}" for r, c in roles.items()
    )
    draft.notes.append(f"Columns: {roles_shown}.")
    return features, roles


def _image_column(schema: pa.Schema, features: Features, options: ImageOptions, source: str) -> str:
    """Return the column of images.

    Raises:
        InputError: The data set has none, or several and the user names none.
    """
    column = options.image_column if options.labels_csv is None else None
    if features.lists and (column in features.lists or not features.images):
        raise InputError(
            f"{one_line(source)}: column {one_line(column or features.lists[0], 60)} holds a list of images in each "
            "row: write one row for each image, with its label and the id of its patient"
        )
    if column is not None:
        if column not in schema.names:
            raise unknown_name(
                f"image column of {one_line(source)}:", column, shown_names(features.images or schema.names)
            )
        kind = schema.field(column).type
        if column not in features.images and not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            raise InputError(
                f"{one_line(source)}: column {one_line(column, 60)} is of type {one_line(kind, 60)}, not images "
                f"({listed(features.images) or 'no column'} is); cast it by dataset.cast_column(name, datasets.Image())"
            )
        return column
    if not features.images:
        raise InputError(
            f"{one_line(source)}: no column of images among {listed(shown_names(schema.names), 12)}; cast one by "
            "dataset.cast_column(name, datasets.Image()), or name a column of file contents with image_column"
        )
    if len(features.images) > 1:
        several = listed(shown_names(features.images), 8)
        raise InputError(f"{one_line(source)}: several columns hold images ({several}); name one with image_column")
    return next(iter(features.images))


def _only_classes(columns: list[str], features: Features, draft: Draft) -> str | None:
    """Return the only column of classes; where there are several, they are noted and none is taken."""
    candidates = [column for column in columns if column in features.classes]
    if len(candidates) > 1:
        draft.notes.append(
            f"No label: several columns hold classes ({listed(candidates)}); name one with label_column."
        )
    return candidates[0] if len(candidates) == 1 else None


def _read(root: Path, shard: Shard, roles: dict[str, str]) -> _Part:
    """Read the columns of one shard, and the places of its images."""
    path, pixels = root / shard.path, roles["pixels"]
    schema = shard_schema(path)
    columns_read = [n for n in schema.names if n != pixels and (n in roles.values() or _is_plain(schema.field(n).type))]
    is_struct = pa.types.is_struct(schema.field(pixels).type)
    leaves = [f"{pixels}.path"] if is_struct else []
    if not (is_struct and file_format(path).name == PARQUET and null_counts(path, f"{pixels}.bytes") == 0):  # type: ignore[union-attr]
        leaves.append(f"{pixels}.bytes" if is_struct else pixels)
    table = shard_columns(path, [*columns_read, *leaves])
    image = table.column(pixels).combine_chunks() if pixels in table.column_names else None
    embedded, called = np.ones(table.num_rows, bool), [""] * table.num_rows
    if image is not None:
        arrays = image.chunks if isinstance(image, pa.ChunkedArray) else [image]
        embedded = np.concatenate([_embedded(a) for a in arrays]) if arrays else embedded[:0]
        called = [name for a in arrays for name in _called(a)]
    columns = {name: table.column(name).to_pylist() for name in columns_read if name in roles.values()}
    others = [name for name in columns_read if name not in roles.values()]
    extra = table.select(others).to_pandas(integer_object_nulls=True)
    return _Part(shard, columns, extra, embedded, called)


def _embedded(image: pa.Array) -> np.ndarray:
    """Return [n] whether a value holds content; True for all where only the names were read."""
    if not pa.types.is_struct(image.type):
        return np.asarray(image.is_valid(), dtype=bool)
    if image.type.get_field_index("bytes") < 0:
        return np.ones(len(image), bool)
    return np.asarray(image.is_valid(), dtype=bool) & np.asarray(image.field("bytes").is_valid(), dtype=bool)


def _called(image: pa.Array) -> list[str]:
    if not pa.types.is_struct(image.type) or image.type.get_field_index("path") < 0:
        return [""] * len(image)
    return texts(image.field("path").to_pylist())


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a table of the images can hold a column of this type."""
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _fill(draft: Draft, parts: list[_Part], features: Features, roles: dict[str, str], options: ImageOptions) -> None:
    """Set the draft's table: one row for each image of all parts, in order.

    Raises:
        InputError: A class has no name, or files leave the folder or are absent.
    """
    called = [name for part in parts for name in part.called]
    embedded = np.concatenate([part.embedded for part in parts])
    splits = [part.shard.split for part in parts for _ in range(part.n)]
    rows = [row for part in parts for row in range(part.n)]
    table = pd.DataFrame({"image": _ids(parts, called, splits, roles, draft)}, dtype=object)
    table["path"] = [part.shard.path for part in parts for _ in range(part.n)]
    table["member"] = roles["pixels"]
    table["frame"] = pd.array(rows, dtype="Int64")
    if any(splits):
        table["split"] = splits
    for role in ("label", "group", "split", "dataset"):
        if role in roles:
            column = roles[role]
            values = [value for part in parts for value in part.columns[column]]
            read = label_texts if role == "label" else class_texts
            table[role] = read(values, features.classes.get(column), column, draft.name)
    extra = pd.concat([part.extra for part in parts], ignore_index=True)
    draft.table = keep_user_columns(table, {str(c): pd.Series(extra[c]) for c in extra.columns})
    if any(called):
        draft.called = [name or image for name, image in zip(called, table["image"], strict=True)]
    _locate(draft, called, embedded, options)


def _ids(parts: list[_Part], called: list[str], splits: list[str], roles: dict[str, str], draft: Draft) -> list[str]:
    """Return the ids: a column of ids, else the names that came with the images, else their places; each only once."""
    several = len(set(splits)) > 1
    before = [f"{split}/" if several and split else "" for split in splits]
    if "image" in roles:
        ids = normal_ids([text(value) for part in parts for value in part.columns[roles["image"]]])
        if len(set(ids)) == len(ids) and "" not in ids:
            return ids
        column = one_line(roles["image"], 60)
        draft.notes.append(f"Column {column} is not an id: it is empty or the same in several rows.")
    names = [b + _relative(name) for b, name in zip(before, called, strict=True)]
    if all(called) and len(set(names)) == len(names):
        return names
    counts: dict[str, int] = {}
    places = []
    for b in before:
        places.append(counts.get(b, 0))
        counts[b] = places[-1] + 1
    return [f"{b}{place:0{len(str(counts[b] - 1))}d}" for b, place in zip(before, places, strict=True)]


def _relative(name: str) -> str:
    """Return the relative name of an image: one that starts at a root or leaves the folder is cut to its last part."""
    parts = name.replace("\\", "/").split("/")
    return parts[-1] if parts[0] in ("", "..", ".") or ":" in parts[0] or ".." in parts else "/".join(parts)


def _locate(draft: Draft, called: list[str], embedded: np.ndarray, options: ImageOptions) -> None:
    """Set the paths of the images that lie in files of their own.

    Raises:
        InputError: A file leaves the folder, is absent, or its name fits several files.
    """
    outside = [row for row in np.flatnonzero(~embedded).tolist() if called[row]]
    if not outside:
        return
    folder = options.image_root if options.image_root is not None else draft.root
    follow = options.follow_links
    finder = FileFinder(folder, lambda: walk_files(folder, follow_links=follow).files, follow_links=follow)
    files = {row: finder.find(called[row]) for row in outside}
    refuse_escape(
        finder.escaping, draft.name, "give image_root if the images lie elsewhere, or embed them in the data set"
    )
    absent = [called[row] for row, file in files.items() if file is None]
    if absent:
        raise InputError(
            f"{one_line(draft.name)}: {len(absent):,} images are neither in the data set nor in one file below "
            f"{one_line(folder)} ({listed(absent)}); give image_root, or embed them (dataset.save_to_disk does)"
        )
    root = Path(os.path.commonpath([os.path.realpath(folder), os.path.realpath(draft.root)]))
    paths = draft.table["path"].tolist()
    here, images_from_root = (os.path.relpath(os.path.realpath(place), root) for place in (draft.root, folder))
    paths = [os.path.normpath(os.path.join(here, path)) for path in paths]  # noqa: PTH118
    for row, file in files.items():
        paths[row] = os.path.normpath(os.path.join(images_from_root, str(file)))  # noqa: PTH118
    draft.root = root
    draft.table["path"] = [path.replace(os.sep, "/") for path in paths]
    rows = list(files)
    draft.table.loc[rows, "member"] = ""
    draft.table.loc[rows, "frame"] = pd.NA
