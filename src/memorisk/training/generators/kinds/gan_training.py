"""One training of an unconditional GAN of the StyleGAN2 kind with adaptive augmentation.

Karras et al. 2020, "Analyzing and improving the image quality of StyleGAN" (networks, losses, lazy regularisation) and
"Training generative adversarial networks with limited data" (augmentation); written from the papers. Everything random
derives from (seed, step), so that a killed training continues to the same bytes on a CPU.

`GanLoop` holds the live tensors of a training and updates both networks; `GanTraining` checks, runs and saves.
"""

import math
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.generators.stylegan2_generator import GanGenerator, gan_config, new_gan, save_gan
from memorisk.models.generators.stylegan2_networks import Discriminator, GeneratorNetwork
from memorisk.models.provenance import TrainingRecord
from memorisk.models.settings import GeneratorConfig
from memorisk.runs.errors import InputError
from memorisk.runs.files import fingerprint
from memorisk.training.engine.devices import autocast, exact_products, place
from memorisk.training.engine.optimization import FusedAdam
from memorisk.training.generators.batches import RowImages, StepPlan, view_images
from memorisk.training.generators.inputs import notes_on_training_rows
from memorisk.training.generators.kinds.gan_augmentation import (
    DISCRIMINATOR,
    GENERATOR,
    PATH,
    R1,
    AdaptiveProbability,
    Latents,
    PhaseDraws,
    augment,
)
from memorisk.training.generators.losses import discriminator_loss, generator_loss, path_lengths, r1_penalty
from memorisk.training.generators.options import PATH_EVERY, R1_EVERY, GeneratorOptions
from memorisk.training.generators.snapshots import GeneratorLoop, GeneratorTraining

RECORDS = ("loss", "loss_discriminator", "r1", "path_length", "r_t", "p")
"""Names of the figures of each step; NaN for those that it did not compute."""
_BETAS = (0.0, 0.99)
_PATH_DECAY, _PATH_SHARE = 0.01, 2
_RAMP = 0.05


