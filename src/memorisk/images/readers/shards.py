"""Images in a column of Parquet and Arrow files (shards), as the ``datasets`` library keeps them, and its features.

``member`` names the column, ``frame`` the row. A value is the content of an image file (PNG, JPEG, TIFF, DICOM,
...), alone or as ``bytes`` of a struct, and is read by the reader of its own first bytes, with all of that reader's
rules and refusals. Rows are read one at a time, forward: in order, a file is read through once, with the memory of
one row of Parquet or one batch of Arrow, which is mapped. Every batch is validated before a value is taken, since
Arrow does not examine offsets that point outside it.

The features of a data set are its columns of images, its columns of classes, and the classes' names. The library
writes them as JSON into the schema of every Arrow and Parquet file (key ``huggingface``), into
``dataset_info.json``, and on the hub as YAML into ``README.md``. Where all of these are absent, a column of structs
with exactly the fields ``bytes`` and ``path`` holds images.
"""

import json
import os
import tempfile
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from memorisk.images.readers.registry import HEAD_BYTES, PARQUET, ReadOptions, file_format, sniff
from memorisk.runs.errors import CONTENT_ERRORS, InputError, MissingExtraError, one_line
from memorisk.runs.size_limits import check_table
from memorisk.runs.yaml_files import parse_yaml

NOTE = b"memorisk_note"
"""Key of a sentence in a schema that a manifest's notes repeat: the origin of the data set."""
_CARD_BYTES = 1 << 20
_INFO = "dataset_info.json"
_LOCK = threading.RLock()  # a stream has one position
_GZIP_HEAD = 4096


@dataclass(frozen=True)
class Features:
    """Columns of a data set by their kind."""

    images: tuple[str, ...]
    """Columns that hold images, in the schema's order."""
    lists: tuple[str, ...] = ()
    """Columns in which each value is a list of images."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the classes by column; the column holds their numbers, or lists of them."""


def read_features(schema: pa.Schema, folder: Path) -> Features:
    """Read the features of a file.

    Args:
        schema: Schema of the file.
        folder: Folder that may hold ``dataset_info.json`` or ``README.md`` of the data set.

    Returns:
        Columns of images and classes; a column that none of the three describes is an image by its type alone.
    """
    described = _in_schema(schema) or _in_info(folder / _INFO) or _in_card(folder / "README.md")
    images = [name for name, kind in zip(schema.names, schema.types, strict=True) if holds_images(kind)]
    image_columns = {name for name, feature in described.items() if _kind(feature) == "Image"}
    images += [n for n in schema.names if n in image_columns and n not in images and _is_binary(schema.field(n).type)]
    classes = {name: classes_of for name, feature in described.items() if (classes_of := _class_names(feature))}
    lists = tuple(
        name
        for name, kind in zip(schema.names, schema.types, strict=True)
        if _is_list(kind) and holds_images(kind.value_type)
    )
    return Features(tuple(n for n in schema.names if n in images), lists, classes)


def holds_images(kind: pa.DataType) -> bool:
    """Return whether a type is that of images: a struct of ``bytes`` and ``path``."""
    return (
        pa.types.is_struct(kind)
        and {kind.field(i).name for i in range(kind.num_fields)} == {"bytes", "path"}
        and _is_binary(kind.field("bytes").type)
    )


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _in_schema(schema: pa.Schema) -> dict[str, Any]:
    written = (schema.metadata or {}).get(b"huggingface", b"")
    return _features(_json(written).get("info"))


def _in_info(path: Path) -> dict[str, Any]:
    try:
        return _features(_json(path.read_bytes()))
    except OSError:
        return {}


def _in_card(path: Path) -> dict[str, Any]:
    """Read ``dataset_info`` from a card's YAML, whose ``features`` are a list; the first of several configurations."""
    try:
        with path.open("rb") as file:
            _, head, _ = file.read(_CARD_BYTES).split(b"---", 2)
        info = parse_yaml(head.decode("utf-8"))["dataset_info"]
        listed = (info[0] if isinstance(info, list) else info)["features"]
        features = {}
        for feature in listed:
            kind = feature.get("dtype", feature.get("list", feature.get("sequence")))
            if kind == "image":
                features[feature["name"]] = {"_type": "Image"}
            elif isinstance(kind, dict) and "class_label" in kind:
                names = kind["class_label"]["names"]
                ordered = [names[key] for key in sorted(names, key=int)] if isinstance(names, dict) else names
                features[feature["name"]] = {"_type": "ClassLabel", "names": ordered}
        return features
    except (*CONTENT_ERRORS, yaml.YAMLError):
        return {}


