"""Images in a column of Parquet and Arrow files, as the ``datasets`` library keeps them.

``member`` names the column, ``frame`` the row. A value is the content of an image file (PNG, JPEG, TIFF, DICOM, ...),
alone or as ``bytes`` of a struct, and is read by the reader of its own first bytes, with all of that reader's rules and
refusals. Rows are read one at a time, forward: in order, a file is gone through once, with the memory of one row of
Parquet or one batch of Arrow, which is mapped. Every batch is validated before a value is taken, since offsets that
point outside it are not looked at by Arrow.
"""

import os
import tempfile
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from memorisk.images.decoding.formats import HEAD_BYTES, PARQUET, Reading, file_format, sniff
from memorisk.images.sources.shard_features import holds_images
from memorisk.runs.errors import InputError, MissingExtraError, one_line
from memorisk.runs.formats.bounds import check_table

_LOCK = threading.RLock()  # a stream has one position
_GZIP_HEAD = 4096


@dataclass
class ShardColumn:
    """A column of a file, read forward; going back starts again at the nearest beginning of a row group."""

    path: Path
    column: str
    starts: list[int]
    """First row of each row group of Parquet; of Arrow the first row alone."""
    n: int
    _batches: Iterator[Any] = field(default_factory=lambda: iter(()))
    _first: int = 0
    _now: Any = None

    def bytes_at(self, row: int) -> bytes | None:
        """The content of the image of a row; None where it has none.

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
        """The column's values from a row group on, a batch at a time."""
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


def read(path: Path, how: Reading) -> np.ndarray:
    """One image, ``[h, w, c]`` uint8 or uint16, by the reader of its content.

    Raises:
        InputError: The row does not exist, is empty or holds no image of a known kind.
    """
    if not how.member or how.frame is None:
        raise InputError(f"{one_line(path)}: holds many images; name the column and the row")
    with _LOCK:
        data = _opened(path, how.member, *_version(path)).bytes_at(how.frame)
    named = Path(f"{path} (row {how.frame})")
    if not data:
        raise InputError(f"{one_line(path)}: row {how.frame} holds no image")
    head = data[: HEAD_BYTES + _GZIP_HEAD] if data[:2] == b"\x1f\x8b" else data[:HEAD_BYTES]
    found = sniff(head)
    if found is None or found.kind == "arrays":
        what = f"first bytes {data[:8].hex(' ')}" if found is None else found.name
        raise InputError(f"{one_line(path)}: row {how.frame} is not an image of a known kind ({what})")
    how = replace(how, member=None, frame=None)
    if found.module == "memorisk.images.readers.raster":
        from memorisk.images.readers.raster import read_data

        return read_data(data, named, how)
    return _through_file(data, named, found.module, how)


def count_frames(path: Path) -> int:
    """Number of rows."""
    return (
        sum(len(batch) for batch in arrow_batches(path)) if not _is_parquet(path) else _parquet(path).metadata.num_rows
    )


def shard_schema(path: Path) -> pa.Schema:
    """The columns of a file.

    Raises:
        InputError: Two have one name, or there are more than any table has.
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
    """Some columns of a file in memory, validated; ``image.path`` is a field of the column ``image``."""
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
    """How many values of a leaf of Parquet are missing, by the file's statistics; None where they do not say."""
    file = _parquet(path)
    metadata = file.metadata
    leaves = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    total = 0
    for group in range(metadata.num_row_groups):
        # a value is read first: where it cannot be, that is an error, while asking its statistics ends the process
        next(file.iter_batches(batch_size=1, row_groups=[group], columns=[column], use_threads=False), None)
        statistics = metadata.row_group(group).column(leaves.index(column)).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        total += statistics.null_count
    return total


def arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow file or stream, mapped, one after another."""
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
    found = file_format(path)
    return found is not None and found.name == PARQUET


def _version(path: Path) -> tuple[int, int, int]:
    """Size and time of a file, and this process: an open stream must not be shared with a forked one."""
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


def _through_file(data: bytes, named: Path, module: str, how: Reading) -> np.ndarray:
    """Read by a reader that needs a file: a private one, gone when it is read."""
    reader: Any = import_module(module)
    with tempfile.TemporaryDirectory(prefix="memorisk-") as folder:
        file = Path(folder) / "image"
        file.write_bytes(data)
        try:
            return reader.read(file, how)
        except MissingExtraError:
            raise
        except Exception as error:
            said = str(error).removeprefix(f"{one_line(file)}: ").replace(str(file), named.name)
            raise InputError(f"{one_line(named)}: {one_line(said, 160)}") from None