class GanLoop(GeneratorLoop):
    """A training between two updates.

    Args:
        networks: Generator and discriminator, on their device; trained in place.
        images: Images of the training rows.
        n: Number of training rows.
        options: Settings of the training.
        precision: Arithmetic of everything but the penalties: fp32, bf16 or fp16.
        slots: Number of places in a pass, where a twin has more images (`StepPlan`).
    """

    loss_names = ("generator's loss", "discriminator's loss")

    def __init__(
        self,
        networks: tuple[GeneratorNetwork, Discriminator],
        images: RowImages,
        n: int,
        options: GeneratorOptions,
        precision: str,
        slots: int = 0,
    ) -> None:
        super().__init__()
        self.generator, self.discriminator = networks
        self.images, self.options, self.precision = images, options, precision
        self.spec, self.b = self.generator.spec, options.images_a_step
        self.device = next(self.generator.parameters()).device
        self.plan = StepPlan(options.seed, n, self.b, drop=0.0, times=1, slots=slots)
        self.gamma = options.r1_gamma(self.spec.size**2, self.b)
        self.averaged = deepcopy(self.generator).requires_grad_(False).eval()
        """The generator with the averaged weights."""
        self.adaptive = AdaptiveProbability(options, self.device)
        self.mean_length = torch.zeros((), device=self.device)
        size = (options.steps, len(RECORDS))
        self.records = torch.full(size, torch.nan, dtype=torch.float64, device=self.device)
        """`RECORDS` of each step so far."""
        self.losses = self.records[:, : len(self.loss_names)]
        self.adam_g = self._adam(self.generator, PATH_EVERY if options.gan_path else 0)
        self.adam_d = self._adam(self.discriminator, R1_EVERY if self.gamma else 0)
        self.adam_d.state = self.adam_g.state  # one table, by parameter, for the checkpoint
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")
        self.optimizer = SimpleNamespace(
            param_groups=self.adam_g.param_groups + self.adam_d.param_groups, state=self.adam_g.state
        )
        parts = {"generator": self.generator, "discriminator": self.discriminator, "averaged": self.averaged}
        state = {f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}
        state |= {f"adaptive.{key}": value for key, value in self.adaptive.state.items()}
        self.state = {**state, "mean_length": self.mean_length, "records": self.records}

    @property
    def remedy(self) -> str:
        """Advice against losses that are not finite."""
        return f"lower the learning rate ({self.options.learning_rate:g}), raise gan_r1 ({self.gamma:g})"

    def inputs(self, steps: range) -> Iterator[torch.Tensor]:
        """Return the real images of each step."""
        flips = [self.plan.draw(step).flip for step in steps] if self.options.flip else None
        return self.images.batches([self.plan.slots(step) for step in steps], flips)

    def _adam(self, network: nn.Module, every: int) -> FusedAdam:
        """Build Adam for a network whose penalty has its own step, every k steps: c = k / (k + 1), lr c, betas^c.

        Args:
            network: Network whose parameters it updates.
            every: Number of steps between two penalties, k; 0 without a penalty.
        """
        share = every / (every + 1) if every else 1.0
        betas = (_BETAS[0] ** share, _BETAS[1] ** share)
        return FusedAdam(list(network.parameters()), lr=self.options.learning_rate * share, betas=betas)

    def _update(self, inputs: torch.Tensor) -> None:
        """Make one update of both networks, of the average and of the probability of augmentations."""
        record, options = self.records[self.step], self.options
        self._learn(self.generator)
        record[0] = self._generator_step()
        if options.gan_path and self.step % PATH_EVERY == 0:
            record[3] = self._path_step()
        self._learn(self.discriminator)
        record[1] = self._discriminator_step(inputs)
        if self.gamma and self.step % R1_EVERY == 0:
            record[2] = self._r1_step(inputs)
        if self.scaler.is_enabled():
            self.scaler.update()
        self._average()
        self.adaptive.adapt(self.step)
        record[4], record[5] = self.adaptive.r_t, self.adaptive.p

    def _learn(self, which: nn.Module) -> None:
        """Make this network the only one that trains."""
        for network in (self.generator, self.discriminator):
            network.requires_grad_(network is which)

    def _generator_step(self) -> torch.Tensor:
        """Update the generator; return its loss before the update."""
        draws = self._draws(GENERATOR)
        with autocast(self.device, self.precision):
            fake = self._fake(draws.latents(self.spec, self.b, self.options.gan_style_mixing))
            fake = self._seen(fake, draws)
            loss = generator_loss(self.discriminator(fake))
        self._descend(self.adam_g, loss, scaled=True)
        return loss.detach()

    def _path_step(self) -> torch.Tensor:
        """Make lengths more alike by an update; return the mean path length before it."""
        draws, b = self._draws(PATH), path_images(self.b)
        latents = draws.latents(self.spec, b, self.options.gan_style_mixing)
        noise = draws.noise(b, self.spec.channels, self.spec.size, self.spec.size)
        with exact_products(self.device):
            styles = self._styles(latents)
            lengths = path_lengths(lambda w: self.generator.synthesis(w, latents.noises), styles, noise)
            self.mean_length.lerp_(lengths.detach().mean(), _PATH_DECAY)
            penalty = (lengths - self.mean_length.clone()).square().mean()
            weight = self.options.gan_path * PATH_EVERY
            self._descend(self.adam_g, weight * penalty, scaled=False)
        return lengths.detach().mean()

    def _discriminator_step(self, x: torch.Tensor) -> torch.Tensor:
        """Update the discriminator; return its loss before the update."""
        draws = self._draws(DISCRIMINATOR)
        with autocast(self.device, self.precision):
            with torch.no_grad():
                fake = self._fake(draws.latents(self.spec, self.b, self.options.gan_style_mixing), follow=False)
            fake_logits = self.discriminator(self._seen(fake, draws))
            real_logits = self.discriminator(self._seen(x, draws))
            loss = discriminator_loss(fake_logits, real_logits)
        self.adaptive.note(real_logits.detach())
        self._descend(self.adam_d, loss, scaled=True)
        return loss.detach()

    def _r1_step(self, x: torch.Tensor) -> torch.Tensor:
        """Lower the mean squared gradient by real images in an update; return its value before it."""
        draws = self._draws(R1)
        drawn = draws.augmentation(self.b, self.adaptive.p, self.options.gan_augmentations, self.spec.size)
        with exact_products(self.device):
            penalty = r1_penalty(lambda images: self.discriminator(augment(images, drawn)), x).mean()
            self._descend(self.adam_d, self.gamma / 2 * R1_EVERY * penalty, scaled=False)
        return penalty.detach()

    def _draws(self, phase: int) -> PhaseDraws:
        """Return the draws of a phase of this step."""
        return PhaseDraws(self.options.seed, self.step, phase, self.device)

    def _styles(self, latents: Latents, *, follow: bool = True) -> torch.Tensor:
        """Return w, [b, n, style], of one style or two."""
        first, second = self.generator.mapping(latents.z.flatten(0, 1)).unflatten(0, (2, -1))
        if follow:
            self.generator.mapping.follow(first)
        return torch.where(latents.second, second[:, None], first[:, None])

    def _fake(self, latents: Latents, *, follow: bool = True) -> torch.Tensor:
        """Generate images, float32."""
        return self.generator.synthesis(self._styles(latents, follow=follow), latents.noises).float()

    def _seen(self, images: torch.Tensor, draws: PhaseDraws) -> torch.Tensor:
        """Augment images, in float32."""
        options = self.options
        if options.gan_augment == "none":
            return images
        drawn = draws.augmentation(len(images), self.adaptive.p, options.gan_augmentations, self.spec.size)
        with torch.autocast(self.device.type, enabled=False):
            return augment(images, drawn)

    def _descend(self, adam: FusedAdam, loss: torch.Tensor, *, scaled: bool) -> None:
        """Make one update of the network that learns."""
        adam.zero_grad()
        if scaled and self.scaler.is_enabled():
            self.scaler.scale(loss).backward()
            self.scaler.step(adam)  # pyright: ignore[reportArgumentType] (it uses param_groups and step only)
        else:
            loss.backward()
            adam.step()

    @torch.no_grad()
    def _average(self) -> None:
        """Move the averaged generator: half-life in images, at most 5 % of those seen so far."""
        n_images = (self.step + 1) * self.b
        decay = 0.5 ** (self.b / min(self.options.gan_ema_images, _RAMP * n_images))
        for averaged, live in zip(self.averaged.parameters(), self.generator.parameters(), strict=True):
            averaged.lerp_(live, 1 - decay)
        self.averaged.mapping.average.copy_(self.generator.mapping.average)


