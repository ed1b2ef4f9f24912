"""Preprocessing of pixels to a network's input: declared once by the user, asserted at every call."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.images.volumes import is_volume
from memorisk.models.classifiers.specs import IMAGENET_MEAN, IMAGENET_STD
from memorisk.runs.errors import InputError, one_line

PRESETS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": (IMAGENET_MEAN, IMAGENET_STD),
    "half": ((0.5,), (0.5,)),
    "none": ((0.0,), (1.0,)),
}
"""Mean and standard deviation by name; a single number applies to every channel."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Preprocessing:
    """Size, channels and normalisation of a network's input.

    Raises:
        InputError: A size below 1, channels other than 1 or 3, a mean or standard deviation without one finite number
            for each channel, or a standard deviation that is not above 0.
    """

    size: tuple[int, int]
    """Height and width in pixels."""

    channels: int
    """Number of channels, 1 or 3; of volumes that are compared voxel by voxel their depth."""

    mean: tuple[float, ...]
    """Mean of each channel, of pixels in [0, 1]."""

    std: tuple[float, ...]
    """Standard deviation of each channel, of pixels in [0, 1]."""

    def __post_init__(self) -> None:
        if len(self.size) != 2 or min(self.size) < 1:
            raise InputError(f"preprocessing size is {self.size}; it must be height and width, each 1 or more")
        if self.channels not in (1, 3) and not is_volume((self.channels,)):
            raise InputError(f"preprocessing channels is {self.channels}; it must be 1 or 3")
        for what, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != self.channels or not all(math.isfinite(value) for value in values):
                raise InputError(
                    f"preprocessing {what} is {one_line(values, 80)}; it must be {self.channels} finite numbers, one a "
                    "channel"
                )
        if min(self.std) <= 0:
            raise InputError(f"preprocessing std is {one_line(self.std, 80)}; each must be above 0")

    def apply(self, pixels: np.ndarray) -> np.ndarray:
        """Normalise pixels.

        Args:
            pixels: Pixels, float32 [n, H, W, C] in [0, 1].

        Returns:
            Pixels, float32 [n, C, H, W], contiguous.

        Raises:
            InputError: Another shape or type, or values outside [0, 1].
        """
        shape = (*self.size, self.channels)
        if pixels.ndim != 4 or pixels.shape[1:] != shape:
            raise InputError(f"pixels are {list(pixels.shape)}; the preprocessing declares [n, {_listed(shape)}]")
        if pixels.dtype != np.float32:
            raise InputError(f"pixels are {pixels.dtype}; they must be float32 in [0, 1]: divide by the highest level")
        if pixels.size and not (pixels.min() >= -_ROUNDING and pixels.max() <= 1 + _ROUNDING):
            raise InputError(
                f"pixels range from {pixels.min():.3g} to {pixels.max():.3g}; they must lie in [0, 1], without "
                "normalisation: it is declared in the preprocessing and done once"
            )
        out = np.empty((len(pixels), self.channels, *self.size), np.float32)
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            np.subtract(pixels[..., channel], np.float32(mean), out=out[:, channel])
            out[:, channel] /= np.float32(std)
        return out

    def check(self, x: np.ndarray) -> None:
        """Refuse what is not an input of this shape.

        Args:
            x: Shall be [n, C, H, W] float32.

        Raises:
            InputError: It is not.
        """
        shape = (self.channels, *self.size)
        if x.ndim != 4 or x.shape[1:] != shape or x.dtype != np.float32:
            raise InputError(
                f"the network was given {x.dtype} {list(x.shape)}; the declared preprocessing gives float32 "
                f"[n, {_listed(shape)}]"
            )

    def describe(self) -> dict[str, Any]:
        """Describe the preprocessing for the report."""
        return {
            "size": list(self.size),
            "channels": self.channels,
            "mean": list(self.mean),
            "std": list(self.std),
        }


def preprocessing_from(text: str, size: int | tuple[int, int], channels: int) -> Preprocessing:
    """Return the preprocessing from what a user types.

    Args:
        text: A name of `PRESETS`, or numbers ``mean/std``, each one number or one a channel between commas:
            "0.13/0.31", "0.49,0.48,0.45/0.2,0.2,0.2".
        size: Pixels a side, or height and width.
        channels: 1 or 3.

    Raises:
        InputError: An unknown name, no numbers, or values that `Preprocessing` refuses.
    """
    sides = (size, size) if isinstance(size, int) else size
    if text in PRESETS:
        mean, std = PRESETS[text]
        if text == "imagenet" and channels == 1:
            raise InputError(
                "normalisation 'imagenet' is of 3 channels, the network has 1: give its own numbers as mean/std, as "
                "in 0.449/0.226"
            )
    else:
        mean, std = _numbers(text)
    if text not in PRESETS and (any(m < 0 or m > 1 for m in mean) or any(s > 1 for s in std)):
        raise InputError(
            f"normalisation {one_line(text, 80)!r}: mean and standard deviation are of pixels in [0, 1], so that "
            "127.5/127.5 is 0.5/0.5"
        )
    return Preprocessing(sides, channels, _for_each(mean, channels), _for_each(std, channels))


def _numbers(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    parts = text.split("/")
    try:
        if len(parts) != 2:
            raise ValueError
        mean, std = (tuple(float(value) for value in part.split(",")) for part in parts)
    except ValueError:
        raise InputError(
            f"normalisation {one_line(text, 80)!r} is neither {', '.join(map(repr, PRESETS))} nor numbers of the form "
            "mean/std, as in 0.13/0.31 or 0.49,0.48,0.45/0.2,0.2,0.2"
        ) from None
    return mean, std


def _for_each(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values * channels if len(values) == 1 else values


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
