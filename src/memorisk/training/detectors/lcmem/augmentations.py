"""Augmented images: the input of stage 2 of LCMem, and the mild augmentation of stage 1 (paper 004).

`PairAugmentation` draws the input of stage 2. Each augmentation of `images.alterations.transformations` acts by itself
with probability 0.5 (the published code's for rotation, flip, brightness, contrast and JPEG), at a drawn strength
(`images.alterations.augmentations`). `operations_of` reads some of them from a text, for the single-stage rows of table
4.

Pixels are floating point in [0, 1], [b, C, H, W].
"""

from dataclasses import dataclass

import torch

from memorisk.images.alterations.operations import brightness, check_pixels, noise, shift_and_scale
from memorisk.images.alterations.transformations import TRANSFORMATIONS, Augmentation, by_name
from memorisk.runs.errors import unknown_name

_AUGMENTATIONS = by_name(one.augmentation for one in TRANSFORMATIONS)
OPERATIONS = tuple(_AUGMENTATIONS)
"""Operations of stage 2, in this order; stage 1 may use some of them."""


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

    probability: float = 0.5
    """Probability of each operation."""
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
        drawn = torch.rand(len(x), 2 * len(OPERATIONS), generator=generator, dtype=torch.float64)
        acting, strengths = drawn.chunk(2, dim=1)
        for place, (name, augmentation) in enumerate(_AUGMENTATIONS.items()):
            if name in self.operations:
                chosen = acting[:, place] < self.probability
                x = _augment_where(chosen, x, augmentation, strengths[:, place], generator)
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


def _augment_where(
    chosen: torch.Tensor, x: torch.Tensor, how: Augmentation, strength: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """Augment the chosen images [b]."""
    if not chosen.any():
        return x
    rows = chosen.nonzero()[:, 0]
    out = x.clone()
    out[rows.to(x.device)] = how.make(x[rows.to(x.device)], strength[rows], generator)
    return out
