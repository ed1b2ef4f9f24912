"""Writing of an image store: it is laid out, decoded in blocks by several processes, resumed and finished.

The rows are written to their place in ``images.npy`` of a hidden folder next to the stores. Its space is reserved
first, so that a full disk is found before work is done. A journal names each block that is in the file, with a
hash of every row; on resuming, those blocks are read again and kept if the hashes agree. A few images decide
whether the array has one channel or three; where this guess fails, the array is copied once, as a stream.

The writer knows the places of the pixels and the names of the rows, for its messages, and nothing else of a manifest.
"""

import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.options import ImageOptions
from memorisk.images.pixels import Block, DecodedBlock, PixelRule, Source, decode_block, hash_pixels, unreadable_reason
from memorisk.images.readers.registry import SHARDS, file_format
from memorisk.images.volumes import is_volume
from memorisk.runs.arrays import JOURNAL, array_header, remove_abandoned, reserve_array, write_guard
from memorisk.runs.checksums import file_version, is_intact, warn_of_damage
from memorisk.runs.environment import available_cores
from memorisk.runs.errors import InputError, file_and_image, one_line
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.files import fsync_folder, read_array, read_json, read_table, write_json, write_table
from memorisk.runs.workload import CountProgress

_MIN_IMAGES_FOR_PROCESSES = 200  # images; starting a process costs about as much as decoding this many
IMAGES, ROWS, META = "images.npy", "rows.parquet", "meta.json"
_PROBES = 16
DECODED_IMAGES = "decoded images"
"""Name of a store's contents, for messages."""


def process_count(requested: int | None, sources: Sequence[Source]) -> int:
    """Choose the number of decoding processes: the request, else this process's cores; at most one per file.

    The images of one file are read in order by one process: a compressed array is a stream, which each process would
    have to read through from the start. Rows of Parquet and Arrow can be skipped without decoding, so several
    processes may share a file.

    Raises:
        InputError: The request is below one.
    """
    if requested is not None and requested < 1:
        raise InputError(f"processes is {requested}; give at least 1")
    files = {source.file for source in sources}
    if requested is None:
        requested = available_cores() if len(sources) >= _MIN_IMAGES_FOR_PROCESSES else 1
    parts = len(files)
    if parts < requested and any(
        (file_type := file_format(file)) is not None and file_type.module == SHARDS for file in files
    ):
        parts = len(row_blocks(len(sources)))
    return max(1, min(requested, parts))


