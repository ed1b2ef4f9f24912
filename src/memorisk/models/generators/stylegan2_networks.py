"""Networks of StyleGAN2 and their layers: mapping, synthesis with skips to the image, residual discriminator.

The networks are those of Karras et al. 2020, "Analyzing and improving the image quality of StyleGAN", section 4.1 and
appendix B; widths and depth of the mapping are arguments, smaller by default
(`memorisk.training.generators.options`). Written from the paper.

The learning rate is equalised: weights are kept at a deviation of 1 and scaled by 1 / sqrt(fan-in) when they are used,
so that Adam moves all layers at one pace. Every operation has a second derivative, which R1 and the path length penalty
need.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from memorisk.models.settings import GanSpec

_SLOPE = 0.2
_GAIN = math.sqrt(2)  # keeps the variance of what a leaky ReLU halves
_CLAMP = 256.0
_EPS = 1e-8
_START = 4
_MAPPING_RATE = 0.01
_AVERAGE = 0.995
_GROUP = 4
_HALF = math.sqrt(0.5)


def activate(x: torch.Tensor) -> torch.Tensor:
    """Apply a leaky ReLU of slope 0.2 times sqrt(2), held below 256 in 16-bit floats, which end at 65504."""
    x = F.leaky_relu(x, _SLOPE) * _GAIN
    return x.clamp(-_CLAMP, _CLAMP) if x.dtype == torch.float16 else x


def low_pass() -> torch.Tensor:
    """Return the filter [1, 3, 3, 1] in both directions, of sum 1: [1, 1, 4, 4]."""
    line = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    return (line[:, None] * line)[None, None]


def smooth(x: torch.Tensor, kernel: torch.Tensor, *, padding: int, stride: int = 1) -> torch.Tensor:
    """Apply the filter to each channel, with zeros around it.

    Args:
        x: Input of the filter, [b, c, h, w].
        kernel: Weights of the filter, [1, 1, 4, 4].
        padding: Number of zeros on each side.
        stride: Stride of the output.
    """
    channels = x.shape[1]
    return F.conv2d(x, kernel.to(x.dtype).expand(channels, 1, -1, -1), padding=padding, stride=stride, groups=channels)


def enlarge(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Double the side: zeros between the pixels, then the filter times 4. [b, c, h, w] to [b, c, 2h, 2w]."""
    channels = x.shape[1]
    weight = (4 * kernel).to(x.dtype).expand(channels, 1, -1, -1)
    return F.conv_transpose2d(x, weight, stride=2, padding=1, groups=channels)