def path_images(b: int) -> int:
    """Return the images whose path lengths a step measures: half of a batch, one at least.

    Args:
        b: Number of images of a batch.
    """
    return max(1, b // _PATH_SHARE)


_CODE = 1  # part of every key: a change of what a training computes makes another


class GanTraining(GeneratorTraining[GanLoop]):
    """A training of a GAN, checked and on its device.

    Args:
        store: The images with their manifest.
        rows: Rows to train on, [n]; an image that repeats is seen so often.
        options: Settings of the training.
        validation: Rows of other images; a GAN has no held-out loss and does not use them.
        slots: Number of places in a pass, where a twin has more images.

    Raises:
        InputError: Images, rows or settings do not fit each other.
    """

    def __init__(
        self,
        store: ImageStore,
        rows: np.ndarray,
        options: GeneratorOptions,
        *,
        validation: np.ndarray | None = None,
        slots: int = 0,
    ) -> None:
        super().__init__(store, rows, options, validation)
        self.slots = slots
        height, width, channels = store.shape
        if height != width:
            raise InputError(f"images are stored at {height} x {width} pixels; a GAN takes squares: name a size, as 64")
        self.spec = options.gan_spec(height, channels)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError("a GAN is trained by one process: start the command without accelerate launch or torchrun")
        self.networks = new_gan(self.spec, options.seed)
        for network in self.networks:
            place(network.train(), self.device)
        how = [self.precision, self.device.type, str(torch.__version__), store.images.shape[1:]]
        self.key = fingerprint([_CODE, options.recipe(), *how], store.pixel_hashes[self.rows].tolist(), length=32)
        self.notes = notes_on_training_rows(store, self.rows)

    @property
    def saved_networks(self) -> tuple[GeneratorNetwork]:
        """Return the generator; the discriminator is not saved."""
        return self.networks[:1]

    def begin(self) -> GanLoop:
        """Open the loop of the training at its start."""
        view = view_images(self.store, "pixels", flip=self.options.flip, device=self.device)
        images = view.shown(self.rows, self.device)
        return GanLoop(self.networks, images, len(self.rows), self.options, self.precision, self.slots)

    @property
    def described(self) -> dict[str, Any]:
        """Return what the configuration says of this kind."""
        return {"kind": "gan", "name": "GAN of the StyleGAN2 kind"}

    def config(self, steps: int) -> GeneratorConfig:
        """Describe the generator after so many steps."""
        return gan_config(super().config(steps), self.spec, truncation=self.options.gan_truncation)

    def generator(self) -> GanGenerator:
        """Open the generator with its present averaged weights; it shares them with the training."""
        return GanGenerator(self.config(self.loop.step), self.loop.averaged, self.seen())

    def seen(self) -> TrainingRecord:
        """Return the record of the images that it was trained on."""
        return TrainingRecord.of(self.store, {"training": np.unique(self.rows)})

    def save(self, folder: Path, steps: int) -> None:
        """Write the generator with its present averaged weights; arguments as for `GeneratorTraining`."""
        save_gan(self.loop.averaged, folder, self.config(steps), seen=self.seen())

    def seconds_a_step(self) -> float:
        """Measure the seconds of a step without and of one with both penalties; the networks are useless afterwards."""
        loop, options, seconds = self.loop, self.options, []
        for step in (0, 1, 0):  # the first of all is slower than those that follow
            loop.step = min(step, options.steps - 1)
            seconds += loop.seconds(loop.step + 1)
        _, plain, penalised = seconds
        return plain + max(0.0, penalised - plain) / min(PATH_EVERY, R1_EVERY)

    def figures(self, begin: int, end: int) -> dict[str, float]:
        """Return means over these steps, and the probability and r_t at their end."""
        part = self.loop.records[begin:end].cpu()
        means = dict(zip(RECORDS, part.nanmean(dim=0).tolist(), strict=True))
        last = {name: float(part[-1, RECORDS.index(name)]) for name in ("r_t", "p")}
        return {"held_out_loss": math.nan, **means, **last}
