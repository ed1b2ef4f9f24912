"""Copies of a stated kind and strength (paper 004, section 4.2; METHODS section 4, "Copies").

`augmented` makes the copies of one family of `images.alterations.families`. A function here makes the copies of the
family that has its name, of images [b, C, H, W], their strengths [b] and a generator for each image:

===========  =====================================================================
family       strength and operation
===========  =====================================================================
blur         standard deviation of a Gaussian in stored pixels, kernel 9
noise        standard deviation of Gaussian noise, as a share of the range of grey
rotation     degrees about the centre, either way (one coin per image)
brightness   factor of the pixels
darkening    divisor of the pixels
contrast     factor of the distance to the mean grey
jpeg         quality of a JPEG that is written and read again
===========  =====================================================================

The draws for an image depend on (seed, family, row) alone, not on the strength nor on the other rows: the noise
of a stronger copy is that of the weaker one, enlarged. Results are cut to [0, 1] and rounded to the type of the images.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from memorisk.images.alterations import operations
from memorisk.images.alterations.families import ALL_FAMILIES, FAMILIES
from memorisk.images.alterations.operations import check_pixels
from memorisk.runs.errors import InputError, unknown_name

_STREAM = 4004  # keeps these draws apart from other uses of a seed
_BLOCK = 1 << 22  # pixels at a time

Draws = Iterable[np.random.Generator]
"""A generator for each image."""


def augmented(images: np.ndarray, rows: np.ndarray, family: str, strength: float, *, seed: int) -> np.ndarray:
    """Make a copy of chosen images, all by one operation at one strength.

    Args:
        images: Images, uint8 or uint16 [N, H, W, C] of 1 or 3 channels; array or memory map.
        rows: Rows of the images to copy, [n].
        family: One of `FAMILIES`.
        strength: Strength in the family's unit; one of `FAMILIES` or another possible value.
        seed: Random seed of the noise and of the side to which an image is turned.

    Returns:
        Copies of the images, [n, H, W, C] in the type of the images.

    Raises:
        InputError: Family, strength, images or rows are invalid.
    """
    if family not in FAMILIES:
        raise unknown_name("family of augmentations", family, FAMILIES)
    entry = ALL_FAMILIES[family]
    least, most = entry.allowed
    if not (least <= strength <= most and np.isfinite(strength)):
        raise InputError(f"strength of {family} is {strength}; it must be {entry.allowed_words}")
    chosen = checked_rows(images, rows)
    check_pixels((len(images), images.shape[3], *images.shape[1:3]))
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    shape = tuple(int(n) for n in images.shape[1:])
    out = np.empty((len(chosen), *shape), images.dtype)
    stream, make = entry.stream, entry.make
    size = max(1, _BLOCK // int(np.prod(shape)))
    for begin in range(0, len(chosen), size):
        some = chosen[begin : begin + size]
        x = to_unit(np.stack([images[row] for row in some]))
        value = torch.full((len(x),), float(strength), dtype=torch.float64)
        draws = (np.random.default_rng([_STREAM, seed, stream, int(row)]) for row in some)
        out[begin : begin + size] = from_unit(make(x, value, draws), images.dtype)
    return out


def to_unit(images: np.ndarray) -> torch.Tensor:
    """Convert stored pixels [n, H, W, C] to [n, C, H, W] float32 in [0, 1]."""
    top = np.float32(np.iinfo(images.dtype).max)
    return torch.from_numpy(images.astype(np.float32) / top).movedim(-1, 1).contiguous()


def from_unit(x: torch.Tensor, dtype: np.dtype) -> np.ndarray:
    """Convert [n, C, H, W] in [0, 1] to stored pixels [n, H, W, C], rounded."""
    top = float(np.iinfo(dtype).max)
    return np.rint(x.clamp(0, 1).movedim(1, -1).double().cpu().numpy() * top).astype(dtype)


def blur(x: torch.Tensor, sigma: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Blur by a Gaussian."""
    return operations.blur(x, sigma)


def noise(x: torch.Tensor, deviation: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Add Gaussian noise."""
    normal = np.stack([rng.standard_normal(tuple(x.shape[1:]), dtype=np.float32) for rng in draws])
    return operations.noise(x, deviation, torch.from_numpy(normal))


def rotation(x: torch.Tensor, degrees: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Rotate either way, by one coin for each image."""
    return operations.rotate(x, degrees * torch.tensor([1.0 if rng.random() < 0.5 else -1.0 for rng in draws]))


def brightness(x: torch.Tensor, factor: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Multiply the pixels."""
    return operations.brightness(x, factor)


def darkening(x: torch.Tensor, divisor: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Divide the pixels."""
    return operations.brightness(x, 1 / divisor)


def contrast(x: torch.Tensor, factor: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Multiply the distance to the mean grey."""
    return operations.contrast(x, factor)


def jpeg(x: torch.Tensor, quality: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Write as JPEG and read again."""
    return operations.jpeg(x, quality)


def checked_rows(images: np.ndarray, rows: np.ndarray | Sequence[int]) -> np.ndarray:
    """Return rows of images as an array, [n].

    Raises:
        InputError: The images have another type or shape than [N, H, W, C] of pixels, or a row is not one of theirs.
    """
    if images.ndim != 4 or images.dtype not in (np.uint8, np.uint16):
        raise InputError(f"images are {images.dtype} {images.shape}; needed are uint8 or uint16 [N, H, W, C]")
    chosen = np.asarray(rows, dtype=np.int64)
    if chosen.ndim != 1 or (len(chosen) and (chosen.min() < 0 or chosen.max() >= len(images))):
        raise InputError(f"rows must be whole numbers from 0 to {len(images) - 1}")
    return chosen
