"""The losses of a diffusion model against their definitions, in float64 and by SciPy's normal distribution."""

import numpy as np
import pytest
import torch

from memorisk.training.generators.losses import TIMES, DiffusionLoss, new_scheduler

pytest.importorskip("diffusers")

CPU = torch.device("cpu")


def naive_bound(found: np.ndarray, weight: np.ndarray, x: np.ndarray, x_t: np.ndarray, t: int) -> float:
    """Nichol and Dhariwal 2021, number by number: KL of two normals in bits, or the likelihood of an 8-bit pixel."""
    beta = np.linspace(1e-4, 0.02, TIMES)
    kept = np.cumprod(1 - beta)
    before = kept[t - 1] if t else 1.0
    spread = beta * (1 - np.concatenate([[1.0], kept[:-1]])) / (1 - kept)
    least, most = np.log(spread[max(t, 1)]), np.log(beta[t])
    of_x, of_state = np.sqrt(before) * beta[t] / (1 - kept[t]), np.sqrt(1 - beta[t]) * (1 - before) / (1 - kept[t])
    total = 0.0
    for e, v, a, b in zip(found.ravel(), weight.ravel(), x.ravel(), x_t.ravel(), strict=True):
        rendered = (b - np.sqrt(1 - kept[t]) * e) / np.sqrt(kept[t])
        true, mean = of_x * a + of_state * b, of_x * rendered + of_state * b
        log_variance = (v + 1) / 2 * most + (1 - (v + 1) / 2) * least
        if t == 0:
            std = np.exp(log_variance / 2)
            above = cdf((a + 1 / 255 - mean) / std) if a < 0.999 else 1.0
            below = cdf((a - 1 / 255 - mean) / std) if a > -0.999 else 0.0
            total -= np.log(max(above - below, 1e-12))
        else:
            ratio = np.exp(least - log_variance)
            total += 0.5 * (log_variance - least - 1 + ratio + (true - mean) ** 2 / np.exp(log_variance))
    return total / found.size / np.log(2)


def cdf(z: float) -> float:
    return 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def batch(seed: int, scheduler, times: list[int], channels: int = 2):
    generator = torch.Generator().manual_seed(seed)
    b = len(times)
    x = torch.rand((b, channels, 4, 4), generator=generator) * 2 - 1
    x[:, 0, 0, 0], x[:, 0, 0, 1] = 1.0, -1.0  # the pixels without an end
    noise = torch.randn(x.shape, generator=generator)
    t = torch.tensor(times)
    x_t = scheduler.add_noise(x, noise, t)
    output = torch.cat([noise + 0.1 * torch.randn(x.shape, generator=generator), torch.rand(x.shape) * 2 - 1], dim=1)
    return x, noise, t, x_t, output


def test_noise_is_added_as_the_formula_says_and_its_error_is_a_mean_over_each_image() -> None:
    scheduler = new_scheduler(learn_sigma=False)
    loss = DiffusionLoss(scheduler, CPU)
    x, noise, t, _, output = batch(0, scheduler, [0, 7, 999])
    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, TIMES))[t.numpy()][:, None, None, None]
    expected = np.sqrt(kept) * x.numpy() + np.sqrt(1 - kept) * noise.numpy()
    x_t = loss.noised(x, noise, t)
    np.testing.assert_allclose(x_t.numpy(), expected, atol=1e-5)
    found = loss(output[:, :2], x, x_t, noise, t)
    np.testing.assert_allclose(found.numpy(), ((output[:, :2] - noise) ** 2).numpy().mean(axis=(1, 2, 3)), rtol=1e-5)


def test_the_bound_equals_its_definition_at_every_kind_of_time() -> None:
    scheduler = new_scheduler(learn_sigma=True)
    loss = DiffusionLoss(scheduler, CPU)
    x, noise, t, x_t, output = batch(1, scheduler, [0, 1, 2, 500, 999])
    error = ((output[:, :2] - noise) ** 2).mean(dim=(1, 2, 3)).numpy()
    found = loss(output, x, x_t, noise, t).numpy()
    parts = [a.double().numpy() for a in (output[:, :2], output[:, 2:], x, x_t)]
    bounds = [naive_bound(*(part[i] for part in parts), int(t[i])) for i in range(len(t))]
    assert min(bounds) > 0
    np.testing.assert_allclose(found - error, bounds, rtol=2e-3, atol=2e-6)


def test_the_bound_teaches_the_variance_alone() -> None:
    scheduler = new_scheduler(learn_sigma=True)
    loss = DiffusionLoss(scheduler, CPU)
    x, noise, t, x_t, output = batch(2, scheduler, [0, 3, 800])
    output.requires_grad_()
    loss(output, x, x_t, noise, t).sum().backward()
    assert output.grad is not None
    mean, variance = output.grad.split(2, dim=1)
    expected = 2 * (output[:, :2] - noise) / noise[0].numel()  # of the error of the noise alone
    torch.testing.assert_close(mean, expected.detach(), rtol=1e-5, atol=1e-8)
    assert variance.abs().flatten(1).sum(dim=1).min() > 0
