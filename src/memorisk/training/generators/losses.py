"""The losses of generators: for a diffusion model, on training and on held-out images, and for a GAN.

A diffusion model learns the noise of an image, and with it the variance of a step back. With x_t = sqrt(a_t) x_0 +
sqrt(1 - a_t) e, e ~ N(0, 1), t uniform (Ho et al. 2020, equation 14)

    loss = mean |e - e(x_t, t)|^2,

(of a network that predicts v or the image, the squared error of that), and where the variance is learnt, too, (Nichol
and Dhariwal 2021, section 3.1; as in the reference code of DiT)

    loss = mean |e - e(x_t, t)|^2 + bound,   bound = KL(q(x_t-1 | x_t, x_0) || p(x_t-1 | x_t)) in bits per number,

the mean of p is frozen in the bound, so that it teaches the variance alone; at t = 0 the bound is the negative
log-likelihood of 8-bit pixels, each a bin of 2/255. The published "hybrid" weighs the bound by 0.001; the code of DiT
weighs it by 1, which is followed, since its weights were trained so.

`HeldOut` is the same loss on images that the model is not trained on. Noise and times are the same at every look, and
the times are spread evenly over the images, so that only the model changes. The loss rises while the training loss
falls where a generator begins to remember.

A GAN has the losses of StyleGAN2: logistic, R1, path length (Karras et al. 2020, section 3 and appendix B). Both
penalties are means of squared gradients, and are trained by a gradient of that. They are computed in float32 and only
every so many steps ("lazy regularisation"), then with that many times their weight.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.dit.network import DiTSpec, null_labels
from memorisk.models.hub import quiet
from memorisk.runs.errors import MissingExtraError
from memorisk.training.generators.batches import RowImages, draw_noise
from memorisk.training.generators.inputs import Conditioning

TIMES = 1000
_BETA = (1e-4, 0.02)
_SCHEDULES: dict[str, Any] = {"linear": "linear", "cosine": "squaredcos_cap_v2"}
_HALF_BIN = 1 / 255
_EDGE_VALUE = 0.999
_LEAST = 1e-12


def new_scheduler(*, learn_sigma: bool, schedule: str = "linear") -> Any:
    """Build the schedule by which noise grows over 1,000 times.

    Args:
        learn_sigma: Whether the network gives a variance, too.
        schedule: Name of the schedule: "linear", its variance from 0.0001 to 0.02 (Ho et al. 2020, section 4), as in
            the paper's DiT, or "cosine" (Nichol and Dhariwal 2021, section 3.2).

    Returns:
        Schedule, a `diffusers.DDPMScheduler`.

    Raises:
        MissingExtraError: diffusers is not installed.
    """
    try:
        with quiet("diffusers"):
            from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
    except ImportError:
        raise MissingExtraError("diffusers", "generative", "training a diffusion transformer") from None
    return DDPMScheduler(
        num_train_timesteps=TIMES,
        beta_start=_BETA[0],
        beta_end=_BETA[1],
        beta_schedule=_SCHEDULES[schedule],
        prediction_type="epsilon",
        variance_type="learned_range" if learn_sigma else "fixed_large",
        clip_sample=False,
    )


class DiffusionLoss:
    """The loss of a diffusion model for each image of a batch.

    Args:
        scheduler: Schedule, a `diffusers.DDPMScheduler`; for a "learned_range" the network gives twice the channels.
        device: Device of the images.
    """

    def __init__(self, scheduler: Any, device: torch.device) -> None:
        self.scheduler, self.device = scheduler, device
        self.learn_sigma = scheduler.config.variance_type == "learned_range"

    def noised(self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Compute x_t, [b, c, h, w], from images, noise and times [b]."""
        return self.scheduler.add_noise(x, noise, t)

    def __call__(
        self, output: torch.Tensor, x: torch.Tensor, x_t: torch.Tensor, noise: torch.Tensor, t: torch.Tensor
    ) -> torch.Tensor:
        """Compute the loss of each image, [b].

        Args:
            output: Output of the network for ``x_t``, [b, c or 2 c, h, w].
            x: Images, [b, c, h, w].
            x_t: Noised images, as `noised` gives them.
            noise: Noise of the images, [b, c, h, w].
            t: Times from 0, [b] int64.
        """
        predicted, *variance = output.float().split(x.shape[1], dim=1)
        error = _each(torch.square(predicted - self._target(x, noise, t)))
        return error + self._bound(predicted.detach(), variance[0], x, x_t, t) if self.learn_sigma else error

    def _target(self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return what the network is to predict, by the scheduler's ``prediction_type``."""
        if self.scheduler.config.prediction_type == "v_prediction":
            return self.scheduler.get_velocity(x, noise, t)
        return x if self.scheduler.config.prediction_type == "sample" else noise

    @cached_property
    def _tables(self) -> dict[str, torch.Tensor]:
        """Coefficients by time: from noise to an image, and from an image to the mean and variance of a step back."""
        beta = self.scheduler.betas.double().cpu()
        signal = torch.cumprod(1 - beta, dim=0)
        before = torch.cat([torch.ones(1, dtype=torch.float64), signal[:-1]])
        variance = beta * (1 - before) / (1 - signal)
        tables = {
            "of_x": (1 / signal).sqrt(),
            "of_noise": (1 / signal - 1).sqrt(),
            "image": beta * before.sqrt() / (1 - signal),
            "state": (1 - before) * (1 - beta).sqrt() / (1 - signal),
            "least": torch.cat([variance[1:2], variance[1:]]).log(),  # at t = 0 it would be 0
            "most": beta.log(),
        }
        return {name: value.float().to(self.device) for name, value in tables.items()}

    def _bound(
        self, found: torch.Tensor, weight: torch.Tensor, x: torch.Tensor, x_t: torch.Tensor, t: torch.Tensor
    ) -> torch.Tensor:
        """Compute the bound in bits per number, [b]; ``weight``, -1 to 1, lies between least and most log-variance."""
        at = {name: table[t][:, None, None, None] for name, table in self._tables.items()}
        rendered = at["of_x"] * x_t - at["of_noise"] * found
        log_variance = at["least"] + (weight + 1) / 2 * (at["most"] - at["least"])
        apart = at["image"] * (x - rendered)  # difference of the two means
        inverse = torch.exp(-log_variance)
        divergence = log_variance - at["least"] - 1 + torch.exp(at["least"]) * inverse + torch.square(apart) * inverse
        mean = at["image"] * rendered + at["state"] * x_t
        nats = torch.where(t == 0, -_each(_log_pixel(x, mean, 0.5 * log_variance)), 0.5 * _each(divergence))
        return nats / math.log(2)


def _each(values: torch.Tensor) -> torch.Tensor:
    """Return the mean of each image, [b]."""
    return values.flatten(1).mean(dim=1)


def _log_pixel(x: torch.Tensor, mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """Compute the log-probability of pixels in [-1, 1] as bins of 2/255 of a normal; the outer bins have no end."""
    apart, inverse = x - mean, torch.exp(-log_std)
    above, below = _normal(inverse * (apart + _HALF_BIN)), _normal(inverse * (apart - _HALF_BIN))
    share = torch.where(x < -_EDGE_VALUE, above, torch.where(x > _EDGE_VALUE, 1 - below, above - below))
    return share.clamp(min=_LEAST).log()


def _normal(z: torch.Tensor) -> torch.Tensor:
    """Compute the normal distribution function by its tanh form (Page 1977), which the reference code uses."""
    return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


class RowConditions:
    """Conditions of the training rows: labels or vectors.

    Args:
        conditioning: Conditioning of the images.
        spec: Specification of the network, which defines the value for no condition.
        device: Device of the conditions.
    """

    def __init__(self, conditioning: Conditioning, spec: DiTSpec, device: torch.device) -> None:
        self.device, self.null = device, null_labels(spec, 1, device)
        self.values: torch.Tensor | None = None
        if conditioning.vectors is not None:
            self.values = torch.from_numpy(conditioning.vectors).to(device)
        elif conditioning.labels is not None:
            self.values = class_labels(conditioning.labels, self.null)

    def __call__(self, slots: torch.Tensor, drop: torch.Tensor) -> torch.Tensor:
        """Return the conditions of the rows of a batch.

        Args:
            slots: Positions among the rows, [b].
            drop: Whether each row loses its condition, [b] bool.

        Returns:
            Conditions, [b] int64 or [b, k] float32.
        """
        if self.values is None:
            return torch.zeros(len(slots), dtype=torch.int64, device=self.device)
        values, lost = self.values[slots.to(self.device)], drop.to(self.device)
        return torch.where(lost if values.ndim == 1 else lost[:, None], self.null, values)


def class_labels(numbers: np.ndarray, null: torch.Tensor) -> torch.Tensor:
    """Convert class numbers for the network: -1 becomes the number of no condition.

    Args:
        numbers: Class numbers, [n] int64.
        null: Number of no condition, [1] int64.
    """
    classes = torch.from_numpy(numbers).to(null.device)
    return torch.where(classes < 0, null, classes)


_DRAWS = 3  # random stream in addition to those of the steps


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Validation images with their noise.

    Attributes:
        images: The validation images, on the device.
        slots: Positions of the measured images, [m] int64.
        labels: Conditions of these images, [m] or [m, k].
        times: Noise level of each image, [m] int64.
        seed: Random seed of the noise.
    """

    images: RowImages
    slots: torch.Tensor
    labels: torch.Tensor
    times: torch.Tensor
    seed: int

    @classmethod
    def of(cls, images: RowImages, conditioning: Conditioning, spec: DiTSpec, *, drop: float, seed: int) -> "HeldOut":
        """Choose the held-out images of a training.

        An image of a class that the generator does not know, and every image where vectors condition the generator,
        counts without a condition; where no condition was ever dropped, that has no meaning for it, and they are left
        out.

        Args:
            images: The validation images, on the device.
            conditioning: Conditioning of the generator.
            spec: Specification of the network.
            drop: Share of the training rows that lose their condition.
            seed: Random seed of the training.
        """
        numbers = np.zeros(0, dtype=np.int64) if conditioning.held_out is None else conditioning.held_out
        device = images.source.device
        if conditioning.conditioned_on == "none":
            labels = torch.zeros(len(numbers), dtype=torch.int64, device=device)
        elif conditioning.conditioned_on == "class":
            labels = class_labels(numbers, null_labels(spec, 1, device))
        else:
            labels = null_labels(spec, len(numbers), device)
        rows = conditioned_held_out(conditioning, drop)
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_DRAWS,)))
        even = (generator.permutation(len(rows)) + generator.random(len(rows))) * TIMES / max(1, len(rows))
        times = torch.from_numpy(np.minimum(even, TIMES - 1).astype(np.int64))
        slots = torch.from_numpy(rows)
        return cls(images, slots, labels[slots.to(device)], times, int(generator.integers(1 << 62)))

    def loss(self, network: Any, loss: DiffusionLoss, block: int) -> float | None:
        """Compute the mean squared error of the noise, in full precision; None without images.

        Args:
            network: Network, which is evaluated without dropout.
            loss: Loss of the training, for its schedule; its first term counts.
            block: Number of images at a time; the noise depends on it.
        """
        if not len(self.slots):
            return None
        total, device = 0.0, self.labels.device
        parts = zip(self.slots.split(block), self.times.split(block), self.labels.split(block), strict=True)
        blocks, denoiser = list(parts), Denoiser.from_scheduler(network, loss.scheduler)
        with denoiser.measuring():
            batches = self.images.batches([slots for slots, _, _ in blocks])
            for number, (x, (_, times, labels)) in enumerate(zip(batches, blocks, strict=True)):
                noise = draw_noise(self.seed + number, tuple(x.shape), device)
                total += float(denoiser.noise_error(x, noise, times.to(device), labels).double().sum())
        return total / len(self.slots)


def conditioned_held_out(conditioning: Conditioning, drop: float) -> np.ndarray:
    """Return the places of the validation images that are measured, [k]: all whose condition has a meaning.

    Args:
        conditioning: Conditioning of the generator.
        drop: Share of the training rows that lose their condition.
    """
    numbers = np.zeros(0, dtype=np.int64) if conditioning.held_out is None else conditioning.held_out
    return np.flatnonzero((numbers >= 0) | (conditioning.conditioned_on == "none") | (drop > 0))


def generator_loss(fake: torch.Tensor) -> torch.Tensor:
    """Compute the non-saturating loss: mean of log(1 + exp(-D(fake))).

    Args:
        fake: Logits of generated images, [b].
    """
    return F.softplus(-fake).mean()


def discriminator_loss(fake: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Compute the mean of log(1 + exp(D(fake))) and of log(1 + exp(-D(real))), summed.

    Args:
        fake: Logits of generated images, [b].
        real: Logits of real images, [b].
    """
    return F.softplus(fake).mean() + F.softplus(-real).mean()


def r1_penalty(discriminate: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """Compute the squared norm of each logit's gradient by its image (Mescheder et al. 2018): [b], to be trained on.

    Logits of a group depend on all of its images through their deviation, so that an image's gradient is that of the
    sum of logits.

    Args:
        discriminate: Function from images to logits [b], augmentation included.
        images: Real images, [b, c, h, w].
    """
    images = images.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(discriminate(images).sum(), images, create_graph=True)
    return gradient.square().sum(dim=(1, 2, 3))


def path_lengths(
    synthesise: Callable[[torch.Tensor], torch.Tensor], styles: torch.Tensor, noise: torch.Tensor
) -> torch.Tensor:
    """Measure how far an image moves with its styles: |J^T y|, y of variance 1 / (h w), [b], to be trained on.

    The square is averaged over the layers, each of which has a w of its own.

    Args:
        synthesise: Function from styles [b, n, style] to images [b, c, h, w], each of its own row.
        styles: Styles of each layer, with their graph.
        noise: Normal numbers, [b, c, h, w].
    """
    images = synthesise(styles)
    y = noise / math.sqrt(images.shape[2] * images.shape[3])
    (gradient,) = torch.autograd.grad((images * y).sum(), styles, create_graph=True)
    return gradient.square().sum(dim=2).mean(dim=1).sqrt()
