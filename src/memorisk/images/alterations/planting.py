"""Pixels of planted copies, which are hidden in a synthetic set to measure whether an audit finds them.

METHODS section 5, "Power, in every report". A function here makes the copies of the kind that has its name in
`images.alterations.transformations`: of an image, a second image, a generator, and the limits in the kind's entry,
between which it draws a parameter. Images are uint8 or uint16 [H, W, C]. A volume [H, W, D] is copied in its three
dimensions by the kinds that are defined for volumes; it is turned within its axial slices.

`plant_copy` checks that every copy but an exact one differs from its source, and from the second image that a part of
it comes from. It gives up an image that its kind leaves unchanged (a symmetric one that is flipped).
"""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from memorisk.images.alterations.transformations import PlantKind
from memorisk.images.volumes import AXES, is_volume
from memorisk.runs.errors import InputError

_SEAM = 0.1  # share of the side over which a redrawn half fades in
_LUMINANCE = (0.299, 0.587, 0.114)  # ITU-R BT.601
_ORDERS = ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
_TRIES = 8

Limits = tuple[float, ...]
"""Smallest and largest parameter of a kind; none where no parameter is drawn."""
CopyWithParameter = tuple[np.ndarray, str]
"""Pixels of a copy, and its parameter in words."""


@dataclass(frozen=True, eq=False)
class PlantedCopy:
    """Copy of an image that is planted in a synthetic set."""

    pixels: np.ndarray
    """Pixels of the copy, [H, W, C], in the source's type."""
    parameter: str
    """Drawn parameter in words; empty for an exact copy."""


