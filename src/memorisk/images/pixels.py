"""Pixels of one row after another: read, resized, hashed, and written or scanned by worker processes.

A worker process imports this module and what reads its files, and nothing else: starting processes must pay off for
a few thousand small images. `decode_block` holds a few megabytes of pixels at a time, whatever the number of
images. `scan_rows` reports to `images check` whether some rows can be read, and their size, hash and thumbnail.

Resizing: all three rules use Pillow's bilinear filter with its support widened by the scale when the image shrinks:
the antialiased triangle filter, which is also what torchvision's ``Resize`` gives. ``squash``, the papers' rule,
changes the aspect ratio. An image that already has the size is left as it is, bit for bit.
"""

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from memorisk.images.copies.duplicates import thumbnail
from memorisk.images.options import ImageOptions, Resize, Window
from memorisk.images.readers.greys import to_depth
from memorisk.images.readers.registry import read_image
from memorisk.images.volumes import is_volume, resize_volume, volume_files
from memorisk.runs.errors import InputError, MissingExtraError, one_line, unknown_name

FEW_LEVELS = 32
"""Grey levels of 256 below which `images check` and the audits name an image: five of its eight bits are in use."""
STRAY_SHARE = 0.01
"""Share of values that may lie outside the grey levels of an image, as hot pixels, burnt-in marks and text do."""
_BUFFER_BYTES = 4 << 20


def resize_image(image: np.ndarray, size: int, rule: Resize) -> np.ndarray:
    """Resize an image to a square, and a volume to a cube (`memorisk.images.volumes.resize_volume`).

    * ``squash``: both sides to ``size``.
    * ``crop``: the shorter side to ``size``, the longer in proportion (rounded), then the middle square.
    * ``pad``: the longer side to ``size``, the shorter in proportion (rounded, at least 1), black on both sides of
      it. Where pixels do not divide evenly the middle lies up and left.

    Args:
        image: Pixels [h, w, c] uint8 or uint16, c in {1, 3}; or voxels [h, w, d].
        size: Side of the square in pixels.
        rule: Name of one of the three rules; a volume has one rule, ``squash``.

    Returns:
        Pixels [size, size, c] of the same type; or voxels [size, size, size].

    Raises:
        InputError: The rule is unknown.
    """
    if is_volume(image.shape):
        return resize_volume(image, size)
    height, width = image.shape[:2]
    if rule == "squash":
        return _scale(image, size, size)
    if rule == "crop":
        scale = size / min(height, width)
        scaled = _scale(image, max(size, round(height * scale)), max(size, round(width * scale)))
        first_row, first_column = (scaled.shape[0] - size) // 2, (scaled.shape[1] - size) // 2
        return scaled[first_row : first_row + size, first_column : first_column + size]
    if rule == "pad":
        scale = size / max(height, width)
        scaled = _scale(image, min(size, max(1, round(height * scale))), min(size, max(1, round(width * scale))))
        padded = np.zeros((size, size, image.shape[2]), dtype=image.dtype)
        first_row, first_column = (size - scaled.shape[0]) // 2, (size - scaled.shape[1]) // 2
        padded[first_row : first_row + scaled.shape[0], first_column : first_column + scaled.shape[1]] = scaled
        return padded
    raise unknown_name("resize rule", rule, ("squash", "crop", "pad"))


def to_luma(image: np.ndarray) -> np.ndarray:
    """Convert [h, w, 3] to [h, w, 1] of the same type: 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), rounded."""
    weighted = image.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    return np.rint(weighted).astype(image.dtype)[..., None]


