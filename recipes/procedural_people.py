"""Procedural people and copies of them, on which the detector ``default`` is trained.

`draw_people` makes families of look-alikes from pictures of `procedural_pictures.py`. A family shares a template, as
chest X-rays share ribs; each member bends it, and blends a picture of its own into it, everywhere or here and there.
The difference between members is drawn for each family, from hardly to nearly all: a detector must distinguish people
by the little that they do not share, and must not need it to be constant. Some families are dark, or low in contrast.

`draw_copies` makes two views of each member. The first is the image with hardly any change; the second is a copy as a
generator or a careless hand may make it: turned, cropped, stretched, bent, framed; tones, colours, gradients,
blur, fewer pixels, noise, JPEG; blended with another image, set into one, or covered in part. Most copies have one to
three of these, a few have many, and some have only one kind. Mirrored and quarter-turned copies are left out: to
`memorisk.models.classifiers.copy_resnet` these are equal anyway.

All pixels are float32 in [0, 1], [n, 3, side, side]. All draws come from the generator of the caller.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

Pixels = torch.Tensor
_PICTURE_SIDE = 80  # side of a member in pixels, before it is viewed at 48 to 64
_DCT = torch.tensor(
    [
        [math.sqrt((1 if k == 0 else 2) / 8) * math.cos(math.pi * (2 * i + 1) * k / 16) for i in range(8)]
        for k in range(8)
    ]
)
_LUMINANCE = torch.tensor(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    dtype=torch.float32,
)
"""Quantisation steps of the luminance at quality 50 (ITU-T T.81, table K.1)."""


def draw_people(pictures: torch.Tensor, families: int, members: int, generator: torch.Generator) -> Pixels:
    """Draw families of look-alikes.

    Args:
        pictures: Pictures, uint8 [N, s, s, 3], from which templates and details are drawn.
        families: Number of families.
        members: Number of members of each family.
        generator: Source of all draws.

    Returns:
        Images of the members, [families * members, 3, 80, 80], members of a family next to each other.
    """
    draw, n, side = _Draws(generator), families * members, _PICTURE_SIDE

    def spread(values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(members, 0).reshape(n, 1, 1, 1)

    templates, details = (draw.pictures(pictures, count) for count in (families, n))
    bend = spread(draw.log_uniform(families, 0.01, 0.12))
    template = _sampled(templates.repeat_interleave(members, 0), 0.92 * _grid(n, side) + draw.bends(n, side, 5, bend))
    window = _grid(n, side) * draw.uniform(n, 0.35, 1.0).reshape(n, 1, 1, 1)
    detail = _sampled(details, window + 0.3 * draw.uniform(n, -1, 1).reshape(n, 1, 1, 1))
    grey = spread(draw.chance(families, 0.4)) > 0
    template, detail = (torch.where(grey, x.mean(1, keepdim=True), x) for x in (template, detail))
    share = spread(draw.log_uniform(families, 0.06, 0.9)) * (0.2 * draw.normal(n)).exp().reshape(n, 1, 1, 1)
    here = torch.sigmoid(4 * _enlarged(draw.normal(n, 1, 4, 4), side))
    local = spread(draw.chance(families, 0.5)) > 0
    share = torch.where(local, 1.3 * here * share, share).clamp(max=0.9)
    times = spread(draw.chance(families, 0.3)) > 0
    blended = torch.where(times, template * (1 - share + 2 * share * detail), template + share * (detail - template))
    contrast = torch.where(spread(draw.chance(families, 0.4)) > 0, spread(draw.log_uniform(families, 0.25, 1)), 1.0)
    return (contrast * blended + 0.6 * (1 - contrast) * spread(draw.uniform(families))).clamp(0, 1)


def draw_copies(people: Pixels, others: Pixels, side: int, generator: torch.Generator) -> tuple[Pixels, Pixels]:
    """Make two views of each image, the second a copy.

    Args:
        people: Images of the people, [n, 3, s, s].
        others: Images of none of these people, [m, 3, s, s], which copies are blended with or set into.
        side: Side of the views in pixels, a multiple of 8.
        generator: Source of all draws.

    Returns:
        Views and copies, [n, 3, side, side] each.
    """
    draw, n = _Draws(generator), len(people)
    views = draw.photometry(_viewed(draw, people, side, strong=False), strength=0.3)
    copies = _viewed(draw, people, side, strong=True)
    backgrounds = _viewed(draw, others, side, strong=False)[draw.integers(n, len(others))]
    copies = draw.some(copies, 0.35, lambda x, rows: _composed(draw, x, backgrounds[rows]))
    copies = draw.some(copies, 0.65, lambda x, _: draw.photometry(x, strength=1.0))
    return views, copies


class _Draws:
    """Random numbers and images from one generator."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        return low + (high - low) * torch.rand(n, generator=self.generator)

    def log_uniform(self, n: int, low: float, high: float) -> torch.Tensor:
        return self.uniform(n, math.log(low), math.log(high)).exp()

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator)

    def chance(self, n: int, probability: float) -> torch.Tensor:
        return (torch.rand(n, generator=self.generator) < probability).float()

    def integers(self, n: int, below: int) -> torch.Tensor:
        return torch.randint(below, (n,), generator=self.generator)

    def pictures(self, pictures: torch.Tensor, n: int) -> Pixels:
        return pictures[self.integers(n, len(pictures))].permute(0, 3, 1, 2).float() / 255

    def bends(self, n: int, side: int, knots: int, size: torch.Tensor) -> torch.Tensor:
        """Draw smooth displacements [n, side, side, 2] of a deviation [n, 1, 1, 1], in half sides."""
        return _enlarged(self.normal(n, 2, knots, knots) * size, side).permute(0, 2, 3, 1)

    def some(self, x: Pixels, probability: float, change: Callable[[Pixels, torch.Tensor], Pixels]) -> Pixels:
        """Change some of the images by ``change``, which is called with them and their rows."""
        rows = self.chance(len(x), probability).nonzero()[:, 0]
        return x.index_copy(0, rows, change(x[rows], rows)) if len(rows) else x

    def photometry(self, x: Pixels, strength: float) -> Pixels:
        """Apply changes that leave everything in its place; ``strength`` scales probabilities and sizes."""

        def each(low: float, high: float, some: Pixels) -> torch.Tensor:
            return self.log_uniform(len(some), low, high).reshape(-1, 1, 1, 1)

        def normal(size: float, some: Pixels) -> torch.Tensor:
            return size * strength * self.normal(len(some), 1, 1, 1)

        def colours(some: Pixels, _: torch.Tensor) -> Pixels:
            mixing = torch.eye(3) + 0.12 * strength * self.normal(len(some), 3, 3)
            return torch.einsum("nij,njhw->nihw", mixing, some)

        def gradient(some: Pixels, _: torch.Tensor) -> Pixels:
            return some * _enlarged(0.25 * strength * self.normal(len(some), 1, 3, 3), some.shape[2]).exp()

        def fewer_pixels(some: Pixels, _: torch.Tensor) -> Pixels:
            side = some.shape[2]
            coarse = int(side * float(self.uniform(1, 0.4, 0.9)))
            small = F.interpolate(some, (coarse, coarse), mode="bilinear", antialias=True)
            return F.interpolate(small, (side, side), mode="bilinear")

        def noise(some: Pixels, _: torch.Tensor) -> Pixels:
            drawn = self.normal(*some.shape)
            grey = self.chance(len(some), 0.5).reshape(-1, 1, 1, 1) > 0
            return some + each(0.01, 0.25, some) * torch.where(grey, drawn[:, :1], drawn)

        x = self.some(x, 0.25 * strength, colours)
        x = self.some(x, 0.15 * strength, lambda s, _: s.mean(1, keepdim=True).expand_as(s))
        x = self.some(x, 0.4, lambda s, _: (s - 0.5) * normal(0.35, s).exp() + 0.5 + normal(0.15, s)).clamp(0, 1)
        x = self.some(x, 0.3 * strength, lambda s, _: s.clamp(min=1e-4) ** normal(0.4, s).exp())
        x = self.some(x, 0.2 * strength, gradient)
        x = self.some(x, 0.35 * strength, lambda s, _: _blurred(s, self.log_uniform(len(s), 0.4, 2.0)))
        x = self.some(x, 0.15 * strength, fewer_pixels)
        x = self.some(x, 0.35 * strength, noise).clamp(0, 1)
        return self.some(x, 0.3 * strength, lambda s, _: _jpeg(s, self.uniform(len(s), 8, 70))).clamp(0, 1)


