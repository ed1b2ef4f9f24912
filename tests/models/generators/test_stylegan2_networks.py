"""Networks of StyleGAN2: shapes at every size, truncation, the deviation within a batch."""

import numpy as np
import pytest
import torch

from memorisk.models.generators.stylegan2_networks import Discriminator, GeneratorNetwork, Mapping, append_deviation
from memorisk.models.settings import GanSpec


def spec(size: int = 16, channels: int = 1) -> GanSpec:
    return GanSpec(size=size, channels=channels, style=8, mapping_layers=2, features=64, features_max=8)


@pytest.mark.parametrize(("size", "channels"), [(8, 3), (32, 1), (128, 1)])
def test_images_have_their_size_and_logits_are_one_an_image(size: int, channels: int) -> None:
    torch.manual_seed(0)
    of = spec(size, channels)
    noises = [torch.randn(3, 1, side, side) for side in of.noise_sides]
    images = GeneratorNetwork(of)(torch.randn(3, 8), noises)
    assert images.shape == (3, channels, size, size)
    assert Discriminator(of)(images).shape == (3,)
    assert of.sides[-1] == size
    assert len(of.noise_sides) == 2 * len(of.sides) - 1


def test_every_parameter_and_every_style_reaches_the_image() -> None:
    torch.manual_seed(0)
    of = spec(16)
    network, noises = GeneratorNetwork(of), [torch.randn(2, 1, side, side) for side in of.noise_sides]
    network(torch.randn(2, 8), noises).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in network.parameters())
    styles = torch.randn(2, of.styles, 8, requires_grad=True)
    network.synthesis(styles, noises).square().sum().backward()
    assert styles.grad is not None
    assert bool(styles.grad.abs().sum(dim=(0, 2)).gt(0).all())


def test_the_mapping_sees_the_direction_of_z_alone() -> None:
    torch.manual_seed(0)
    mapping, z = Mapping(spec()), torch.randn(3, 8)
    torch.testing.assert_close(mapping(z), mapping(7 * z))


def test_truncation_goes_towards_the_running_mean() -> None:
    torch.manual_seed(0)
    mapping, z = Mapping(spec()), torch.randn(4, 8)
    w = mapping(z)
    for _ in range(3):
        mapping.follow(w)
    torch.testing.assert_close(mapping.average, w.mean(dim=0) * (1 - 0.995**3))
    torch.testing.assert_close(mapping(z, truncation=0.7), mapping.average + 0.7 * (w - mapping.average))
    assert torch.equal(mapping(z, truncation=1.0), w)


@pytest.mark.parametrize(("b", "groups"), [(8, [[0, 2, 4, 6], [1, 3, 5, 7]]), (6, [[0, 2, 4], [1, 3, 5]]), (1, [[0]])])
def test_deviation_of_a_group_stands_at_each_of_its_images(b: int, groups: list[list[int]]) -> None:
    x = torch.randn(b, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    found = append_deviation(x)
    assert torch.equal(found[:, :3], x)
    for rows in groups:
        wanted = np.sqrt(x[rows].double().numpy().var(axis=0) + 1e-8).mean()
        np.testing.assert_allclose(found[rows, 3].numpy(), wanted, rtol=1e-5)
