"""Diffusion networks as predictors of noise, with the noise as an argument (METHODS section 7, "Score").

A noised image is x_t = sqrt(a_t) x + sqrt(1 - a_t) e, e ~ N(0, 1); a_t (alpha_bar) is the share of the image in the
variance. What a network predicts of it differs; each prediction gives the noise:

    epsilon        e                                   as it is (Ho et al. 2020)
    v_prediction   v = sqrt(a_t) e - sqrt(1 - a_t) x   e = sqrt(a_t) v + sqrt(1 - a_t) x_t (Salimans and Ho 2022)
    sample         x                                   e = (x_t - sqrt(a_t) x) / sqrt(1 - a_t)
    sigma          x, of x + s e, s^2 = (1 - a_t)/a_t  the same (Karras et al. 2022, "EDM", equation 7: D(x; s))

so that networks of any of these kinds are compared by one loss on the same noise
(`memorisk.models.generators.noise_losses`).

A latent diffusion model has latents as its images: pass the posterior mean, scaled as in its training.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from memorisk.runs.errors import InputError, one_line, unknown_name

PREDICTIONS = ("epsilon", "v_prediction", "sample", "sigma")
"""Predictions of networks; the first three names are diffusers'."""

LEAST_SIGNAL = 0.01
"""Least share of the image in the variance at which `levels` looks: below, x_t hardly depends on the image."""

LEAST_NOISE = 1 / 255
"""Least noise at which `levels` looks, over the signal: half a grey level of 8-bit pixels in [-1, 1]."""


