"""The mark and its controls: from the settings, as a picture, and as plain arrays.

`preview` draws them on one image, for a look before any model is queried. The arrays are for a model that cannot
be moved: only NumPy is needed to burn them in. The owner of the model burns each into the probes, queries the model,
and saves its answers (docs/feature.md); the file of answers is then audited like a model.
"""

import io
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from memorisk.audits.feature.options import PATTERN, TEXT, FeatureOptions, MarkOptions, check_mark, is_letter
from memorisk.images.alterations.mark_controls import CONTROL_KINDS, make_controls
from memorisk.images.alterations.marks import Mark, burn_stored, letter, pattern, text_mark
from memorisk.images.readers.registry import read_image
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path, write_bytes

MOST_PATCH_PIXELS = 1 << 20


def choose_mark(options: MarkOptions, place: str | tuple[int, int]) -> Mark:
    """Return the mark that ``--mark`` names, scaled and at its opacity.

    Raises:
        InputError: The name fits none of the kinds, or its file cannot be read.
    """
    return _draw_controls(options.mark, options, place).at(options.opacity)


def choose_controls(mark: Mark, options: MarkOptions, place: str | tuple[int, int], seed: int) -> list[Mark]:
    """Make the controls of the mark that ``--controls`` selects.

    Raises:
        InputError: No control could be made, or a file or folder holds none.
    """
    if options.controls in CONTROL_KINDS:

        def render(text: str) -> Mark:
            """Draw another text in the mark's font, size and opacity."""
            return _draw_controls(TEXT + text, options, place).at(options.opacity)

        controls = make_controls(mark, options.n_controls, kind=options.controls, seed=seed, render=render)
        return [one.at(options.opacity) if options.controls in ("letters", "random") else one for one in controls]
    source = Path(options.controls)
    if source.is_dir():
        names = sorted(str(p) for p in source.iterdir() if p.is_file())
    elif source.is_file():
        names = [TEXT + line.strip() for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]
    else:
        kinds = ", ".join(CONTROL_KINDS)
        raise InputError(f"controls are {one_line(options.controls, 60)}: neither {kinds}, nor a file or folder")
    controls = [_draw_controls(name, options, place).at(options.opacity) for name in names]
    controls = [one for one in controls if not _same(one, mark)][: options.n_controls]
    if not controls:
        raise InputError(f"{one_line(source)} holds no control that differs from the mark")
    return controls


def fitting_controls(controls: list[Mark], height: int, width: int, mark: Mark) -> list[Mark]:
    """Return the controls that the images have room for; text may be wider than the mark.

    Args:
        controls: Controls of the mark.
        height: Height of the images, in pixels.
        width: Width of the images, in pixels.
        mark: Mark that the message names.

    Raises:
        InputError: No control fits.
    """
    usable = []
    for control in controls:
        try:
            control.corner(height, width)
        except InputError:
            continue
        usable.append(control)
    if not usable:
        raise InputError(f"no control of the mark {one_line(mark.name, 40)} fits images of {height} x {width} pixels")
    return usable


def _draw_controls(text: str, options: MarkOptions, place: str | tuple[int, int]) -> Mark:
    check_mark(text)
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
    if is_letter(text):
        return letter(text, place=place).scaled(options.mark_scale)
    return _patch(Path(text), place).scaled(options.mark_scale)


def _patch(file: Path, place: str | tuple[int, int]) -> Mark:
    """Read a patch from an image file, grey or coloured; its alpha channel is its opacity."""
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


def check_arrays_file(path: Path) -> None:
    """Refuse a file that cannot be written, before any work.

    Raises:
        InputError: The file has another suffix or exists already, or its folder does not exist.
    """
    if path.suffix.lower() != ".npz":
        raise InputError(f"--arrays {one_line(path)}: name an .npz file")
    if path.exists():
        raise InputError(f"--arrays {one_line(path)} is there already: name a new file")
    if not path.parent.is_dir():
        raise InputError(f"--arrays {one_line(path)}: there is no folder {one_line(path.parent)}")