def _viewed(draw: _Draws, x: Pixels, side: int, *, strong: bool) -> Pixels:
    """Turn, move, scale and, for copies, crop, stretch and bend images, in one resampling."""
    n = len(x)
    one = torch.ones(n)
    if strong:
        acts = draw.chance(n, 0.8)
        angle = draw.uniform(n, -30, 30) * draw.chance(n, 0.5) * acts
        form = draw.uniform(n)
        scale = torch.where(
            form < 0.6, draw.uniform(n, 0.55, 1), torch.where(form < 0.72, draw.uniform(n, 1, 1.3), one)
        )
        scale = torch.where(acts > 0, scale, one)
        aspect = (0.06 * draw.normal(n) * draw.chance(n, 0.5) * acts).exp()
    else:
        angle = draw.uniform(n, -3, 3) * draw.chance(n, 0.3)
        scale = torch.where(draw.chance(n, 0.3) > 0, draw.uniform(n, 0.95, 1.02), one)
        aspect = one
    room = (1 - scale).clamp(min=0) + 0.03 * (scale != 1)
    across, down = draw.uniform(n, -1, 1) * room, draw.uniform(n, -1, 1) * room
    cosine, sine = torch.cos(torch.deg2rad(angle)), torch.sin(torch.deg2rad(angle))
    first = torch.stack([scale * cosine * aspect, -scale * sine, across], dim=1)
    second = torch.stack([scale * sine, scale * cosine / aspect, down], dim=1)
    grid = F.affine_grid(torch.stack([first, second], dim=1), [n, 1, side, side], align_corners=False)
    if strong:
        grid = grid + draw.bends(n, side, 4, 0.02 * draw.chance(n, 0.2).reshape(n, 1, 1, 1))
    borders = ("zeros", "border", "reflection")[int(draw.integers(1, 3))]
    return F.grid_sample(x, grid, mode="bilinear", padding_mode=borders, align_corners=False)


