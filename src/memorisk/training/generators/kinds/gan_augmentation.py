"""Images as a discriminator sees them: the augmentations "bgc" of adaptive augmentation.

Karras et al. 2020, "Training generative adversarial networks with limited data", appendix B. Each transformation is
drawn for each image with probability p; their matrices are multiplied, and an image is moved once and coloured once.
Images without a draw pass as they are, to the bit; flips, turns and whole pixels alone are exact. Pixels are
gathered and weighted, so that every operation has all derivatives, unlike torch's ``grid_sample``. Beyond its edges an
image is reflected at the middle of its outermost pixels.

The probability follows how much the discriminator overfits (section 3): r_t = E[sign(D(real))] is about 0 for a
discriminator that cannot distinguish images and 1 for one that knows its images. Every 4 steps the probability goes up
where r_t is above the target and down where it is below, at a rate that takes it from 0 to 1 in so many images. It ends
at 0.8, below which augmentations do not leak into the drawn images.

The draws in a step of a GAN's training are a function of (seed, step, phase) alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.models.settings import GanSpec
from memorisk.training.generators.options import AUGMENT_TARGET, SAFE_PROBABILITY, GanSettings

_SYM6 = (
    0.015404109327027373, 0.0034907120842174702, -0.11799011114819057, -0.048311742585633, 0.4910559419267466,
    0.787641141030194, 0.3379294217276218, -0.07263752278646252, -0.021060292512300564, 0.04472490177066578,
    0.0017677118642428036, -0.007800708325034148,
)  # fmt: skip
_PAD = len(_SYM6) // 4
_EDGE = 5
"""Number of pixels, at twice the side, that the filter needs beyond the image."""
_CENTRE = sum(t * weight for t, weight in enumerate(_SYM6)) / sum(_SYM6) - _EDGE
"""Place of the middle of the first pixel in the image of twice the side: by the filter's centre of mass, so that an
even slope stays even."""


def move_pixels(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Take the pixels of each image from elsewhere in it; exact, for matrices that lead from pixel to pixel.

    Args:
        x: Images, [b, c, s, s].
        matrix: Matrix of each image, [b, 3, 3], in pixels from the middle.
    """
    side = x.shape[-1]
    rows, columns = _sources(matrix, torch.arange(side, dtype=torch.float64), side)
    index = _reflect(rows, side).round().long() * side + _reflect(columns, side).round().long()
    return _gather_pixels(x, index.to(x.device)).unflatten(2, (side, side))