@dataclass(frozen=True, eq=False)
class Denoiser:
    """Network that predicts the noise of an image.

    Example:
        >>> signal = torch.tensor([0.9, 0.5, 0.1])
        >>> perfect = Denoiser(lambda x_t, t: torch.zeros_like(x_t), signal, "sample")  # every image is black
        >>> x, noise = torch.zeros(2, 1, 4, 4), torch.ones(2, 1, 4, 4)
        >>> perfect.noise_error(x, noise, 1).tolist()
        [0.0, 0.0]
    """

    network: Callable[..., Any]
    """Network in the form of diffusers': called as ``network(x_t, time)``, or ``network(x_t, time, condition)`` where
    there is a condition. Times are [b] int64, for ``sigma`` [b] levels s. It returns a tensor [b, c or 2 c, ...], a
    tuple that begins with it, or an object with it as ``sample``; of twice the channels the second half is a
    variance."""
    alpha_bar: torch.Tensor
    """Share of the image in the variance at each time, [T], falling."""
    prediction: str = "epsilon"
    """Prediction of the network, one of `PREDICTIONS`."""
    null: torch.Tensor | None = None
    """Condition that means none, [1, ...], for a network that needs one; without it, the network is called without."""
    guidance: float = 1.0
    """Scale s of classifier-free guidance (Ho and Salimans 2022): e_null + s (e_condition - e_null)."""

    def __post_init__(self) -> None:
        if self.prediction not in PREDICTIONS:
            raise unknown_name("prediction", one_line(self.prediction, 40), PREDICTIONS)
        share = torch.as_tensor(self.alpha_bar).detach().to("cpu", torch.float64)
        falls = share.ndim == 1 and len(share) > 0 and bool((share.diff() < 0).all())
        if not (falls and float(share[0]) < 1 and float(share[-1]) >= 0):
            raise InputError(
                f"alpha_bar of shape {list(share.shape)} is not a schedule: give one number per time, each below the "
                "one before it, from below 1 down to at least 0"
            )
        object.__setattr__(self, "alpha_bar", share)

    @classmethod
    def from_scheduler(
        cls, network: Callable[..., Any], scheduler: Any, *, null: torch.Tensor | None = None
    ) -> "Denoiser":
        """Wrap a network by the scheduler of its training.

        Args:
            network: Network, as in `Denoiser`.
            scheduler: Scheduler of diffusers or MONAI, or an object with ``alphas_cumprod`` [T] and, by itself or in
                its ``config``, ``prediction_type``.
            null: Condition that means none, as in `Denoiser`.

        Raises:
            InputError: The scheduler has no such levels, or an unknown prediction.
        """
        share = getattr(scheduler, "alphas_cumprod", None)
        if share is None:
            raise InputError(
                f"{type(scheduler).__name__} has no alphas_cumprod: give the scheduler of the training (as "
                "DDPMScheduler), or use Denoiser.from_sigmas for a network of EDM"
            )
        prediction = getattr(getattr(scheduler, "config", scheduler), "prediction_type", "epsilon")
        return cls(network, torch.as_tensor(share), getattr(prediction, "value", prediction), null)

    @classmethod
    def from_sigmas(cls, network: Callable[..., Any], sigmas: Any) -> "Denoiser":
        """Wrap a network of EDM, D(x + s e; s), preconditioning included.

        Args:
            network: Network, called as ``network(x + s e, s)``, s [b].
            sigmas: Noise levels, [T], rising from above 0; they become the times of the denoiser.

        Raises:
            InputError: The levels do not rise from above 0.
        """
        s = torch.as_tensor(sigmas, dtype=torch.float64)
        return cls(network, 1 / (1 + s.square()), "sigma")

    @cached_property
    def log_snr(self) -> np.ndarray:
        """Return the log of signal over noise at each time, log(a / (1 - a)), [T]; -inf where the image is lost."""
        share = self.alpha_bar.numpy()
        with np.errstate(divide="ignore"):
            return np.log(share) - np.log1p(-share)

    @property
    def device(self) -> torch.device:
        """Return the device of the network's weights."""
        network: Any = self.network
        first = next(network.parameters(), None) if isinstance(network, nn.Module) else None
        return torch.device("cpu") if first is None else first.device

    def nearest_time(self, alpha_bar: float) -> int:
        """Return the time whose log of signal over noise is nearest to that of a share of the image in the variance.

        Attacks are published with times of one schedule; the share carries them over to another.

        Args:
            alpha_bar: Share of the image in the variance, between 0 and 1.

        Raises:
            InputError: The share is outside.
        """
        if not 0 < alpha_bar < 1:
            raise InputError(f"alpha_bar is {alpha_bar}; it must be between 0 and 1")
        return int(np.abs(self.log_snr - (np.log(alpha_bar) - np.log1p(-alpha_bar))).argmin())

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Evaluate without gradients, dropout or rounded products (TF32); leaving restores the network's modes."""
        network: Any = self.network
        parts = list(network.modules()) if isinstance(network, nn.Module) else []
        modes = [part.training for part in parts]
        for part in parts:
            part.training = False
        exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        try:
            with torch.inference_mode(), exact:
                yield
        finally:
            for part, mode in zip(parts, modes, strict=True):
                part.training = mode

    def noised(self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor | int) -> torch.Tensor:
        """Compute x_t, [b, c, ...].

        Args:
            x: Images, [b, c, h, w] or [b, c, d, h, w].
            noise: Noise, shaped as the images.
            t: Times from 0, [b] int64 or one for all.
        """
        signal, spread = self._scales(x, t)
        return signal * x + spread * noise

    def image_of(self, x_t: torch.Tensor, noise: torch.Tensor, t: torch.Tensor | int) -> torch.Tensor:
        """Compute the image of which x_t is noised, [b, c, ...]: the inverse of `noised`.

        Args:
            x_t: Noised images, [b, c, h, w] or [b, c, d, h, w].
            noise: Noise, shaped as the images.
            t: Times from 0, [b] int64 or one for all.
        """
        signal, spread = self._scales(x_t, t)
        return (x_t - spread * noise) / signal

    def predict_noise(
        self, x_t: torch.Tensor, t: torch.Tensor | int, condition: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Predict the noise of noised images, [b, c, ...].

        Args:
            x_t: Noised images, [b, c, h, w] or [b, c, d, h, w].
            t: Times from 0, [b] int64 or one for all.
            condition: Conditions, [b, ...]; None for the prediction without one.

        Raises:
            InputError: The network returns another shape.
        """
        if condition is None or self.guidance == 1:
            return self._unguided(x_t, t, condition)
        without = self._unguided(x_t, t, None)
        return without + self.guidance * (self._unguided(x_t, t, condition) - without)

    def noise_error(
        self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor | int, condition: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute the mean squared error of the predicted noise of each image, [b].

        Args:
            x: Images, [b, c, h, w] or [b, c, d, h, w].
            noise: Noise, shaped as the images.
            t: Times from 0, [b] int64 or one for all.
            condition: Conditions, [b, ...], or None.

        Raises:
            InputError: The network returns another shape.
        """
        predicted = self.predict_noise(self.noised(x, noise, t), t, condition)
        return _mean_square(predicted - noise, 1)

    def noise_errors(
        self, x: torch.Tensor, noise: torch.Tensor, times: torch.Tensor, condition: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute `noise_error` of each image at each time, [b, L], in one pass of b L rows.

        Images and noise are copied for no row, which counts where the network is small.

        Args:
            x: Images, [b, c, h, w] or [b, c, d, h, w].
            noise: Noise, shaped as the images.
            times: Times from 0, [L] int64.
            condition: Conditions, [b, ...], or None.

        Raises:
            InputError: The network returns another shape.
        """
        n = len(times)
        signal, spread = (scale[None] for scale in self._scales(x[:1].expand(n, *x.shape[1:]), times))
        x_t = (signal * x[:, None]).addcmul_(spread, noise[:, None]).flatten(0, 1)
        conditions = None if condition is None else condition.repeat_interleave(n, dim=0)
        predicted = self.predict_noise(x_t, times.repeat(len(x)), conditions).unflatten(0, (len(x), n))
        return _mean_square(predicted - noise[:, None], 2)

    def _unguided(self, x_t: torch.Tensor, t: torch.Tensor | int, condition: torch.Tensor | None) -> torch.Tensor:
        """Predict the noise by one pass of the network."""
        scaled = None if self.prediction == "epsilon" else self._scales(x_t, t)
        if scaled is not None and self.prediction == "sigma":
            x_in, time = x_t / scaled[0], (scaled[1] / scaled[0]).flatten()
        else:
            x_in, time = x_t, torch.as_tensor(t, device=x_t.device).expand(len(x_t))
        if condition is None and self.null is not None:
            condition = self.null.to(x_t.device).expand(len(x_t), *self.null.shape[1:])
        answer = self.network(x_in, time) if condition is None else self.network(x_in, time, condition)
        answer = _first_channels(answer, x_t)
        if scaled is None:
            return answer
        signal, spread = scaled
        return signal * answer + spread * x_t if self.prediction == "v_prediction" else (x_t - signal * answer) / spread

    def _scales(self, x: torch.Tensor, t: torch.Tensor | int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sqrt(a_t) and sqrt(1 - a_t), both [b, 1, 1, ...] in the images' type."""
        times = torch.as_tensor(t)
        share = self.alpha_bar.to(times.device)[times].expand(len(x)).view(-1, *[1] * (x.ndim - 1))
        return share.sqrt().to(x), (1 - share).sqrt().to(x)


def usable_times(denoiser: Denoiser) -> np.ndarray:
    """Return the times among which `levels` chooses, [u] int64: neither the image nor the noise is next to nothing.

    Args:
        denoiser: Denoiser with its schedule.
    """
    low, high = np.log(LEAST_SIGNAL / (1 - LEAST_SIGNAL)), -2 * np.log(LEAST_NOISE)
    return np.flatnonzero((denoiser.log_snr >= low) & (denoiser.log_snr <= high))


def levels(denoiser: Denoiser, n: int = 10) -> np.ndarray:
    """Choose the times nearest to an even grid in the log of signal over noise, no two equal.

    The grid spans the usable part of the schedule: times at which the image has at least `LEAST_SIGNAL` of the
    variance and the noise is at least `LEAST_NOISE` of the signal, log(a / (1 - a)) from -4.6 to 11.1. The ends of the
    grid are the ends of that part. The distances to the grid are least in total.

    Args:
        denoiser: Denoiser with its schedule.
        n: Number of times.

    Returns:
        Times, [n] int64, from the least noise.

    Raises:
        InputError: Fewer than ``n`` times are usable.

    Example:
        >>> schedule = torch.linspace(0.999, 0.001, 1000)
        >>> levels(Denoiser(lambda x, t: x, schedule), 5).tolist()
        [0, 16, 230, 838, 989]
    """
    log_snr, usable = denoiser.log_snr, usable_times(denoiser)
    if n < 1 or len(usable) < n:
        raise InputError(f"{n} levels are requested of a schedule with {len(usable)} usable times: ask for 1 to that")
    grid = np.linspace(log_snr[usable[0]], log_snr[usable[-1]], n)
    _, nearest = linear_sum_assignment(np.abs(grid[:, None] - log_snr[usable][None]))
    return np.sort(usable[nearest]).astype(np.int64)


def check_images(images: np.ndarray | torch.Tensor, ids: Sequence[str], conditions: torch.Tensor | None) -> None:
    """Refuse images, ids and conditions that do not fit each other.

    Args:
        images: Images, [N, c, h, w] or [N, c, d, h, w] floating.
        ids: Ids of the images, [N].
        conditions: Conditions of the images, [N, ...], or None.

    Raises:
        InputError: They do not.
    """
    floating = images.is_floating_point() if torch.is_tensor(images) else np.dtype(images.dtype).kind == "f"
    if images.ndim not in (4, 5) or not floating:
        raise InputError(
            f"images are {images.dtype} of shape {list(images.shape)}: give floating [N, c, h, w] or [N, c, d, h, w], "
            "scaled as in the training of the network"
        )
    for name, rows in (("ids", ids), ("conditions", conditions)):
        if rows is not None and len(rows) != len(images):
            raise InputError(f"there are {len(rows)} {name} for {len(images)} images: give one to each image")


def part_of(images: np.ndarray | torch.Tensor, begin: int, end: int, device: torch.device) -> torch.Tensor:
    """Return some of the images on a device, float32; of a file that is mapped into memory, only these are read.

    Args:
        images: Images, [N, ...].
        begin: Place of the first.
        end: Place after the last.
        device: Device that computes.
    """
    part: Any = images[begin:end]
    return (part if torch.is_tensor(part) else torch.from_numpy(np.array(part))).to(device, torch.float32)


def _first_channels(answer: Any, x_t: torch.Tensor) -> torch.Tensor:
    """Return a network's prediction, [b, c, ...], without a variance.

    Raises:
        InputError: It has another shape.
    """
    output = answer[0] if isinstance(answer, tuple) else getattr(answer, "sample", answer)
    shape, channels = tuple(output.shape), x_t.shape[1]
    if shape not in ((len(x_t), k * channels, *x_t.shape[2:]) for k in (1, 2)):
        raise InputError(
            f"the network answers {list(shape)} to images of {list(x_t.shape)}: it must keep their shape, or give "
            f"{2 * channels} channels, of which the second half is a variance"
        )
    return output[:, :channels].to(x_t.dtype)


def _mean_square(difference: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the mean square over the dimensions from ``dim``; the difference is lost."""
    return difference.square_().flatten(dim).mean(dim=dim)
