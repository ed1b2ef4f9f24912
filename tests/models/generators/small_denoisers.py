"""One tiny network in every form that a diffusion network has, written out from the definitions."""

from collections.abc import Callable

import torch

from memorisk.models.generators.denoiser import Denoiser

TIMES = 1000
ALPHA_BAR = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES, dtype=torch.float64), dim=0)
"""The linear schedule of Ho et al. 2020."""


def epsilon(x_t: torch.Tensor, t: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
    """Noise that the tiny network predicts: it depends on neighbours, on the time and on the condition."""
    per_image = (slice(None), *[None] * (x_t.ndim - 1))
    shift = 0.0 if condition is None else condition.to(x_t)[per_image]
    speed = (0.2 + t.to(x_t) / TIMES)[per_image]
    return torch.tanh(speed * x_t + 0.3 * x_t.roll(1, -1) - 0.1 * x_t.roll(1, -2) + shift)


def _scales(x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    share = ALPHA_BAR[t].to(x)[(slice(None), *[None] * (x.ndim - 1))]
    return share**0.5, (1 - share) ** 0.5


def velocity(x_t: torch.Tensor, t: torch.Tensor, *condition: torch.Tensor) -> torch.Tensor:
    """Salimans and Ho 2022: v = a e - s x, of the same network."""
    a, s = _scales(x_t, t)
    e = epsilon(x_t, t, *condition)
    return a * e - s * (x_t - s * e) / a


def image(x_t: torch.Tensor, t: torch.Tensor, *condition: torch.Tensor) -> torch.Tensor:
    """The image that the same network takes x_t for."""
    a, s = _scales(x_t, t)
    return (x_t - s * epsilon(x_t, t, *condition)) / a


def with_variance(x_t: torch.Tensor, t: torch.Tensor, *condition: torch.Tensor) -> torch.Tensor:
    """Twice the channels: noise, then a variance that must not count."""
    return torch.cat([epsilon(x_t, t, *condition), torch.full_like(x_t, 7.0)], dim=1)


def edm(y: torch.Tensor, sigma: torch.Tensor, *condition: torch.Tensor) -> torch.Tensor:
    """Karras et al. 2022: D(y; sigma) of y = x + sigma n; its raw network is chosen so that D is that of `image`.

    D = c_skip y + c_out F(c_in y, c_noise), with c_skip = d^2 / (sigma^2 + d^2), c_out = sigma d / sqrt(sigma^2 + d^2).
    """
    sigmas = ((1 - ALPHA_BAR) / ALPHA_BAR).sqrt()
    t = (sigmas[None] - sigma.double()[:, None]).abs().argmin(dim=1)
    s = sigma[(slice(None), *[None] * (y.ndim - 1))]
    data = 0.5
    c_skip, c_out = data**2 / (s**2 + data**2), s * data / (s**2 + data**2) ** 0.5
    target = y - s * epsilon(y / (1 + s**2) ** 0.5, t, *condition)
    raw = (target - c_skip * y) / c_out
    return c_skip * y + c_out * raw


def _of(network: Callable[..., torch.Tensor], prediction: str) -> Denoiser:
    return Denoiser(network, ALPHA_BAR, prediction)


FORMS: dict[str, Denoiser] = {
    "epsilon": _of(epsilon, "epsilon"),
    "v": _of(velocity, "v_prediction"),
    "x0": _of(image, "sample"),
    "learned variance": _of(with_variance, "epsilon"),
    "EDM": Denoiser.from_sigmas(edm, ((1 - ALPHA_BAR) / ALPHA_BAR).sqrt()),
}
"""The same network in every form."""


def images(n: int, shape: tuple[int, ...] = (2, 4, 5), seed: int = 0) -> torch.Tensor:
    """Random images, [n, *shape]."""
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def names(n: int) -> list[str]:
    """Ids of the images."""
    return [f"patient-{i}/image.png" for i in range(n)]