def move_between_pixels(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Move each image by its own matrix, without aliases.

    It is enlarged to twice its side by the wavelet sym6, sampled between its pixels by bilinear interpolation, and
    reduced to half that side by sym6 again, which undoes the first step where nothing moves.

    Args:
        x: Images, [b, c, s, s].
        matrix: Matrix of each image, [b, 3, 3], in pixels from the middle.
    """
    side = x.shape[-1]
    large, line = _upsample(x), (torch.arange(-_EDGE, 2 * side + _EDGE, dtype=torch.float64) - _CENTRE) / 2
    rows, columns = (2 * _reflect(place, side) + _CENTRE for place in _sources(matrix, line, side))
    moved = torch.zeros((), dtype=x.dtype, device=x.device)
    for down in (0, 1):
        row, row_weight = _neighbour(rows, down, 2 * side)
        for right in (0, 1):
            column, column_weight = _neighbour(columns, right, 2 * side)
            weight = (row_weight * column_weight).to(x.device, x.dtype)
            moved = moved + _gather_pixels(large, (row * 2 * side + column).to(x.device)) * weight[:, None]
    return _downsample(moved.unflatten(2, (len(line), len(line))))


def recolour(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Map the colours of each image by an affine map; a grey image counts as red, green, blue, and becomes their mean.

    Args:
        x: Images, [b, c, s, s], c of 1 or 3.
        matrix: Matrix of each image, [b, 4, 4].
    """
    matrix = matrix.to(x.device)
    linear, shift = matrix[:, :3, :3], matrix[:, :3, 3]
    if x.shape[1] == 1:
        linear, shift = linear.sum(dim=2).mean(dim=1)[:, None, None], shift.mean(dim=1, keepdim=True)
    return (linear.to(x.dtype) @ x.flatten(2) + shift.to(x.dtype)[:, :, None]).unflatten(2, x.shape[2:])


def _sources(matrix: torch.Tensor, line: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the source of each point of a grid: rows and columns, [b, n n] each, in pixels of the image."""
    middle = (side - 1) / 2
    line = line.to(matrix.device) - middle
    y, x = (v.flatten() for v in torch.meshgrid(line, line, indexing="ij"))
    points = matrix @ torch.stack([x, y, torch.ones_like(x)])
    return points[:, 1] + middle, points[:, 0] + middle


def _reflect(place: torch.Tensor, side: int) -> torch.Tensor:
    """Reflect places into the image at the middle of its first and last pixels."""
    period = 2 * (side - 1)
    place = place.remainder(period)
    return torch.minimum(place, period - place)


def _neighbour(place: torch.Tensor, step: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pixel before a place or after it, and its weight in a linear interpolation."""
    before = place.floor()
    share = place - before
    return (before + step).clamp(0, side - 1).long(), share if step else 1 - share


def _gather_pixels(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Gather the pixels at [b, n], [b, c, n]; the derivative adds them up again, and is differentiable itself."""
    return x.flatten(2).gather(2, index[:, None].expand(-1, x.shape[1], -1))


def _filter(x: torch.Tensor) -> torch.Tensor:
    """Return the wavelet's low-pass filter, [12]."""
    return torch.tensor(_SYM6, dtype=x.dtype, device=x.device)


def _upsample(x: torch.Tensor) -> torch.Tensor:
    """Enlarge to [b, c, 2s, 2s]: zeros between the pixels, then sym6 in both directions."""
    channels, line = x.shape[1], math.sqrt(2) * _filter(x)
    x, cut = F.pad(x, (_PAD,) * 4, mode="reflect"), 2 * _PAD + _EDGE
    for shape, stride in (((1, 1, -1, 1), (2, 1)), ((1, 1, 1, -1), (1, 2))):
        weight = line.reshape(shape).expand(channels, -1, -1, -1)
        x = F.conv_transpose2d(x, weight, stride=stride, groups=channels)
    return x[..., cut : x.shape[-2] - cut, cut : x.shape[-1] - cut]


def _downsample(x: torch.Tensor) -> torch.Tensor:
    """Reduce [b, c, 2s + 10, 2s + 10] to [b, c, s, s]: sym6 backwards in both directions, then every second pixel."""
    channels, line = x.shape[1], _filter(x) / math.sqrt(2)
    for shape, stride in (((1, 1, -1, 1), (2, 1)), ((1, 1, 1, -1), (1, 2))):
        x = F.conv2d(x, line.reshape(shape).expand(channels, -1, -1, -1), stride=stride, groups=channels)
    return x


_LARGEST_SHIFT = 0.125  # share of the side: whole pixels are uniform up to it, others normal with this deviation
_LOG_SCALE, _LOG_CONTRAST, _LOG_SATURATION, _BRIGHTNESS = 0.2, 0.5, 1.0, 0.2


@dataclass(frozen=True, eq=False)
class AugmentationDraws:
    """Random draws of the augmentations of a batch."""

    blit: torch.Tensor
    """Matrices of flips, turns and whole pixels, [b, 3, 3] float64, in pixels from the middle of the image; they map a
    place in the augmented image to its source."""
    geometry: torch.Tensor
    """Matrices of scales, rotations and fractions of pixels, [b, 3, 3] float64, in the same sense."""
    colour: torch.Tensor
    """Matrices of the colours, [b, 4, 4] float64, on red, green, blue and 1."""

    def to(self, device: torch.device) -> "AugmentationDraws":
        """Move the draws to a device."""
        return AugmentationDraws(self.blit.to(device), self.geometry.to(device), self.colour.to(device))


def draw_augmentations(
    b: int, p: float, generator: torch.Generator, *, letters: str = "bgc", side: int
) -> AugmentationDraws:
    """Draw transformations for a batch, on the CPU.

    The count of drawn numbers does not depend on ``p``. "With probability p" a flip is one of two, a turn one of four,
    so that an image is mirrored with probability p / 2 and turned with 3 p / 4.

    Args:
        b: Number of images.
        p: Probability of each transformation; each of the two rotations has 1 - sqrt(1 - p).
        generator: Source of the draws, on the CPU.
        letters: Groups of transformations, of b, g and c.
        side: Side of an image, in pixels.
    """
    dice = _BatchDraws(b, p, generator)
    blit, geometry, colour = (torch.eye(n, dtype=torch.float64).repeat(b, 1, 1) for n in (3, 3, 4))
    if "b" in letters:
        blit = _blits(dice, side)
    if "g" in letters:
        geometry = _geometry(dice, side)
    if "c" in letters:
        colour = _colours(dice)
    return AugmentationDraws(blit, geometry, colour)


def augment(x: torch.Tensor, drawn: AugmentationDraws) -> torch.Tensor:
    """Apply the drawn augmentations to images.

    Args:
        x: Images, [b, c, s, s] float32, c of 1 or 3.
        drawn: Draws for this batch; on the device of ``x`` or on the CPU.
    """
    moved, turned = (_is_not_identity(m) for m in (drawn.blit @ drawn.geometry, drawn.geometry))
    x = _apply_to_rows(x, ~turned & moved, lambda part, rows: move_pixels(part, drawn.blit[rows]))
    x = _apply_to_rows(x, turned, lambda part, rows: move_between_pixels(part, (drawn.blit @ drawn.geometry)[rows]))
    return _apply_to_rows(x, _is_not_identity(drawn.colour), lambda part, rows: recolour(part, drawn.colour[rows]))


class _BatchDraws:
    """Draws of a batch: [b] float64 each, some of which are used while neutral values replace the others."""

    def __init__(self, b: int, p: float, generator: torch.Generator):
        self.b, self.p, self.generator = b, p, generator

    def uniform(self, low: float, high: float) -> torch.Tensor:
        """Draw evenly between two numbers."""
        return low + (high - low) * torch.rand(self.b, dtype=torch.float64, generator=self.generator)

    def normal(self, deviation: float) -> torch.Tensor:
        """Draw normal numbers around 0."""
        return deviation * torch.randn(self.b, dtype=torch.float64, generator=self.generator)

    def one_of(self, n: int) -> torch.Tensor:
        """Draw a whole number from 0 to n - 1."""
        return self.uniform(0, n).floor().clamp_max(n - 1)

    def kept(self, value: torch.Tensor, neutral: float, p: float | None = None) -> torch.Tensor:
        """Keep the value with probability p, and replace it by the neutral one otherwise."""
        acts = self.uniform(0, 1) < (self.p if p is None else p)
        return torch.where(acts, value, torch.full_like(value, neutral))


def _blits(dice: _BatchDraws, side: int) -> torch.Tensor:
    """Draw flips, turns by 90 degrees and whole pixels, applied in this order; the map leads to the source."""
    flip = dice.kept(1 - 2 * dice.one_of(2), 1.0)
    turns = dice.kept(dice.one_of(4), 0.0)
    right, down = ((dice.uniform(-1, 1) * _LARGEST_SHIFT * side).round() for _ in range(2))
    shifted = dice.kept(torch.ones_like(right), 0.0)
    one = torch.ones_like(flip)
    # cos and sin of a multiple of 90 degrees are rounded, so that pixels lead to pixels
    back = _scale(flip, one) @ _rotation(turns * (math.pi / 2)).round()
    return back @ _shift(-right * shifted, -down * shifted)


def _geometry(dice: _BatchDraws, side: int) -> torch.Tensor:
    """Draw scale, rotation, stretch, rotation, fractions of pixels, in this order; the map leads to the source."""
    rotating = 1 - math.sqrt(1 - dice.p)
    scale = dice.kept(torch.exp2(dice.normal(_LOG_SCALE)), 1.0)
    before = dice.kept(dice.uniform(-math.pi, math.pi), 0.0, rotating)
    stretch = dice.kept(torch.exp2(dice.normal(_LOG_SCALE)), 1.0)
    after = dice.kept(dice.uniform(-math.pi, math.pi), 0.0, rotating)
    right, down = (dice.normal(_LARGEST_SHIFT) * side for _ in range(2))
    shifted = dice.kept(torch.ones_like(right), 0.0)
    back = _scale(1 / scale, 1 / scale) @ _rotation(before) @ _scale(1 / stretch, stretch) @ _rotation(after)
    return back @ _shift(-right * shifted, -down * shifted)


def _colours(dice: _BatchDraws) -> torch.Tensor:
    """Draw brightness, contrast, luma flip, hue and saturation, in this order."""
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
    """Build a matrix [b, 3, 3] of two rows of three."""
    one = torch.ones_like(numbers[0])
    return torch.stack([*numbers, 0 * one, 0 * one, one], dim=-1).unflatten(-1, (3, 3))


def _scale(across: torch.Tensor, along: torch.Tensor) -> torch.Tensor:
    """Build the scaling of x and y."""
    return _matrix(across, 0 * across, 0 * across, 0 * across, along, 0 * across)


def _rotation(angle: torch.Tensor) -> torch.Tensor:
    """Build the rotation about the middle."""
    cos, sin = angle.cos(), angle.sin()
    return _matrix(cos, -sin, 0 * cos, sin, cos, 0 * cos)


def _shift(right: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Build the shift by pixels."""
    one, none = torch.ones_like(right), torch.zeros_like(right)
    return _matrix(one, none, right, none, one, down)


def _is_not_identity(matrix: torch.Tensor) -> torch.Tensor:
    """Mark the matrices that differ from the identity in any bit, [b]."""
    return (matrix != torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)).flatten(1).any(dim=1)


def _apply_to_rows(
    x: torch.Tensor, chosen: torch.Tensor, change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Change some of the images of a batch."""
    rows = chosen.nonzero()[:, 0]
    if not len(rows):
        return x
    there = rows.to(x.device)
    return x.index_copy(0, there, change(x[there], rows))


ADJUSTMENT_STEPS = 4
"""Number of steps between two adjustments of the probability."""


class AdaptiveProbability:
    """The probability of augmentations and the statistic that steers it.

    Args:
        settings: Settings with ``gan_augment`` and those that belong to it.
        device: Device of the logits.
    """

    def __init__(self, settings: GanSettings, device: torch.device) -> None:
        self.settings = settings
        start = 0.0 if settings.gan_augment == "none" else settings.gan_augment_p
        self.state = {
            "probability": torch.tensor(start, dtype=torch.float64),
            "signs": torch.zeros(2, dtype=torch.float64, device=device),
            "r_t": torch.tensor(torch.nan, dtype=torch.float64),
        }
        """Live tensors that a checkpoint holds: probability, sum and number of signs so far, last r_t."""

    @property
    def p(self) -> float:
        """Present probability of each transformation."""
        return float(self.state["probability"])

    @property
    def r_t(self) -> float:
        """Mean sign of the logits of real images over the last 4 steps; NaN before."""
        return float(self.state["r_t"])

    @torch.no_grad()
    def note(self, real: torch.Tensor) -> None:
        """Count the logits of real images, [b]."""
        self.state["signs"] += torch.stack([real.sign().sum(), torch.ones_like(real).sum()])

    def adapt(self, step: int) -> None:
        """Adjust the probability after the ``step``-th step, from 0: every fourth one moves it."""
        if (step + 1) % ADJUSTMENT_STEPS:
            return
        total, n_images = self.state["signs"].tolist()
        self.state["signs"].zero_()
        r_t, how = total / n_images, self.settings
        self.state["r_t"].fill_(r_t)
        if how.gan_augment == "ada":
            direction = (r_t > AUGMENT_TARGET) - (r_t < AUGMENT_TARGET)
            moved = self.p + direction * n_images / how.gan_augment_images
            self.state["probability"].fill_(min(max(moved, 0.0), SAFE_PROBABILITY))


GENERATOR, PATH, DISCRIMINATOR, R1 = range(4)
"""Phases of a step."""
_PHASES = 3  # random stream in addition to order, step seeds, and the draws of `training.generators.batches`


@dataclass(frozen=True, eq=False)
class Latents:
    """Random inputs that images are drawn from.

    Attributes:
        z: Inputs of the mapping, [2, b, style], of the first and of the second style.
        second: Whether each layer takes the second style, [b, n, 1] bool.
        noises: Noise of each layer, [b, 1, s, s].
    """

    z: torch.Tensor
    second: torch.Tensor
    noises: Sequence[torch.Tensor]


class PhaseDraws:
    """The draws of one phase, in the order of the calls.

    Small ones are drawn on the CPU, noise on the device.

    Args:
        seed: Random seed of the training.
        step: Number of the step, from 0.
        phase: Number of the phase, one of the four.
        device: Device on which the draws are needed.
    """

    def __init__(self, seed: int, step: int, phase: int, device: torch.device) -> None:
        state = np.random.SeedSequence(seed, spawn_key=(_PHASES, step, phase)).generate_state(2, np.uint64)
        first, second = (state >> np.uint64(1)).tolist()
        self.device = device
        self._small = torch.Generator().manual_seed(first)
        self._large = torch.Generator(device).manual_seed(second)

    def noise(self, *shape: int) -> torch.Tensor:
        """Draw normal numbers on the device."""
        return torch.randn(shape, generator=self._large, device=self.device)

    def latents(self, spec: GanSpec, b: int, mixing: float) -> Latents:
        """Draw the latents of some images.

        Args:
            spec: Specification of the networks.
            b: Number of images.
            mixing: Probability that an image is of two styles, from a layer on that is drawn evenly.
        """
        z = torch.randn(2, b, spec.style, generator=self._small)
        mixed = torch.rand(b, 1, generator=self._small) < mixing
        begin = torch.randint(1, spec.styles, (b, 1), generator=self._small)
        second = mixed & (torch.arange(spec.styles) >= begin)
        noises = [self.noise(b, 1, side, side) for side in spec.noise_sides]
        return Latents(z.to(self.device), second[..., None].to(self.device), noises)

    def augmentation(self, b: int, p: float, letters: str, side: int) -> AugmentationDraws:
        """Draw the augmentations of some images, by `draw_augmentations`."""
        return draw_augmentations(b, p, self._small, letters=letters, side=side).to(self.device)
