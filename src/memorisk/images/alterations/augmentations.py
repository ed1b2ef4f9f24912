"""Operations that augment the copies in the training of LCMem (paper 004, stage 2); their strengths are drawn.

Rotation is uniform to 20 degrees either way, the quality of JPEG uniform from 10 to 95 (appendix B of the paper). The
paper gives no ranges for the others, and its released configuration had the identity for brightness and contrast; here
blur is log-uniform from 0.1 to 6 pixels, noise uniform to 0.3, brightness and contrast log-uniform from one half to 2,
as in the test copies (`images.alterations.graded`).

A function makes the copies of the `Augmentation` that has its name: of images [b, C, H, W] in [0, 1], a draw for each
that is uniform in [0, 1), and a generator, both on the CPU, so that copies are the same on every device.
"""

from math import log

import torch

from memorisk.images.alterations import operations

_SMALLEST_BLUR, _LARGEST_BLUR = log(0.1), log(6.0)


def rotate(x: torch.Tensor, uniform: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Rotate by at most 20 degrees either way."""
    return operations.rotate(x, ((2 * uniform - 1) * 20.0).to(x.device))


def flip(x: torch.Tensor, uniform: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror left to right."""
    return operations.mirror(x)


def blur(x: torch.Tensor, uniform: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Blur by 0.1 to 6 pixels."""
    sigma = (_SMALLEST_BLUR + uniform * (_LARGEST_BLUR - _SMALLEST_BLUR)).exp()
    return operations.blur(x, sigma.to(x.device))


def noise(x: torch.Tensor, uniform: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Add Gaussian noise of a standard deviation of at most 0.3."""
    normal = torch.randn(tuple(x.shape), generator=generator, dtype=torch.float32).to(x.device, x.dtype)
    return operations.noise(x, uniform * 0.3, normal)


def brightness(x: torch.Tensor, uniform: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Multiply pixels by one half to 2."""
    return operations.brightness(x, _factor(uniform))


def contrast(x: torch.Tensor, uniform: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Multiply the distance to the mean grey by one half to 2."""
    return operations.contrast(x, _factor(uniform))


def jpeg(x: torch.Tensor, uniform: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Write as JPEG of a quality from 10 to 95 and read again."""
    return operations.jpeg(x, (10 + uniform * 86).floor())


def _factor(uniform: torch.Tensor) -> torch.Tensor:
    """Return factors from one half to 2, log-uniform."""
    return ((2 * uniform - 1) * log(2.0)).exp()
