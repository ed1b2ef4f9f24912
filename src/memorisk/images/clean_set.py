"""A clean set: the pixels that an audit compared, as PNG files that hold nothing else, with a table of their labels.

The layout is what ``datasets`` calls an image folder: ``000001.png`` and so on, and ``metadata.csv`` with the
columns ``file_name`` and ``label`` (only the first where the set has no labels). ``metadata.csv`` has exactly one form,
so that nothing else fits into it. Names are numbers, because a name can be a patient's.
"""

import csv
import io
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.images.pixels import PixelRule, Source, hash_pixels, one_channel, unreadable_reason
from memorisk.images.plain_png import encode_png
from memorisk.images.store_writer import row_blocks
from memorisk.runs.errors import FULL_DISK_CODES, InputError, MemoriskError, MissingExtraError, one_line, plural
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.files import fsync_folder, write_bytes
from memorisk.runs.tables import csv_line, unquote_formulas
from memorisk.runs.workload import CountProgress

CLEAN_MANIFEST, FILE_NAME_COLUMN, LABEL_COLUMN = "metadata.csv", "file_name", "label"


def manifest_bytes(names: Sequence[str], labels: Sequence[str]) -> bytes:
    """Return the bytes of ``metadata.csv`` of a clean set.

    Args:
        names: File names, [n].
        labels: Label of each image, [n]; all empty for a set without labels.
    """
    columns = [FILE_NAME_COLUMN, LABEL_COLUMN] if any(labels) else [FILE_NAME_COLUMN]
    rows = (row[: len(columns)] for row in zip(names, labels, strict=True))
    return "".join(f"{csv_line(values)}\n" for values in (columns, *rows)).encode()


def read_manifest_bytes(data: bytes) -> dict[str, str] | None:
    """Read ``metadata.csv`` of a clean set.

    Args:
        data: Bytes of the file.

    Returns:
        Labels by file name; None for a file that does not have the form of a clean set.
    """
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
        labels = {row[0]: unquote_formulas(row[1]) if len(rows[0]) == 2 else "" for row in rows[1:]}
    except (ValueError, IndexError, csv.Error):
        return None
    return labels if manifest_bytes(list(labels), list(labels.values())) == data else None


