"""A small diffusion network: residual layers over all pixels of an image, for images of a few hundred pixels.

It predicts the noise of a noised image (Ho et al. 2020) and learns digits of 8 x 8 pixels in half a minute on one core,
where a diffusion transformer needs minutes. Each layer adds to its input

    W_2 silu(W_1 norm(h) + W_t e(t)),    e(t) = silu(W_e [sin(t f), cos(t f)]).

The noise schedule is the linear one of Ho et al. (2020, section 4), over 1,000 times.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.denoiser import Denoiser

WIDTH, DEPTH = 256, 3
TIMES = 1000
_BETA = (1e-4, 0.02)
_WAVES = 32
_LONGEST = 10_000


class _Layer(nn.Module):
    """One residual layer.

    Args:
        width: Width of the network.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.time, self.second = (nn.Linear(width, width) for _ in range(3))

    def forward(self, hidden: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Add the layer to its input, [b, width]."""
        return hidden + self.second(F.silu(self.first(self.norm(hidden)) + self.time(time)))


class NoisePerceptron(nn.Module):
    """Network that predicts the noise of images, by layers over all of their pixels.

    Args:
        pixels: Number of values of an image, C H W.
        width: Width of the layers.
        depth: Number of layers.
    """

    def __init__(self, pixels: int, *, width: int = WIDTH, depth: int = DEPTH) -> None:
        super().__init__()
        self.enter, self.time = nn.Linear(pixels, width), nn.Linear(2 * _WAVES, width)
        self.layers = nn.ModuleList(_Layer(width) for _ in range(depth))
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, pixels)
        waves = torch.exp(-math.log(_LONGEST) * torch.arange(_WAVES) / _WAVES)
        self.waves: torch.Tensor
        self.register_buffer("waves", waves, persistent=False)

    def forward(self, x: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        """Predict the noise, shaped as the images.

        Args:
            x: Noised images, [b, ...].
            timestep: Times from 0, [b].
        """
        phase = timestep[:, None].float() * self.waves
        time = F.silu(self.time(torch.cat([phase.sin(), phase.cos()], dim=1)))
        hidden = self.enter(x.flatten(1))
        for layer in self.layers:
            hidden = layer(hidden, time)
        return self.leave(self.norm(hidden)).view_as(x)


def new_perceptron(pixels: int, seed: int) -> NoisePerceptron:
    """Build a network with random weights, a function of the seed alone.

    Args:
        pixels: Number of values of an image.
        seed: Random seed of the weights.
    """
    with seeded(seed):
        return NoisePerceptron(pixels)


def linear_schedule() -> torch.Tensor:
    """Return alpha_bar, the share of the image in the variance at each time, [1000] float64."""
    beta = torch.linspace(*_BETA, TIMES, dtype=torch.float64)
    return torch.cumprod(1 - beta, dim=0)


def perceptron_denoiser(network: NoisePerceptron) -> Denoiser:
    """Wrap a network by the schedule of its training.

    Args:
        network: Network in its place.
    """
    return Denoiser(network, linear_schedule())
