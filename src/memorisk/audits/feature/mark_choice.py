"""The mark and its controls, from what a user types."""

from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from memorisk.audits.feature.options import MarkOptions
from memorisk.images.marks.controls import KINDS, make_controls
from memorisk.images.marks.marks import Mark, letter, pattern
from memorisk.images.marks.text import text_mark
from memorisk.runs.errors import InputError, one_line

TEXT, PATTERN = "text:", "pattern:"
MOST_PATCH_PIXELS = 1 << 20


def choose_mark(options: MarkOptions, place: str | tuple[int, int]) -> Mark:
    """The mark that ``--mark`` names, scaled and at its opacity.

    Raises:
        InputError: It is none of the kinds, or its file cannot be read.
    """
    return _drawn(options.mark, options, place).at(options.opacity)


def choose_controls(mark: Mark, options: MarkOptions, place: str | tuple[int, int], seed: int) -> list[Mark]:
    """Controls of the mark as ``--controls`` asks for.

    Raises:
        InputError: None could be made, or a file or folder holds none.
    """
    if options.controls in KINDS:

        def render(text: str) -> Mark:
            """Another text in the mark's font, size and opacity."""
            return _drawn(TEXT + text, options, place).at(options.opacity)

        found = make_controls(mark, options.n_controls, kind=options.controls, seed=seed, render=render)
        return [one.at(options.opacity) if options.controls in ("letters", "random") else one for one in found]
    source = Path(options.controls)
    if source.is_dir():
        names = sorted(str(p) for p in source.iterdir() if p.is_file())
    elif source.is_file():
        names = [TEXT + line.strip() for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]
    else:
        kinds = ", ".join(KINDS)
        raise InputError(f"controls are {one_line(options.controls, 60)}: neither {kinds}, nor a file or folder")
    found = [_drawn(name, options, place).at(options.opacity) for name in names]
    found = [one for one in found if not _same(one, mark)][: options.n_controls]
    if not found:
        raise InputError(f"{one_line(source)} holds no control that differs from the mark")
    return found


def that_fit(controls: list[Mark], height: int, width: int, mark: Mark) -> list[Mark]:
    """Controls that the images have room for; text may be wider than the mark.

    Args:
        controls: Of the mark.
        height: Of the images.
        width: Likewise.
        mark: For the message.

    Raises:
        InputError: None fits.
    """
    found = []
    for control in controls:
        try:
            control.corner(height, width)
        except InputError:
            continue
        found.append(control)
    if not found:
        raise InputError(f"no control of the mark {one_line(mark.name, 40)} fits images of {height} x {width} pixels")
    return found


def _drawn(text: str, options: MarkOptions, place: str | tuple[int, int]) -> Mark:
    if text.startswith(TEXT):
        return text_mark(
            text.removeprefix(TEXT),
            height=options.text_height,
            font=options.font,
            background=options.text_background,
            place=place,
        )
    if text.startswith(PATTERN):
        number = text.removeprefix(PATTERN)
        if not number.isdigit():
            raise InputError(f"pattern:SEED needs a whole number, not {one_line(number, 40)!r}")
        return pattern((5, 5), seed=int(number), binary=True, place=place).scaled(options.mark_scale)
    if len(text) == 1 and "A" <= text <= "Z":
        return letter(text, place=place).scaled(options.mark_scale)
    if Path(text).is_file():
        return _patch(Path(text), place).scaled(options.mark_scale)
    raise InputError(
        f"mark is {one_line(text, 60)}: neither a letter A to Z, text:..., pattern:SEED, nor an image file"
    )


def _patch(file: Path, place: str | tuple[int, int]) -> Mark:
    """A patch from an image file, grey or coloured; its alpha channel is its opacity."""
    try:
        with Image.open(file) as opened:
            if opened.width * opened.height > MOST_PATCH_PIXELS:
                raise InputError(
                    f"{one_line(file.name)} has {opened.width} x {opened.height} pixels: too many for a mark"
                )
            rgba = np.asarray(opened.convert("RGBA"), dtype=np.float32) / np.float32(255)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"the mark {one_line(file.name)} cannot be read as an image: {one_line(error, 80)}") from None
    colour, alpha = rgba[:, :, :3], rgba[:, :, 3]
    grey = bool((colour == colour[:, :, :1]).all())
    return Mark(file.name, np.ascontiguousarray(colour[:, :, 0] if grey else colour), alpha.copy(), place, "patch")


def _same(one: Mark, other: Mark) -> bool:
    return one.values.shape == other.values.shape and bool(
        (one.values == other.values).all() and (one.alpha == other.alpha).all()
    )
