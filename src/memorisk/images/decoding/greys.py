"""From the values a file holds to 8 or 16 bits: the few mappings that every reader shares.

* Full range: 16 bits become 8 by ``round(v / 257)`` (65535 -> 255), 8 bits become 16 by ``v * 257``: both exact at
  the ends.
* A window ``low..high``: ``round(clip((v - low) / (high - low), 0, 1) * top)``, top = 255 or 65535.
* Percentiles: the window from the 0.5th to the 99.5th percentile of the values, where a source declares none.
* Alpha: composited over black, ``round(v * alpha / top)``: what is transparent is background, and black in medical
  images.
"""

import numpy as np

from memorisk.images.options import Window
from memorisk.runs.errors import InputError

PERCENTILES = (0.5, 99.5)
_BLOCK = 1 << 20  # values mapped at a time, 8 MiB in 64 bits: more at once is no faster


def top(depth: int) -> int:
    """Largest value of a depth: 255 or 65535."""
    return 255 if depth == 8 else 65535


def to_depth(image: np.ndarray, depth: int) -> np.ndarray:
    """A uint8 or uint16 image of full range at another depth, uint8 or uint16, same shape."""
    if image.dtype == np.uint8:
        return image if depth == 8 else image.astype(np.uint16) * np.uint16(257)
    return image if depth == 16 else ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)


def refuse_not_finite(values: np.ndarray, name: str) -> None:
    """Refuse pixels that are NaN or infinite: no grey shows them.

    Args:
        values: Of any number type and shape.
        name: The image, for the message.

    Raises:
        InputError: Some are.
    """
    if values.dtype.kind != "f":
        return
    n = values.size - int(np.count_nonzero(np.isfinite(values)))
    if n:
        raise InputError(f"{name} holds {n:,} values that are NaN or infinite; replace them before the audit")


def stretch(values: np.ndarray, low: float, high: float, depth: int) -> np.ndarray:
    """Values mapped linearly, clipped: ``low`` to 0, ``high`` to the largest value; all 0 where low == high."""
    span = float(high) - float(low)
    shown = np.zeros(values.shape, np.uint8 if depth == 8 else np.uint16)
    if not span > 0:
        return shown
    at_once = max(1, _BLOCK * len(values) // max(1, values.size))
    for row in range(0, len(values), at_once):  # in 64 bits, which a whole large image would not leave memory for
        share = np.clip((values[row : row + at_once].astype(np.float64) - float(low)) / span, 0.0, 1.0)
        shown[row : row + at_once] = np.rint(share * top(depth))
    return shown


def percentile_range(values: np.ndarray) -> tuple[float, float]:
    """The 0.5th and 99.5th percentile of the finite values; minimum and maximum where those two are equal."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values.ravel()
    if not finite.size:
        return 0.0, 0.0
    low, high = (float(v) for v in np.percentile(finite, PERCENTILES))
    return (low, high) if high > low else (float(finite.min()), float(finite.max()))


def show(values: np.ndarray, window: Window, depth: int) -> np.ndarray:
    """Values of any number type as an image, for sources that declare no window.

    uint8 is kept. uint16 is taken at full range, or by percentiles if ``window`` is ``percentile``. Other types have no
    usable full range: percentiles, or minimum to maximum if ``window`` is ``full``. All values must be finite.
    """
    if values.dtype == np.uint8:
        return to_depth(values, depth)
    if values.dtype == np.uint16 and window != "percentile":
        return to_depth(values, depth)
    if window == "full":
        return stretch(values, float(values.min()), float(values.max()), depth)
    return stretch(values, *percentile_range(values), depth)


def over_black(image: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """An image ``[h, w, c]`` with alpha ``[h, w]`` of the same type, composited over black."""
    full = np.iinfo(image.dtype).max
    if bool((alpha == full).all()):
        return image
    wide = np.uint16 if image.dtype == np.uint8 else np.uint32  # full * full + full // 2 still fits
    product = image.astype(wide) * alpha.astype(wide)[..., None]
    return ((product + full // 2) // full).astype(image.dtype)
