"""What a discriminator sees in place of an image: the augmentations "bgc" of adaptive augmentation.

Karras et al. 2020, "Training generative adversarial networks with limited data", appendix B. Each transformation is
drawn for each image with probability p; their matrices are multiplied, and an image is moved once and coloured once
(`memorisk.training.generators.gan.moves`). Images that nothing was drawn for pass as they are, to the bit; flips, turns
and whole pixels alone are exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from memorisk.training.generators.gan.moves import move_between_pixels, move_pixels, recolour

_LARGEST_SHIFT = 0.125  # share of the side: whole pixels are uniform up to it, others normal with this deviation
_LOG_SCALE, _LOG_CONTRAST, _LOG_SATURATION, _BRIGHTNESS = 0.2, 0.5, 1.0, 0.2


@dataclass(frozen=True, eq=False)
class Drawn:
    """What was drawn for a batch."""

    blit: torch.Tensor
    """[b, 3, 3] float64: flips, turns and whole pixels, in pixels from the middle of the image; from what is seen to
    where it is taken from."""
    geometry: torch.Tensor
    """[b, 3, 3] float64: scales, rotations and fractions of pixels, likewise."""
    colour: torch.Tensor
    """[b, 4, 4] float64: of red, green, blue and 1."""

    def to(self, device: torch.device) -> "Drawn":
        """On a device."""
        return Drawn(self.blit.to(device), self.geometry.to(device), self.colour.to(device))


def draw(b: int, p: float, generator: torch.Generator, *, letters: str = "bgc", side: int) -> Drawn:
    """Draw transformations for a batch, on the CPU.

    As many numbers are drawn whatever ``p`` is. "With probability p" a flip is one of two, a turn one of four, so that
    an image is mirrored with probability p / 2 and turned with 3 p / 4.

    Args:
        b: Images.
        p: Probability of each transformation; each of the two rotations has 1 - sqrt(1 - p).
        generator: Of the CPU.
        letters: Groups of transformations, of b, g and c.
        side: Pixels of an image.
    """
    dice = _Dice(b, p, generator)
    blit, geometry, colour = (torch.eye(n, dtype=torch.float64).repeat(b, 1, 1) for n in (3, 3, 4))
    if "b" in letters:
        blit = _blits(dice, side)
    if "g" in letters:
        geometry = _geometry(dice, side)
    if "c" in letters:
        colour = _colours(dice)
    return Drawn(blit, geometry, colour)


def augment(x: torch.Tensor, drawn: Drawn) -> torch.Tensor:
    """Images as they were drawn to be seen.

    Args:
        x: [b, c, s, s] float32, c of 1 or 3.
        drawn: For this batch; on the device of ``x`` or on the CPU.
    """
    moved, turned = (_differs(m) for m in (drawn.blit @ drawn.geometry, drawn.geometry))
    x = _on_rows(x, ~turned & moved, lambda part, rows: move_pixels(part, drawn.blit[rows]))
    x = _on_rows(x, turned, lambda part, rows: move_between_pixels(part, (drawn.blit @ drawn.geometry)[rows]))
    return _on_rows(x, _differs(drawn.colour), lambda part, rows: recolour(part, drawn.colour[rows]))


class _Dice:
    """Draws of a batch: [b] float64 each, of which some are taken and the others are what changes nothing."""

    def __init__(self, b: int, p: float, generator: torch.Generator):
        self.b, self.p, self.generator = b, p, generator

    def uniform(self, low: float, high: float) -> torch.Tensor:
        """Evenly between two numbers."""
        return low + (high - low) * torch.rand(self.b, dtype=torch.float64, generator=self.generator)

    def normal(self, deviation: float) -> torch.Tensor:
        """Normal around 0."""
        return deviation * torch.randn(self.b, dtype=torch.float64, generator=self.generator)

    def one_of(self, n: int) -> torch.Tensor:
        """A whole number from 0."""
        return self.uniform(0, n).floor().clamp_max(n - 1)

    def kept(self, value: torch.Tensor, neutral: float, p: float | None = None) -> torch.Tensor:
        """The value with probability p, else what changes nothing."""
        taken = self.uniform(0, 1) < (self.p if p is None else p)
        return torch.where(taken, value, torch.full_like(value, neutral))


def _blits(dice: _Dice, side: int) -> torch.Tensor:
    """Flips, turns by 90 degrees and whole pixels, applied in this order; from what is seen to its source."""
    flip = dice.kept(1 - 2 * dice.one_of(2), 1.0)
    turns = dice.kept(dice.one_of(4), 0.0)
    right, down = ((dice.uniform(-1, 1) * _LARGEST_SHIFT * side).round() for _ in range(2))
    taken = dice.kept(torch.ones_like(right), 0.0)
    one = torch.ones_like(flip)
    # cos and sin of a multiple of 90 degrees are rounded, so that pixels lead to pixels
    back = _scale(flip, one) @ _rotation(turns * (math.pi / 2)).round()
    return back @ _shift(-right * taken, -down * taken)


def _geometry(dice: _Dice, side: int) -> torch.Tensor:
    """Scale, rotation, stretch, rotation, fractions of pixels, in this order; from what is seen to its source."""
    rotating = 1 - math.sqrt(1 - dice.p)
    scale = dice.kept(torch.exp2(dice.normal(_LOG_SCALE)), 1.0)
    before = dice.kept(dice.uniform(-math.pi, math.pi), 0.0, rotating)
    stretch = dice.kept(torch.exp2(dice.normal(_LOG_SCALE)), 1.0)
    after = dice.kept(dice.uniform(-math.pi, math.pi), 0.0, rotating)
    right, down = (dice.normal(_LARGEST_SHIFT) * side for _ in range(2))
    taken = dice.kept(torch.ones_like(right), 0.0)
    back = _scale(1 / scale, 1 / scale) @ _rotation(before) @ _scale(1 / stretch, stretch) @ _rotation(after)
    return back @ _shift(-right * taken, -down * taken)


def _colours(dice: _Dice) -> torch.Tensor:
    """Brightness, contrast, luma flip, hue and saturation, in this order."""
    brightness = dice.kept(dice.normal(_BRIGHTNESS), 0.0)
    contrast = dice.kept(torch.exp2(dice.normal(_LOG_CONTRAST)), 1.0)
    flip = dice.kept(dice.one_of(2), 0.0)
    hue = dice.kept(dice.uniform(-math.pi, math.pi), 0.0)
    saturation = dice.kept(torch.exp2(dice.normal(_LOG_SATURATION)), 1.0)
    grey = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    same = torch.eye(3, dtype=torch.float64)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], dtype=torch.float64) / math.sqrt(3)
    flip, cos, sin, amount = (v[:, None, None] for v in (flip, hue.cos(), hue.sin(), saturation))
    around = grey + (same - grey) * cos + cross * sin  # Rodrigues: about the axis of greys
    linear = (grey + (same - grey) * amount) @ around @ (same - 2 * grey * flip) * contrast[:, None, None]
    matrix = torch.eye(4, dtype=torch.float64).repeat(dice.b, 1, 1)
    matrix[:, :3, :3], matrix[:, :3, 3] = linear, (linear @ brightness[:, None].expand(-1, 3)[..., None])[..., 0]
    return matrix


def _matrix(*numbers: torch.Tensor) -> torch.Tensor:
    """[b, 3, 3] of two rows of three."""
    one = torch.ones_like(numbers[0])
    return torch.stack([*numbers, 0 * one, 0 * one, one], dim=-1).unflatten(-1, (3, 3))


def _scale(across: torch.Tensor, along: torch.Tensor) -> torch.Tensor:
    """Of x and of y."""
    return _matrix(across, 0 * across, 0 * across, 0 * across, along, 0 * across)


def _rotation(angle: torch.Tensor) -> torch.Tensor:
    """About the middle."""
    cos, sin = angle.cos(), angle.sin()
    return _matrix(cos, -sin, 0 * cos, sin, cos, 0 * cos)


def _shift(right: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """In pixels."""
    one, none = torch.ones_like(right), torch.zeros_like(right)
    return _matrix(one, none, right, none, one, down)


def _differs(matrix: torch.Tensor) -> torch.Tensor:
    """[b] which matrices are not the identity to the bit."""
    return (matrix != torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)).flatten(1).any(dim=1)


def _on_rows(
    x: torch.Tensor, chosen: torch.Tensor, change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """A batch of which some images are changed."""
    rows = chosen.nonzero()[:, 0]
    if not len(rows):
        return x
    there = rows.to(x.device)
    return x.index_copy(0, there, change(x[there], rows))
