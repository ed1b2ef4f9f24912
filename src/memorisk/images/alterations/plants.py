"""Planted copies of images, of seven kinds: they are hidden in a synthetic set to measure whether an audit finds them.

METHODS section 5, "Power, in every report". A registry; each entry draws its parameter anew for every copy:

* ``exact``: the pixels as they are.
* ``flipped``: left to right or top to bottom, a fair coin.
* ``rotated``: by 5 to 20 degrees either way about the centre, linear, borders repeated (20 is the largest angle of
  paper 003's weak augmentation).
* ``noised``: Gaussian noise with a deviation of 2 to 10 % of the range of values, clipped.
* ``jpeg``: compressed at quality 10 to 70 (between paper 004's strongest and its second weakest), colours
  subsampled.
* ``cropped``: a window of 75 to 95 % of either side, anywhere, enlarged to the whole.
* ``pasted``: a region of 50 to 70 % of either side set into a synthetic image at its own place.

Every copy but an exact one is checked to differ from its source, a pasted one from the image that it is set into as
well; an image that its kind leaves as it is (a symmetric one that is flipped) is given up.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from PIL import Image

from memorisk.runs.errors import InputError, unknown_name

ANGLES = (5.0, 20.0)
NOISE = (0.02, 0.10)
QUALITIES = (10, 70)
WINDOWS = (0.75, 0.95)
REGIONS = (0.5, 0.7)
_TRIES = 8

CopyWithParameter = tuple[np.ndarray, str]
"""A copy and its parameter in words."""


@dataclass(frozen=True)
class PlantKind:
    """One way to copy an image."""

    name: str
    """Name in reports."""
    make: Callable[[np.ndarray, np.ndarray, np.random.Generator], CopyWithParameter]
    """Function of an image [H, W, C], an image of the set (used by ``pasted`` alone) and a generator."""
    description: str
    """Description with parameters."""


@dataclass(frozen=True, eq=False)
class PlantedCopy:
    """A planted copy."""

    pixels: np.ndarray
    """[H, W, C], of the source's type."""
    parameter: str
    """Drawn parameter in words; empty for an exact copy."""