def _composed(draw: _Draws, x: Pixels, others: Pixels) -> Pixels:
    """Blend each image with another, set it into one, cover it in part, or frame it by a round field: one of these."""
    n, side = len(x), x.shape[2]
    weight = draw.uniform(n, 0.5, 0.85).reshape(n, 1, 1, 1)
    blended = weight * x + (1 - weight) * others
    window = _boxes(draw, n, side, 0.5, 0.9)
    pasted = window * x + (1 - window) * others
    cover = _boxes(draw, n, side, 0.1, 0.5)
    flat = draw.uniform(n).reshape(n, 1, 1, 1).expand_as(x)
    covered = torch.where(cover > 0, torch.where(draw.chance(n, 0.5).reshape(n, 1, 1, 1) > 0, flat, others), x)
    radius = _grid(n, side).square().sum(3).sqrt()[:, None]
    framed = x * (radius < draw.uniform(n, 0.75, 1.2).reshape(n, 1, 1, 1))
    form = draw.uniform(n).reshape(n, 1, 1, 1)
    return torch.where(
        form < 0.25, blended, torch.where(form < 0.55, pasted, torch.where(form < 0.87, covered, framed))
    )


def _boxes(draw: _Draws, n: int, side: int, low: float, high: float) -> torch.Tensor:
    """Draw [n, 1, side, side] of ones in a box whose sides are ``low`` to ``high`` of the image's, zeros elsewhere."""
    inside = []
    for _ in range(2):
        length = draw.uniform(n, low, high) * side
        start = draw.uniform(n) * (side - length)
        places = torch.arange(side)
        inside.append((places >= start[:, None]) & (places < (start + length)[:, None]))
    return (inside[0][:, None, :, None] & inside[1][:, None, None, :]).float()


def _grid(n: int, side: int) -> torch.Tensor:
    """Return the places of the pixels, [n, side, side, 2], from -1 to 1."""
    return F.affine_grid(torch.eye(2, 3).expand(n, 2, 3), [n, 1, side, side], align_corners=False)


def _sampled(x: Pixels, grid: torch.Tensor) -> Pixels:
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def _enlarged(x: torch.Tensor, side: int) -> torch.Tensor:
    return F.interpolate(x, (side, side), mode="bicubic", align_corners=True)


def _blurred(x: Pixels, deviation: torch.Tensor) -> Pixels:
    """Blur by a Gaussian of one deviation per image, at most 2 pixels, borders reflected."""
    n, channels, height, width = x.shape
    kernel = (-0.5 * (torch.arange(-4.0, 5.0) / deviation[:, None]).square()).exp()
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(channels, 0)[:, None]
    x = x.reshape(1, n * channels, height, width)
    x = F.conv2d(F.pad(x, (4, 4, 0, 0), mode="reflect"), kernel[:, :, None, :], groups=n * channels)
    x = F.conv2d(F.pad(x, (0, 0, 4, 4), mode="reflect"), kernel[:, :, :, None], groups=n * channels)
    return x.reshape(n, channels, height, width)


def _jpeg(x: Pixels, quality: torch.Tensor) -> Pixels:
    """Round the 8 x 8 cosines of each channel as JPEG does at a quality [n]; the colours are not subsampled."""
    n, channels, height, width = x.shape
    scale = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality) / 100
    steps = (_LUMINANCE * scale.reshape(n, 1, 1)).clamp(1, 255).reshape(n, 1, 1, 1, 8, 8)
    blocks = x.reshape(n, channels, height // 8, 8, width // 8, 8).permute(0, 1, 2, 4, 3, 5) * 255 - 128
    rounded = torch.round(_DCT @ blocks @ _DCT.T / steps) * steps
    restored = (_DCT.T @ rounded @ _DCT + 128) / 255
    return restored.permute(0, 1, 2, 4, 3, 5).reshape(n, channels, height, width)
