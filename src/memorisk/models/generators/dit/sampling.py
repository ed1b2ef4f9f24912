"""Sampling from a diffusion transformer: DDIM, DPM-Solver++ (second order) and DDPM, by the schedulers of diffusers.

Every image has its own noise, drawn on the CPU from a generator with the image's seed; DDPM draws its later noise from
it, too. On a CPU one thread computes an image, in products whose shapes do not depend on the number of images (small
images in groups of a fixed size, filled up where images are fewer): its bytes depend neither on the other images nor
on the number of threads, which draw several images at a time. On a GPU images are computed in batches, where the last
digits of a product may depend on the batch.

Classifier-free guidance (Ho and Salimans, 2022): ``noise = noise_null + g (noise_condition - noise_null)``, over all
channels, as diffusers' pipeline has it; at ``g = 1`` the second pass is left out. A learned variance is that of the
pass with the condition; DDPM uses it, the others do not. Predictions of pixels are cut to [-1, 1] on the way, those of
latents are not. Pixels become ``round(255 p)`` of p in [0, 1], halves to the even number, as diffusers has it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from memorisk.models.autoencoder import PosteriorMean
from memorisk.models.generators.dit.forward import CachedForward, Modulations
from memorisk.models.generators.dit.network import DiTSpec, null_labels, spec_of
from memorisk.models.generators.generators import Draw
from memorisk.models.hub import quiet
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError

STEP_BLOCK = 16
"""Number of steps whose modulations are computed at once."""
_COSINE_LEAST = -5.1  # log of signal over noise where DPM-Solver starts: a cosine's first times are all noise
IMAGES_PER_THREAD = 16
"""Number of images that a thread carries through the steps together, so that one step of the scheduler takes all of
them."""


def sampling_scheduler(trained: Any, how: SamplingOptions, *, pixels: bool, learn_sigma: bool) -> Any:
    """Return the scheduler of a sampler, with its steps set.

    Args:
        trained: Scheduler of any kind with the configuration of the training.
        how: Options with sampler and steps.
        pixels: Whether pixels are drawn; their predictions are cut to [-1, 1].
        learn_sigma: Whether the network gives a variance.

    Raises:
        InputError: There are more steps than the training had times.
    """
    # All settings are explicit: diffusers otherwise takes each class's own default.
    config = {name: value for name, value in dict(trained.config).items() if not name.startswith("_")}
    if how.sampling_steps > config["num_train_timesteps"]:
        raise InputError(
            f"sampling_steps is {how.sampling_steps}; this generator was trained with "
            f"{config['num_train_timesteps']} times: ask for at most as many"
        )
    with quiet("diffusers"):
        from diffusers.schedulers.scheduling_ddim import DDIMScheduler
        from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
        from diffusers.schedulers.scheduling_dpmsolver_multistep import DPMSolverMultistepScheduler

        if how.sampler == "ddim":
            scheduler: Any = DDIMScheduler.from_config(config, clip_sample=pixels)
        elif how.sampler == "ddpm":
            fixed = config.get("variance_type", "fixed_small")
            fixed = "fixed_small" if fixed is None or fixed.startswith("learned") else fixed
            variance = "learned_range" if learn_sigma else fixed
            scheduler = DDPMScheduler.from_config(config, clip_sample=pixels, variance_type=variance)
        else:  # it has no clip_sample: dynamic thresholding whose threshold is at most 1 is that
            solver: dict[str, Any] = {"algorithm_type": "dpmsolver++", "solver_order": 2, "solver_type": "midpoint"}
            solver |= {"variance_type": None, "thresholding": pixels, "sample_max_value": 1.0}
            solver |= {"timestep_spacing": "linspace"}  # few steps then begin at pure noise
            if config["beta_schedule"] == "squaredcos_cap_v2":
                solver |= {"lambda_min_clipped": _COSINE_LEAST}
            scheduler = DPMSolverMultistepScheduler.from_config(config, **solver)
    scheduler.set_timesteps(how.sampling_steps)
    return scheduler


@dataclass(frozen=True, eq=False)
class DiffusionSampler:
    """Sampler of a diffusion model.

    Attributes:
        network: Transformer (DiTTransformer2DModel) on the device.
        scheduler: Scheduler with the configuration of its training.
        decoder: Autoencoder (AutoencoderKL) on the device, or None where pixels are drawn.
        channels: Number of channels of the images, 1 or 3.
        how: Options of the sampling.
        device: Device that draws.
    """

    network: Any
    scheduler: Any
    decoder: Any | None
    channels: int
    how: SamplingOptions
    device: torch.device

    def draw(self, draw: Draw) -> np.ndarray:
        """Draw images, [n, H, W, channels] uint8.

        Args:
            draw: Checked draw: seeds and conditions of the images.

        Raises:
            InputError: There are more steps than the training had times.
        """
        _ = self._start  # refuses its steps even where nothing is drawn
        side = image_side(self.spec, self.decoder)
        images = np.empty((len(draw), side, side, self.channels), dtype=np.uint8)
        if not len(draw):
            return images

        def fill(part: slice) -> None:
            """Draw some rows; inference mode belongs to the thread."""
            with torch.inference_mode():
                images[part] = self._images(self._latents(draw.rows(part)))

        if not self._on_cpu:
            for part in _parts(len(draw), self.how.batch):
                fill(part)
            return images
        with single_threaded() as workers:
            with torch.inference_mode():
                # Both are computed once, by one thread as everything is, before several threads need them.
                _ = self._times, self._group
            parts = _parts(len(draw), self._together(len(draw), workers))
            with ThreadPoolExecutor(workers) if min(workers, len(parts)) > 1 else nullcontext() as pool:
                list(map(fill, parts) if pool is None else pool.map(fill, parts))
        return images

    @cached_property
    def spec(self) -> DiTSpec:
        """Return the specification of the network."""
        return spec_of(self.network)

    @property
    def _on_cpu(self) -> bool:
        return self.device.type == "cpu"

    @cached_property
    def _lean(self) -> CachedForward:
        return CachedForward(self.network)

    @cached_property
    def _times(self) -> torch.Tensor:
        """Compute embeddings of the times of all steps, [S, depth, d]."""
        return self._lean.times(self._start.timesteps.to(self.device))

    def _together(self, n: int, workers: int) -> int:
        """Return the number of images of a part: whole groups, shared among the threads."""
        group = self._group
        return group * max(1, min(IMAGES_PER_THREAD // group, -(-n // (group * workers))))

    @cached_property
    def _group(self) -> int:
        return self._lean.group

    @cached_property
    def _start(self) -> Any:
        """Return the scheduler at its start."""
        pixels = self.decoder is None
        return sampling_scheduler(self.scheduler, self.how, pixels=pixels, learn_sigma=self.spec.learn_sigma)

    def _latents(self, draw: Draw) -> torch.Tensor:
        """Carry noise through all steps: [b, c, h, w]."""
        shape = (1, self.spec.channels, self.spec.side, self.spec.side)
        generators = [torch.Generator().manual_seed(int(seed)) for seed in draw.seeds]
        steps = deepcopy(self._start)  # that of DPM-Solver remembers the steps before
        x = torch.cat([torch.randn(shape, generator=g) for g in generators]).to(self.device) * steps.init_noise_sigma
        labels, rows = self._distinct(draw)
        for begin in range(0, len(steps.timesteps), STEP_BLOCK):
            times = self._times[begin : begin + STEP_BLOCK]
            forward = self._forward(times, labels, rows)
            for k, time in enumerate(steps.timesteps[begin : begin + STEP_BLOCK]):
                predicted = forward(x, k)
                if self.how.sampler == "ddpm":
                    x = _noisy_step(steps, predicted, time, x, generators)
                else:
                    x = steps.step(predicted, time, x).prev_sample
        return x

    def _distinct(self, draw: Draw) -> tuple[torch.Tensor, np.ndarray]:
        """Return each condition once, in the network's form, and the row of each image's condition."""
        if draw.conditions is not None:
            labels, rows = draw.conditions, np.arange(len(draw))
        elif draw.labels is not None:
            labels, rows = np.unique(draw.labels, return_inverse=True)
        else:
            labels, rows = np.zeros(1, dtype=np.int64), np.zeros(len(draw), dtype=np.int64)
        return torch.from_numpy(np.ascontiguousarray(labels)).to(self.device), rows

    def _forward(self, times: torch.Tensor, labels: torch.Tensor, rows: np.ndarray) -> Any:
        """Return the guided network as a function of x [b, c, h, w] and the number of a step of this block."""
        lean, guidance = self._lean, self.how.guidance
        guided = guidance != 1
        null = null_labels(self.spec, 1, self.device)
        if self._on_cpu:  # group by group, and a condition in products of its own
            size = self._group
            each = [lean.modulations(times, lean.conditions(label)) for label in labels.split(1)]
            filled = np.resize(rows, -(-len(rows) // size) * size)
            groups = [Modulations.side_by_side([each[k] for k in filled[part]]) for part in _parts(len(filled), size)]
            without = [lean.modulations(times, lean.conditions(null))] * size if guided else []
            free = Modulations.side_by_side(without) if guided else None

            def by_groups(x: torch.Tensor, k: int) -> torch.Tensor:
                """Evaluate the network group by group, [b, outputs, h, w]."""
                whole = torch.cat([x, x.new_zeros(len(filled) - len(x), *x.shape[1:])])
                predicted = []
                for images, group in zip(whole.split(size), groups, strict=True):
                    conditional = lean(images, *group.at(k))
                    predicted.append(self._guided(conditional, None if free is None else lean(images, *free.at(k))))
                return torch.cat(predicted)[: len(x)]

            return by_groups
        chosen = labels[torch.from_numpy(rows).to(self.device)]
        chosen = torch.cat([chosen, null.expand(len(chosen), *null.shape[1:])]) if guided else chosen
        conditions = lean.conditions(chosen)

        def batch(x: torch.Tensor, k: int) -> torch.Tensor:
            """Evaluate the network on the whole batch, [b, outputs, h, w]."""
            at: Modulations = lean.modulations(times[k : k + 1], conditions)
            conditional, *free = lean(torch.cat([x, x]) if guided else x, *at.at(0)).split(len(x))
            return self._guided(conditional, free[0] if free else None)

        return batch

    def _guided(self, conditional: torch.Tensor, free: torch.Tensor | None) -> torch.Tensor:
        """Combine the passes with and without the condition for the scheduler."""
        c = self.spec.channels
        noise = (
            conditional[:, :c] if free is None else free[:, :c] + self.how.guidance * (conditional[:, :c] - free[:, :c])
        )
        if self.spec.learn_sigma and self.how.sampler == "ddpm":
            return torch.cat([noise, conditional[:, c:]], dim=1)
        return noise

    def _images(self, latents: torch.Tensor) -> np.ndarray:
        """Map latents [b, c, h, w] to images [b, H, W, channels] uint8; a CPU takes one at a time."""
        half: Any = (
            None if self.decoder is None else PosteriorMean(self.decoder).to(self.device)
        )  # knows shift and scale
        images = []
        for x in latents.split(1 if self._on_cpu else len(latents)):
            if self.decoder is not None and half is not None:
                x = self.decoder.decode(x / half.scale + half.shift).sample
            if x.shape[1] != self.channels:  # grey images, which an autoencoder of colours gets three times
                x = x.mean(dim=1, keepdim=True)
            p = (x / 2 + 0.5).clamp(0, 1)
            images.append((p * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy())
        return np.concatenate(images)


def _noisy_step(
    steps: Any, predicted: torch.Tensor, time: torch.Tensor, x: torch.Tensor, generators: list[torch.Generator]
) -> torch.Tensor:
    """Take one step of DDPM, image by image: an exponential of a learned variance may depend on its place in memory."""
    parts = zip(predicted.split(1), x.split(1), generators, strict=True)
    return torch.cat([steps.step(f, time, image, generator=[g]).prev_sample for f, image, g in parts])


def image_side(spec: DiTSpec, decoder: Any | None) -> int:
    """Return the side of a drawn image in pixels."""
    return spec.side * (1 if decoder is None else 2 ** (len(decoder.config.block_out_channels) - 1))


@contextmanager
def single_threaded() -> Iterator[int]:
    """Let each thread of Python compute by itself inside; on leaving, torch has as many threads as before.

    Yields:
        Number of threads that torch had.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


def _parts(n: int, size: int) -> list[slice]:
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]
