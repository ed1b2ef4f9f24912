"""What a worker process finds out about some rows for `checks`: can they be read, their size, hash and thumbnail."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.images.containers.checking import surplus
from memorisk.images.copies.duplicates import thumbnail
from memorisk.images.decoding.decoding import PixelRule, Source, hash_pixels, unreadable_reason
from memorisk.images.resize import is_grey
from memorisk.runs.errors import InputError, MissingExtraError


@dataclass(frozen=True)
class ScanJob:
    """Some rows to look at."""

    sources: list[Source]
    rule: PixelRule


@dataclass(frozen=True)
class Scan:
    """What was found, row by row.

    Attributes:
        reason: Why the image cannot be read, or "".
        height: In pixels, 0 where it cannot be read; ``width`` likewise.
        width: In pixels.
        grey: Whether it has one channel or three equal ones.
        empty: Whether all pixels are the same.
        pixel_hash: Hash of the full-resolution pixels, or "".
        surplus: What its file holds besides one image, or ""; JPEG by its segments alone, and a stack of images once.
        thumbnails: [n, 32, 32] uint8.
    """

    reason: list[str]
    height: list[int]
    width: list[int]
    grey: list[bool]
    empty: list[bool]
    pixel_hash: list[str]
    surplus: list[str]
    thumbnails: np.ndarray


def scan_rows(job: ScanJob) -> Scan:
    """Decode rows one after the other and keep what describes them."""
    scan = Scan([], [], [], [], [], [], [], np.zeros((len(job.sources), 32, 32), dtype=np.uint8))
    found: dict[str, str] = {}
    for i, source in enumerate(job.sources):
        if source.file not in found:
            found = {source.file: _surplus(source.file, job.rule.depth)}
        scan.surplus.append(found[source.file])
        reason, image = "", np.zeros((0, 0, 1), dtype=np.uint8)
        try:
            image = job.rule.read(source)
        except MissingExtraError:
            raise
        except InputError as error:
            reason = unreadable_reason(source, error)
        scan.reason.append(reason)
        scan.height.append(image.shape[0])
        scan.width.append(image.shape[1])
        scan.grey.append(is_grey(image))
        scan.empty.append(not reason and bool((image == image[:1, :1]).all()))
        scan.pixel_hash.append("" if reason else hash_pixels(image))
        if not reason:
            scan.thumbnails[i] = thumbnail(image)
    return scan


def _surplus(file: str, depth: int) -> str:
    """What a file holds besides one image; empty where it is no file, or cannot be opened."""
    try:
        return surplus(Path(file), depth=depth, walk=False) or ""
    except (OSError, ValueError):
        return ""
