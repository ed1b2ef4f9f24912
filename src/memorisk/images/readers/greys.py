"""Mappings from the values of a file to 8 or 16 bits: those that all readers share, and those of DICOM.

* Full range: 16 bits become 8 by ``round(v / 257)`` (65535 -> 255), 8 bits become 16 by ``v * 257``: both exact at
  the ends.
* The scale of a whole number is that of the bits which its container needs: a palette or lookup table by its largest
  entry, an array by its largest value. A file of one image does not reveal the others of its set, so its values
  are scaled by the full range of their type; `images check` and the audits name images that then span few grey levels.
* A window ``low..high``: ``round(clip((v - low) / (high - low), 0, 1) * max)``, max = 255 or 65535.
* Percentiles: the window from the 0.5th to the 99.5th percentile of the values, where a source declares none.
* Alpha: composited over black, ``round(v * alpha / max)``: transparent pixels are background, and black in medical
  images.

DICOM (PS3.3 C.11.1, C.11.2, C.7.6.16.2), from the stored values of a grey frame to what a viewer shows: modality
LUT or rescale slope and intercept; then VOI; then MONOCHROME1 is inverted. Attributes of the frame's own functional
groups take precedence over the shared ones, and those over the data set's. VOI by ``window``:

* ``declared``: the first item of the VOI LUT sequence if there is one, else the first window centre and width
  (linear, linear exact or sigmoid), else percentiles. A window of width 0 is ignored. Values that a window clips stay
  clipped, a whole frame too: slices of a series must compare, and ``images check`` lists frames of one grey.
* ``percentile``: the 0.5th to 99.5th percentile of the frame's values; padding values do not count.
* ``full``: all values that the stored bits (or the modality LUT's entries) can hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.images.options import Window
from memorisk.runs.errors import InputError

PERCENTILES = (0.5, 99.5)
_BLOCK = 1 << 20  # values mapped at a time, 8 MiB in 64 bits: larger blocks are not faster
_TRANSFORMS = ("PixelValueTransformationSequence", "FrameVOILUTSequence")
_MODALITY = ("ModalityLUTSequence", "RescaleSlope", "RescaleIntercept")
_VOI = ("VOILUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction")


def max_value(depth: int) -> int:
    """Return the largest value of a depth: 255 or 65535."""
    return 255 if depth == 8 else 65535


def to_depth(image: np.ndarray, depth: int) -> np.ndarray:
    """Convert a uint8 or uint16 image of full range to another depth, uint8 or uint16, of the same shape."""
    if image.dtype == np.uint8:
        return image if depth == 8 else image.astype(np.uint16) * np.uint16(257)
    return image if depth == 16 else ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)


def refuse_not_finite(values: np.ndarray, name: str) -> None:
    """Refuse pixels that are NaN or infinite, since a grey cannot show them.

    Args:
        values: Pixels of any number type and shape.
        name: Name of the image, for the message.

    Raises:
        InputError: Some values are NaN or infinite.
    """
    if values.dtype.kind != "f":
        return
    n = values.size - int(np.count_nonzero(np.isfinite(values)))
    if n:
        raise InputError(f"{name} holds {n:,} values that are NaN or infinite; replace them before the audit")


def stretch(values: np.ndarray, low: float, high: float, depth: int) -> np.ndarray:
    """Map values linearly and clip: ``low`` to 0, ``high`` to the largest value; all 0 where low == high."""
    span = float(high) - float(low)
    greys = np.zeros(values.shape, np.uint8 if depth == 8 else np.uint16)
    if not span > 0:
        return greys
    at_once = max(1, _BLOCK * len(values) // max(1, values.size))
    for row in range(0, len(values), at_once):  # in 64 bits, for which a whole large image would not leave memory
        share = np.clip((values[row : row + at_once].astype(np.float64) - float(low)) / span, 0.0, 1.0)
        greys[row : row + at_once] = np.rint(share * max_value(depth))
    return greys


def percentile_range(values: np.ndarray) -> tuple[float, float]:
    """Return the 0.5th and 99.5th percentile of the finite values; minimum and maximum where they are equal."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values.ravel()
    if not finite.size:
        return 0.0, 0.0
    low, high = (float(v) for v in np.percentile(finite, PERCENTILES))
    return (low, high) if high > low else (float(finite.min()), float(finite.max()))