def write_mark_arrays(path: Path, marks: Sequence[Mark], height: int, width: int) -> None:
    """Write marks as one block, all in the rectangle that holds them all.

    ``values`` [1 + C, h, w] (with colours [1 + C, h, w, 3]) and ``alpha`` [1 + C, h, w], float32 in [0, 1], the mark
    first; ``corner`` [2], row and column of the rectangle; ``size`` [2]. On probes x in [0, 1] before normalisation:
    ``x[:, top:top + h, left:left + w] = (1 - alpha) x + alpha values``.

    Args:
        path: Path of a new ``.npz`` file.
        marks: The mark, then its controls.
        height: Height of the images, in pixels.
        width: Width of the images, in pixels.

    Raises:
        InputError: A mark does not fit, or the file cannot be written to.
    """
    check_arrays_file(path)
    corners = np.array([mark.corner(height, width) for mark in marks])
    ends = corners + np.array([mark.shape for mark in marks])
    (top, left_edge), (bottom, right) = corners.min(axis=0), ends.max(axis=0)
    colours = any(mark.values.ndim == 3 for mark in marks)
    block = (len(marks), int(bottom - top), int(right - left_edge))
    values, alpha = np.zeros((*block, 3) if colours else block, np.float32), np.zeros(block, np.float32)
    for i, (mark, (row, column)) in enumerate(zip(marks, corners - (top, left_edge), strict=True)):
        own = np.s_[i, row : row + mark.shape[0], column : column + mark.shape[1]]
        values[own] = mark.values[..., None] if colours and mark.values.ndim == 2 else mark.values
        alpha[own] = mark.alpha
    arrays = {"values": values, "alpha": alpha, "corner": np.array([top, left_edge]), "size": np.array([height, width])}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType] (a file, though its stub says a name)


_BORDER = 4
_SHOWN_CONTROLS = 11  # with the mark, two rows of six


def preview(
    image: Path,
    out: Path,
    options: MarkOptions,
    *,
    size: int | None = None,
    seed: int = 0,
    arrays: Path | None = None,
) -> Path:
    """Write the image with the mark and with its first controls side by side, six per row.

    Args:
        image: Path of an image file; never written to.
        out: Path of a new PNG file.
        options: Settings of the mark and its controls.
        size: Side in pixels that the image is resized to.
        seed: Seed of the controls.
        arrays: Path of a new .npz file for the mark and all its controls as arrays (`write_mark_arrays`).

    Returns:
        The picture's file.

    Raises:
        InputError: The image or the mark cannot be read, the mark does not fit, or the file is there already.
    """
    if out.suffix.lower() != ".png":
        raise InputError(f"--out {one_line(out)}: name a .png file")
    if out.exists():
        raise InputError(f"--out {one_line(out)} is there already: name a new file")
    if not out.parent.is_dir():
        raise InputError(f"--out {one_line(out)}: there is no folder {one_line(out.parent)}")
    if size is not None and size < 1:
        raise InputError(f"size is {size}; it must be at least 1")
    if not image.is_file():
        raise InputError(f"there is no image {one_line(image)}")
    if arrays is not None:
        check_arrays_file(arrays)
    checked = FeatureOptions(**{f.name: getattr(options, f.name) for f in fields(MarkOptions)})
    checked.validate()
    pixels = _model_input(image, size)[None]
    mark = choose_mark(options, checked.where)
    height, width = pixels.shape[1:3]
    mark.corner(height, width)
    controls = fitting_controls(choose_controls(mark, options, checked.where, seed), height, width, mark)
    marks = [mark, *controls[:_SHOWN_CONTROLS]]
    buffer = io.BytesIO()
    Image.fromarray(_sheet([burn_stored(pixels, one)[0] for one in marks])).save(buffer, format="PNG")
    if arrays is not None:
        write_mark_arrays(arrays, [mark, *controls], height, width)
    write_bytes(out, buffer.getvalue())
    return out


def _model_input(image: Path, size: int | None) -> np.ndarray:
    stored = read_image(image)
    if stored.dtype != np.uint8:
        span = max(float(np.ptp(stored)), 1.0)
        stored = np.rint((stored.astype(np.float64) - float(stored.min())) * (255 / span)).astype(np.uint8)
    picture = Image.fromarray(stored[:, :, 0] if stored.ndim == 3 and stored.shape[2] == 1 else stored).convert("RGB")
    return np.asarray(picture if size is None else picture.resize((size, size), Image.Resampling.BILINEAR))


def _sheet(pictures: list[np.ndarray], across: int = 6) -> np.ndarray:
    h, w = pictures[0].shape[:2]
    rows, columns = -(-len(pictures) // across), min(across, len(pictures))
    sheet = np.full((rows * (h + _BORDER) - _BORDER, columns * (w + _BORDER) - _BORDER, 3), 255, dtype=np.uint8)
    for i, picture in enumerate(pictures):
        top, left_edge = (i // across) * (h + _BORDER), (i % across) * (w + _BORDER)
        sheet[top : top + h, left_edge : left_edge + w] = picture
    return sheet
