"""Networks of StyleGAN2: mapping, synthesis with skips to the image, and a residual discriminator.

Karras et al. 2020, "Analyzing and improving the image quality of StyleGAN", section 4.1 and appendix B; widths and
depth of the mapping are arguments, smaller by default (`memorisk.training.generators.gan.options`). Written from the
paper.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from memorisk.models.generators.stylegan2.layers import EqualConv, EqualLinear, StyledConv, ToImage, enlarge, low_pass
from memorisk.models.generators.stylegan2.spec import GanSpec

_START = 4
_MAPPING_RATE = 0.01
_AVERAGE = 0.995
_GROUP = 4
_EPS = 1e-8
_HALF = math.sqrt(0.5)


class Mapping(nn.Module):
    """From z to w, with the running mean of w for truncation."""

    average: torch.Tensor

    def __init__(self, spec: GanSpec):
        super().__init__()
        n, style = spec.mapping_layers, spec.style
        layers = [EqualLinear(style, style, rate=_MAPPING_RATE, active=True) for _ in range(n)]
        self.layers = nn.Sequential(*layers)
        self.register_buffer("average", torch.zeros(spec.style))

    def forward(self, z: torch.Tensor, *, truncation: float = 1.0) -> torch.Tensor:
        """[b, style] to [b, style], float32: z is brought to a mean square of 1 first.

        Args:
            z: Normal numbers.
            truncation: w = mean + truncation (w - mean).
        """
        with torch.autocast(z.device.type, enabled=False):
            w = self.layers(z * (z.square().mean(dim=1, keepdim=True) + _EPS).rsqrt())
        return w if truncation == 1 else self.average + truncation * (w - self.average)

    @torch.no_grad()
    def follow(self, w: torch.Tensor) -> None:
        """Move the running mean towards that of a batch."""
        self.average.lerp_(w.detach().mean(dim=0), 1 - _AVERAGE)


class Synthesis(nn.Module):
    """Styles and noise to an image: from a learnt 4 x 4 tensor, each block adding to the enlarged image before it."""

    low_pass: torch.Tensor

    def __init__(self, spec: GanSpec):
        super().__init__()
        widths = [spec.width(side) for side in spec.sides]
        self.start = nn.Parameter(torch.randn(1, widths[0], _START, _START))
        convs = [StyledConv(widths[0], widths[0], spec.style)]
        for before, width in pairwise(widths):
            convs += [StyledConv(before, width, spec.style, up=True), StyledConv(width, width, spec.style)]
        self.convs = nn.ModuleList(convs)
        self.images = nn.ModuleList([ToImage(width, spec.channels, spec.style) for width in widths])
        self.register_buffer("low_pass", low_pass(), persistent=False)

    def forward(self, styles: torch.Tensor, noises: Sequence[torch.Tensor]) -> torch.Tensor:
        """An image of each row.

        Args:
            styles: [b, n, style], as many w as `GanSpec.styles`.
            noises: [b, 1, s, s] of each layer, as `GanSpec.noise_sides`.

        Returns:
            [b, channels, size, size] float32, about -1 to 1.
        """
        x = self.convs[0](self.start.expand(len(styles), -1, -1, -1), styles[:, 0], noises[0])
        image = self.images[0](x, styles[:, 1])
        for k, to_image in enumerate(list(self.images)[1:]):
            first = 2 * k + 1
            x = self.convs[first](x, styles[:, first], noises[first])
            x = self.convs[first + 1](x, styles[:, first + 1], noises[first + 1])
            image = enlarge(image, self.low_pass) + to_image(x, styles[:, first + 2])
        return image


class GeneratorNetwork(nn.Module):
    """Mapping and synthesis."""

    def __init__(self, spec: GanSpec):
        super().__init__()
        self.spec = spec
        self.mapping, self.synthesis = Mapping(spec), Synthesis(spec)

    def forward(self, z: torch.Tensor, noises: Sequence[torch.Tensor], *, truncation: float = 1.0) -> torch.Tensor:
        """Latents z [b, style] and noises to images [b, channels, size, size], about -1 to 1."""
        w = self.mapping(z, truncation=truncation)
        return self.synthesis(w[:, None].expand(-1, self.spec.styles, -1), noises)


class DiscriminatorBlock(nn.Module):
    """Half the side: two convolutions beside a 1 x 1 one, their sum over sqrt(2)."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.first = EqualConv(inputs, inputs, 3)
        self.second = EqualConv(inputs, outputs, 3, down=True)
        self.skip = EqualConv(inputs, outputs, 1, down=True, active=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, inputs, h, w] to [b, outputs, h / 2, w / 2]."""
        return (self.second(self.first(x)) + self.skip(x)) * _HALF


class Discriminator(nn.Module):
    """Images to logits: above 0 what looks real."""

    def __init__(self, spec: GanSpec):
        super().__init__()
        sides = spec.sides[::-1]
        widths = [spec.width(side) for side in sides]
        self.start = EqualConv(spec.channels, widths[0], 1)
        self.blocks = nn.ModuleList([DiscriminatorBlock(i, o) for i, o in pairwise(widths)])
        self.last = EqualConv(widths[-1] + 1, widths[-1], 3)
        self.dense = EqualLinear(widths[-1] * _START**2, widths[-1], active=True)
        self.logit = EqualLinear(widths[-1], 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[b, channels, size, size] to [b] float32."""
        x = self.start(images)
        for block in self.blocks:
            x = block(x)
        x = self.last(with_deviation(x))
        return self.logit(self.dense(x.flatten(1))).float()[:, 0]


def with_deviation(x: torch.Tensor) -> torch.Tensor:
    """One more channel: how much images of a group differ (Karras et al. 2018, section 3).

    Groups are of 4 images, or the largest smaller number that divides the batch; the standard deviation over the group
    of each number, averaged over all of them, stands at every pixel of the group's images.

    Args:
        x: [b, c, h, w].

    Returns:
        [b, c + 1, h, w].
    """
    b, _, h, w = x.shape
    group = next(n for n in range(min(_GROUP, b), 0, -1) if b % n == 0)
    grouped = x.float().unflatten(0, (group, b // group))
    deviation = (grouped.var(dim=0, correction=0) + _EPS).sqrt().mean(dim=(1, 2, 3))
    return torch.cat([x, deviation.to(x.dtype).repeat(group)[:, None, None, None].expand(b, 1, h, w)], dim=1)
