"""Where the shards of a data set lie: as ``datasets`` saves, caches and publishes them.

``save_to_disk`` lists them in ``state.json``, a folder for each split in ``dataset_dict.json``. On the hub and in the
library's cache the names say it: ``data/train-00000-of-00002.parquet``, ``default/train/0000.parquet``,
``name-train.arrow``.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.images.columns import SPLITS, text
from memorisk.images.decoding.formats import SHARDS, file_format
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import decoding
from memorisk.images.readers.shards import shard_schema
from memorisk.images.sources.shard_features import read_features
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line

DICT, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
_NUMBERED = re.compile(r"(.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?")


@dataclass(frozen=True)
class Shard:
    """A file of a data set."""

    path: str
    """Relative to the folder, with ``/``."""
    split: str
    """As the data set calls it; empty where it has none."""


def is_saved(folder: Path) -> bool:
    """Whether a folder is one that ``save_to_disk`` wrote."""
    return (folder / DICT).is_file() or ((folder / STATE).is_file() and (folder / INFO).is_file())


def saved_shards(folder: Path) -> list[Shard]:
    """The shards of a folder that ``save_to_disk`` wrote, as its JSON files list them.

    Raises:
        InputError: A JSON file is broken, names something outside the folder, or the rows go by a list of indices.
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
    """The shards among the files of a folder: Parquet and Arrow with a column of images, by their paths.

    A split is what stands before ``-00000-of-00002``, else a folder or part of the name that is called like one.

    Raises:
        InputError: They belong to several configurations, which are several data sets.
    """
    found: dict[str, list[Shard]] = {}
    for file in files:
        *folders, name = file.split("/")
        kind = file_format(root / file)
        if kind is None or kind.module != SHARDS or name.startswith(("cache-", "tmp")):
            continue
        if not _has_images(root / file):
            continue
        parts = [part for part in folders if part.lower() not in SPLITS and part != "data"]
        found.setdefault("/".join(parts), []).append(Shard(file, _split_of(folders, name.rpartition(".")[0])))
    if len(found) > 1:
        shown = listed([name or "the folder itself" for name in sorted(found)])
        raise InputError(f"{one_line(root)}: holds several data sets ({shown}); give the folder or file of one")
    return next(iter(found.values()), [])


def is_shard(path: Path, options: ImageOptions) -> bool:
    """Whether one Parquet or Arrow file holds the images themselves, and the options do not say that it lists files."""
    if options.path_column is not None:
        return False
    try:
        with decoding(path):
            schema = shard_schema(path)
            images = read_features(schema, path.parent).images
    except InputError:
        return False  # who reads it as a table says what is wrong
    return options.image_column in images if options.image_column in schema.names else bool(images)


def _split_of(folders: list[str], stem: str) -> str:
    numbered = _NUMBERED.fullmatch(stem)
    base = numbered[1] if numbered else stem
    named = next((folder for folder in reversed(folders) if folder.lower() in SPLITS), "")
    token = next((t for t in reversed(re.split(r"[-._ ]+", base)) if t.lower() in SPLITS), "")
    return named or token or (base if numbered else "")


def _has_images(path: Path) -> bool:
    try:
        with decoding(path):
            return bool(read_features(shard_schema(path), path.parent).images)
    except InputError:
        return False


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{one_line(path)}: cannot be read ({one_line(error, 120)})") from None
    if not isinstance(found, dict):
        raise InputError(f"{one_line(path)}: is not what dataset.save_to_disk writes")
    return found


def _list(found: Any, path: Path) -> list[Any]:
    if not isinstance(found, list):
        raise InputError(f"{one_line(path)}: is not what dataset.save_to_disk writes")
    return found


def _plain(entry: Any, path: Path) -> str:
    """The name of a file or folder that lies beside a JSON file.

    Raises:
        InputError: It is no plain name.
    """
    name = entry.get("filename") if isinstance(entry, dict) else entry
    if not isinstance(name, str) or not name or name in (".", "..") or set(name) & set("/\\\0"):
        raise InputError(f"{one_line(path)}: names {one_line(name, 60)!r}, which is no file beside it")
    return name
