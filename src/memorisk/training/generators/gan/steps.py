"""What is random in a step of a GAN's training: a function of (seed, step, phase) alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from memorisk.models.generators.stylegan2.spec import GanSpec
from memorisk.training.generators.gan.augment import Drawn, draw

GENERATOR, PATH, DISCRIMINATOR, R1 = range(4)
"""Phases of a step."""
_PHASES = 3  # beside order, step seeds, and the draws of `training.generators.diffusion.steps`


@dataclass(frozen=True, eq=False)
class Latents:
    """What images are drawn from.

    Attributes:
        z: [2, b, style] of the first and of the second style.
        second: [b, n, 1] bool, which layers take the second.
        noises: Of each layer, [b, 1, s, s].
    """

    z: torch.Tensor
    second: torch.Tensor
    noises: Sequence[torch.Tensor]


class PhaseDraws:
    """The draws of one phase, in the order in which they are asked for.

    Small ones are drawn on the CPU, noise on the device.

    Args:
        seed: Of the training.
        step: From 0.
        phase: One of the four.
        device: Where they are needed.
    """

    def __init__(self, seed: int, step: int, phase: int, device: torch.device) -> None:
        state = np.random.SeedSequence(seed, spawn_key=(_PHASES, step, phase)).generate_state(2, np.uint64)
        first, second = (state >> np.uint64(1)).tolist()
        self.device = device
        self._small = torch.Generator().manual_seed(first)
        self._large = torch.Generator(device).manual_seed(second)

    def noise(self, *shape: int) -> torch.Tensor:
        """Normal numbers on the device."""
        return torch.randn(shape, generator=self._large, device=self.device)

    def latents(self, spec: GanSpec, b: int, mixing: float) -> Latents:
        """Of some images.

        Args:
            spec: Of the networks.
            b: Images.
            mixing: Probability that an image is of two styles, from a layer on that is drawn evenly.
        """
        z = torch.randn(2, b, spec.style, generator=self._small)
        mixed = torch.rand(b, 1, generator=self._small) < mixing
        begin = torch.randint(1, spec.styles, (b, 1), generator=self._small)
        second = mixed & (torch.arange(spec.styles) >= begin)
        noises = [self.noise(b, 1, side, side) for side in spec.noise_sides]
        return Latents(z.to(self.device), second[..., None].to(self.device), noises)

    def augmentation(self, b: int, p: float, letters: str, side: int) -> Drawn:
        """Of some images, as `memorisk.training.generators.gan.augment.draw`."""
        return draw(b, p, self._small, letters=letters, side=side).to(self.device)
