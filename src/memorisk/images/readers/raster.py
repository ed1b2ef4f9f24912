"""PNG, JPEG, GIF, WebP, BMP, JPEG 2000, PBM/PGM/PPM through Pillow.

Rules: the first frame of an animation unless the caller names one; EXIF orientation is turned; palettes become RGB; 1,
2 and 4 bit greys are spread over 0..255; alpha is composited over black; CMYK (Adobe's inverted form too) becomes
RGB by Pillow's formula, without colour profiles; 16-bit grey (PNG, PGM, JPEG 2000) keeps its 16 bits at depth 16
and is ``round(v / 257)`` at depth 8 (or percentiles, with the window ``percentile``). PNG of 16 bits in colour, or in
grey with alpha: Pillow gives the higher byte of each value, so depth 16 adds nothing in colour; grey with alpha and
TIFF keep both bytes there. A truncated file is an error, never a grey half.
"""

import io
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageFile, ImageOps

from memorisk.images.readers.greys import over_black, refuse_not_finite, to_depth, to_greys
from memorisk.images.readers.jpeg_markers import scans, scans_missing, with_more_data
from memorisk.images.readers.limits import FREE_PIXELS, check_size
from memorisk.images.readers.registry import ReadOptions, sniff
from memorisk.runs.errors import InputError, one_line

_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_SCANS = 100
_BITS, _COLOUR_TYPE, _INTERLACED = 24, 25, 28  # bytes of a PNG file: bits of a value; grey (0, 4) or colour; Adam7
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
"""First row and column, and the distance between rows and between columns, of each pass of Adam7."""
_UNPACKED_BYTES = 1 << 20


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Read one image, ``[h, w, c]`` uint8 or uint16; the module's docstring explains how values are mapped."""
    return read_data(path.read_bytes(), path, how)


def read_data(data: bytes, path: Path, how: ReadOptions) -> np.ndarray:
    """Read an image as :func:`read` does, from the content of a file; ``path`` names it in messages."""
    try:
        return _decoded(data, path, how)
    except ValueError:
        plain = _without_text(data)
        if plain == data:
            raise
    return _decoded(plain, path, how)  # Pillow refuses PNG whose texts or profile are larger than 1 MiB


def _without_text(data: bytes) -> bytes:
    """Return a PNG without its chunks of text and colour profile, which change no pixel here; other data unchanged."""
    if not data.startswith(_PNG):
        return data
    chunks, place = [_PNG], len(_PNG)
    while place + 8 <= len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4], "big")
        if data[place + 4 : place + 8] not in (b"tEXt", b"zTXt", b"iTXt", b"iCCP"):
            chunks.append(data[place:end])
        place = end
    return b"".join(chunks)


def _decoded(data: bytes, path: Path, how: ReadOptions) -> np.ndarray:
    image = open_image(data, path)
    check_size(path, image.size[0], image.size[1], how.max_pixels, stored=len(data))
    if how.frame:
        seek(image, how.frame, path)
    if image.format == "JPEG":
        _refuse_scans(image, data, path)
        refuse_cut_short(image, data, path)
    if _is_deep_grey_with_alpha(image, data, how):
        return _deep_grey_with_alpha(image, data, path, how)
    if image.format == "PNG":
        _refuse_rows_missing(image, data, path)
        _spread_transparent_grey(image, data)
    return pixels(image, how, path, grey_only=image.format == "PNG" and data[_COLOUR_TYPE] in (0, 4))


def _is_deep_grey_with_alpha(image: Image.Image, data: bytes, how: ReadOptions) -> bool:
    """Return whether an image is a PNG of 16-bit grey and alpha, of which Pillow would keep the higher bytes alone."""
    deep = image.format == "PNG" and (data[_BITS], data[_COLOUR_TYPE]) == (16, 4)
    return deep and how.depth == 16 and not getattr(image, "is_animated", False)


def _deep_grey_with_alpha(image: Image.Image, data: bytes, path: Path, how: ReadOptions) -> np.ndarray:
    """Read grey and alpha of 16 bits on black: their four bytes are unpacked as four channels, which are as long."""
    assert isinstance(image, ImageFile.ImageFile)
    image.tile = [type(tile)(*tile[:3], "RGBA") for tile in image.tile]
    _refuse_rows_missing(image, data, path)
    image.load()
    high_and_low = np.asarray(_upright(image)).astype(np.uint16)
    grey, alpha = (high_and_low[..., byte] << 8 | high_and_low[..., byte + 1] for byte in (0, 2))
    grey = grey if how.opaque else over_black(grey[..., None], alpha)[..., 0]
    return to_greys(grey, how.window, how.depth)[..., None]


