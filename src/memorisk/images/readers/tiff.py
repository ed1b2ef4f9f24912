"""TIFF through tifffile, and through Pillow (libtiff) for the compressions that tifffile alone cannot decode.

Rules: the first page unless the caller names one (further pages are mostly thumbnails, masks or other sizes);
orientation is turned; MINISWHITE is inverted; palettes become RGB; alpha is composited over black; 16 bits are kept
at depth 16, grey or colour, and ``round(v / 257)`` at depth 8 (or percentiles, with the window ``percentile``). Signed,
32-bit and floating values have no usable full range: percentiles of the page (minimum to maximum with ``window`` full).
A file with more than three channels that are not alpha, or with values that are NaN or infinite, is refused.
"""

import logging
from pathlib import Path

import numpy as np
from PIL import TiffImagePlugin
from tifffile import COMPRESSION, PHOTOMETRIC, TiffFile, TiffPage

from memorisk.images.readers.greys import over_black, refuse_not_finite, to_greys
from memorisk.images.readers.limits import check_size
from memorisk.images.readers.raster import open_image, pixels, seek
from memorisk.images.readers.registry import ReadOptions
from memorisk.runs.errors import InputError, one_line

# without a handler of its own Python prints tifffile's log of a broken file in addition to our one line
logging.getLogger("tifffile").addHandler(logging.NullHandler())

_MOST_CHANNELS = 4  # RGB and alpha
_CHANNELS = "{}: a TIFF of {} channels is neither grey nor RGB"
_OWN_COMPRESSIONS = (COMPRESSION.NONE, COMPRESSION.ADOBE_DEFLATE, COMPRESSION.DEFLATE, COMPRESSION.LZMA)
"""Compressions that tifffile decodes with Python's own modules."""
_PLAIN = (PHOTOMETRIC.MINISBLACK, PHOTOMETRIC.MINISWHITE, PHOTOMETRIC.RGB)


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Read one page, ``[h, w, c]`` uint8 or uint16; the module's docstring explains how values are mapped."""
    with TiffFile(path) as file:
        n = len(file.pages)
        if not n:
            raise InputError(f"{one_line(path)}: a TIFF without a page (cut short?)")
        if not 0 <= (how.frame or 0) < n:
            raise InputError(f"{one_line(path)}: has pages 0 to {n - 1}, not {how.frame}")
        page = file.pages[how.frame or 0]
        if not isinstance(page, TiffPage):
            page = page.aspage()
        check_size(path, page.imagewidth, page.imagelength, how.max_pixels, stored=path.stat().st_size)
        if page.samplesperpixel > _MOST_CHANNELS:  # before they are decoded: a few bytes may declare thousands
            raise InputError(_CHANNELS.format(one_line(path), page.samplesperpixel))
        values = _decoded(page) if page.photometric in _PLAIN and page.imagedepth == 1 else None
        if values is not None:
            refuse_not_finite(values, one_line(path))
            return _turned(_image(values, page, how, path), _orientation(page))
        compression = page.compression
    return _through_pillow(path, how, compression)


def count_frames(path: Path) -> int:
    """Count the pages."""
    with TiffFile(path) as file:
        return len(file.pages)


def _decoded(page: TiffPage) -> np.ndarray | None:
    """Return the values ``[h, w, c]``; None where tifffile has no decoder without a further library."""
    try:
        values = page.asarray()
    except (ValueError, ImportError, KeyError):  # a codec of tifffile's that is not installed, or unknown to it
        if page.compression in _OWN_COMPRESSIONS:
            raise
        return None
    if values.ndim == 3 and page.planarconfig == 2:
        return np.moveaxis(values, 0, -1)
    return values if values.ndim == 3 else values[..., None]


def _image(values: np.ndarray, page: TiffPage, how: ReadOptions, path: Path) -> np.ndarray:
    """Convert values of a page to an image: bits, inversion, alpha, depth."""
    if values.dtype == bool:
        values = values.astype(np.uint8) * np.uint8(255)
    elif values.dtype.kind == "u" and _bits(page) not in (8, 16, 32, 64):
        top = (1 << int(_bits(page))) - 1
        values = np.rint(values.astype(np.float64) * (65535 / top)).astype(np.uint16)
    colours = 3 if page.photometric == PHOTOMETRIC.RGB else 1
    extra = [int(e) for e in page.extrasamples]
    if values.shape[2] != colours + len(extra) or (extra and extra[0] not in (0, 1, 2)) or len(extra) > 1:
        raise InputError(_CHANNELS.format(one_line(path), values.shape[2]))
    greys = to_greys(values[..., :colours], how.window, how.depth)
    if page.photometric == PHOTOMETRIC.MINISWHITE:
        greys = np.iinfo(greys.dtype).max - greys
    # unassociated alpha (2); associated alpha (1) is multiplied in already, 0 is not alpha
    if extra == [2] and not how.opaque:
        greys = over_black(greys, to_greys(values[..., colours], "full", how.depth))
    return greys


def _bits(page: TiffPage) -> int:
    bits = page.bitspersample
    return max(bits) if isinstance(bits, tuple) else int(bits)


def _orientation(page: TiffPage) -> int:
    tag = page.tags.get("Orientation")
    return int(tag.value) if tag is not None else 1


def _turned(image: np.ndarray, orientation: int) -> np.ndarray:
    """Turn the image upright by the eight values of TIFF tag 274, which EXIF took over."""
    if orientation in (5, 6, 7, 8):
        image = image.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    return np.ascontiguousarray(image)


def _through_pillow(path: Path, how: ReadOptions, compression: int) -> np.ndarray:
    """Read the same page by Pillow, which turns TIFF upright itself.

    Raises:
        InputError: Pillow's libtiff does not decode the compression.
    """
    data = path.read_bytes()
    try:
        if compression not in TiffImagePlugin.COMPRESSION_INFO:
            raise OSError(compression)
        image = open_image(data, path)
        seek(image, how.frame or 0, path)
        check_size(path, image.size[0], image.size[1], how.max_pixels, stored=len(data))
        image.load()
    except OSError:  # Pillow repeats the words of libtiff's decoders
        raise InputError(
            f"{one_line(path)}: a TIFF of compression {one_line(getattr(compression, 'name', compression), 40)} that "
            "cannot be decoded: broken, or of a codec that is not installed; save it anew with LZW or Deflate"
        ) from None
    return pixels(image, how, path)
