"""Text as a mark: a patient's name on an X-ray (paper 002, figure 1; METHODS section 2, "The mark")."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from memorisk.images.marks.marks import Mark
from memorisk.runs.errors import InputError, one_line

DEFAULT_HEIGHT = 12
"""Font size in pixels."""


def text_mark(
    text: str,
    *,
    height: int = DEFAULT_HEIGHT,
    font: Path | None = None,
    background: bool = False,
    place: str | tuple[int, int] = "top-left",
) -> Mark:
    """Rendered text, white, its edges as the font draws them.

    Args:
        text: One line.
        height: Font size in pixels.
        font: A TrueType or OpenType file; by default the font that comes with Pillow, the same on every machine.
        background: On an opaque black rectangle; else only the letters cover the image.
        place: Of the mark.

    Raises:
        InputError: No text, more than one line, a font that cannot be read, or text that the font draws as nothing.
    """
    if not text.strip() or "\n" in text or "\r" in text:
        raise InputError(f"the text of a mark is one line, not {one_line(text, 40)!r}")
    if not 4 <= height <= 512:
        raise InputError(f"text height is {height}; it must lie between 4 and 512 pixels")
    face = _face(font, height)
    left, top, right, bottom = (int(v) for v in face.getbbox(text))
    if right <= left or bottom <= top:
        raise InputError(f"the font draws nothing for {one_line(text, 40)!r}")
    sheet = Image.new("L", (right - left, bottom - top), 0)
    ImageDraw.Draw(sheet).text((-left, -top), text, fill=255, font=face)
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
        raise InputError(f"there is no font file {one_line(font)}; name a .ttf or .otf file, or leave --font out")
    try:
        return ImageFont.truetype(str(font), height)
    except OSError as error:
        raise InputError(f"the font {one_line(font)} cannot be read: {one_line(error, 80)}") from None
