"""Losses of a GAN against their definitions, image by image, and what is trained on against finite differences."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.models.generators.stylegan2_generator import new_gan
from memorisk.models.settings import GanSpec
from memorisk.training.generators.losses import discriminator_loss, generator_loss, path_lengths, r1_penalty

SPEC = GanSpec(size=8, channels=1, style=4, mapping_layers=1, features=32, features_max=4)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slope(value: Callable[[], torch.Tensor], parameter: torch.Tensor, index: tuple[int, ...]) -> float:
    """Central difference of a value by one number of a parameter."""
    step, found = 1e-5, []
    for sign in (1, -1):
        with torch.no_grad():
            parameter[index] += sign * step
        found.append(float(value().detach()))
        with torch.no_grad():
            parameter[index] -= sign * step
    return (found[0] - found[1]) / (2 * step)


def test_logistic_losses_are_their_formulas() -> None:
    fake, real = drawn(5), drawn(5, seed=1)
    f, r = fake.numpy(), real.numpy()
    assert float(generator_loss(fake)) == pytest.approx(np.log1p(np.exp(-f)).mean())
    assert float(discriminator_loss(fake, real)) == pytest.approx(
        np.log1p(np.exp(f)).mean() + np.log1p(np.exp(-r)).mean()
    )


def test_r1_is_the_squared_gradient_of_each_image_and_can_be_trained_on() -> None:
    torch.manual_seed(0)
    first = nn.Conv2d(1, 3, 3)
    network = nn.Sequential(first, nn.Softplus(), nn.Flatten(), nn.Linear(48, 1), nn.Flatten(0)).double()
    images = drawn(4, 1, 6, 6)

    def penalty() -> torch.Tensor:
        return r1_penalty(network, images)

    naive = []
    for image in images:
        leaf = image[None].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(network(leaf).sum(), leaf)
        naive.append(float((gradient**2).sum()))
    np.testing.assert_allclose(penalty().detach().numpy(), naive, rtol=1e-12)
    weight = first.weight
    (found,) = torch.autograd.grad(penalty().mean(), weight)
    for index in ((0, 0, 0, 0), (2, 0, 1, 2)):
        assert float(found[index]) == pytest.approx(slope(lambda: penalty().mean(), weight, index), rel=1e-5)


def test_path_length_is_that_of_the_jacobian_and_can_be_trained_on() -> None:
    generator, _ = new_gan(SPEC, 0)
    styles, noise = drawn(3, SPEC.styles, 4).float().requires_grad_(), drawn(3, 1, 8, 8, seed=1).float()
    noises = [torch.randn(3, 1, side, side) for side in SPEC.noise_sides]
    found = path_lengths(lambda w: generator.synthesis(w, noises), styles, noise)
    for k in range(3):
        own = [layer[k : k + 1] for layer in noises]
        jacobian = torch.autograd.functional.jacobian(
            lambda w, own=own: generator.synthesis(w[None], own)[0, 0], styles[k].detach()
        )
        assert isinstance(jacobian, torch.Tensor)  # [h, w, layers, style]
        product = np.einsum("hwls,hw->ls", jacobian.numpy(), noise[k, 0].numpy() / np.sqrt(64))
        assert float(found[k].detach()) == pytest.approx(np.sqrt((product**2).sum(axis=1).mean()), rel=1e-4)
    gradients = torch.autograd.grad(found.square().mean(), list(generator.synthesis.convs.parameters()))
    assert all(bool(torch.isfinite(g).all()) for g in gradients)
    assert sum(bool(g.any()) for g in gradients) > len(gradients) / 2

    layer = nn.Linear(4, 16).double()
    w, y = drawn(2, 3, 4).requires_grad_(), drawn(2, 1, 4, 4, seed=2)

    def lengths() -> torch.Tensor:
        return path_lengths(lambda w: layer(w).tanh().sum(dim=1).view(-1, 1, 4, 4), w, y).mean()

    (found_slope,) = torch.autograd.grad(lengths(), layer.weight)
    assert float(found_slope[3, 1]) == pytest.approx(slope(lengths, layer.weight, (3, 1)), rel=1e-5)
