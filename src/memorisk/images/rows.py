"""The rows of a manifest as work: where their pixels are, how many processes decode, how unreadable ones are listed."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.decoding.decoding import Source
from memorisk.images.decoding.formats import SHARDS, file_format
from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.wording import file_and_image
from memorisk.runs.environment import available_cores
from memorisk.runs.errors import InputError

_WORTH_PROCESSES = 200  # images; starting a process costs about as much as decoding this many


def manifest_sources(manifest: Manifest) -> list[Source]:
    """Where the pixels of each row are."""
    table, root = manifest.table, manifest.root
    members: list[Any] = table["member"].tolist() if "member" in table else [None] * manifest.n
    frames: list[Any] = table["frame"].tolist() if "frame" in table else [None] * manifest.n
    paths = [
        path if root is None or path.startswith(BUILTIN) else os.path.join(root, path)  # noqa: PTH118 - a million rows
        for path in table["path"].tolist()
    ]
    return [
        Source(path, None if pd.isna(member) else str(member) or None, None if pd.isna(frame) else int(frame))
        for path, member, frame in zip(paths, members, frames, strict=True)
    ]


def usable_processes(asked: int | None, sources: Sequence[Source]) -> int:
    """How many processes decode: those asked for, else the cores this process may use; never more than there are files.

    The images of one file are read in order by one process: a compressed array is a stream, which each process would
    have to run through from the start. Rows of Parquet and Arrow are not decoded to get past them, so that several
    processes may share a file.

    Raises:
        InputError: Fewer than one is asked for.
    """
    if asked is not None and asked < 1:
        raise InputError(f"processes is {asked}; give at least 1")
    files = {source.file for source in sources}
    if asked is None:
        asked = available_cores() if len(sources) >= _WORTH_PROCESSES else 1
    parts = len(files)
    if parts < asked and any((found := file_format(file)) is not None and found.module == SHARDS for file in files):
        parts = len(row_blocks(len(sources)))
    return max(1, min(asked, parts))


def row_blocks(n: int) -> list[tuple[int, int]]:
    """About 64 blocks (first, end), of 16 to 512 rows: what a worker does at a time, and what a kill loses."""
    size = min(512, max(16, -(-n // 64)))
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def unreadable_error(manifest: Manifest, rows: Sequence[int] | np.ndarray, reasons: Sequence[str]) -> InputError:
    """The one line that lists images that cannot be read: the first three, and how many there are."""
    first = manifest.table.iloc[list(rows[:3])]
    names = [file_and_image(str(p), str(i), 80) for p, i in zip(first["path"], first["image"], strict=True)]
    named = [f"{name} ({reason})" for name, reason in zip(names, reasons[:3], strict=True)]
    more = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
    return InputError(
        f"{len(rows):,} of {manifest.n:,} images cannot be read: {', '.join(named)}{more}; "
        "mend them, or go on without them by skip_unreadable"
    )
