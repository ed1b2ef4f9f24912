"""The network of copy detectors does what its formula says, for any pose of an image, at any size and brightness."""

from functools import cache

import pytest
import torch
import torch.nn.functional as F

from memorisk.models.classifiers.copy_resnet import POSES, CopyResNet, pose
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.network_parts import trunk_output


def network() -> CopyResNet:
    """A network whose normalisation statistics, scales and shifts are not those of the start."""
    with seeded(0):
        net = CopyResNet(2, 3)
        for name, tensor in net.state_dict().items():
            if name.endswith((".mean", ".shift")):
                tensor.normal_(std=0.2)
            elif name.endswith((".variance", ".scale")):
                tensor.uniform_(0.5, 2)
    return net.eval().requires_grad_(False)


def images(size: int, n: int = 4) -> torch.Tensor:
    return torch.rand(n, 3, size, size, generator=torch.Generator().manual_seed(size))


@cache
def quotient(g: int, h: int) -> int:
    """The pose that g must follow to be h, found by trying all on a picture."""
    picture = torch.arange(9).reshape(3, 3)
    return next(q for q in range(POSES) if torch.equal(pose(pose(picture, q), g), pose(picture, h)))


def naive(t: dict[str, torch.Tensor], x: torch.Tensor, power: float) -> torch.Tensor:
    """One image [C, H, W], layer by layer and pose by pose: no module, no gathered kernels."""

    def norm(y: torch.Tensor, name: str) -> torch.Tensor:
        return torch.stack(
            [
                (y[channel] - t[f"{name}.mean"][first : first + 8].mean())
                / (t[f"{name}.variance"][first : first + 8].mean() + 1e-5).sqrt()
                * t[f"{name}.scale"][channel // 8]
                + t[f"{name}.shift"][channel // 8]
                for channel in range(len(y))
                for first in [channel // 8 * 8]
            ]
        )

    def convolved(y: torch.Tensor, name: str, side: int) -> torch.Tensor:
        kernels = t[f"{name}.weight"].unflatten(2, (8, side, side))
        out = []
        for field in kernels:
            for g in range(8):
                kernel = [pose(psi[quotient(g, h)], g) for psi in field for h in range(8)]
                out.append(F.conv2d(y[None], torch.stack(kernel)[None], padding=side // 2)[0, 0])
        return torch.stack(out)

    y = (x - x.mean()) / (x.std() + 0.02)
    first = [pose(kernel, g) for kernel in t["stem.weight"] for g in range(8)]
    y = norm(F.conv2d(y[None], torch.stack(first), stride=2, padding=1)[0], "norm").relu()
    for block in range(4):
        name = f"blocks.{block}"
        if block:
            y = F.avg_pool2d(y, 2)
        z = norm(convolved(y, f"{name}.first", 3), f"{name}.first_norm").relu()
        z = norm(convolved(z, f"{name}.second", 3), f"{name}.second_norm")
        if block:
            y = norm(convolved(y, f"{name}.shortcut.0", 1), f"{name}.shortcut.1")
        y = (z + y).relu()
    y = norm(convolved(y, "last", 1), "last_norm").relu()
    return torch.stack([(field.clamp(min=1e-4) ** power).mean() ** (1 / power) for field in y.unflatten(0, (-1, 8))])


@pytest.mark.thorough
def test_features_are_those_of_the_formula() -> None:
    net = network()
    net.power.fill_(2.5)
    x = images(32, 2)
    expected = torch.stack([naive(net.double().state_dict(), one, 2.5) for one in x.double()])
    torch.testing.assert_close(trunk_output(net, x.double()), expected)


def test_all_poses_of_an_image_have_the_same_features() -> None:
    net, x = network().double(), images(64).double()
    features = trunk_output(net, x)
    for g in range(1, POSES):
        assert not torch.equal(pose(x, g), x)
        torch.testing.assert_close(trunk_output(net, pose(x, g)), features)
    assert (features[0] - features[1]).abs().max() > 1e-3


def test_a_step_of_training_keeps_the_poses_alike() -> None:
    net = network().train().requires_grad_(True)
    x, optimizer = images(32, 8), torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(x).square().mean().backward()
        optimizer.step()
    net.eval().double()
    torch.testing.assert_close(trunk_output(net, pose(x, 5).double()), trunk_output(net, x.double()))


@pytest.mark.parametrize("size", [2, 7, 28, 63])
def test_any_size_will_do(size: int) -> None:
    assert trunk_output(network(), images(size)).shape == (4, 128)


def test_brightness_changes_nothing() -> None:
    """And a blank image, whose standard deviation is 0, has finite features."""
    net, x = network().double(), images(64).double() / 2
    torch.testing.assert_close(trunk_output(net, x + 0.3), trunk_output(net, x))
    assert torch.isfinite(trunk_output(net, torch.full((1, 3, 64, 64), 0.5).double())).all()


def test_depths_and_fields_are_the_class_s() -> None:
    class Deeper(CopyResNet):
        fields, depths, top = (2, 3), (2, 1), 8

    deeper = Deeper(3, 1)
    assert len(deeper.blocks) == 3
    assert deeper(torch.rand(2, 1, 32, 32)).shape == (2, 3)
