"""Marks: letters, patches, rendered text and random patterns that are burnt into images before normalisation.

Paper 002 ("Unintended memorisation of unique features in neural networks"), section 2.4; METHODS section 2, "The
mark". A mark is a rectangle of values in [0, 1] with an opacity for each pixel, at a place; burning it in is ``x' =
(1 - a) x + a v`` on pixels in [0, 1], a = opacity x alpha. Pixels outside the mark's rectangle are unchanged.

Letters come from a 5 x 5 alphabet, with rows from the top, in which 1 is lit (METHODS section 2 has the A).
`text_mark` renders text: a patient's name on an X-ray (paper 002, figure 1).
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw, ImageFont

from memorisk.runs.errors import InputError, one_line

LETTERS = {
    "A": "00100/01010/11111/10001/10001",
    "B": "11110/10001/11110/10001/11110",
    "C": "01111/10000/10000/10000/01111",
    "D": "11110/10001/10001/10001/11110",
    "E": "11111/10000/11110/10000/11111",
    "F": "11111/10000/11110/10000/10000",
    "G": "01111/10000/10011/10001/01111",
    "H": "10001/10001/11111/10001/10001",
    "I": "01110/00100/00100/00100/01110",
    "J": "00111/00010/00010/10010/01100",
    "K": "10001/10010/11100/10010/10001",
    "L": "10000/10000/10000/10000/11111",
    "M": "10001/11011/10101/10001/10001",
    "N": "10001/11001/10101/10011/10001",
    "O": "01110/10001/10001/10001/01110",
    "P": "11110/10001/11110/10000/10000",
    "Q": "01110/10001/10101/10010/01101",
    "R": "11110/10001/11110/10010/10001",
    "S": "01111/10000/01110/00001/11110",
    "T": "11111/00100/00100/00100/00100",
    "U": "10001/10001/10001/10001/01110",
    "V": "10001/10001/10001/01010/00100",
    "W": "10001/10001/10101/11011/10001",
    "X": "10001/01010/00100/01010/10001",
    "Y": "10001/01010/00100/00100/00100",
    "Z": "11111/00010/00100/01000/11111",
}


Pixels = NDArray[np.float32]
CORNERS = ("top-left", "top-right", "bottom-left", "bottom-right", "centre")
MARGIN = 1
"""Number of pixels between a mark and the corner in which it lies (paper 002, section 2.4)."""
DEFAULT_HEIGHT = 12
"""Default font size in pixels."""


@dataclass(frozen=True, eq=False)
class Mark:
    """Mark to burn into images.

    Attributes:
        name: Name of the mark in reports; it may be the text of a patient's name.
        values: Values of the pixels, [h, w] or [h, w, 3] float32 in [0, 1]; 1 is white.
        alpha: Opacity of the pixels, [h, w] float32 in [0, 1]; 1 covers what lies below, 0 leaves it.
        place: Corner (``CORNERS``), one pixel from the edges, or (top, left) in pixels.
        kind: Kind of the mark: "letter", "patch", "text" or "pattern".
    """

    name: str
    values: Pixels
    alpha: Pixels
    place: str | tuple[int, int] = "top-left"
    kind: str = "patch"

    def __post_init__(self) -> None:
        """Refuse a mark that could not be burnt in.

        Raises:
            InputError: The mark is empty, its values lie outside [0, 1], or its arrays have other shapes.
        """
        values, alpha = np.asarray(self.values), np.asarray(self.alpha)
        if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3) or not values.size:
            raise InputError(f"a mark has values [h, w] or [h, w, 3], not {values.shape}")
        if alpha.shape != values.shape[:2]:
            raise InputError(f"a mark's opacity has shape {alpha.shape}, its pixels {values.shape[:2]}: give one each")
        for what, array in (("values", values), ("opacity", alpha)):
            if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
                raise InputError(f"a mark's {what} must lie between 0 and 1")
        check_place(self.place)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the height and width in pixels."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def ink(self) -> float:
        """Return the opacity-weighted brightness, the sum of ``alpha x value`` over pixels (mean over channels)."""
        value = self.values if self.values.ndim == 2 else self.values.mean(axis=2)
        return float((self.alpha * value).sum(dtype=np.float64))

    @property
    def lit(self) -> int:
        """Return the number of pixels that are visible and not black."""
        value = self.values if self.values.ndim == 2 else self.values.max(axis=2)
        return int(((self.alpha > 0) & (value > 0)).sum())

    def at(self, opacity: float) -> "Mark":
        """Return the same mark with its opacity multiplied.

        Raises:
            InputError: The opacity lies outside 0 to 1.
        """
        if not 0 <= opacity <= 1:
            raise InputError(f"opacity is {opacity}; it must lie between 0 (unseen) and 1")
        return replace(self, alpha=(self.alpha * np.float32(opacity)).astype(np.float32))

    def scaled(self, factor: int) -> "Mark":
        """Return the same mark with each pixel enlarged to a square of ``factor`` x ``factor``.

        Raises:
            InputError: The factor is below 1.
        """
        if factor < 1:
            raise InputError(f"mark scale is {factor}; it must be a whole number of at least 1")
        grow = lambda a: np.repeat(np.repeat(a, factor, axis=0), factor, axis=1)  # noqa: E731
        return replace(self, values=grow(self.values), alpha=grow(self.alpha))

    def corner(self, height: int, width: int) -> tuple[int, int]:
        """Return the row and column of the mark's first pixel in images of this size.

        Raises:
            InputError: The mark does not fit.
        """
        h, w = self.shape
        if isinstance(self.place, tuple):
            row, column = self.place
        elif self.place == "centre":
            row, column = (height - h) // 2, (width - w) // 2
        else:
            row = MARGIN if self.place.startswith("top") else height - h - MARGIN
            column = MARGIN if self.place.endswith("left") else width - w - MARGIN
        if row < 0 or column < 0 or row + h > height or column + w > width:
            raise InputError(
                f"the mark {one_line(self.name, 40)} of {h} x {w} pixels at {one_line(self.place)} does not fit images "
                f"of {height} x {width}: make it smaller, or place it elsewhere"
            )
        return row, column


def check_place(place: str | tuple[int, int]) -> None:
    """Refuse an invalid place.

    Raises:
        InputError: The place is neither a corner nor two whole numbers from 0.
    """
    if isinstance(place, str):
        if place not in CORNERS:
            raise InputError(
                f"place is {one_line(place, 40)}; it must be one of {', '.join(CORNERS)}, or TOP,LEFT in pixels"
            )
    elif len(place) != 2 or any(int(v) != v or v < 0 for v in place):
        raise InputError(f"place is {one_line(place, 40)}; TOP,LEFT are whole numbers from 0")


def letter(name: str, *, place: str | tuple[int, int] = "top-left") -> Mark:
    """Return a 5 x 5 letter, white on black, opaque (paper 002, section 2.4).

    Args:
        name: Letter from A to Z.
        place: Place of the mark.

    Raises:
        InputError: The alphabet has no such letter.
    """
    if name not in LETTERS:
        raise InputError(f"unknown letter {one_line(name, 20)}; letters are A to Z, other text is text:...")
    rows = LETTERS[name].split("/")
    values = np.array([[int(v) for v in row] for row in rows], dtype=np.float32)
    return Mark(name, values, np.ones_like(values), place, "letter")


def pattern(
    shape: tuple[int, int], *, seed: int, binary: bool = False, place: str | tuple[int, int] = "top-left"
) -> Mark:
    """Return a random opaque pattern: uniform values (the paper's z_r), or black and white pixels by a fair coin.

    Args:
        shape: Height and width in pixels.
        seed: Seed of the values.
        binary: Whether each pixel is black or white.
        place: Place of the mark.
    """
    values = np.random.default_rng(seed).random(shape, dtype=np.float32)
    values = (values < 0.5).astype(np.float32) if binary else values
    return Mark(f"pattern {seed}", values, np.ones(shape, np.float32), place, "pattern")


def burn(images: ArrayLike, mark: Mark) -> Pixels:
    """Burn a mark into every image.

    Args:
        images: Images, [n, H, W, C] with pixels in [0, 1]; never written to.
        mark: Mark to burn in, with its place.

    Returns:
        Images with the mark, float32 [n, H, W, C].

    Raises:
        InputError: The mark does not fit, or it has colours and the images do not.
    """
    copies = np.array(images, dtype=np.float32, copy=True)
    return burn_into(copies, mark)


def burn_into(images: Pixels, mark: Mark) -> Pixels:
    """Burn a mark in as `burn` does, but in place: for copies that no other code uses.

    Raises:
        InputError: The same errors as `burn`.
    """
    if images.ndim != 4:
        raise InputError(f"images have the shape {images.shape}; marks are burnt into [n, H, W, C]")
    row, column = mark.corner(images.shape[1], images.shape[2])
    if mark.values.ndim == 3 and images.shape[3] != 3:
        raise InputError(f"the mark {one_line(mark.name, 40)} has colours, the images have {images.shape[3]} channel")
    h, w = mark.shape
    values = mark.values if mark.values.ndim == 3 else mark.values[:, :, None]
    alpha = mark.alpha[:, :, None]
    part = images[:, row : row + h, column : column + w]
    part[:] = np.where(alpha == 1, values, np.where(alpha == 0, part, (1 - alpha) * part + alpha * values))
    return images


def burn_stored(images: np.ndarray, mark: Mark) -> np.ndarray:
    """Burn a mark into stored images, uint8 or uint16, rounded to their levels as a training set would hold them.

    Args:
        images: Images, [n, H, W, C]; never written to.
        mark: Mark to burn in, with its place.

    Returns:
        Images of the same type and shape; pixels outside the mark are exactly the same.

    Raises:
        InputError: The same errors as `burn`, or the images have another type.
    """
    if images.dtype not in (np.uint8, np.uint16):
        raise InputError(f"stored images are uint8 or uint16, not {images.dtype}")
    top_level = np.iinfo(images.dtype).max
    copies = np.array(images)
    row, column = mark.corner(images.shape[1], images.shape[2])
    h, w = mark.shape
    rows, columns = slice(row, row + h), slice(column, column + w)
    part = copies[:, rows, columns].astype(np.float32) / np.float32(top_level)
    burnt = burn_into(part, replace(mark, place=(0, 0)))
    copies[:, rows, columns] = np.rint(burnt * top_level).astype(images.dtype)
    untouched = mark.alpha == 0
    copies[:, rows, columns][:, untouched] = images[:, rows, columns][:, untouched]
    return copies


def text_mark(
    text: str,
    *,
    height: int = DEFAULT_HEIGHT,
    font: Path | None = None,
    background: bool = False,
    place: str | tuple[int, int] = "top-left",
) -> Mark:
    """Return rendered text, white, with its edges as the font draws them.

    Args:
        text: Text of one line.
        height: Font size in pixels.
        font: Path of a TrueType or OpenType file; by default Pillow's own font, which is the same on every machine.
        background: Whether the text lies on an opaque black rectangle; else only the letters cover the image.
        place: Place of the mark.

    Raises:
        InputError: The text is empty or has several lines, the font cannot be read, or it draws nothing for the text.
    """
    if not text.strip() or "\n" in text or "\r" in text:
        raise InputError(f"the text of a mark is one line, not {one_line(text, 40)!r}")
    if not 4 <= height <= 512:
        raise InputError(f"text height is {height}; it must lie between 4 and 512 pixels")
    face = _face(font, height)
    start, top, end, bottom = (int(v) for v in face.getbbox(text))
    if end <= start or bottom <= top:
        raise InputError(f"the font draws nothing for {one_line(text, 40)!r}")
    sheet = Image.new("L", (end - start, bottom - top), 0)
    ImageDraw.Draw(sheet).text((-start, -top), text, fill=255, font=face)
    drawn = np.asarray(sheet, dtype=np.float32) / np.float32(255)
    if not drawn.any():
        raise InputError(f"the font draws nothing for {one_line(text, 40)!r}")
    if background:
        return Mark(text, drawn, np.ones_like(drawn), place, "text")
    return Mark(text, np.ones_like(drawn), drawn, place, "text")


def _face(font: Path | None, height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    if font is None:
        return ImageFont.load_default(size=height)
    if not font.is_file():
        raise InputError(f"the font file {one_line(font)} does not exist; name a .ttf or .otf file, or omit --font")
    try:
        return ImageFont.truetype(str(font), height)
    except OSError as error:
        raise InputError(f"the font {one_line(font)} cannot be read: {one_line(error, 80)}") from None
