"""Augmented images: the input of stage 2 of LCMem, and the mild augmentation of stage 1 (paper 004).

`PairAugmentation` draws the input of stage 2: each operation by itself with probability 0.5 (the published code's for
rotation, flip, brightness, contrast and JPEG), in the order rotation, flip, blur, noise, brightness, contrast, JPEG.
Magnitudes: rotation uniform to 20 degrees either way, JPEG quality uniform from 10 to 95 (appendix B). The paper gives
no ranges for the others, and the released configuration had the identity for brightness and contrast; here blur is
log-uniform from 0.1 to 6 pixels, noise uniform to 0.3, brightness and contrast log-uniform from one half to 2, as in
the test copies (`images.alterations.graded`). `operations_of` reads some of them from a text, for the single-stage rows
of table 4.

Pixels are floating point in [0, 1], [b, C, H, W].
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from memorisk.images.alterations.operations import (
    blur,
    brightness,
    check_pixels,
    contrast,
    jpeg,
    mirror,
    noise,
    rotate,
    shift_and_scale,
)
from memorisk.runs.errors import unknown_name

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_PROBABILITY = 0.5
OPERATIONS = ("rotate", "flip", "blur", "noise", "brightness", "contrast", "jpeg")
"""Operations of stage 2, in this order; stage 1 may use some of them."""
_COLUMNS = 14


def operations_of(text: str) -> tuple[str, ...]:
    """Read some of `OPERATIONS`, named with commas between them, in their own order.

    Raises:
        InputError: A name is not one of them.
    """
    named = {part.strip() for part in text.split(",")}
    for name in sorted(named - set(OPERATIONS)):
        raise unknown_name("operation of stage1_augment", name, ("none", "mild", *OPERATIONS))
    return tuple(name for name in OPERATIONS if name in named)


@dataclass(frozen=True, kw_only=True)
class PairAugmentation:
    """Augmentation of stage 2: each operation with a probability, its magnitude drawn."""

    probability: float = _PROBABILITY
    """Probability of each operation."""
    degrees: float = 20.0
    """Largest rotation either way, in degrees."""
    sigma: tuple[float, float] = (0.1, 6.0)
    """Range of the standard deviation of the blur in pixels, log-uniform."""
    deviation: float = 0.3
    """Largest standard deviation of the noise, uniform from 0."""
    factor: float = 2.0
    """Largest change of brightness and contrast: log-uniform from 1 / factor to factor."""
    quality: tuple[int, int] = (10, 95)
    """Range of the quality of JPEG, uniform."""
    operations: tuple[str, ...] = OPERATIONS
    """Operations that are used; the draws of one do not depend on the others."""

    def apply(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Make an augmented copy of each image.

        Args:
            x: Images, [b, C, H, W] in [0, 1].
            generator: Source of all draws, on the CPU, the same on every device.

        Returns:
            Copies of the same shape, in [0, 1].
        """
        check_pixels(tuple(x.shape))
        drawn = torch.rand(len(x), _COLUMNS, generator=generator, dtype=torch.float64)
        enabled = torch.tensor([name in self.operations for name in OPERATIONS])
        acts, values = (drawn[:, :7] < self.probability) & enabled, drawn[:, 7:]
        n_noisy = int(acts[:, 3].sum())
        normal = torch.randn(n_noisy, *x.shape[1:], generator=generator, dtype=torch.float32).to(x.device, x.dtype)
        spread = float(np.log(self.factor))
        low, high = (float(np.log(edge)) for edge in self.sigma)
        lowest, highest = self.quality
        turned = (2 * values[:, 0] - 1) * self.degrees
        x = _apply_where(acts[:, 0], x, rotate, turned)
        x = _apply_where(acts[:, 1], x, lambda some, _: mirror(some), values[:, 1])
        x = _apply_where(acts[:, 2], x, blur, (low + values[:, 2] * (high - low)).exp())
        x = _apply_where(
            acts[:, 3], x, lambda some, deviation: noise(some, deviation, normal), values[:, 3] * self.deviation
        )
        x = _apply_where(acts[:, 4], x, brightness, ((2 * values[:, 4] - 1) * spread).exp())
        x = _apply_where(acts[:, 5], x, contrast, ((2 * values[:, 5] - 1) * spread).exp())
        x = _apply_where(acts[:, 6], x, jpeg, (lowest + values[:, 6] * (highest + 1 - lowest)).floor())
        return x.clamp(0, 1)


@dataclass(frozen=True, kw_only=True)
class MildAugmentation:
    """Augmentation by the differences that two images of one patient have anyway: place and brightness.

    The paper has none in stage 1. With few patients a network soon knows their images by heart; this augmentation
    prevents that, and requires nothing that a re-identification should not forgive. All of it always acts,
    drawn uniformly.
    """

    degrees: float = 8.0
    """Largest rotation either way, in degrees."""
    scale: float = 0.08
    """Largest change of size, as a share."""
    shift: float = 0.06
    """Largest shift, as a share of the side."""
    factor: float = 0.2
    """Largest change of brightness, as a share."""
    deviation: float = 0.02
    """Standard deviation of the noise, as a share of the range of grey."""

    def apply(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Make a moved copy of each image; as `PairAugmentation.apply`."""
        check_pixels(tuple(x.shape))
        drawn = (2 * torch.rand(len(x), 5, generator=generator, dtype=torch.float64) - 1).to(x.device)
        normal = torch.randn(tuple(x.shape), generator=generator, dtype=torch.float32).to(x.device, x.dtype)
        across, down = drawn[:, 2] * self.shift, drawn[:, 3] * self.shift
        moved = shift_and_scale(x, drawn[:, 0] * self.degrees, 1 + drawn[:, 1] * self.scale, across, down)
        brighter = brightness(moved, 1 + drawn[:, 4] * self.factor)
        return noise(brighter, torch.full((len(x),), self.deviation, device=x.device), normal)


def _apply_where(acting: torch.Tensor, x: torch.Tensor, operation: Operation, values: torch.Tensor) -> torch.Tensor:
    """Apply an operation to the images that it acts on."""
    if not acting.any():
        return x
    chosen = acting.nonzero()[:, 0]
    out = x.clone()
    out[chosen.to(x.device)] = operation(x[chosen.to(x.device)], values[chosen].to(x.device))
    return out
