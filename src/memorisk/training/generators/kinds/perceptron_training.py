"""Training of the small diffusion network of `models.generators.perceptron`, step by step.

The loss is the mean squared error of the predicted noise at a time drawn evenly from 1,000 (Ho et al. 2020, equation
14), the optimiser AdamW, its rate rising over 100 steps and falling to 0 by a cosine. Order, times and noise are
functions of (seed, step) alone (`batches.StepPlan`), so that twins differ in their images and in nothing else, and a
killed training continues to the same bytes.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from memorisk.models.generators.perceptron import TIMES, NoisePerceptron, linear_schedule
from memorisk.training.engine.step_loop import StepLoop
from memorisk.training.generators.batches import RowImages, StepPlan, draw_noise

WARMUP = 100


class PerceptronLoop(StepLoop):
    """Training of one network between two updates.

    Args:
        network: Network on its device; trained in place.
        images: Images of the training rows.
        plan: Images and draws of each step.
        steps: Number of steps.
        lr: Largest learning rate.
        flip: Whether half of the images are mirrored.
    """

    def __init__(
        self, network: NoisePerceptron, images: RowImages, plan: StepPlan, *, steps: int, lr: float, flip: bool
    ) -> None:
        super().__init__()
        self.network, self.images, self.plan = network.train(), images, plan
        self.steps, self.lr, self.flip = steps, lr, flip
        self.device = next(network.parameters()).device
        share = linear_schedule()
        self.signal, self.spread = (root.sqrt().float().to(self.device) for root in (share, 1 - share))
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=0.0, fused=True)
        self.losses = torch.zeros((steps, 1), dtype=torch.float64, device=self.device)
        self.state = {**network.state_dict(), "step_losses": self.losses}

    @property
    def remedy(self) -> str:
        """Advice against losses that are not finite."""
        return f"lower the learning rate ({self.lr:g})"

    def inputs(self, steps: range) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield images, noise and times of each step."""
        slots, draws = [self.plan.slots(step) for step in steps], [self.plan.draw(step) for step in steps]
        flips = [draw.flip for draw in draws] if self.flip else None
        for x, draw in zip(self.images.batches(slots, flips), draws, strict=True):
            yield x, draw_noise(draw.seed, tuple(x.shape), self.device), draw.times.to(self.device)

    def _update(self, inputs: tuple[torch.Tensor, ...]) -> None:
        """Make one update of the weights."""
        x, noise, times = inputs
        shape = (-1, *[1] * (x.ndim - 1))
        x_t = self.signal[times].view(shape) * x + self.spread[times].view(shape) * noise
        loss = F.mse_loss(self.network(x_t, times), noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        rise, fall = min(1.0, (self.step + 1) / WARMUP), 0.5 * (1 + math.cos(math.pi * self.step / self.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * rise * fall
        self.optimizer.step()
        self.losses[self.step] = loss.detach()


def perceptron_plan(seed: int, n: int, batch_size: int, slots: int) -> StepPlan:
    """Return images and draws of each step of a training.

    Args:
        seed: Random seed of the training.
        n: Number of training rows.
        batch_size: Number of images per step.
        slots: Number of places in a pass; more than rows where the twin has more.
    """
    return StepPlan(seed, n, batch_size, drop=0.0, times=TIMES, slots=slots)
