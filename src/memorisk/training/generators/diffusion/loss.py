"""What a diffusion model learns from: the noise of an image, and with it the variance of a step back.

With x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) e, e ~ N(0, 1), t uniform (Ho et al. 2020, equation 14)

    loss = mean |e - e(x_t, t)|^2,

and where the variance is learnt, too, (Nichol and Dhariwal 2021, section 3.1; as the reference code of DiT has it)

    loss = mean |e - e(x_t, t)|^2 + bound,   bound = KL(q(x_t-1 | x_t, x_0) || p(x_t-1 | x_t)) in bits a number,

the mean of p frozen in the bound, so that it teaches the variance alone; at t = 0 the bound is the negative
log-likelihood of 8-bit pixels, each a bin of 2/255. The published "hybrid" weighs the bound by 0.001; the code of DiT
by 1, which is followed, since its weights were trained so.
"""

import math
from functools import cached_property
from typing import Any

import torch

from memorisk.models.autoencoders.autoencoders import quiet_diffusers
from memorisk.runs.errors import MissingExtraError

TIMES = 1000
_BETA = (1e-4, 0.02)
_SCHEDULES: dict[str, Any] = {"linear": "linear", "cosine": "squaredcos_cap_v2"}
_HALF_BIN = 1 / 255
_SURELY_INSIDE = 0.999
_LEAST = 1e-12


def new_scheduler(*, learn_sigma: bool, schedule: str = "linear") -> Any:
    """How noise grows over 1,000 times.

    Args:
        learn_sigma: Whether the network gives a variance, too.
        schedule: "linear", its variance from 0.0001 to 0.02 (Ho et al. 2020, section 4), as the paper's DiT has it, or
            "cosine" (Nichol and Dhariwal 2021, section 3.2).

    Returns:
        A `diffusers.DDPMScheduler`.

    Raises:
        MissingExtraError: diffusers is not there.
    """
    try:
        with quiet_diffusers():
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
    """The loss of each image of a batch.

    Args:
        scheduler: A `diffusers.DDPMScheduler`; of a "learned_range" the network gives twice the channels.
        device: Where the images are.
    """

    def __init__(self, scheduler: Any, device: torch.device) -> None:
        self.scheduler, self.device = scheduler, device
        self.learn_sigma = scheduler.config.variance_type == "learned_range"

    def noised(self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """x_t, [b, c, h, w], of images, noise and times [b]."""
        return self.scheduler.add_noise(x, noise, t)

    def __call__(
        self, output: torch.Tensor, x: torch.Tensor, x_t: torch.Tensor, noise: torch.Tensor, t: torch.Tensor
    ) -> torch.Tensor:
        """The loss of each image, [b].

        Args:
            output: Of the network for ``x_t``, [b, c or 2 c, h, w].
            x: Images, [b, c, h, w].
            x_t: As `noised` gives them.
            noise: [b, c, h, w].
            t: Times from 0, [b] int64.
        """
        found, *variance = output.float().split(x.shape[1], dim=1)
        error = _each(torch.square(found - noise))
        return error + self._bound(found.detach(), variance[0], x, x_t, t) if self.learn_sigma else error

    def noise_error(self, output: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """The first term alone, [b]."""
        return _each(torch.square(output.float()[:, : noise.shape[1]] - noise))

    @cached_property
    def _tables(self) -> dict[str, torch.Tensor]:
        """By time: what turns noise into an image, and an image into the mean and variance of a step back."""
        beta = self.scheduler.betas.double().cpu()
        kept = torch.cumprod(1 - beta, dim=0)
        before = torch.cat([torch.ones(1, dtype=torch.float64), kept[:-1]])
        variance = beta * (1 - before) / (1 - kept)
        found = {
            "of_x": (1 / kept).sqrt(),
            "of_noise": (1 / kept - 1).sqrt(),
            "image": beta * before.sqrt() / (1 - kept),
            "state": (1 - before) * (1 - beta).sqrt() / (1 - kept),
            "least": torch.cat([variance[1:2], variance[1:]]).log(),  # at t = 0 it would be 0
            "most": beta.log(),
        }
        return {name: value.float().to(self.device) for name, value in found.items()}

    def _bound(
        self, found: torch.Tensor, weight: torch.Tensor, x: torch.Tensor, x_t: torch.Tensor, t: torch.Tensor
    ) -> torch.Tensor:
        """Bits a number, [b]: ``weight`` from -1 to 1 lies between the least and the most log-variance."""
        at = {name: table[t][:, None, None, None] for name, table in self._tables.items()}
        rendered = at["of_x"] * x_t - at["of_noise"] * found
        log_variance = at["least"] + (weight + 1) / 2 * (at["most"] - at["least"])
        apart = at["image"] * (x - rendered)  # of the two means
        inverse = torch.exp(-log_variance)
        divergence = log_variance - at["least"] - 1 + torch.exp(at["least"]) * inverse + torch.square(apart) * inverse
        mean = at["image"] * rendered + at["state"] * x_t
        nats = torch.where(t == 0, -_each(_log_pixel(x, mean, 0.5 * log_variance)), 0.5 * _each(divergence))
        return nats / math.log(2)


def _each(values: torch.Tensor) -> torch.Tensor:
    """The mean of each image, [b]."""
    return values.flatten(1).mean(dim=1)


def _log_pixel(x: torch.Tensor, mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """Log-probability of pixels in [-1, 1] as bins of 2/255 of a normal; the first and the last have no end."""
    apart, inverse = x - mean, torch.exp(-log_std)
    above, below = _normal(inverse * (apart + _HALF_BIN)), _normal(inverse * (apart - _HALF_BIN))
    share = torch.where(x < -_SURELY_INSIDE, above, torch.where(x > _SURELY_INSIDE, 1 - below, above - below))
    return share.clamp(min=_LEAST).log()


def _normal(z: torch.Tensor) -> torch.Tensor:
    """The normal distribution function by its tanh form (Page 1977), which the reference code takes."""
    return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