def _exact(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    return image.copy(), ""


def _flipped(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    axis = int(rng.integers(2))
    return np.flip(image, axis=1 - axis).copy(), ("left to right", "top to bottom")[axis]


def _rotated(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    degrees = float(rng.uniform(*ANGLES)) * (1 if rng.random() < 0.5 else -1)
    turn = np.deg2rad(degrees)
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width]
    y, x = y - (height - 1) / 2, x - (width - 1) / 2
    rows = np.cos(turn) * y + np.sin(turn) * x + (height - 1) / 2
    columns = np.cos(turn) * x - np.sin(turn) * y + (width - 1) / 2
    return _sampled(image, rows, columns), f"{degrees:+.1f} degrees"


def _noised(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    share = float(rng.uniform(*NOISE))
    top = np.iinfo(image.dtype).max
    values = image + share * top * rng.standard_normal(image.shape)
    return _cast(values, image.dtype), f"deviation {share:.3f}"


def _jpeg(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    quality = int(rng.integers(QUALITIES[0], QUALITIES[1] + 1))
    scale = np.iinfo(image.dtype).max // 255  # JPEG has 8 bits
    eight = np.rint(image / scale).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(eight[..., 0] if eight.shape[2] == 1 else eight).save(stream, format="JPEG", quality=quality)
    with Image.open(io.BytesIO(stream.getvalue())) as reopened:
        decoded = np.asarray(reopened).reshape(image.shape)
    return (decoded.astype(image.dtype) * scale).astype(image.dtype), f"quality {quality}"


def _cropped(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    share = float(rng.uniform(*WINDOWS))
    coordinates = []
    for side in image.shape[:2]:
        start = float(rng.uniform(0, (1 - share) * side))
        coordinates.append(start + (np.arange(side) + 0.5) * share - 0.5)
    rows, columns = np.meshgrid(*coordinates, indexing="ij")
    return _sampled(image, rows, columns), f"{share:.0%} of either side"


def _pasted(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    pasted = base.copy()
    window = []
    for side in image.shape[:2]:
        length = max(1, round(float(rng.uniform(*REGIONS)) * side))
        start = int(rng.integers(side - length + 1))
        window.append(slice(start, start + length))
    pasted[tuple(window)] = image[tuple(window)]
    area = np.prod([w.stop - w.start for w in window]) / np.prod(image.shape[:2])
    return pasted, f"{area:.0%} of the area"


_ENTRIES = (
    PlantKind("exact", _exact, "pixel by pixel"),
    PlantKind("flipped", _flipped, "left to right or top to bottom"),
    PlantKind("rotated", _rotated, f"by {ANGLES[0]:g} to {ANGLES[1]:g} degrees either way, borders repeated"),
    PlantKind("noised", _noised, f"Gaussian noise, deviation {NOISE[0]:.0%} to {NOISE[1]:.0%} of the range"),
    PlantKind("jpeg", _jpeg, f"JPEG at quality {QUALITIES[0]} to {QUALITIES[1]}"),
    PlantKind("cropped", _cropped, f"a window of {WINDOWS[0]:.0%} to {WINDOWS[1]:.0%} of either side, enlarged"),
    PlantKind(
        "pasted",
        _pasted,
        f"a region of {REGIONS[0]:.0%} to {REGIONS[1]:.0%} of either side, set into a synthetic image",
    ),
)
PLANT_KINDS: Mapping[str, PlantKind] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""The seven kinds of METHODS section 5 by name."""


def find_plant_kind(name: str) -> PlantKind:
    """A kind by its name.

    Raises:
        InputError: There is none of that name.
    """
    if name not in PLANT_KINDS:
        raise unknown_name("kind of copy", name, PLANT_KINDS)
    return PLANT_KINDS[name]


def planted_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """The named kinds in the order of `PLANT_KINDS`; all of them where none is named.

    Raises:
        InputError: There is no kind of a given name.
    """
    chosen = {find_plant_kind(name).name for name in names}
    return tuple(name for name in PLANT_KINDS if name in chosen or not chosen)


def plant_copy(kind: PlantKind, image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> PlantedCopy | None:
    """A copy of an image, drawn again (eight times at most) while it changes no pixel.

    Args:
        kind: What is done.
        image: uint8 or uint16 [H, W, C], C 1 or 3; the source, which is not written to.
        base: [H, W, C], a synthetic image; only ``pasted`` uses it.
        rng: Draws the parameter.

    Returns:
        The copy; None where the image has one value only (nobody is recognised in it), or is left as it is by its kind.

    Raises:
        InputError: Pixels of another type or shape.
    """
    if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype not in (np.uint8, np.uint16):
        raise InputError(f"a copy is made of uint8 or uint16 images [h, w, 1 or 3], not {image.dtype} {image.shape}")
    if base.shape != image.shape or base.dtype != image.dtype:
        raise InputError(f"the images of the set are {base.dtype} {base.shape}, the source {image.dtype} {image.shape}")
    if image.min() == image.max():
        return None
    for _ in range(_TRIES):
        pixels, parameter = kind.make(image, base, rng)
        if kind.name == "exact":
            return PlantedCopy(pixels, parameter)
        untouched = kind.name == "pasted" and np.array_equal(pixels, base)
        if not untouched and not np.array_equal(pixels, image):
            return PlantedCopy(pixels, parameter)
    return None


def _sampled(image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """An image at other places, [H, W] each, linear between pixels, borders repeated."""
    from scipy import ndimage

    channels = [
        ndimage.map_coordinates(image[..., c].astype(np.float64), [rows, columns], order=1, mode="nearest")
        for c in range(image.shape[2])
    ]
    return _cast(np.stack(channels, axis=-1), image.dtype)


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rounded and clipped to the image's own type."""
    return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)
