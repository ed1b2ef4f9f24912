"""What a worker process does with some rows of a manifest: decode, bring to one shape, write, hash.

A worker imports this module and what reads its files, and nothing that it does not need: starting processes must pay
off for a few thousand small images. It holds a few megabytes of pixels at a time, whatever the number of images.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from memorisk.images.options import ImageOptions, Resize, Window
from memorisk.images.readers.registry import read_image
from memorisk.images.resize import is_grey, resize_image, to_luma
from memorisk.runs.errors import InputError, MissingExtraError, one_line

_BUFFER_BYTES = 4 << 20


@dataclass(frozen=True)
class Source:
    """Where the pixels of one row are."""

    file: str
    member: str | None = None
    frame: int | None = None


@dataclass(frozen=True, kw_only=True)
class PixelRule:
    """The options that decide what the pixels of a row are."""

    depth: int = 8
    window: Window = "declared"
    max_pixels: int
    size: int | None = None
    resize: Resize = "squash"
    channels: int | str = "auto"

    @classmethod
    def of(cls, options: ImageOptions) -> "PixelRule":
        """Taken from the options of a run."""
        return cls(
            depth=options.depth,
            window=options.window,
            max_pixels=options.max_pixels,
            size=options.size,
            resize=options.resize if options.size is not None else "squash",  # without a size it decides nothing
            channels=options.channels,
        )

    def read(self, source: Source) -> np.ndarray:
        """Full-resolution pixels [h, w, c] uint8 or uint16.

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
        )

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """Bring pixels to channels and size; an image of equal channels has one channel from here on."""
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
class BlockDone:
    """What became of a block.

    Attributes:
        first: Its first row.
        hashes: Pixel hash of each row, empty for those that could not be read.
        decoded: The same of its pixels at full resolution, as they were decoded.
        unreadable: (row, reason) of those.
        other_size: (row, height, width) of the first image of another size than the store's, None if there is none.
        colour: The first coloured row, where the store was laid out for grey; nothing of the block counts then.
        full: Why nothing more could be written: the system's error number and text.
        all_grey: Whether no image of the block has colour.
    """

    first: int
    hashes: list[str] = field(default_factory=list)
    decoded: list[str] = field(default_factory=list)
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    other_size: tuple[int, int, int] | None = None
    colour: int | None = None
    full: tuple[int, str] | None = None
    all_grey: bool = True

    @property
    def complete(self) -> bool:
        """Whether its rows stand in the file."""
        return self.other_size is None and self.colour is None and self.full is None


def decode_block(block: Block) -> BlockDone:
    """Decode a block's rows and write them to their place in the file."""
    done = BlockDone(block.first)
    try:
        handle = os.open(block.file, os.O_WRONLY)
        try:
            _write_rows(handle, block, done)
        finally:
            os.close(handle)
    except OSError as error:
        done.full = (error.errno or 0, one_line(error.strerror or error, 120))
    return done


def one_channel(image: np.ndarray) -> np.ndarray:
    """Take one of three equal channels of pixels [h, w, c]."""
    return image[..., :1] if image.shape[2] == 3 and is_grey(image) else image


def hash_pixels(image: np.ndarray) -> str:
    """Hash of pixels [h, w, c], 32 hexadecimal digits; grey hashes alike in one channel and in three equal ones."""
    image = one_channel(image)
    digest = hashlib.blake2b(f"{image.dtype.str} {image.shape}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()


def unreadable_reason(source: Source, error: Exception) -> str:
    """Why an image cannot be read, on one line, without the file's name or place.

    A store keeps the reason by the file's content: other data sets with the same content are told it, too.
    """
    file = Path(source.file)
    reason = str(error)
    for place in sorted({one_line(p) for p in (file, file.absolute(), os.path.realpath(file))}, key=len, reverse=True):
        reason = reason.removeprefix(f"{place}: ").replace(place, "the file")
    return one_line(reason, 200)


def _write_rows(handle: int, block: Block, done: BlockDone) -> None:
    row_bytes = int(np.prod(block.shape)) * (1 if block.rule.depth == 8 else 2)
    buffer, start = bytearray(), block.first
    for row, image in _prepared(block, done):
        if not done.complete:
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


def _prepared(block: Block, done: BlockDone) -> Iterator[tuple[int, np.ndarray | None]]:
    """The block's rows, None for an unreadable one; notes in ``done`` what they are."""
    for row, source in enumerate(block.sources, block.first):
        try:
            decoded = block.rule.read(source)
            image = block.rule.prepare(decoded)
        except MissingExtraError:
            raise
        except InputError as error:
            done.unreadable.append((row, unreadable_reason(source, error)))
            done.hashes.append("")
            done.decoded.append("")
            yield row, None
            continue
        if image.shape[:2] != block.shape[:2]:
            done.other_size = (row, image.shape[0], image.shape[1])
        elif image.shape[2] > block.shape[2]:
            done.colour = row
        done.hashes.append(hash_pixels(image))
        done.decoded.append(done.hashes[-1] if image is decoded else hash_pixels(decoded))
        done.all_grey = done.all_grey and image.shape[2] == 1
        yield row, image


def _write_all(handle: int, data: bytearray, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written