def row_blocks(n: int) -> list[tuple[int, int]]:
    """Return about 64 blocks (first, end), of 16 to 512 rows: a worker's work at a time, and the loss by a kill."""
    size = min(512, max(16, -(-n // 64)))
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def unreadable_error(names: pd.DataFrame, rows: Sequence[int] | np.ndarray, reasons: Sequence[str]) -> InputError:
    """Return the one-line error that lists images that cannot be read: the first three, and their number.

    Args:
        names: Table with path and image of each row of a manifest.
        rows: Rows that cannot be read.
        reasons: Reason of each of them.
    """
    first = names.iloc[list(rows[:3])]
    images = [file_and_image(str(p), str(i), 80) for p, i in zip(first["path"], first["image"], strict=True)]
    examples = [f"{name} ({reason})" for name, reason in zip(images, reasons[:3], strict=True)]
    more = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
    return InputError(
        f"{len(rows):,} of {len(names):,} images cannot be read: {', '.join(examples)}{more}; "
        "mend them, or leave them out by skip_unreadable"
    )


@dataclass(frozen=True, kw_only=True)
class StorePlan:
    """Store to build, and its place."""

    key: str
    stores: Path
    sources: list[Source]
    rule: PixelRule
    names: pd.DataFrame
    """Table with path and image of each row, for messages."""
    options: ImageOptions

    @property
    def building(self) -> Path:
        """Return the hidden folder of the unfinished store."""
        return self.stores / f".{self.key}.building"

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the pixels."""
        return np.dtype(np.uint8 if self.rule.depth == 8 else np.uint16)


@dataclass(frozen=True)
class _Layout:
    """Shape of the array under construction, [n, height, width, channels]."""

    n: int
    height: int
    width: int
    channels: int
    dtype: str

    @property
    def row(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.n, *self.row

    @property
    def header(self) -> bytes:
        return array_header(self.shape, self.dtype)

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.row)) * np.dtype(self.dtype).itemsize

    @property
    def total_bytes(self) -> int:
        return len(self.header) + self.n * self.row_bytes


def is_complete(folder: Path) -> bool:
    """Return whether a folder is a finished store whose images all have the hashes of its table."""
    if not (is_intact(folder / META) and is_intact(folder / ROWS)):
        return False
    try:
        meta, version = read_json(folder / META), file_version(folder / IMAGES)
        layout = _Layout(*meta["shape"], dtype=meta["dtype"])
    except OSError:
        return False
    if meta["key"] != folder.name:
        return False
    if not _are_pixels_intact(folder, layout, version):
        warn_of_damage(folder / IMAGES)
        return False
    return True


@lru_cache(maxsize=64)
def _are_pixels_intact(folder: Path, layout: _Layout, _version: tuple[int, ...]) -> bool:
    """Return whether an array has its header and, image by image, the hashes of its table; cached for each version."""
    with (folder / IMAGES).open("rb") as file:
        if file.read(len(layout.header)) != layout.header or _version[0] != layout.total_bytes:
            return False
    rows = read_table(folder / ROWS)
    hashes = rows["pixel_hash"].to_numpy(dtype=object)[rows["reason"].to_numpy(dtype=object) == ""]
    images = read_array(folder / IMAGES, mmap=True)

    def is_block_intact(block: tuple[int, int]) -> bool:
        return all(hash_pixels(images[row]) == hashes[row] for row in range(*block))

    with ThreadPoolExecutor(available_cores()) as pool:  # hashing pixels lets other threads run
        return len(hashes) == layout.n and all(pool.map(is_block_intact, row_blocks(layout.n)))


def write_store(plan: StorePlan, *, processes: int, progress: CountProgress | None) -> None:
    """Build a store; the caller holds its lock.

    Raises:
        InputError: Images cannot be read or differ in size.
        MemoriskError: The disk is full, or workers failed; finished blocks are kept.
    """
    remove_abandoned(plan.stores)
    shutil.rmtree(plan.stores / plan.key, ignore_errors=True)  # damaged, or it would have been used
    layout = _guess_layout(plan)
    layout, finished = _resume(plan, layout)
    while True:
        blocks = _open_blocks(plan, layout, finished)
        decoded = _decode(plan, blocks, finished, processes=processes, progress=progress)
        if not any(block.colour is not None for block in decoded):
            break
        layout = _widen_to_colour(plan, layout, finished)
    _finish(plan, layout, [finished[first] for first in sorted(finished)])


def _guess_layout(plan: StorePlan) -> _Layout:
    """Return size and channels from a few images spread over the manifest, or more until one can be read."""
    n = len(plan.sources)
    spread = np.unique(np.linspace(0, n - 1, min(n, _PROBES)).astype(int)).tolist()
    rest = (row for row in range(n) if row not in spread)
    shapes: dict[int, tuple[int, ...]] = {}
    failed: dict[int, str] = {}
    for at, row in enumerate((*spread, *rest)):
        if at >= len(spread) and shapes:
            break
        try:
            shapes[row] = plan.rule.prepare(plan.rule.read(plan.sources[row])).shape
        except InputError as error:
            failed[row] = unreadable_reason(plan.sources[row], error)
    if not shapes:
        raise unreadable_error(plan.names, sorted(failed), [failed[row] for row in sorted(failed)])
    height, width = shapes[min(shapes)][:2]
    for row, shape in shapes.items():
        if shape[:2] != (height, width):
            raise _sizes_differ(plan, (height, width), row, shape)
    channels = 3 if plan.rule.channels == 3 else max(shape[2] for shape in shapes.values())
    return _Layout(n, height, width, channels, plan.dtype.str)


def _sizes_differ(plan: StorePlan, size: tuple[int, ...], row: int, shape: tuple[int, ...]) -> InputError:
    path = one_line(plan.names["path"].iloc[row], 80)
    return InputError(
        f"images differ in size: {path} is {shape[1]} x {shape[0]} pixels, others are {size[1]} x {size[0]}; "
        "give --size (and --resize squash, crop or pad)"
    )


def _resume(plan: StorePlan, layout: _Layout) -> tuple[_Layout, dict[int, DecodedBlock]]:
    """Return the result of an earlier try if its pixels match their hashes, else an empty array with reserved space."""
    array = plan.building / IMAGES
    try:
        first, *lines = (plan.building / JOURNAL).read_text(encoding="utf-8").split("\n")
        earlier = _Layout(**json.loads(first))
        same = (earlier.n, earlier.row[:2], earlier.dtype) == (layout.n, layout.row[:2], layout.dtype)
        if same and earlier.channels >= layout.channels and array.stat().st_size == earlier.total_bytes:
            return earlier, _verified_blocks(array, lines)
    except (OSError, ValueError, TypeError):
        pass
    shutil.rmtree(plan.building, ignore_errors=True)
    with write_guard(plan.stores, DECODED_IMAGES, needed=layout.total_bytes):
        plan.building.mkdir(mode=0o700)
        try:
            reserve_array(array, layout.shape, layout.dtype)
            _new_journal(plan, layout, {})
        except OSError:
            shutil.rmtree(plan.building, ignore_errors=True)
            raise
    return layout, {}


def _verified_blocks(array: Path, lines: list[str]) -> dict[int, DecodedBlock]:
    finished = {}
    rows = np.load(array, mmap_mode="r", allow_pickle=False)
    for line in lines:
        try:
            block = DecodedBlock(**json.loads(line))
        except (ValueError, TypeError):  # a line that a kill cut short
            continue
        pixels = rows[block.first : block.first + len(block.hashes)]
        if all(
            not pixel_hash or hash_pixels(row) == pixel_hash
            for row, pixel_hash in zip(pixels, block.hashes, strict=True)
        ):
            finished[block.first] = block
    return finished


def _new_journal(plan: StorePlan, layout: _Layout, finished: dict[int, DecodedBlock]) -> None:
    lines = [json.dumps(asdict(layout)), *(json.dumps(asdict(block)) for block in finished.values())]
    temporary = plan.building / f"{JOURNAL}.part"
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(plan.building / JOURNAL)


def _open_blocks(plan: StorePlan, layout: _Layout, finished: dict[int, DecodedBlock]) -> list[Block]:
    return [
        Block(
            first=first,
            sources=plan.sources[first:end],
            rule=plan.rule,
            file=str(plan.building / IMAGES),
            offset=len(layout.header),
            shape=layout.row,
        )
        for first, end in row_blocks(layout.n)
        if first not in finished
    ]


def _decode(
    plan: StorePlan,
    blocks: list[Block],
    done: dict[int, DecodedBlock],
    *,
    processes: int,
    progress: CountProgress | None,
) -> list[DecodedBlock]:
    """Decode blocks, noting each that is in the file in ``done`` and in the journal."""
    n = len(plan.sources)
    finished = sum(len(block.hashes) for block in done.values())
    with write_guard(plan.stores, DECODED_IMAGES), (plan.building / JOURNAL).open("a", encoding="utf-8") as journal:

        def note(outcome) -> None:
            """Write a finished block to the journal."""
            nonlocal finished
            block = outcome.value
            if block is not None and block.complete:
                journal.write(json.dumps(asdict(block)) + "\n")
                journal.flush()
                done[block.first] = block
                finished += len(block.hashes)
                if progress:
                    progress(finished, n)

        if progress:
            progress(finished, n)
        decoded = run_jobs(decode_block, blocks, processes=processes, on_done=note)
    for block in decoded:
        if block.full is not None:
            with write_guard(plan.stores, DECODED_IMAGES):
                raise OSError(*block.full)
    for block in decoded:
        if block.other_size is not None:
            shutil.rmtree(plan.building, ignore_errors=True)
            raise _sizes_differ(plan, blocks[0].shape, block.other_size[0], block.other_size[1:])
    return decoded


def _widen_to_colour(plan: StorePlan, layout: _Layout, finished: dict[int, DecodedBlock]) -> _Layout:
    """Copy the grey rows that are done to an array of three channels."""
    wide = _Layout(layout.n, layout.height, layout.width, 3, layout.dtype)
    with write_guard(plan.stores, DECODED_IMAGES, needed=wide.total_bytes):
        _copy(plan.building / IMAGES, wide, np.arange(layout.n))
        _new_journal(plan, wide, finished)
    return wide


def _copy(array: Path, layout: _Layout, rows: np.ndarray) -> None:
    """Replace an array by some of its rows, repeated over channels or cut to one, a few megabytes at a time."""
    source = np.load(array, mmap_mode="r", allow_pickle=False)
    target = array.with_suffix(".part")
    at_once = max(1, (8 << 20) // layout.row_bytes)
    try:
        reserve_array(target, layout.shape, layout.dtype)
        with target.open("rb+") as file:
            file.seek(len(layout.header))
            for start in range(0, len(rows), at_once):
                part = source[rows[start : start + at_once]][..., : layout.channels]
                file.write(np.ascontiguousarray(np.broadcast_to(part, (len(part), *layout.row))).data)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    target.replace(array)


def _finish(plan: StorePlan, layout: _Layout, blocks: list[DecodedBlock]) -> None:
    """Refuse or leave out unreadable images, settle the channels, write the tables and give the store its name."""
    reasons = np.full(layout.n, "", dtype=object)
    for row, reason in (bad for block in blocks for bad in block.unreadable):
        reasons[row] = reason
    bad = np.flatnonzero(reasons != "")
    if len(bad) and (len(bad) == layout.n or not plan.options.skip_unreadable):
        raise unreadable_error(plan.names, bad, reasons[bad].tolist())
    channels = layout.channels
    if plan.rule.channels == "auto" and not is_volume(layout.row):
        channels = 1 if all(block.all_grey for block in blocks) else 3
    final = _Layout(layout.n - len(bad), layout.height, layout.width, channels, layout.dtype)
    folder = plan.building
    with write_guard(plan.stores, DECODED_IMAGES, needed=final.total_bytes):
        if final != layout:
            _copy(folder / IMAGES, final, np.flatnonzero(reasons == ""))
        hashes = [value for block in blocks for value in block.hashes]
        rows = {
            "pixel_hash": hashes,
            "reason": reasons,
        }
        write_table(folder / ROWS, pd.DataFrame(rows), recorded=True)
        used = {name: version(name) for name in ("numpy", "pillow")}
        shape = list(final.shape)
        meta = {"key": plan.key, "shape": shape, "dtype": final.dtype, "rule": asdict(plan.rule), "versions": used}
        write_json(folder / META, meta, recorded=True)
        _flush(folder / IMAGES)
        folder.replace(plan.stores / plan.key)
        fsync_folder(plan.stores)
        (plan.stores / plan.key / JOURNAL).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
