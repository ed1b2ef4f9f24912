"""Planted copies of images, which are hidden in a synthetic set to measure whether an audit finds them.

METHODS section 5, "Power, in every report". The module is a registry; each entry draws its parameter anew for every
copy. A pass covers the first seven kinds, unless the user names others:

* ``exact``: the pixels as they are.
* ``flipped``: left to right or top to bottom, by a fair coin.
* ``rotated``: by 5 to 20 degrees either way about the centre, linear, borders repeated (20 is the largest angle of
  paper 003's weak augmentation).
* ``noised``: Gaussian noise with a deviation of 2 to 10 % of the range of values, clipped.
* ``jpeg``: compressed at quality 10 to 70 (between paper 004's strongest and its second weakest), colours
  subsampled.
* ``cropped``: a window of 75 to 95 % of either side, anywhere, enlarged to the whole.
* ``pasted``: a region of 50 to 70 % of either side set into a synthetic image at its own place.

The others are tried as well, so that a report names what would have been missed:

* ``inverted``: bright and dark exchanged, between the smallest and the largest value of the image.
* ``shifted``: by 5 to 20 % of either side, borders repeated.
* ``toned``: a tone curve with an exponent of 1.4 to 2.5, or its inverse, between the same two values.
* ``resized``: shrunk to 25 to 50 % of either side and enlarged again, linear.
* ``posterised``: 3 to 6 values in each channel.
* ``redrawn``: one half taken from a synthetic image, which fades in over a tenth of the side, as an inpainted half is.
* ``recoloured``: grey in all three channels, or channels in another order; of colour images.
* ``blended``: 60 to 80 % of each value, the rest of an image of another patient.

Every copy but an exact one is checked to differ from its source, and from the second image that a part of it comes
from. An image that its kind leaves unchanged (a symmetric one that is flipped) is given up.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from PIL import Image

from memorisk.runs.errors import InputError, unknown_name

ANGLES = (5.0, 20.0)
NOISE = (0.02, 0.10)
QUALITIES = (10, 70)
WINDOWS = (0.75, 0.95)
REGIONS = (0.5, 0.7)
SHIFTS = (0.05, 0.20)
EXPONENTS = (1.4, 2.5)
SHRUNK = (0.25, 0.5)
LEVELS = (3, 6)
OWN_SHARES = (0.6, 0.8)
_SEAM = 0.1  # share of the side over which a redrawn half fades in
_LUMINANCE = (0.299, 0.587, 0.114)  # ITU-R BT.601
_ORDERS = ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
_TRIES = 8

CopyWithParameter = tuple[np.ndarray, str]
"""Pixels of a copy, and its parameter in words."""


@dataclass(frozen=True)
class PlantKind:
    """One way to copy an image."""

    name: str
    """Name of the kind in reports."""
    make: Callable[[np.ndarray, np.ndarray, np.random.Generator], CopyWithParameter]
    """Function of an image [H, W, C], a second image and a generator."""
    description: str
    """Description of the kind with its parameters."""
    required: bool = False
    """Whether a pass covers the kind unless the user names kinds."""
    second: Literal["", "synthetic", "patient"] = ""
    """Second image from which a part of the copy comes: a synthetic one, or another patient's; empty for none."""


@dataclass(frozen=True, eq=False)
class PlantedCopy:
    """Copy of an image that is planted in a synthetic set."""

    pixels: np.ndarray
    """Pixels of the copy, [H, W, C], in the source's type."""
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