def exact(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Copy the pixels as they are."""
    return image.copy(), ""


def flipped(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Mirror left to right or top to bottom, by a fair coin; a volume along one of its three axes."""
    if is_volume(image.shape):
        axis = int(rng.integers(3))
        return np.flip(image, axis=axis).copy(), AXES[axis]
    axis = int(rng.integers(2))
    return np.flip(image, axis=1 - axis).copy(), ("left to right", "top to bottom")[axis]


def rotated(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Turn about the centre, linear, borders repeated."""
    degrees = _between(limits, rng) * (1 if rng.random() < 0.5 else -1)
    turn = np.deg2rad(degrees)
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width]
    y, x = y - (height - 1) / 2, x - (width - 1) / 2
    rows = np.cos(turn) * y + np.sin(turn) * x + (height - 1) / 2
    columns = np.cos(turn) * x - np.sin(turn) * y + (width - 1) / 2
    return _sampled(image, rows, columns), f"{degrees:+.1f} degrees"


def noised(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Add Gaussian noise of a share of the range of values, clipped."""
    share = _between(limits, rng)
    top = np.iinfo(image.dtype).max
    values = image + share * top * rng.standard_normal(image.shape)
    return _cast(values, image.dtype), f"deviation {share:.3f}"


def jpeg(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Compress as JPEG of 8 bits, colours subsampled."""
    quality = _whole(limits, rng)
    scale = np.iinfo(image.dtype).max // 255  # JPEG has 8 bits
    eight = np.rint(image / scale).astype(np.uint8)
    decoded = through_jpeg(eight, quality)
    return (decoded.astype(image.dtype) * scale).astype(image.dtype), f"quality {quality}"


def cropped(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Enlarge a window, anywhere in the image, to the whole."""
    share = _between(limits, rng)
    coordinates = []
    for side in _sides(image):
        start = float(rng.uniform(0, (1 - share) * side))
        coordinates.append(start + (np.arange(side) + 0.5) * share - 0.5)
    return _sampled(image, *np.meshgrid(*coordinates, indexing="ij")), f"{share:.0%} of either side"


def pasted(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Set a region into the second image at its own place."""
    pasted = base.copy()
    window = []
    for side in _sides(image):
        length = max(1, round(_between(limits, rng) * side))
        start = int(rng.integers(side - length + 1))
        window.append(slice(start, start + length))
    pasted[tuple(window)] = image[tuple(window)]
    share = np.prod([w.stop - w.start for w in window]) / np.prod(_sides(image))
    return pasted, f"{share:.0%} of the {'voxels' if is_volume(image.shape) else 'area'}"


def inverted(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Exchange bright and dark between the smallest and the largest value of the image."""
    return image.max() - (image - image.min()), "within its own range"


def shifted(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Shift by a share of either side, borders repeated."""
    steps, places = [], []
    for side in _sides(image):
        steps.append(max(1, round(_between(limits, rng) * side)) * (1 if rng.random() < 0.5 else -1))
        places.append(np.clip(np.arange(side) - steps[-1], 0, side - 1))
    named = zip(steps, ("rows", "columns", "slices"), strict=False)
    return image[np.ix_(*places)], ", ".join(f"{step:+d} {what}" for step, what in named)


def toned(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Apply a tone curve between the smallest and the largest value of the image."""
    exponent = _between(limits, rng) ** (1 if rng.random() < 0.5 else -1)
    low, high = float(image.min()), float(image.max())
    curve = ((image - low) / (high - low)) ** exponent
    return _cast(low + (high - low) * curve, image.dtype), f"exponent {exponent:.2f}"


def resized(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Shrink, and enlarge again, linear."""
    share = _between(limits, rng)
    again = _of_size(_shrunk(image, share), image.shape[:2])
    return _cast(again, image.dtype), f"{share:.0%} of either side"


def shrunken(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Shrink, linear, and set anywhere into the second image, as a collage does."""
    share = _between(limits, rng)
    small, whole = _cast(_shrunk(image, share), image.dtype), base.copy()
    row, column = (
        int(rng.integers(side - own + 1)) for side, own in zip(image.shape[:2], small.shape[:2], strict=True)
    )
    whole[row : row + small.shape[0], column : column + small.shape[1]] = small
    return whole, f"{share:.0%} of either side"


def posterised(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Round to a few values between the smallest and the largest of the image."""
    steps = _whole(limits, rng) - 1
    low, high = float(image.min()), float(image.max())
    share = np.rint((image - low) / (high - low) * steps) / steps
    return _cast(low + (high - low) * share, image.dtype), f"{steps + 1} values"


def redrawn(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Take one half from the second image, which fades in as an inpainted half does."""
    half = int(rng.integers(4))
    side = image.shape[half // 2]
    own = np.clip(0.5 + ((np.arange(side) + 0.5) / side - 0.5) / _SEAM, 0, 1)
    own = own if half % 2 == 0 else own[::-1]
    weight = own[:, None, None] if half < 2 else own[None, :, None]
    drawn = ("upper half", "lower half", "left half", "right half")[half]
    return _cast(weight * image + (1 - weight) * base, image.dtype), drawn


def recoloured(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Show a colour image in grey, or its channels in another order."""
    grey, order = rng.random() < 0.5, _ORDERS[int(rng.integers(len(_ORDERS)))]
    if image.shape[2] == 1:
        return image, ""
    if grey:
        return np.repeat(_cast((image * np.array(_LUMINANCE)).sum(axis=-1), image.dtype)[..., None], 3, axis=-1), "grey"
    return image[..., order], f"channels {' '.join(str(channel + 1) for channel in order)}"


def blended(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: Limits) -> CopyWithParameter:
    """Mix with the second image."""
    share = _between(limits, rng)
    return _cast(share * image + (1 - share) * base, image.dtype), f"{share:.0%} of it"


def plant_copy(kind: PlantKind, image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> PlantedCopy | None:
    """Make a copy of an image; its parameter is drawn again (eight times at most) while the copy changes no pixel.

    Args:
        kind: Kind of copy to make.
        image: Source of the copy, uint8 or uint16 [H, W, C] with C 1 or 3, or [H, W, D] for a kind of volumes; never
            written to.
        base: Second image of the same shape; kinds without one leave it unused.
        rng: Generator to draw the parameter from.

    Returns:
        The copy; None where the image has only one value (it shows no recognisable person), or its kind leaves it
        unchanged.

    Raises:
        InputError: The pixels have another type or shape.
    """
    shapes = image.ndim == 3 and (image.shape[2] in (1, 3) or (kind.of_volumes and is_volume(image.shape)))
    if not shapes or image.dtype not in (np.uint8, np.uint16):
        raise InputError(f"a copy is made of uint8 or uint16 images [h, w, 1 or 3], not {image.dtype} {image.shape}")
    if base.shape != image.shape or base.dtype != image.dtype:
        raise InputError(f"the second image is {base.dtype} {base.shape}, the source {image.dtype} {image.shape}")
    if image.min() == image.max():
        return None
    make = kind.make
    for _ in range(_TRIES):
        pixels, parameter = make(image, base, rng, kind.limits)
        if kind.name == "exact":
            return PlantedCopy(pixels, parameter)
        other = kind.second and np.array_equal(pixels, base)
        if not other and not np.array_equal(pixels, image):
            return PlantedCopy(pixels, parameter)
    return None


def through_jpeg(image: np.ndarray, quality: int) -> np.ndarray:
    """Write an image [H, W, C] of 8 bits as JPEG, and read it again.

    Args:
        image: Image, uint8 of 1 or 3 channels.
        quality: Quality from 1 to 95.
    """
    stream = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(stream, format="JPEG", quality=quality)
    with Image.open(stream) as reopened:
        return np.asarray(reopened).reshape(image.shape)


def _between(limits: Limits, rng: np.random.Generator) -> float:
    """Draw a number between two limits."""
    low, high = limits
    return float(rng.uniform(low, high))


def _whole(limits: Limits, rng: np.random.Generator) -> int:
    """Draw a whole number between two limits, both included."""
    low, high = (int(limit) for limit in limits)
    return int(rng.integers(low, high + 1))


def _sides(image: np.ndarray) -> tuple[int, ...]:
    """Return the sides along which an image [H, W, C] or a volume [H, W, D] extends."""
    return image.shape if is_volume(image.shape) else image.shape[:2]


def _sampled(image: np.ndarray, *places: np.ndarray) -> np.ndarray:
    """Return an image at other places, linear between pixels, borders repeated.

    Args:
        image: Image [H, W, C], or volume [H, W, D].
        places: Rows and columns, [H, W] each, of every channel or slice; or rows, columns and slices, [H, W, D] each.
    """
    from scipy import ndimage

    if len(places) == image.ndim:
        values = ndimage.map_coordinates(image.astype(np.float64), places, order=1, mode="nearest")
        return _cast(values, image.dtype)
    channels = [
        ndimage.map_coordinates(image[..., c].astype(np.float64), places, order=1, mode="nearest")
        for c in range(image.shape[2])
    ]
    return _cast(np.stack(channels, axis=-1), image.dtype)


def _shrunk(image: np.ndarray, share: float) -> np.ndarray:
    """Shrink an image [H, W, C] to a share of either side, linear, float32."""
    height, width = (max(1, round(share * side)) for side in image.shape[:2])
    return _of_size(image, (height, width))


def _of_size(image: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Bring an image [H, W, C] to another height and width, linear, float32."""
    height, width = shape
    channels = [
        np.asarray(Image.fromarray(channel.astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR))
        for channel in np.moveaxis(image, -1, 0)
    ]
    return np.stack(channels, axis=-1)


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round and clip values to the image's own type."""
    return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)
