"""The steps of a diffusion training: what is alive while it runs, and one update after the other."""

import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Protocol

import numpy as np
import torch

from memorisk.models.autoencoders.autoencoders import quiet_diffusers
from memorisk.runs.errors import MemoriskError
from memorisk.training.engine.checkpoint import Checkpoint, Progress, load_checkpoint, save_checkpoint
from memorisk.training.generators.diffusion.images import ShownImages
from memorisk.training.generators.diffusion.loss import DiffusionLoss
from memorisk.training.generators.diffusion.steps import StepPlan, draw_noise
from memorisk.training.generators.options import GeneratorOptions

_AT_ONCE = 100  # steps whose batches are asked for together, and after which their losses are looked at


class Conditions(Protocol):
    """What the network is told of the rows of a batch."""

    def __call__(self, slots: torch.Tensor, drop: torch.Tensor) -> torch.Tensor:
        """Labels [b] or vectors [b, k] on the device, those in ``drop`` without a condition."""
        ...


class DiffusionLoop:
    """A training between two updates.

    Args:
        network: On its device; trained in place.
        accelerator: An `accelerate.Accelerator`.
        images: Of the training rows.
        told: Of the training rows.
        loss: What is learnt from.
        plan: Which images stand in which step.
        share: Which rows of a batch this process takes.
        options: How.
    """

    def __init__(
        self,
        network: Any,
        accelerator: Any,
        images: ShownImages,
        told: Conditions,
        loss: DiffusionLoss,
        plan: StepPlan,
        share: slice,
        options: GeneratorOptions,
    ) -> None:
        with quiet_diffusers():
            from diffusers.training_utils import EMAModel
        self.images, self.told, self.loss, self.plan = images, told, loss, plan
        self.accelerator, self.share, self.options = accelerator, share, options
        self.device = next(network.parameters()).device
        self.averaged = deepcopy(network).requires_grad_(False).eval()
        """The network with the averaged weights."""
        self.parameters = list(network.parameters())
        self.ema = EMAModel(self.parameters, decay=options.ema, foreach=True)
        self.ema.shadow_params = list(self.averaged.parameters())
        lr, decay = options.learning_rate, options.weight_decay
        self.optimizer = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=decay, fused=True)
        self.losses = torch.zeros(options.steps, dtype=torch.float64, device=self.device)
        """Of each step so far."""
        self.looks = torch.full((-(-options.steps // options.snapshot_every), 2), torch.nan, dtype=torch.float64)
        """Of each look: mean training loss since the one before, and held-out loss."""
        self.step = 0
        """Steps done."""
        self.network = accelerator.prepare(network.train())
        self._written = time.monotonic()
        tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
        tensors |= {f"averaged.{name}": value for name, value in self.averaged.state_dict().items()}
        self._state: dict[str, torch.Tensor] = {**tensors, "step_losses": self.losses, "looks": self.looks}

    def until(self, end: int, checkpoint: Checkpoint | None = None) -> Iterator[int]:
        """Train, and give the number of steps done after each.

        Args:
            end: Steps after which it returns.
            checkpoint: Where the state is kept meanwhile.

        Raises:
            MemoriskError: The loss became NaN or infinite.
        """
        while self.step < end:
            begin, stop = self.step, min(end, self.step + _AT_ONCE)
            slots = [self.plan.slots(step) for step in range(begin, stop)]
            draws = [self.plan.draw(step) for step in range(begin, stop)]
            flips = [draw.flip[self.share] for draw in draws] if self.options.flip else None
            batches = self.images.batches([chosen[self.share] for chosen in slots], flips)
            for x, chosen, draw in zip(batches, slots, draws, strict=True):
                labels = self.told(chosen[self.share], draw.drop[self.share])
                noise = draw_noise(draw.seed, (len(chosen), *x.shape[1:]), self.device)[self.share]
                self._update(x, noise, draw.times[self.share].to(self.device), labels)
                due = checkpoint is not None and time.monotonic() - self._written >= checkpoint.seconds
                if checkpoint is not None and due and self.step < end:  # at the end who asked looks first
                    self.check(begin)
                    self.save(checkpoint)
                yield self.step
            self.check(begin)

    def check(self, begin: int) -> None:
        """Refuse losses that are not finite.

        Args:
            begin: The first step to look at.

        Raises:
            MemoriskError: One is.
        """
        recent = self.losses[begin : self.step].cpu().numpy()
        wrong = np.flatnonzero(~np.isfinite(recent))
        if len(wrong):
            lr = self.options.learning_rate
            became = f"the loss became {recent[wrong[0]]} in step {begin + wrong[0] + 1:,}"
            raise MemoriskError(f"{became}: lower the learning rate ({lr:g}), take a warmup, or use fp32")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the state, by the first process.

        Args:
            checkpoint: Where.
        """
        if self.accelerator.is_main_process:
            done = Progress(self.step, np.zeros((0, 1)))
            save_checkpoint(checkpoint, self._state, self.optimizer, done, self.accelerator.scaler)
        self._written = time.monotonic()

    def load(self, checkpoint: Checkpoint) -> None:
        """Put a state back, bit for bit.

        Args:
            checkpoint: What `save` wrote.

        Raises:
            InputError: It cannot be read, or is of another training.
        """
        self.step = load_checkpoint(checkpoint, self._state, self.optimizer, self.accelerator.scaler).epoch
        self.ema.optimization_step = self.step

    def _update(self, x: torch.Tensor, noise: torch.Tensor, times: torch.Tensor, labels: torch.Tensor) -> None:
        """One update of the weights and of their average."""
        x_t = self.loss.noised(x, noise, times)
        output = self.network(x_t, timestep=times, class_labels=labels, return_dict=False)[0]
        loss = self.loss(output, x, x_t, noise, times).mean()
        self.optimizer.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        rate, warmup, scaler = self.options.learning_rate, self.options.warmup, self.accelerator.scaler
        for group in self.optimizer.param_groups:
            group["lr"] = rate * min(1.0, (self.step + 1) / warmup) if warmup else rate
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.options.clip)
        if scaler is not None:
            scaler.step(self.optimizer)
            scaler.update()
        else:
            self.optimizer.step()
        self.ema.step(self.parameters)
        seen = loss.detach()
        self.losses[self.step] = self.accelerator.reduce(seen, "mean") if self.accelerator.num_processes > 1 else seen
        self.step += 1