def count_frames(path: Path) -> int:
    """Return the number of frames of an animation, or of pictures in a JPEG (CIPA DC-007); 1 for a single image."""
    with path.open("rb") as file:
        head = file.read(8)
        if head == _PNG and not _animated(file):
            return 1
        if head[:2] == b"\xff\xd8" and not _of_several_pictures(file):
            return 1
    return int(getattr(open_image(path.read_bytes(), path), "n_frames", 1))


def _animated(file: BinaryIO) -> bool:
    """Return whether a PNG has the chunk of an animation; it precedes the pixels, so the rest is not read."""
    while len(head := file.read(8)) == 8 and head[4:] != b"IDAT":
        if head[4:] == b"acTL":
            return True
        file.seek(int.from_bytes(head[:4], "big") + 4, 1)
    return False


def _of_several_pictures(file: BinaryIO) -> bool:
    """Return whether a JPEG lists further pictures in a segment before the coded data; the rest is not read."""
    file.seek(2)
    while (head := file.read(8))[:1] == b"\xff" and len(head) == 8 and head[1] not in (0xDA, 0xD9):
        if head[1] == 0xE2 and head[4:] == b"MPF\0":
            return True
        file.seek(max(2, int.from_bytes(head[2:4], "big")) - 6, 1)
    return False


def open_image(data: bytes, path: Path) -> Image.Image:
    """Open an image, without decoding, by the format of its content.

    Pillow's own classes are called instead of ``Image.open``, which would try other formats and hold its own, global
    limit on pixels: ours is an option.
    """
    file_type = sniff(data[:64])
    name = file_type.name if file_type else "?"
    Image.init()
    if name not in Image.OPEN:
        raise InputError(f"{one_line(path)}: this Pillow was built without {name}")
    try:
        return Image.OPEN[name][0](io.BytesIO(data), "")
    except SyntaxError as error:  # Pillow's error for content that its first bytes do not announce
        raise InputError(f"{one_line(path)}: broken {name} ({one_line(error, 120)})") from None


def seek(image: Image.Image, frame: int, path: Path) -> None:
    """Move an image to a frame.

    Raises:
        InputError: The image has no such frame.
    """
    n = int(getattr(image, "n_frames", 1))
    if not 0 <= frame < n:
        raise InputError(f"{one_line(path)}: has frames 0 to {n - 1}, not {frame}")
    image.seek(frame)


def pixels(image: Image.Image, how: ReadOptions, source: str | Path, *, grey_only: bool = False) -> np.ndarray:
    """Decode a Pillow image to ``[h, w, c]``.

    Args:
        image: Image as Pillow opened it.
        how: Options of reading: depth and window.
        source: Path of the file or name of the item, for messages.
        grey_only: Whether the image is grey that Pillow can only hold as colour.

    Raises:
        InputError: Its values are floats, and some are not finite.
    """
    image.load()
    turned = _upright(image)
    transparent = None if how.opaque else image.info.get("transparency")
    if turned.mode.startswith("I;16") or turned.mode in ("I", "F"):
        refuse_not_finite(np.asarray(turned), one_line(source))
        return _deep_grey(np.asarray(turned), transparent, how)
    if turned.mode in ("1", "L") and (transparent is None or isinstance(transparent, int)):
        grey = np.asarray(turned.convert("L"))[..., None]
        grey = grey if transparent is None else np.where(grey == transparent, np.uint8(0), grey)
        return to_depth(grey, how.depth)
    if transparent is not None or turned.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        grey_only = grey_only or turned.mode in ("L", "LA", "La")
        rgba = np.asarray(turned.convert("RGBA"))
        colour = rgba[..., :1] if grey_only else rgba[..., :3]
        colour = np.ascontiguousarray(colour)
        return to_depth(colour if how.opaque else over_black(colour, rgba[..., 3]), how.depth)
    return to_depth(np.asarray(turned if turned.mode == "RGB" else turned.convert("RGB")), how.depth)


