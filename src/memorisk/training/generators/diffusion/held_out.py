"""The loss of a diffusion model on images that it is not trained on, comparable from one look to the next.

Noise and times are the same at every look, and the times are spread evenly over the images, so that what changes is the
model. It rises while the training loss falls where a generator begins to remember.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from memorisk.models.generators.dit.network import DiTSpec, null_labels
from memorisk.training.engine.devices import exact_products
from memorisk.training.generators.diffusion.conditions import class_labels
from memorisk.training.generators.diffusion.images import ShownImages
from memorisk.training.generators.diffusion.loss import TIMES, DiffusionLoss
from memorisk.training.generators.diffusion.steps import draw_noise
from memorisk.training.generators.rows import Told

_DRAWS = 3  # beside those of the steps


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Validation images with their noise.

    Attributes:
        images: Of them.
        slots: [m] int64, those that are measured.
        labels: [m] or [m, k], what the network is told of them.
        times: [m] int64.
        seed: Of the noise.
    """

    images: ShownImages
    slots: torch.Tensor
    labels: torch.Tensor
    times: torch.Tensor
    seed: int

    @classmethod
    def of(cls, images: ShownImages, told: Told, spec: DiTSpec, *, drop: float, seed: int) -> "HeldOut":
        """Those of a training.

        An image of a class that the generator does not know, and every image where it is told vectors, counts without a
        condition; where no condition was ever dropped, that means nothing to it, and they are left out.

        Args:
            images: The validation images.
            told: What the generator is told of images.
            spec: Of the network.
            drop: Share of the training rows that lose their condition.
            seed: Of the training.
        """
        numbers = np.zeros(0, dtype=np.int64) if told.held_out is None else told.held_out
        device = images.source.device
        if told.conditioned_on == "none":
            labels = torch.zeros(len(numbers), dtype=torch.int64, device=device)
        elif told.conditioned_on == "class":
            labels = class_labels(numbers, null_labels(spec, 1, device))
        else:
            labels = null_labels(spec, len(numbers), device)
        known = known_held_out(told, drop)
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_DRAWS,)))
        even = (generator.permutation(len(known)) + generator.random(len(known))) * TIMES / max(1, len(known))
        times = torch.from_numpy(np.minimum(even, TIMES - 1).astype(np.int64))
        slots = torch.from_numpy(known)
        return cls(images, slots, labels[slots.to(device)], times, int(generator.integers(1 << 62)))

    def loss(self, network: Any, loss: DiffusionLoss, block: int) -> float | None:
        """Mean squared error of the noise, in full precision; None without images.

        Args:
            network: In evaluation mode.
            loss: Of the training; its first term counts.
            block: Images at a time; the noise depends on it.
        """
        if not len(self.slots):
            return None
        total, device = 0.0, self.labels.device
        parts = zip(self.slots.split(block), self.times.split(block), self.labels.split(block), strict=True)
        blocks = list(parts)
        with torch.inference_mode(), exact_products(device):
            batches = self.images.batches([slots for slots, _, _ in blocks])
            for number, (x, (_, times, labels)) in enumerate(zip(batches, blocks, strict=True)):
                t = times.to(device)
                noise = draw_noise(self.seed + number, tuple(x.shape), device)
                output = network(loss.noised(x, noise, t), timestep=t, class_labels=labels, return_dict=False)[0]
                total += float(loss.noise_error(output, noise).double().sum())
        return total / len(self.slots)


def known_held_out(told: Told, drop: float) -> np.ndarray:
    """[k] places of the validation images that are measured; all but those without a condition that means anything.

    Args:
        told: What the generator is told of images.
        drop: Share of the training rows that lose their condition.
    """
    numbers = np.zeros(0, dtype=np.int64) if told.held_out is None else told.held_out
    return np.flatnonzero((numbers >= 0) | (told.conditioned_on == "none") | (drop > 0))
