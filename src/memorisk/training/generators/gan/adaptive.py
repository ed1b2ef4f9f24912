"""The probability of an augmentation, steered by how much the discriminator overfits.

Karras et al. 2020, "Training generative adversarial networks with limited data", section 3: r_t = E[sign(D(real))] is
about 0 for a discriminator that cannot tell and 1 for one that knows its images. Every 4 steps the probability goes up
where r_t is above the target, down where it is below, as fast as takes it from 0 to 1 in so many images. It ends at
0.8, below which augmentations do not leak into what is drawn.
"""

import torch

from memorisk.training.generators.gan.options import SAFE_PROBABILITY, GanSettings

EVERY = 4
"""Steps."""


class Adaptive:
    """The probability and what it is steered by.

    Args:
        settings: ``gan_augment`` and what belongs to it.
        device: Of the logits.
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
        """Of each transformation now."""
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
        """After a step, the ``step``-th from 0: every fourth moves the probability."""
        if (step + 1) % EVERY:
            return
        total, seen = self.state["signs"].tolist()
        self.state["signs"].zero_()
        r_t, how = total / seen, self.settings
        self.state["r_t"].fill_(r_t)
        if how.gan_augment == "ada":
            direction = (r_t > how.gan_augment_target) - (r_t < how.gan_augment_target)
            moved = self.p + direction * seen / how.gan_augment_images
            self.state["probability"].fill_(min(max(moved, 0.0), SAFE_PROBABILITY))