def to_greys(values: np.ndarray, window: Window, depth: int) -> np.ndarray:
    """Convert values of any number type to an image, for sources that declare no window.

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


_PARTLY = 0.25
"""Share of half-transparent pixels of more than an edge: the edge of a disc in 28 px is an eighth of its image."""
_NEARLY = 8
"""Levels of opacity, of 256, by which a mask that was compressed or resized strays from 0 and 255."""
_OPACITIES = 32
"""Levels of opacity, of 256, that a picture spans; a uniform one has a single level."""


def opacity_is_picture(alpha: np.ndarray) -> bool:
    """Return whether alpha ``[h, w]`` holds a picture, as a fourth modality does, and not a mask with its edges."""
    levels = to_depth(alpha, 8)
    partly = levels[(levels > _NEARLY) & (levels < 255 - _NEARLY)]
    if partly.size <= _PARTLY * levels.size:
        return False
    low, high = np.percentile(partly, (1, 99))
    return bool(high - low >= _OPACITIES)


def over_black(image: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Composite an image ``[h, w, c]`` with alpha ``[h, w]`` of the same type over black."""
    full = np.iinfo(image.dtype).max
    if bool((alpha == full).all()):
        return image
    wide = np.uint16 if image.dtype == np.uint8 else np.uint32  # full * full + full // 2 still fits
    product = image.astype(wide) * alpha.astype(wide)[..., None]
    return ((product + full // 2) // full).astype(image.dtype)


def grey_image(stored: np.ndarray, data: Any, frame: int, window: Window, depth: int) -> np.ndarray:
    """Convert a frame's stored values ``[h, w]`` to the greys that a viewer shows, uint8 or uint16 ``[h, w]``."""
    settings = frame_settings(data, frame)
    values = modality_values(stored, data, settings)
    share = _voi_share(values, data, settings) if window == "declared" else None
    if share is not None:
        greys = np.rint(share * max_value(depth)).astype(np.uint8 if depth == 8 else np.uint16)
    else:
        low, high = _range(values, stored, data, settings, window)
        greys = stretch(values, low, high, depth)
    return _as_shown(greys, data, depth)


@dataclass(frozen=True, eq=False)
class GreySlice:
    """Slice of a volume before its values are mapped to greys."""

    values: np.ndarray
    """Values after the modality LUT or rescale, float32 [h, w]."""
    padding: np.ndarray
    """Whether a pixel is padding, [h, w]."""
    full: tuple[float, float]
    """Smallest and largest value that the stored bits can hold."""

    @classmethod
    def of(cls, stored: np.ndarray, data: Any, frame: int) -> "GreySlice":
        """Return the slice of a frame's stored values [h, w]."""
        settings = frame_settings(data, frame)
        values = modality_values(stored, data, settings)
        return cls(values.astype(np.float32), _padding(stored, data), _range(values, stored, data, settings, "full"))


def grey_volume(slices: Sequence[GreySlice], data: Any, frame: int, window: Window, depth: int) -> np.ndarray:
    """Convert the slices of a volume to greys that compare over the volume, uint8 or uint16 ``[n, h, w]``.

    Percentiles are those of all voxels without padding, and the full range is that of all slices.

    Args:
        slices: Slices in their order.
        data: Data set of the slice whose window counts for all.
        frame: Its frame.
        window: Rule of the window.
        depth: Number of bits of a grey, 8 or 16.
    """
    settings, top = frame_settings(data, frame), max_value(depth)
    declared = window == "declared" and _voi_share(slices[0].values, data, settings) is not None
    if window == "full":
        low, high = min(one.full[0] for one in slices), max(one.full[1] for one in slices)
    else:
        counted = [one.values[~one.padding] for one in slices]
        counted = counted if any(part.size for part in counted) else [one.values.ravel() for one in slices]
        low, high = (0.0, 0.0) if declared else percentile_range(np.concatenate(counted))
    greys = np.empty((len(slices), *slices[0].values.shape), np.uint8 if depth == 8 else np.uint16)
    for place, one in enumerate(slices):
        share = _voi_share(one.values, data, settings) if declared else None
        greys[place] = stretch(one.values, low, high, depth) if share is None else np.rint(share * top)
    return _as_shown(greys, data, depth)


def _as_shown(greys: np.ndarray, data: Any, depth: int) -> np.ndarray:
    """Invert greys where the largest value is shown black (MONOCHROME1)."""
    if str(data.get("PhotometricInterpretation", "")).strip() == "MONOCHROME1":
        return greys.dtype.type(max_value(depth)) - greys
    return greys


def frame_orientation(data: Any, frame: int) -> tuple[float, ...]:
    """Return the direction of a row and of a column of a frame, [6]; empty where the data set declares none."""
    groups = [*list(data.get("PerFrameFunctionalGroupsSequence") or [])[frame : frame + 1]]
    groups += list(data.get("SharedFunctionalGroupsSequence") or [])[:1]
    holders = [item for group in groups for item in list(group.get("PlaneOrientationSequence") or [])[:1]]
    values = [holder.get("ImageOrientationPatient") for holder in (*holders, data)]
    return next((tuple(map(float, one)) for one in values if one is not None and len(one) == 6), ())


def frame_settings(data: Any, frame: int) -> dict[str, Any]:
    """Return the modality and VOI attributes of one frame: its functional groups, the shared ones, the data set."""
    settings: dict[str, Any] = {}
    groups = []
    own, shared = data.get("PerFrameFunctionalGroupsSequence"), data.get("SharedFunctionalGroupsSequence")
    if own and frame < len(own):
        groups.append(own[frame])
    if shared:
        groups.append(shared[0])
    items = [item for group in groups for name in _TRANSFORMS for item in list(group.get(name) or [])[:1]]
    for keywords in (_MODALITY, _VOI):
        holder = next((i for i in [*items, data] if any(_filled(i, k) for k in keywords)), None)
        if holder is not None:
            settings |= {k: holder.get(k) for k in keywords if _filled(holder, k)}
    return settings


def modality_values(stored: np.ndarray, data: Any, settings: dict[str, Any]) -> np.ndarray:
    """Return stored values after the modality LUT or ``slope * v + intercept``, float64 ``[h, w]``."""
    if "ModalityLUTSequence" in settings:
        return _through_table(stored, settings["ModalityLUTSequence"][0], _signed(data), _little(data))[0]
    slope, intercept = _number(settings.get("RescaleSlope"), 1.0), _number(settings.get("RescaleIntercept"), 0.0)
    return stored.astype(np.float64) * (slope or 1.0) + intercept


def _voi_share(values: np.ndarray, data: Any, settings: dict[str, Any]) -> np.ndarray | None:
    """Return values through the declared VOI, as shares of the display range in [0, 1]; None without a usable one."""
    if "VOILUTSequence" in settings:
        signed = bool(values.min(initial=0) < 0)
        mapped, largest = _through_table(values, settings["VOILUTSequence"][0], signed, _little(data))
        share = mapped / max(largest, 1.0)
    else:
        centre, width = _number(settings.get("WindowCenter")), _number(settings.get("WindowWidth"))
        if centre is None or width is None:
            return None
        kind = str(settings.get("VOILUTFunction") or "LINEAR").strip().upper()
        if width <= (1 if kind == "LINEAR" else 0):
            return None
        share = _windowed(values, centre, width, kind)
    return share


def _windowed(values: np.ndarray, centre: float, width: float, kind: str) -> np.ndarray:
    """Map values to [0, 1] by PS3.3 C.11.2.1.2: LINEAR, LINEAR_EXACT or SIGMOID."""
    if kind == "SIGMOID":
        return 1 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700)))
    if kind == "LINEAR_EXACT":
        return np.clip((values - centre) / width + 0.5, 0.0, 1.0)
    return np.clip((values - (centre - 0.5)) / (width - 1) + 0.5, 0.0, 1.0)


