"""What a Parquet file declares, held against its bytes before it is read.

Repeating values take next to no bytes in Parquet: a run of equal values is one, and a long text stands once in a
dictionary however many rows have it.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.formats.bounds import EXPANSION, FREE_BYTES, check_table, check_unpacked

_ROWS = 1 << 16


def check_parquet(path: Path) -> None:
    """Refuse a table of more columns, cells or text than its bytes can describe, or with two columns of one name.

    Raises:
        InputError: It is one.
        OSError: It cannot be opened.
        ValueError: It is no Parquet.
    """
    file = pq.ParquetFile(path)
    metadata, stored = file.metadata, path.stat().st_size
    check_table(path, metadata.num_rows, metadata.num_columns, stored)
    twice = [name for name, n in Counter(file.schema_arrow.names).items() if n > 1]
    if twice:
        raise InputError(f"{one_line(path)}: several columns are called {one_line(twice[0], 60)!r}; rename them")
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    check_unpacked(path, "the table", sum(max(0, group.total_byte_size) for group in groups), stored)
    texts = _repeating_texts(metadata)
    if texts:
        _check_texts(path, texts, stored)


def _repeating_texts(metadata: pq.FileMetaData) -> list[str]:
    """Flat columns whose values could take more than a file is allowed, if all rows had the longest."""
    limit, found = max(FREE_BYTES, EXPANSION * metadata.serialized_size), []
    for column in range(metadata.num_columns):
        chunks = [metadata.row_group(i).column(column) for i in range(metadata.num_row_groups)]
        most = sum(chunk.num_values * chunk.total_uncompressed_size for chunk in chunks)
        flat = chunks and "." not in chunks[0].path_in_schema and chunks[0].physical_type == "BYTE_ARRAY"
        if flat and most > limit and any("DICTIONARY" in code for chunk in chunks for code in chunk.encodings):
            found.append(chunks[0].path_in_schema)
    return found


def _check_texts(path: Path, columns: list[str], stored: int) -> None:
    """Refuse columns whose texts are far longer than the file, counted without writing them out.

    Raises:
        InputError: They are.
    """
    file, total = pq.ParquetFile(path, read_dictionary=columns), 0
    for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
        for values in batch.columns:
            lengths = np.asarray([len(value) for value in values.dictionary.to_pylist()], dtype=np.int64)
            total += int(lengths[values.indices.drop_null().to_numpy()].sum())
        check_unpacked(path, "the text of the table", total, stored)
