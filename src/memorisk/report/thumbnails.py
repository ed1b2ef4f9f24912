"""Small pictures inside a page: the one place of the report with pixels, and only when a gallery is asked for."""

import base64
import io

import numpy as np
from PIL import Image


def data_uri(pixels: np.ndarray, *, side: int = 160) -> str:
    """Shrink an image to fit ``side`` x ``side`` and write it as a PNG inside a data URI.

    Args:
        pixels: ``[h, w]`` or ``[h, w, c]`` with c in {1, 3}, uint8, or uint16, which is stretched from its own minimum
        and
            maximum to 8 bits. Images smaller than half of ``side`` are enlarged by whole factors, so that pixels stay
            sharp.
        side: Longest edge, in pixels.

    Raises:
        ValueError: If shape or dtype are others.
    """
    array = np.asarray(pixels)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or array.size == 0:
        raise ValueError(f"a thumbnail needs [h, w], [h, w, 1] or [h, w, 3] pixels, got shape {np.shape(pixels)}")
    if array.dtype == np.uint16:
        low, high = int(array.min()), int(array.max())
        array = np.round((array.astype(np.float64) - low) * (255 / max(high - low, 1))).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(f"a thumbnail needs uint8 or uint16 pixels, got {array.dtype}")
    image = Image.fromarray(np.ascontiguousarray(array))
    longest = max(image.size)
    if longest > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    elif longest * 2 <= side:
        factor = side // longest
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
