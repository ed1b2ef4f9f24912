"""Interventions on what distinguishes a class: colour, fine detail, structure (paper 000, section 4 and A.1).

The module is a registry. Each entry is a function from stored images, uint8 or uint16 [n, H, W, C] with one channel or
three, to new images of the same type and shape; it never writes to the given images. ``grayscale`` is the paper's
intervention; the others separate what ``grayscale`` removes together:

* ``grayscale``: luma on every channel, ``L = (19595 R + 38470 G + 7471 B + 32768) >> 16``, which is ITU-R BT.601's
  0.299 R + 0.587 G + 0.114 B as PIL's ``convert("L")`` and ``torchvision.transforms.Grayscale(3)`` of a PIL image
  compute it, bit for bit; uint16 is computed the same way. The weights add to 65536, so a grey pixel keeps its value.
  (torchvision's
  form for tensors, 0.2989 R + 0.587 G + 0.114 B cut to whole numbers, adds to 0.9999 and darkens white by one level:
  grey images would not be left alone.)
* ``blur``: a Gaussian with sigma = 1/32 of the shorter side, borders repeated.
* ``edges-only``: the Sobel magnitude of the luma, ``sqrt(gx^2 + gy^2) / 4`` on every channel: a step from black to
  white has the largest value; what lies above (corners) is clipped to it.
* ``colour-only``: only the means of the four quarters of each channel are kept, and interpolated linearly between
  their centres: 2 x 2 x C numbers per image, and no edge that was not there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.files import atomic_path

BLUR_SHARE = 1 / 32
"""Sigma of ``blur`` as a share of the image's shorter side."""

_LUMA = (19595, 38470, 7471)  # of 65536: PIL's form of 0.299, 0.587, 0.114
_BATCH_VALUES = 1 << 21  # values that one batch holds; some float64 copies of them are made


@dataclass(frozen=True)
class Intervention:
    """One way to take something out of images."""

    name: str
    """Name on the command line."""
    function: Callable[[np.ndarray], np.ndarray]
    """Function from uint8 or uint16 [n, H, W, C] to new images of the same type and shape."""
    description: str
    """Description with parameters, as part of a sentence; a change of it is another intervention."""
    unchanged: str
    """Words for images that it leaves as they are."""
    needs_colour: bool = False
    """Whether it leaves every image with one channel as it is."""


@dataclass(frozen=True)
class PixelChanges:
    """Changes that an intervention makes to pixels, image by image."""

    share: NDArray[np.float64]
    """Share of the image's pixels in which some channel changed, [n]."""
    mean: NDArray[np.float64]
    """Mean absolute change of the image's values, as a share of their range, [n]."""


def grayscale(images: np.ndarray) -> np.ndarray:
    """Return the luma on every channel, as PIL computes it (module docstring)."""
    return np.repeat(_luma(images), images.shape[-1], axis=-1)


def blur(images: np.ndarray) -> np.ndarray:
    """Blur each channel with a Gaussian, sigma = 1/32 of the shorter side, borders repeated."""
    from scipy import ndimage

    sigma = BLUR_SHARE * min(images.shape[1:3])
    blurred = ndimage.gaussian_filter(images.astype(np.float64), (0, sigma, sigma, 0), mode="nearest")
    return _cast(blurred, images.dtype)


def edges_only(images: np.ndarray) -> np.ndarray:
    """Return the Sobel magnitude of the luma, ``sqrt(gx^2 + gy^2) / 4``, clipped, on every channel."""
    luma = _luma(images)[..., 0].astype(np.float64)
    magnitude = _cast(np.hypot(_sobel(luma, 1), _sobel(luma, 2)) / 4, images.dtype)
    return np.repeat(magnitude[..., None], images.shape[-1], axis=-1)


def colour_only(images: np.ndarray) -> np.ndarray:
    """Return the four quarters' mean colours, interpolated linearly between their centres."""
    (down, up), (narrow, widen) = (_quarters(side) for side in images.shape[1:3])
    means = np.einsum("ph,nhwc,qw->npqc", down, images.astype(np.float64), narrow, optimize=True)  # [n, 2, 2, C]
    return _cast(np.einsum("hp,npqc,wq->nhwc", up, means, widen, optimize=True), images.dtype)