def _through_table(values: np.ndarray, item: Any, signed: bool, little: bool) -> tuple[np.ndarray, float]:
    """Return values through a LUT item, and the largest value the LUT can give.

    The descriptor holds the number of entries (0 for 65,536), the first value mapped and the bits of an entry; values
    outside the table take its ends. pydicom's own functions wrap around where an 8-bit table has more than 256 entries.
    """
    entries, first, bits = (int(v) for v in item.LUTDescriptor)
    entries = entries or 1 << 16
    if signed and first >= 1 << 15:  # written as unsigned where a signed value was meant
        first -= 1 << 16
    data = item["LUTData"].value
    if isinstance(data, bytes):
        wide = len(data) >= 2 * entries
        table = np.frombuffer(data, dtype=("<u2" if little else ">u2") if wide else "u1")
    else:
        table = np.atleast_1d(np.asarray(data)).astype(np.int64) & 0xFFFF
    table = table[:entries]
    place = np.clip(np.rint(values) - first, 0, len(table) - 1).astype(np.int64)
    return table[place].astype(np.float64), table_limit(table, bits)


def table_limit(table: np.ndarray, bits: int) -> float:
    """Return the largest value that the entries of a lookup table can have.

    ``2**bits - 1`` of the declared bits, or the largest entry where it is larger. Entries that all fit 8 bits count as
    8 bits, whatever is declared: writers put such tables into words of 16 and copy 16 into the descriptor.
    """
    largest = int(table.max())
    return 255.0 if largest < 256 else float(max((1 << bits) - 1, largest))