def _json(written: bytes) -> dict[str, Any]:
    try:
        document = json.loads(written or b"{}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _features(info: Any) -> dict[str, Any]:
    features = info.get("features") if isinstance(info, dict) else None
    return {str(name): feature for name, feature in features.items()} if isinstance(features, dict) else {}


def _kind(feature: Any) -> Any:
    return feature.get("_type") if isinstance(feature, dict) else None


def _class_names(feature: Any) -> tuple[str, ...]:
    """Return the names of a column of classes, or of lists of classes; empty where it is neither."""
    if isinstance(feature, list) and feature:
        return _class_names(feature[0])
    if not isinstance(feature, dict):
        return ()
    if _kind(feature) in ("Sequence", "List", "LargeList"):
        return _class_names(feature.get("feature"))
    names = feature.get("names") if _kind(feature) == "ClassLabel" else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


@dataclass
class ShardColumn:
    """Column of a file, read forward; a step back starts again at the nearest beginning of a row group."""

    path: Path
    column: str
    starts: list[int]
    """First row of each row group of Parquet; for Arrow the first row alone."""
    n: int
    _batches: Iterator[Any] = field(default_factory=lambda: iter(()))
    _first: int = 0
    _now: Any = None

    def bytes_at(self, row: int) -> bytes | None:
        """Return the content of the image of a row; None where it has none.

        Raises:
            InputError: The file has fewer rows.
        """
        if not 0 <= row < self.n:
            raise InputError(f"{one_line(self.path)}: has rows 0 to {self.n - 1}, not {row}")
        group = bisect_right(self.starts, row) - 1
        if self._now is None or row < self._first or self.starts[group] > self._first + len(self._now):
            self._batches, self._first, self._now = self._begin(group), self.starts[group], ()
        while row >= self._first + len(self._now):
            self._first += len(self._now)
            self._now = next(self._batches)
        value = self._now[row - self._first].as_py()
        return value["bytes"] if isinstance(value, dict) else value

    def _begin(self, group: int) -> Iterator[pa.Array]:
        """Yield the column's values from a row group on, one batch at a time."""
        if _is_parquet(self.path):
            file = _parquet(self.path)
            leaf = f"{self.column}.bytes" if holds_images(file.schema_arrow.field(self.column).type) else self.column
            groups = list(range(group, len(self.starts)))
            batches = file.iter_batches(batch_size=1, row_groups=groups, columns=[leaf], use_threads=False)
        else:
            batches = arrow_batches(self.path)
        for batch in batches:
            values = batch.column(self.column)
            values.validate(full=True)
            yield values


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Read one image, ``[h, w, c]`` uint8 or uint16, by the reader of its content.

    Raises:
        InputError: The row does not exist, is empty or holds no image of a known kind.
    """
    if not how.member or how.frame is None:
        raise InputError(f"{one_line(path)}: holds many images; name the column and the row")
    with _LOCK:
        data = _opened(path, how.member, *_version(path)).bytes_at(how.frame)
    place = Path(f"{path} (row {how.frame})")
    if not data:
        raise InputError(f"{one_line(path)}: row {how.frame} holds no image")
    head = data[: HEAD_BYTES + _GZIP_HEAD] if data[:2] == b"\x1f\x8b" else data[:HEAD_BYTES]
    file_type = sniff(head)
    if file_type is None or file_type.kind == "arrays":
        what = f"first bytes {data[:8].hex(' ')}" if file_type is None else file_type.name
        raise InputError(f"{one_line(path)}: row {how.frame} is not an image of a known kind ({what})")
    how = replace(how, member=None, frame=None)
    if file_type.module == "memorisk.images.readers.raster":
        from memorisk.images.readers.raster import read_data

        return read_data(data, place, how)
    return _through_file(data, place, file_type.module, how)


@contextmanager
def row_file(path: Path, column: str, row: int) -> Iterator[Path]:
    """Give the image of a row as a private file, which is deleted afterwards; without an image the file is empty.

    Args:
        path: Path of the file of rows.
        column: Name of the column of images.
        row: Number of the row, from 0.
    """
    with _LOCK:
        data = _opened(path, column, *_version(path)).bytes_at(row)
    with tempfile.TemporaryDirectory(prefix="memorisk-") as folder:
        file = Path(folder) / "image"
        file.write_bytes(data or b"")
        yield file


def count_frames(path: Path) -> int:
    """Count the rows."""
    return (
        sum(len(batch) for batch in arrow_batches(path)) if not _is_parquet(path) else _parquet(path).metadata.num_rows
    )


def shard_schema(path: Path) -> pa.Schema:
    """Return the columns of a file.

    Raises:
        InputError: Two columns have one name, or the file has more than any table has.
    """
    if _is_parquet(path):
        schema = _parquet(path).schema_arrow
    else:
        with _arrow(path) as file:
            schema = file.schema
    names = schema.names
    check_table(path, 1, len(names), path.stat().st_size)
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise InputError(f"{one_line(path)}: several columns are called {one_line(twice[0], 60)}")
    return schema


def shard_columns(path: Path, columns: list[str]) -> pa.Table:
    """Read some columns of a file into memory, validated; ``image.path`` is a field of the column ``image``."""
    if _is_parquet(path):
        table = _parquet(path).read(columns=columns, use_threads=False)
    else:
        tops = list(
            dict.fromkeys(name if name in shard_schema(path).names else name.partition(".")[0] for name in columns)
        )
        batches = [batch.select(tops) for batch in arrow_batches(path)]
        table = pa.Table.from_batches(batches, pa.schema([shard_schema(path).field(top) for top in tops]))
    table.validate(full=True)
    return table


def null_counts(path: Path, column: str) -> int | None:
    """Count the missing values of a Parquet leaf by the file's statistics; None where they lack the count."""
    file = _parquet(path)
    metadata = file.metadata
    leaves = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    total = 0
    for group in range(metadata.num_row_groups):
        # a value is read first: a failed read raises an error, while a request for statistics would end the process
        next(file.iter_batches(batch_size=1, row_groups=[group], columns=[column], use_threads=False), None)
        statistics = metadata.row_group(group).column(leaves.index(column)).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        total += statistics.null_count
    return total


def arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file or stream, mapped, one after another."""
    with _arrow(path) as file:
        if isinstance(file, pa.ipc.RecordBatchFileReader):
            for i in range(file.num_record_batches):
                yield file.get_batch(i)
        else:
            yield from file


def _arrow(path: Path) -> Any:
    mapped = pa.memory_map(str(path))
    with path.open("rb") as file:
        whole = file.read(6) == b"ARROW1"
    options = pa.ipc.IpcReadOptions(use_threads=False)
    return pa.ipc.open_file(mapped, options=options) if whole else pa.ipc.open_stream(mapped, options=options)


def _parquet(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path, memory_map=True, pre_buffer=False)


def _is_parquet(path: Path) -> bool:
    file_type = file_format(path)
    return file_type is not None and file_type.name == PARQUET


def _version(path: Path) -> tuple[int, int, int]:
    """Return the size and time of a file, and this process: a forked process must not share an open stream."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, os.getpid()


@lru_cache(maxsize=4)
def _opened(path: Path, column: str, size: int, modified: int, process: int) -> ShardColumn:
    if column not in shard_schema(path).names:
        raise InputError(f"{one_line(path)}: has no column {one_line(column, 60)}")
    if not _is_parquet(path):
        return ShardColumn(path, column, [0], count_frames(path))
    metadata = _parquet(path).metadata
    rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return ShardColumn(path, column, [0, *accumulate(rows)][: max(1, len(rows))], sum(rows))


def _through_file(data: bytes, place: Path, module: str, how: ReadOptions) -> np.ndarray:
    """Read data by a reader that needs a file: a private one, deleted after the reading."""
    reader: Any = import_module(module)
    with tempfile.TemporaryDirectory(prefix="memorisk-") as folder:
        file = Path(folder) / "image"
        file.write_bytes(data)
        try:
            return reader.read(file, how)
        except MissingExtraError:
            raise
        except Exception as error:
            message = str(error).removeprefix(f"{one_line(file)}: ").replace(str(file), place.name)
            raise InputError(f"{one_line(place)}: {one_line(message, 160)}") from None