def _deep_grey(values: np.ndarray, transparent: object, how: ReadOptions) -> np.ndarray:
    """Map grey of more than 8 bits; a transparent grey value (PNG tRNS) becomes black."""
    if values.dtype == np.int32 and values.min(initial=0) >= 0 and values.max(initial=0) <= 65535:
        values = values.astype(np.uint16)
    if isinstance(transparent, int):
        values = np.where(values == transparent, 0, values).astype(values.dtype)
    return to_greys(values, how.window, how.depth)[..., None]


def _refuse_scans(image: Image.Image, data: bytes, path: Path) -> None:
    """Refuse a JPEG of so many scans that going over all its pixels in each would take minutes.

    An empty scan takes a few bytes; encoders write about ten. The limit is 100 scans of an image of `FREE_PIXELS`,
    which take some ten seconds, and as many pixels in fewer or more scans.

    Raises:
        InputError: The file has more scans.
    """
    n = scans(data)
    if n * image.width * image.height > _MOST_SCANS * FREE_PIXELS:
        raise InputError(f"{one_line(path)}: {n:,} scans of {image.width:,} x {image.height:,} pixels; save it anew")


def refuse_cut_short(image: Image.Image, data: bytes, path: Path) -> None:
    """Refuse a JPEG whose data end before its pixels do, although an end marker follows.

    Pillow reports a file that breaks off. Where an end marker follows, libjpeg fills the missing part with zeros,
    mid-grey, without a warning. More data in front of that marker change nothing in a complete image (they lie after
    the last block), but replace the missing part in another. The second decoding is done only where the last pixel
    is that grey, or where there are several scans, whose later ones can be missing without a grey pixel.

    Raises:
        InputError: The data end too early.
    """
    image.load()
    last = image.getpixel((image.width - 1, image.height - 1))
    grey = all(v in (127, 128) for v in (last if isinstance(last, tuple) else (last,)))
    doubtful = grey or scans(data) > 1 or "progressive" in image.info
    longer = with_more_data(data) if doubtful else None
    if longer is None:
        return
    again = open_image(longer, path)
    again.load()
    if scans_missing(data) or not np.array_equal(np.asarray(image), np.asarray(again)):
        raise InputError(f"{one_line(path)}: a truncated JPEG (its data end before its pixels do)")


def _refuse_rows_missing(image: Image.Image, data: bytes, path: Path) -> None:
    """Refuse a PNG whose compressed stream ends, as it should, before all rows are there.

    Pillow leaves missing rows 0 without a warning. The stream is unpacked a second time only where its last row is 0,
    or where rows are interlaced.

    Raises:
        InputError: The stream holds fewer bytes than the header's rows need.
    """
    image.load()
    interlaced = data[_INTERLACED] == 1
    if getattr(image, "is_animated", False) or not (interlaced or not np.asarray(image)[-1].any()):
        return
    values = {2: 3, 4: 2, 6: 4}.get(data[_COLOUR_TYPE], 1)
    missing = 0
    for first_row, first_column, rows, columns in _PASSES if interlaced else ((0, 0, 1, 1),):
        height, width = -(-(image.height - first_row) // rows), -(-(image.width - first_column) // columns)
        if height > 0 and width > 0:
            missing += height * (1 + -(-width * values * data[_BITS] // 8))
    unpacked, place = zlib.decompressobj(), len(_PNG)
    while missing > 0 and place + 8 <= len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4], "big")
        packed = data[place + 8 : end - 4] if data[place + 4 : place + 8] == b"IDAT" else b""
        while packed and missing > 0 and not unpacked.eof:
            missing -= len(unpacked.decompress(packed, _UNPACKED_BYTES))
            packed = unpacked.unconsumed_tail
        place = end
    if missing > 0:
        raise InputError(f"{one_line(path)}: a truncated PNG (its data end before its pixels do)")


def _spread_transparent_grey(image: Image.Image, data: bytes) -> None:
    """Spread the transparent value of a PNG's 2 or 4 bit greys over 0..255, as Pillow does with the other values."""
    transparent = image.info.get("transparency")
    if isinstance(transparent, int) and data[_BITS] in (2, 4):
        image.info["transparency"] = transparent * 255 // ((1 << data[_BITS]) - 1)


def _upright(image: Image.Image) -> Image.Image:
    """Turn the image as its EXIF orientation declares; a broken EXIF block is ignored."""
    try:
        orientation = image.getexif().get(0x0112, 1)
    except Exception:  # Pillow raises whatever the broken bytes lead to; the pixels are fine
        return image
    return ImageOps.exif_transpose(image) if orientation in range(2, 9) else image