def modulated_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    style: torch.Tensor,
    *,
    demodulate: bool = True,
    kernel: torch.Tensor | None = None,
) -> torch.Tensor:
    """Convolve each image with weights of its own (section 2.2).

    w'_oik = s_i w_oik, and with demodulation w''_oik = w'_oik / sqrt(sum_ik w'_oik^2 + 1e-8). The function scales its
    input
    and its output, which gives the same product as a grouped convolution with b sets of weights, and is faster on a
    CPU.

    Args:
        x: Input of the layer, [b, i, h, w].
        weight: Weights of the layer, [o, i, k, k], k odd.
        style: Style of each image, [b, i] float32.
        demodulate: Whether outputs are brought back to a deviation of 1.
        kernel: Low-pass filter; with it the output has twice the side.
    """
    scale = None
    with torch.autocast(x.device.type, enabled=False):
        if demodulate:
            if x.dtype == torch.float16:  # the largest factor is 1: nothing overflows, and demodulation undoes it
                style = style / style.abs().amax(dim=1, keepdim=True).clamp_min(_EPS)
            scale = (style.square() @ weight.square().sum(dim=(2, 3)).t() + _EPS).rsqrt()
    x = x * style.to(x.dtype)[:, :, None, None]
    if kernel is None:
        x = F.conv2d(x, weight, padding=weight.shape[-1] // 2)
    else:
        x = smooth(F.conv_transpose2d(x, weight.transpose(0, 1), stride=2), 4 * kernel, padding=1)
    return x if scale is None else x * scale.to(x.dtype)[:, :, None, None]


class EqualLinear(nn.Module):
    """A linear layer with equalised learning rate.

    Args:
        inputs: Number of inputs.
        outputs: Number of outputs.
        bias: Initial value of the bias.
        rate: Factor of the learning rate of weight and bias.
        active: Whether `activate` follows.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: float = 0.0, rate: float = 1.0, active: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / rate)
        self.bias = nn.Parameter(torch.full((outputs,), bias / rate))
        self.scale, self.rate, self.active = rate / math.sqrt(inputs), rate, active

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, inputs] to [b, outputs]."""
        x = F.linear(x, self.weight * self.scale, self.bias * self.rate)
        return activate(x) if self.active else x


class EqualConv(nn.Module):
    """A convolution of the discriminator with equalised learning rate, of the same side or half of it.

    Args:
        inputs: Number of input channels.
        outputs: Number of output channels.
        kernel: Side of its weights, 1 or 3.
        down: Whether the low-pass filter and a stride of 2 halve the side.
        active: Whether it has a bias and `activate` follows.
    """

    low_pass: torch.Tensor

    def __init__(self, inputs: int, outputs: int, kernel: int, *, down: bool = False, active: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs)) if active else None
        self.scale, self.down = 1 / math.sqrt(inputs * kernel**2), down
        self.register_buffer("low_pass", low_pass(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, inputs, h, w] to [b, outputs, h, w], or half of each side."""
        weight, pointwise = self.weight * self.scale, self.weight.shape[-1] == 1
        if not self.down:
            x = F.conv2d(x, weight, self.bias, padding=weight.shape[-1] // 2)
        elif pointwise:
            x = F.conv2d(smooth(x, self.low_pass, padding=1, stride=2), weight, self.bias)
        else:
            x = F.conv2d(smooth(x, self.low_pass, padding=2), weight, self.bias, stride=2)
        return x if self.bias is None else activate(x)


class StyledConv(nn.Module):
    """A layer of the synthesis network: modulated 3 x 3 convolution, noise of a learnt strength, bias, activation.

    Args:
        inputs: Number of input channels.
        outputs: Number of output channels.
        style: Length of w.
        up: Whether the side doubles.
    """

    low_pass: torch.Tensor

    def __init__(self, inputs: int, outputs: int, style: int, *, up: bool = False):
        super().__init__()
        self.affine = EqualLinear(style, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.strength = nn.Parameter(torch.zeros(()))
        self.scale, self.up = 1 / math.sqrt(inputs * 9), up
        self.register_buffer("low_pass", low_pass(), persistent=False)

    def forward(self, x: torch.Tensor, w: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Map [b, inputs, h, w], with w [b, style] and noise [b, 1, h', w'], to [b, outputs, h', w']."""
        with torch.autocast(x.device.type, enabled=False):
            style = self.affine(w.float())
        x = modulated_conv(x, self.weight * self.scale, style, kernel=self.low_pass if self.up else None)
        return activate(x + (noise * self.strength).to(x.dtype) + self.bias.to(x.dtype)[:, None, None])


class ToImage(nn.Module):
    """Features to their part of the image: a modulated 1 x 1 convolution without demodulation, and a bias.

    Args:
        inputs: Number of input channels.
        channels: Number of channels of the image.
        style: Length of w.
    """

    def __init__(self, inputs: int, channels: int, style: int):
        super().__init__()
        self.affine = EqualLinear(style, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.randn(channels, inputs, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.scale = 1 / math.sqrt(inputs)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """Map [b, inputs, h, w], with w [b, style], to [b, channels, h, w] float32."""
        with torch.autocast(x.device.type, enabled=False):
            style = self.affine(w.float())
        return modulated_conv(x, self.weight * self.scale, style, demodulate=False).float() + self.bias[:, None, None]


class Mapping(nn.Module):
    """Mapping from z to w, with the running mean of w for truncation."""

    average: torch.Tensor

    def __init__(self, spec: GanSpec):
        super().__init__()
        n, style = spec.mapping_layers, spec.style
        layers = [EqualLinear(style, style, rate=_MAPPING_RATE, active=True) for _ in range(n)]
        self.layers = nn.Sequential(*layers)
        self.register_buffer("average", torch.zeros(spec.style))

    def forward(self, z: torch.Tensor, *, truncation: float = 1.0) -> torch.Tensor:
        """Map [b, style] to [b, style], float32; z is scaled to a mean square of 1 first.

        Args:
            z: Normal random numbers.
            truncation: Factor of the truncation, w = mean + truncation (w - mean).
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
        """Synthesise an image of each row.

        Args:
            styles: Styles of the images, [b, n, style], with n of `GanSpec.styles`.
            noises: Noise of each layer, [b, 1, s, s], with s of `GanSpec.noise_sides`.

        Returns:
            Images [b, channels, size, size] float32, about -1 to 1.
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
    """Networks of mapping and synthesis together."""

    def __init__(self, spec: GanSpec):
        super().__init__()
        self.spec = spec
        self.mapping, self.synthesis = Mapping(spec), Synthesis(spec)

    def forward(self, z: torch.Tensor, noises: Sequence[torch.Tensor], *, truncation: float = 1.0) -> torch.Tensor:
        """Map latents z [b, style] and noises to images [b, channels, size, size], about -1 to 1."""
        w = self.mapping(z, truncation=truncation)
        return self.synthesis(w[:, None].expand(-1, self.spec.styles, -1), noises)


class DiscriminatorBlock(nn.Module):
    """Block that halves the side: two convolutions and a parallel 1 x 1 one, their sum over sqrt(2)."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.first = EqualConv(inputs, inputs, 3)
        self.second = EqualConv(inputs, outputs, 3, down=True)
        self.skip = EqualConv(inputs, outputs, 1, down=True, active=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, inputs, h, w] to [b, outputs, h / 2, w / 2]."""
        return (self.second(self.first(x)) + self.skip(x)) * _HALF


class Discriminator(nn.Module):
    """Discriminator from images to logits, which are above 0 for images that look real."""

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
        """Map [b, channels, size, size] to [b] float32."""
        x = self.start(images)
        for block in self.blocks:
            x = block(x)
        x = self.last(append_deviation(x))
        return self.logit(self.dense(x.flatten(1))).float()[:, 0]


def append_deviation(x: torch.Tensor) -> torch.Tensor:
    """Append one channel: how much images of a group differ (Karras et al. 2018, section 3).

    Groups are of 4 images, or the largest smaller number that divides the batch. Every pixel of the group's images has
    the
    standard deviation over the group of each number, averaged over all numbers.

    Args:
        x: Features of the images, [b, c, h, w].

    Returns:
        Features with the further channel, [b, c + 1, h, w].
    """
    b, _, h, w = x.shape
    group = next(n for n in range(min(_GROUP, b), 0, -1) if b % n == 0)
    grouped = x.float().unflatten(0, (group, b // group))
    deviation = (grouped.var(dim=0, correction=0) + _EPS).sqrt().mean(dim=(1, 2, 3))
    return torch.cat([x, deviation.to(x.dtype).repeat(group)[:, None, None, None].expand(b, 1, h, w)], dim=1)