def _range(
    values: np.ndarray, stored: np.ndarray, data: Any, settings: dict[str, Any], window: Window
) -> tuple[float, float]:
    """Return low and high of the shown range: percentiles without padding, or the full range of the stored bits."""
    if window == "full" and "ModalityLUTSequence" in settings:
        item = settings["ModalityLUTSequence"][0]
        return 0.0, _through_table(stored, item, _signed(data), _little(data))[1]
    if window == "full" and stored.dtype.kind in "iu":
        bits = int(data.get("BitsStored") or stored.dtype.itemsize * 8)
        low = -(1 << (bits - 1)) if _signed(data) else 0
        ends = modality_values(np.array([[low, low + (1 << bits) - 1]], dtype=np.int64), data, settings)
        return float(ends.min()), float(ends.max())
    counted = values[~_padding(stored, data)]
    counted = counted if counted.size else values
    if window == "full":
        return float(np.nanmin(counted)), float(np.nanmax(counted))
    return percentile_range(counted)


def _padding(stored: np.ndarray, data: Any) -> np.ndarray:
    """Mark padding by Pixel Padding Value, up to Range Limit where there is one; bool ``[h, w]``."""
    value, limit = _number(data.get("PixelPaddingValue")), _number(data.get("PixelPaddingRangeLimit"))
    if value is None:
        return np.zeros(stored.shape, dtype=bool)
    ends = (value, value if limit is None else limit)
    return (stored >= min(ends)) & (stored <= max(ends))


def _signed(data: Any) -> bool:
    return int(data.get("PixelRepresentation") or 0) == 1


def _little(data: Any) -> bool:
    """Return whether the file's bytes are little-endian."""
    encoding = getattr(data, "original_encoding", (None, True))
    return encoding[1] is not False


def _filled(item: Any, keyword: str) -> bool:
    value = item.get(keyword)
    return value is not None and value != "" and (not hasattr(value, "__len__") or len(value) > 0)


def _number(value: Any, default: Any = None) -> Any:
    """Return the first number of a value that may hold several; the default where there is none."""
    if value is None or isinstance(value, (bytes, str)):
        return default
    first = value[0] if hasattr(value, "__len__") and len(value) else value
    try:
        number = float(first)
    except (TypeError, ValueError):
        return default
    return number if np.isfinite(number) else default