@dataclass(frozen=True)
class CleanSet:
    """Clean set that was written.

    Attributes:
        names: File name of each image, [n].
        rows: Row of each image among the given images, [n].
        unreadable: Rows that could not be decoded, each with the reason.
    """

    names: list[str]
    rows: list[int]
    unreadable: list[tuple[int, str]]


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Images that one process writes."""

    first: int
    sources: list[Source]
    audited: list[str]
    compared: frozenset[str] | None
    rule: PixelRule
    folder: str


def clean_names(n: int) -> list[str]:
    """Name the files of a clean set of ``n`` images: numbers from 1, of at least six digits."""
    digits = max(6, len(str(n)))
    return [f"{number:0{digits}d}.png" for number in range(1, n + 1)]


def write_clean_set(
    folder: Path,
    sources: Sequence[Source],
    labels: Sequence[str],
    rule: PixelRule,
    *,
    audited: Sequence[str] = (),
    compared: Collection[str] | None = None,
    skip_unreadable: bool = False,
    processes: int = 1,
    progress: CountProgress | None = None,
) -> CleanSet:
    """Write images to a folder, which gets its name only when it is complete.

    Args:
        folder: Path of the folder; an existing folder of that name is replaced.
        sources: Sources of the pixels of each image, [n].
        labels: Label of each image, [n]; empty for an image without one.
        rule: Rule by which files are decoded and brought to size and channels.
        audited: Hashes [n] of the pixels that were audited, which must match; empty to take the pixels as they are.
        compared: Hashes of the images that an audit compared, in any order: all others are refused; None to take any.
        skip_unreadable: Leave out images that cannot be decoded.
        processes: Number of processes that decode and encode.
        progress: Function called with the number of images done and the number of all.

    Raises:
        InputError: Images cannot be decoded, or were not compared.
        MemoriskError: The disk is full, or an image is not what was audited.
    """
    building = folder.with_name(f".{folder.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    try:
        building.mkdir(mode=0o700, parents=True)
        hashes = None if compared is None else frozenset(compared)
        clean_set = _write(building, sources, labels, rule, audited, hashes, skip_unreadable, processes, progress)
        os.sync()
        _put_in_place(building, folder)
    except OSError as error:
        shutil.rmtree(building, ignore_errors=True)
        if error.errno in FULL_DISK_CODES:
            raise MemoriskError(f"no space left for the images in {one_line(folder)}: free some") from None
        raise InputError(f"{one_line(error.filename, 120)}: {one_line(error.strerror or error, 120)}") from None
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return clean_set


def _write(
    building: Path, sources: Sequence[Source], labels: Sequence[str], rule: PixelRule, audited: Sequence[str],
    compared: frozenset[str] | None, skip_unreadable: bool, processes: int, progress: CountProgress | None,
) -> CleanSet:  # fmt: skip
    """Decode and encode in blocks, then number the images that could be read, then write the table."""
    n = len(sources)
    jobs = [
        _Block(
            first=first, sources=list(sources[first:end]), audited=list(audited[first:end]), compared=compared,
            rule=rule, folder=str(building),
        )
        for first, end in row_blocks(n)
    ]  # fmt: skip
    done = 0

    def note(outcome) -> None:
        """Count the images of a finished block."""
        nonlocal done
        done += len(jobs[outcome.index].sources)
        if progress:
            progress(done, n)

    unreadable = [bad for block in run_jobs(_write_block, jobs, processes=processes, on_done=note) for bad in block]
    if unreadable and (not skip_unreadable or len(unreadable) == n):
        row, reason = unreadable[0]
        raise InputError(
            f"{plural(len(unreadable), 'image', 'images')} of {n:,} cannot be read, the first is "
            f"{one_line(sources[row].file, 120)} ({reason}); mend them, or leave them out by skip_unreadable"
        )
    bad = {row for row, _ in unreadable}
    rows = [row for row in range(n) if row not in bad]
    names = clean_names(len(rows))
    for row, name in zip(rows, names, strict=True):  # the next free place, in rising order
        (building / _place(row)).rename(building / name)
    if names:
        write_bytes(building / CLEAN_MANIFEST, manifest_bytes(names, [labels[row] for row in rows]))
    return CleanSet(names, rows, unreadable)


def _place(row: int) -> str:
    """Return the temporary name of an image, before it is known which images cannot be read."""
    return f".{row}"


def _write_block(block: _Block) -> list[tuple[int, str]]:
    """Write the images of a block; return the rows that could not be decoded, each with the reason."""
    unreadable = []
    for row, image in _pixels(block, unreadable):
        file = Path(block.folder) / _place(row)
        file.touch(mode=0o600)
        file.write_bytes(encode_png(image))
    return unreadable


def _pixels(block: _Block, unreadable: list[tuple[int, str]]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the pixels of a block's rows as an audit compares them; grey images have one channel.

    Raises:
        InputError: An image is not among those that were compared.
        MemoriskError: The pixels are not those that were audited.
    """
    for number, source in enumerate(block.sources):
        row = block.first + number
        try:
            image = one_channel(block.rule.prepare(block.rule.read(source)))
        except MissingExtraError:
            raise
        except InputError as error:
            unreadable.append((row, unreadable_reason(source, error)))
            continue
        if block.audited and hash_pixels(image) != block.audited[number]:
            raise MemoriskError(
                f"{one_line(source.file, 120)} has changed since it was looked at: issue the same command again"
            )
        if block.compared is not None and hash_pixels(image) not in block.compared:
            raise InputError(
                f"{one_line(source.file, 120)} is not an image that the audit compared: it was added or changed "
                "afterwards; audit the set as it is now"
            )
        yield row, image


def _put_in_place(building: Path, folder: Path) -> None:
    """Give the folder its name; a kill in between leaves the old set, none, or the new one, but never half of one."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    building.rename(folder)
    fsync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)
