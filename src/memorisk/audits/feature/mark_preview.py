"""A mark and its controls on one image, as a picture to look at before anything is asked."""

import io
from dataclasses import fields
from pathlib import Path

import numpy as np
from PIL import Image

from memorisk.audits.feature.mark_arrays import check_arrays_file, write_mark_arrays
from memorisk.audits.feature.mark_choice import choose_controls, choose_mark, that_fit
from memorisk.audits.feature.options import FeatureOptions, MarkOptions
from memorisk.images.marks.marks import burn_stored
from memorisk.images.readers.registry import read_image
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_bytes

_BORDER = 4


def preview(
    image: Path,
    out: Path,
    options: MarkOptions,
    *,
    size: int | None = None,
    shown: int = 11,
    seed: int = 0,
    arrays: Path | None = None,
) -> Path:
    """Write the image with the mark and with its first controls side by side, six a row.

    Args:
        image: An image file; never written to.
        out: A new PNG file.
        options: The mark and its controls.
        size: Side in pixels that the image is resized to.
        shown: Controls shown.
        seed: Of the controls.
        arrays: A new .npz file for the mark and all its controls as arrays (`mark_arrays`).

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
    if shown < 0:
        raise InputError(f"n_shown is {shown}; it must be at least 0")
    if size is not None and size < 1:
        raise InputError(f"size is {size}; it must be at least 1")
    if not image.is_file():
        raise InputError(f"there is no image {one_line(image)}")
    if arrays is not None:
        check_arrays_file(arrays)
    checked = FeatureOptions(**{f.name: getattr(options, f.name) for f in fields(MarkOptions)})
    checked.validate()
    pixels = _as_model_sees(image, size)[None]
    mark = choose_mark(options, checked.where)
    height, width = pixels.shape[1:3]
    mark.corner(height, width)
    controls = that_fit(choose_controls(mark, options, checked.where, seed), height, width, mark)
    marks = [mark, *controls[:shown]]
    buffer = io.BytesIO()
    Image.fromarray(_sheet([burn_stored(pixels, one)[0] for one in marks])).save(buffer, format="PNG")
    if arrays is not None:
        write_mark_arrays(arrays, [mark, *controls], height, width)
    write_bytes(out, buffer.getvalue())
    return out


def _as_model_sees(image: Path, size: int | None) -> np.ndarray:
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
        top, left = (i // across) * (h + _BORDER), (i % across) * (w + _BORDER)
        sheet[top : top + h, left : left + w] = picture
    return sheet