_ENTRIES = (
    Intervention(
        "grayscale",
        grayscale,
        "colour replaced by its luma (0.299 R + 0.587 G + 0.114 B, ITU-R BT.601) on every channel",
        "grey already",
        needs_colour=True,
    ),
    Intervention(
        "blur",
        blur,
        "a Gaussian blur with a sigma of 1/32 of the image's shorter side",
        "too small or too smooth for it",
    ),
    Intervention(
        "edges-only", edges_only, "only edges kept: the Sobel magnitude of the luma on every channel", "edges already"
    ),
    Intervention(
        "colour-only",
        colour_only,
        "only colour kept: the mean colours of the four quarters, interpolated linearly",
        "without structure already",
    ),
)
INTERVENTIONS: Mapping[str, Intervention] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every intervention by name."""


def find_intervention(name: str) -> Intervention:
    """Return an intervention by its name.

    Raises:
        InputError: No intervention has that name.
    """
    if name not in INTERVENTIONS:
        raise unknown_name("intervention", name, INTERVENTIONS)
    return INTERVENTIONS[name]


def intervene(intervention: Intervention, images: np.ndarray) -> np.ndarray:
    """Return the changed images in a new array, computed batch by batch.

    Args:
        intervention: Intervention to apply.
        images: Images, uint8 or uint16 [n, H, W, C] with C 1 or 3; never written to.

    Returns:
        Images of the same type and shape.

    Raises:
        InputError: The images have another type or shape.
    """
    _check(images)
    changed = np.empty_like(images)
    for part in _batches(np.arange(len(images)), images):
        changed[part] = intervention.function(images[part])
    return changed


def pixel_changes(intervention: Intervention, images: np.ndarray, rows: np.ndarray) -> PixelChanges:
    """Measure how much an intervention changes some images; the function writes nothing.

    Args:
        intervention: Intervention to apply.
        images: Images, uint8 or uint16 [N, H, W, C]; may be memory-mapped.
        rows: Rows of the images to measure, [n].

    Raises:
        InputError: The images have another type or shape.
    """
    _check(images)
    share, mean = np.zeros(len(rows)), np.zeros(len(rows))
    done = 0
    for part in _batches(rows, images):
        before = images[part]
        after = intervention.function(before)
        here = slice(done, done + len(part))
        share[here] = (before != after).any(axis=-1).mean(axis=(1, 2))
        gap = np.abs(before.astype(np.int64) - after.astype(np.int64))
        mean[here] = gap.mean(axis=(1, 2, 3)) / np.iinfo(images.dtype).max
        done += len(part)
    return PixelChanges(share, mean)


def write_intervened(path: Path, intervention: Intervention, images: np.ndarray, rows: np.ndarray) -> None:
    """Write all images as one .npy, some of them changed, atomically and with the memory of one batch.

    Args:
        path: Path of the file; its folder must exist.
        intervention: Intervention to apply.
        images: Images, uint8 or uint16 [N, H, W, C]; may be memory-mapped; never written to.
        rows: Rows of the images to change; the others are copied.

    Raises:
        InputError: The images have another type or shape.
    """
    _check(images)
    chosen = np.zeros(len(images), dtype=bool)
    chosen[rows] = True
    layout = {"descr": np.lib.format.dtype_to_descr(images.dtype), "fortran_order": False, "shape": images.shape}
    with atomic_path(path, recorded=True) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, layout)
        for part in _batches(np.arange(len(images)), images):
            batch = np.array(images[part[0] : part[-1] + 1], order="C")
            if chosen[part].any():
                batch[chosen[part]] = intervention.function(batch[chosen[part]])
            file.write(batch.tobytes())


def _check(images: np.ndarray) -> None:
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or images.dtype not in (np.uint8, np.uint16):
        raise InputError(
            f"an intervention needs uint8 or uint16 images [n, height, width, 1 or 3] and got {images.dtype} "
            f"{images.shape}"
        )


def _batches(rows: np.ndarray, images: np.ndarray) -> Iterator[np.ndarray]:
    """Return consecutive pieces of some rows, each of about `_BATCH_VALUES` values."""
    size = max(1, _BATCH_VALUES // max(1, int(np.prod(images.shape[1:]))))
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _luma(images: np.ndarray) -> np.ndarray:
    """Return the luma [n, H, W, 1] in the images' own type; one channel is its own luma.

    32 bits hold the sum of 16-bit values.
    """
    if images.shape[-1] == 1:
        return images.copy()
    red, green, blue = (images[..., c].astype(np.uint32) * np.uint32(w) for c, w in enumerate(_LUMA))
    return ((red + green + blue + np.uint32(32768)) >> np.uint32(16)).astype(images.dtype)[..., None]


def _sobel(luma: np.ndarray, axis: int) -> np.ndarray:
    """Return the gradient of [n, H, W] along one axis; `scipy.ndimage.sobel` would smooth over the images too."""
    from scipy import ndimage

    steps = ndimage.correlate1d(luma, [-1.0, 0.0, 1.0], axis=axis, mode="nearest")
    return ndimage.correlate1d(steps, [1.0, 2.0, 1.0], axis=3 - axis, mode="nearest")


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round and clip values to the images' own type."""
    return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)


def _quarters(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of one axis: [2, side] for the means of the two halves, [side, 2] to interpolate between them.

    The interpolation runs between the centres of the halves. Half of the middle row of an odd side belongs to each.
    """
    upper = np.clip(side / 2 - np.arange(side), 0.0, 1.0)  # share of each row that lies in the first half
    halves = np.stack([upper, 1.0 - upper]) / (side / 2)
    toward = np.clip((np.arange(side) + 0.5 - side / 4) / (side / 2), 0.0, 1.0)
    return halves, np.stack([1.0 - toward, toward], axis=1)