def _inverted(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    return image.max() - (image - image.min()), "within its own range"


def _shifted(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    steps, places = [], []
    for side in image.shape[:2]:
        steps.append(max(1, round(float(rng.uniform(*SHIFTS)) * side)) * (1 if rng.random() < 0.5 else -1))
        places.append(np.clip(np.arange(side) - steps[-1], 0, side - 1))
    return image[np.ix_(*places)], f"{steps[0]:+d} rows, {steps[1]:+d} columns"


def _toned(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    exponent = float(rng.uniform(*EXPONENTS)) ** (1 if rng.random() < 0.5 else -1)
    low, high = float(image.min()), float(image.max())
    curve = ((image - low) / (high - low)) ** exponent
    return _cast(low + (high - low) * curve, image.dtype), f"exponent {exponent:.2f}"


def _resized(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    share = float(rng.uniform(*SHRUNK))
    height, width = image.shape[:2]
    small = max(1, round(share * width)), max(1, round(share * height))
    channels = []
    for channel in np.moveaxis(image, -1, 0):
        shrunk = Image.fromarray(channel.astype(np.float32)).resize(small, Image.Resampling.BILINEAR)
        channels.append(np.asarray(shrunk.resize((width, height), Image.Resampling.BILINEAR)))
    return _cast(np.stack(channels, axis=-1), image.dtype), f"{share:.0%} of either side"


def _posterised(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    steps = int(rng.integers(LEVELS[0], LEVELS[1] + 1)) - 1
    low, high = float(image.min()), float(image.max())
    share = np.rint((image - low) / (high - low) * steps) / steps
    return _cast(low + (high - low) * share, image.dtype), f"{steps + 1} values"


def _redrawn(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    half = int(rng.integers(4))
    side = image.shape[half // 2]
    own = np.clip(0.5 + ((np.arange(side) + 0.5) / side - 0.5) / _SEAM, 0, 1)
    own = own if half % 2 == 0 else own[::-1]
    weight = own[:, None, None] if half < 2 else own[None, :, None]
    drawn = ("upper half", "lower half", "left half", "right half")[half]
    return _cast(weight * image + (1 - weight) * base, image.dtype), drawn


def _recoloured(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    grey, order = rng.random() < 0.5, _ORDERS[int(rng.integers(len(_ORDERS)))]
    if image.shape[2] == 1:
        return image, ""
    if grey:
        return np.repeat(_cast((image * np.array(_LUMINANCE)).sum(axis=-1), image.dtype)[..., None], 3, axis=-1), "grey"
    return image[..., order], f"channels {' '.join(str(channel + 1) for channel in order)}"


def _blended(image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> CopyWithParameter:
    share = float(rng.uniform(*OWN_SHARES))
    return _cast(share * image + (1 - share) * base, image.dtype), f"{share:.0%} of it"


_ENTRIES = (
    PlantKind("exact", _exact, "pixel by pixel", required=True),
    PlantKind("flipped", _flipped, "left to right or top to bottom", required=True),
    PlantKind(
        "rotated", _rotated, f"by {ANGLES[0]:g} to {ANGLES[1]:g} degrees either way, borders repeated", required=True
    ),
    PlantKind(
        "noised", _noised, f"Gaussian noise, deviation {NOISE[0]:.0%} to {NOISE[1]:.0%} of the range", required=True
    ),
    PlantKind("jpeg", _jpeg, f"JPEG at quality {QUALITIES[0]} to {QUALITIES[1]}", required=True),
    PlantKind(
        "cropped", _cropped, f"a window of {WINDOWS[0]:.0%} to {WINDOWS[1]:.0%} of either side, enlarged", required=True
    ),
    PlantKind(
        "pasted",
        _pasted,
        f"a region of {REGIONS[0]:.0%} to {REGIONS[1]:.0%} of either side, set into a synthetic image",
        required=True,
        second="synthetic",
    ),
    PlantKind("inverted", _inverted, "bright and dark exchanged"),
    PlantKind("shifted", _shifted, f"by {SHIFTS[0]:.0%} to {SHIFTS[1]:.0%} of either side, borders repeated"),
    PlantKind("toned", _toned, f"a tone curve, exponent {EXPONENTS[0]:g} to {EXPONENTS[1]:g} or the inverse"),
    PlantKind("resized", _resized, f"shrunk to {SHRUNK[0]:.0%} to {SHRUNK[1]:.0%} of either side, enlarged again"),
    PlantKind("posterised", _posterised, f"{LEVELS[0]} to {LEVELS[1]} values in each channel"),
    PlantKind("redrawn", _redrawn, "one half from a synthetic image, without a visible seam", second="synthetic"),
    PlantKind("recoloured", _recoloured, "grey, or channels in another order; of colour images"),
    PlantKind(
        "blended",
        _blended,
        f"{OWN_SHARES[0]:.0%} to {OWN_SHARES[1]:.0%} of each value, the rest of another patient's image",
        second="patient",
    ),
)
ALL_KINDS: Mapping[str, PlantKind] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every kind of copy by its name."""
PLANT_KINDS: Mapping[str, PlantKind] = MappingProxyType({entry.name: entry for entry in _ENTRIES if entry.required})
"""The seven kinds of METHODS section 5 by name: a pass covers these unless the user names kinds."""


def find_plant_kind(name: str) -> PlantKind:
    """Return a kind by its name.

    Raises:
        InputError: No kind has that name.
    """
    if name not in ALL_KINDS:
        raise unknown_name("kind of copy", name, ALL_KINDS)
    return ALL_KINDS[name]


def planted_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Return the named kinds in the order of `ALL_KINDS`; those of `PLANT_KINDS` where no kind is named.

    Raises:
        InputError: A given name is not the name of a kind.
    """
    chosen = {find_plant_kind(name).name for name in names}
    return tuple(name for name in ALL_KINDS if name in (chosen or PLANT_KINDS))


def plant_copy(kind: PlantKind, image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> PlantedCopy | None:
    """Make a copy of an image; its parameter is drawn again (eight times at most) while the copy changes no pixel.

    Args:
        kind: Kind of copy to make.
        image: Source of the copy, uint8 or uint16 [H, W, C] with C 1 or 3; never written to.
        base: Second image, [H, W, C]; kinds without one leave it unused.
        rng: Generator to draw the parameter from.

    Returns:
        The copy; None where the image has only one value (it shows no recognisable person), or its kind leaves it
        unchanged.

    Raises:
        InputError: The pixels have another type or shape.
    """
    if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype not in (np.uint8, np.uint16):
        raise InputError(f"a copy is made of uint8 or uint16 images [h, w, 1 or 3], not {image.dtype} {image.shape}")
    if base.shape != image.shape or base.dtype != image.dtype:
        raise InputError(f"the second image is {base.dtype} {base.shape}, the source {image.dtype} {image.shape}")
    if image.min() == image.max():
        return None
    for _ in range(_TRIES):
        pixels, parameter = kind.make(image, base, rng)
        if kind.name == "exact":
            return PlantedCopy(pixels, parameter)
        other = kind.second and np.array_equal(pixels, base)
        if not other and not np.array_equal(pixels, image):
            return PlantedCopy(pixels, parameter)
    return None


def _sampled(image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return an image at other places, [H, W] each, linear between pixels, borders repeated."""
    from scipy import ndimage

    channels = [
        ndimage.map_coordinates(image[..., c].astype(np.float64), [rows, columns], order=1, mode="nearest")
        for c in range(image.shape[2])
    ]
    return _cast(np.stack(channels, axis=-1), image.dtype)


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round and clip values to the image's own type."""
    return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)