def same_channels(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Repeat the grey one of two images [h, w, c] where the other has three channels.

    Args:
        first: One image.
        second: The other image.
    """
    if first.shape[2] == second.shape[2]:
        return first, second
    one, other = (np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image for image in (first, second))
    return one, other


def is_grey(image: np.ndarray) -> bool:
    """Return whether [h, w, c] has one channel, or three that are equal everywhere; a volume is grey."""
    if image.shape[2] == 1 or is_volume(image.shape):
        return True
    first = image[..., 0]
    return bool((first == image[..., 1]).all() and (first == image[..., 2]).all())


def grey_levels(image: np.ndarray) -> int:
    """Count the grey levels, of 256, that nearly all values of pixels [h, w, c] span; 0 without pixels.

    These are the fewest neighbouring levels of 8 bits that hold all values but `STRAY_SHARE` (rounded up, and at most
    a tenth): few bright pixels in an image of few levels leave it an image of few levels.
    """
    if not image.size:
        return 0
    counts = np.bincount(to_depth(image, 8).ravel(), minlength=256)
    below = np.concatenate([[0], np.cumsum(counts)])
    needed = image.size - min(math.ceil(STRAY_SHARE * image.size), image.size // 10)
    ends = np.searchsorted(below, below[:-1] + needed)  # beyond the last level where too few values are left
    return int((ends - np.arange(256))[ends <= 256].min())


def few_levels_note(images: np.ndarray, name: str) -> list[str]:
    """Return a note on images of few grey levels, or an empty list where there are none.

    Args:
        images: Pixels [N, h, w, c] uint8 or uint16; may be memory-mapped.
        name: Name of the images, as in "training images".
    """
    n = sum(grey_levels(np.asarray(image)) < FEW_LEVELS for image in images)
    if not n:
        return []
    return [
        f"{n:,} of {len(images):,} {name} span fewer than {FEW_LEVELS} of 256 grey levels in nearly all pixels, as "
        "values of 12 bits do in files of 16: details may be lost. --window percentile shows each image by its own "
        "range of values."
    ]


def _scale(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[:2] == (height, width):
        return image
    if image.dtype == np.uint8:
        pixels = Image.fromarray(image[..., 0] if image.shape[2] == 1 else np.ascontiguousarray(image))
        scaled = np.asarray(pixels.resize((width, height), Image.Resampling.BILINEAR))
        return scaled.reshape(height, width, image.shape[2])
    # Pillow has no filter for several 16-bit channels: each goes through its 32-bit floats
    limit = np.iinfo(image.dtype).max
    scaled = np.empty((height, width, image.shape[2]), dtype=image.dtype)
    for c in range(image.shape[2]):
        channel = Image.fromarray(np.ascontiguousarray(image[..., c], dtype=np.float32))
        floats = np.asarray(channel.resize((width, height), Image.Resampling.BILINEAR))
        scaled[..., c] = np.clip(np.rint(floats), 0, limit)
    return scaled


@dataclass(frozen=True)
class Source:
    """Place of the pixels of one row."""

    file: str
    member: str | None = None
    frame: int | None = None

    @property
    def files(self) -> list[str]:
        """Return the files that hold the pixels: one, or those of a series of slices."""
        return volume_files(self.file, self.member)

    def content(self, prints: Mapping[str, str]) -> list[Any]:
        """Return what decides the pixels as they are stored: contents of the files, member and frame.

        Args:
            prints: Fingerprint of the content of each file.
        """
        return [prints[self.file], self.member, self.frame, *(prints[file] for file in self.files[1:])]


@dataclass(frozen=True, kw_only=True)
class PixelRule:
    """Options that decide the pixels of a row."""

    depth: int = 8
    window: Window = "declared"
    max_pixels: int
    size: int | None = None
    resize: Resize = "squash"
    channels: int | str = "auto"

    @classmethod
    def of(cls, options: ImageOptions) -> "PixelRule":
        """Return the rule that the options of a run set."""
        return cls(
            depth=options.depth,
            window=options.window,
            max_pixels=options.max_pixels,
            size=options.size,
            resize=options.resize if options.size is not None else "squash",  # without a size it decides nothing
            channels=options.channels,
        )

    def read(self, source: Source, *, opaque: bool = False) -> np.ndarray:
        """Read the full-resolution pixels [h, w, c] uint8 or uint16.

        Args:
            source: Place of the pixels.
            opaque: Whether transparency is left out (`read_image`).

        Raises:
            InputError: The image cannot be read.
        """
        return read_image(
            source.file,
            member=source.member,
            frame=source.frame,
            depth=self.depth,
            window=self.window,
            max_pixels=self.max_pixels,
            opaque=opaque,
        )

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """Bring pixels to the rule's channels and size; an image of equal channels has one channel afterwards."""
        image = one_channel(image)
        if image.shape[2] == 3 and self.channels == 1:
            image = to_luma(image)
        return image if self.size is None else resize_image(image, self.size, self.resize)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive rows for one worker, and the file they go to."""

    first: int
    sources: list[Source]
    rule: PixelRule
    file: str
    offset: int  # bytes before row 0
    shape: tuple[int, int, int]  # of a row: height, width, channels


@dataclass
class DecodedBlock:
    """Outcome of decoding a block.

    Attributes:
        first: Number of the block's first row.
        hashes: Pixel hash of each row; empty for rows that could not be read.
        unreadable: Rows that could not be read, as (row, reason).
        other_size: Tuple (row, height, width) of the first image of another size than the store's; None without one.
        colour: Number of the first coloured row, where the store was laid out for grey; the block is void then.
        full: Reason why nothing more could be written: the system's error number and text.
        all_grey: Whether no image of the block has colour.
    """

    first: int
    hashes: list[str] = field(default_factory=list)
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    other_size: tuple[int, int, int] | None = None
    colour: int | None = None
    full: tuple[int, str] | None = None
    all_grey: bool = True

    @property
    def complete(self) -> bool:
        """Return whether all rows of the block are in the file."""
        return self.other_size is None and self.colour is None and self.full is None


def decode_block(block: Block) -> DecodedBlock:
    """Decode a block's rows and write them to their place in the file."""
    outcome = DecodedBlock(block.first)
    try:
        handle = os.open(block.file, os.O_WRONLY)
        try:
            _write_rows(handle, block, outcome)
        finally:
            os.close(handle)
    except OSError as error:
        outcome.full = (error.errno or 0, one_line(error.strerror or error, 120))
    return outcome


def one_channel(image: np.ndarray) -> np.ndarray:
    """Take one of three equal channels of pixels [h, w, c]."""
    return image[..., :1] if image.shape[2] == 3 and is_grey(image) else image


PIXEL_HASH = "pixel_hash"
"""Column of tables that holds the hash of an image's pixels."""


def hash_pixels(image: np.ndarray) -> str:
    """Hash pixels [h, w, c] to 32 hexadecimal digits; grey has one hash in one channel and in three equal ones."""
    image = one_channel(image)
    digest = hashlib.blake2b(f"{image.dtype.str} {image.shape}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()


def unreadable_reason(source: Source, error: Exception) -> str:
    """Return why an image cannot be read, on one line, without the file's name or place.

    A store keeps the reason by the file's content: it is shown for other data sets with the same content, too.
    """
    file = Path(source.file)
    reason = str(error)
    for place in sorted({one_line(p) for p in (file, file.absolute(), os.path.realpath(file))}, key=len, reverse=True):
        reason = reason.removeprefix(f"{place}: ").replace(place, "the file")
    return one_line(reason, 200)


def _write_rows(handle: int, block: Block, outcome: DecodedBlock) -> None:
    row_bytes = int(np.prod(block.shape)) * (1 if block.rule.depth == 8 else 2)
    buffer, start = bytearray(), block.first
    for row, image in _block_images(block, outcome):
        if not outcome.complete:
            return
        if image is None:
            pixels = bytes(row_bytes)
        else:
            pixels = np.ascontiguousarray(np.broadcast_to(image, block.shape)).tobytes()
        buffer += pixels
        if len(buffer) >= _BUFFER_BYTES:
            _write_all(handle, buffer, block.offset + start * row_bytes)
            buffer, start = bytearray(), row + 1
    _write_all(handle, buffer, block.offset + start * row_bytes)


def _block_images(block: Block, outcome: DecodedBlock) -> Iterator[tuple[int, np.ndarray | None]]:
    """Yield the block's rows, None for an unreadable one; note in ``outcome`` what they are."""
    for row, source in enumerate(block.sources, block.first):
        try:
            image = block.rule.prepare(block.rule.read(source))
        except MissingExtraError:
            raise
        except InputError as error:
            outcome.unreadable.append((row, unreadable_reason(source, error)))
            outcome.hashes.append("")
            yield row, None
            continue
        if image.shape[:2] != block.shape[:2]:
            outcome.other_size = (row, image.shape[0], image.shape[1])
        elif image.shape[2] > block.shape[2]:
            outcome.colour = row
        outcome.hashes.append(hash_pixels(image))
        outcome.all_grey = outcome.all_grey and image.shape[2] == 1
        yield row, image


def _write_all(handle: int, data: bytearray, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written


@dataclass(frozen=True)
class ScanJob:
    """Rows of images that one process scans."""

    sources: list[Source]
    rule: PixelRule


@dataclass(frozen=True)
class Scan:
    """Properties of decoded images, row by row.

    Attributes:
        reason: Reason why the image cannot be read, or "".
        height: Height in pixels; 0 where the image cannot be read.
        width: Width in pixels; 0 where the image cannot be read.
        depth: Number of slices of a volume; 1 for an image.
        grey: Whether the image has one channel or three equal ones.
        empty: Whether all pixels are the same.
        levels: Number of grey levels, of 256, that nearly all values span.
        pixel_hash: Hash of the full-resolution pixels, or "".
        thumbnails: Thumbnails of the images, [n, 32, 32] uint8.
    """

    reason: list[str]
    height: list[int]
    width: list[int]
    depth: list[int]
    grey: list[bool]
    empty: list[bool]
    levels: list[int]
    pixel_hash: list[str]
    thumbnails: np.ndarray


def scan_rows(job: ScanJob) -> Scan:
    """Decode rows one after the other and keep their properties."""
    scan = Scan([], [], [], [], [], [], [], [], np.zeros((len(job.sources), 32, 32), dtype=np.uint8))
    for i, source in enumerate(job.sources):
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
        scan.depth.append(image.shape[2] if is_volume(image.shape) else 1)
        scan.grey.append(is_grey(image))
        first = image.flat[0] if is_volume(image.shape) else image[:1, :1]
        scan.empty.append(not reason and bool((image == first).all()))
        scan.levels.append(grey_levels(image))
        scan.pixel_hash.append("" if reason else hash_pixels(image))
        if not reason:
            scan.thumbnails[i] = thumbnail(image)
    return scan
