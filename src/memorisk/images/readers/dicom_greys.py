"""From the stored values of a grey DICOM frame to what a viewer shows (DICOM PS3.3 C.11.1, C.11.2, C.7.6.16.2).

Order: modality LUT or rescale slope and intercept; then VOI; then MONOCHROME1 is inverted. Attributes of the
frame's own functional groups go before the shared ones, and those before the data set's.

VOI by ``window``:

* ``declared``: the first item of the VOI LUT sequence if there is one, else the first window centre and width
  (linear, linear exact or sigmoid), else percentiles. A window of no width is none. What a window clips stays
  clipped, a whole frame too: slices of a series must compare, and ``images check`` lists frames of one grey.
* ``percentile``: the 0.5th to 99.5th percentile of the frame's values; padding values do not count.
* ``full``: all values that the stored bits (or the modality LUT's entries) can hold.
"""

from typing import Any

import numpy as np

from memorisk.images.decoding.greys import percentile_range, stretch, top
from memorisk.images.options import Window

_TRANSFORMS = ("PixelValueTransformationSequence", "FrameVOILUTSequence")
_MODALITY = ("ModalityLUTSequence", "RescaleSlope", "RescaleIntercept")
_VOI = ("VOILUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction")


def grey_image(stored: np.ndarray, data: Any, frame: int, window: Window, depth: int) -> np.ndarray:
    """A frame's stored values ``[h, w]`` as it is shown, uint8 or uint16 ``[h, w]``."""
    settings = frame_settings(data, frame)
    values = modality_values(stored, data, settings)
    share = _voi_share(values, data, settings) if window == "declared" else None
    if share is not None:
        shown = np.rint(share * top(depth)).astype(np.uint8 if depth == 8 else np.uint16)
    else:
        low, high = _range(values, stored, data, settings, window)
        shown = stretch(values, low, high, depth)
    if str(data.get("PhotometricInterpretation", "")).strip() == "MONOCHROME1":
        shown = shown.dtype.type(top(depth)) - shown
    return shown


def frame_settings(data: Any, frame: int) -> dict[str, Any]:
    """Modality and VOI attributes that hold for one frame: its functional groups, the shared ones, the data set."""
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
    """Stored values after the modality LUT or ``slope * v + intercept``, float64 ``[h, w]``."""
    if "ModalityLUTSequence" in settings:
        return _through_table(stored, settings["ModalityLUTSequence"][0], _signed(data), _little(data))[0]
    slope, intercept = _number(settings.get("RescaleSlope"), 1.0), _number(settings.get("RescaleIntercept"), 0.0)
    return stored.astype(np.float64) * (slope or 1.0) + intercept


def _voi_share(values: np.ndarray, data: Any, settings: dict[str, Any]) -> np.ndarray | None:
    """Values through the declared VOI, as shares of the display range in [0, 1]; None where none is usable."""
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
    """PS3.3 C.11.2.1.2: LINEAR, LINEAR_EXACT or SIGMOID, onto [0, 1]."""
    if kind == "SIGMOID":
        return 1 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700)))
    if kind == "LINEAR_EXACT":
        return np.clip((values - centre) / width + 0.5, 0.0, 1.0)
    return np.clip((values - (centre - 0.5)) / (width - 1) + 0.5, 0.0, 1.0)


def _through_table(values: np.ndarray, item: Any, signed: bool, little: bool) -> tuple[np.ndarray, float]:
    """Values through a LUT item, and the largest value the LUT can give.

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
    return table[place].astype(np.float64), float(max((1 << bits) - 1, int(table.max())))


def _range(
    values: np.ndarray, stored: np.ndarray, data: Any, settings: dict[str, Any], window: Window
) -> tuple[float, float]:
    """Low and high of the shown range: percentiles without padding, or all that the stored bits can hold."""
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
    """Where stored values are padding: Pixel Padding Value, to Range Limit where there is one; bool ``[h, w]``."""
    value, limit = _number(data.get("PixelPaddingValue")), _number(data.get("PixelPaddingRangeLimit"))
    if value is None:
        return np.zeros(stored.shape, dtype=bool)
    ends = (value, value if limit is None else limit)
    return (stored >= min(ends)) & (stored <= max(ends))


def _signed(data: Any) -> bool:
    return int(data.get("PixelRepresentation") or 0) == 1


def _little(data: Any) -> bool:
    """Whether the file's bytes are little-endian."""
    encoding = getattr(data, "original_encoding", (None, True))
    return encoding[1] is not False


def _filled(item: Any, keyword: str) -> bool:
    value = item.get(keyword)
    return value is not None and value != "" and (not hasattr(value, "__len__") or len(value) > 0)


def _number(value: Any, default: Any = None) -> Any:
    """The first number of a value that may hold several; the default where there is none."""
    if value is None or isinstance(value, (bytes, str)):
        return default
    first = value[0] if hasattr(value, "__len__") and len(value) else value
    try:
        number = float(first)
    except (TypeError, ValueError):
        return default
    return number if np.isfinite(number) else default
