"""The network of copy detectors does what its formula says, at any size, whatever the brightness."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from memorisk.models.classifiers.copy_resnet import CopyResNet
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.network_parts import trunk_output


def network() -> CopyResNet:
    """A network whose normalisation statistics are not those of the start."""
    with seeded(0):
        net = CopyResNet(2, 3)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return net.eval().requires_grad_(False)


def images(size: int, n: int = 4) -> torch.Tensor:
    return torch.rand(n, 3, size, size, generator=torch.Generator().manual_seed(size))


def naive(t: dict[str, torch.Tensor], x: torch.Tensor, power: float) -> torch.Tensor:
    """One image [C, H, W], layer by layer: no module, the generalised mean as a loop over channels."""

    def norm(y: torch.Tensor, name: str) -> torch.Tensor:
        statistics = (t[f"{name}.running_mean"], t[f"{name}.running_var"])
        return F.batch_norm(y, *statistics, t[f"{name}.weight"], t[f"{name}.bias"])

    y = ((x - x.mean()) / (x.std() + 0.02))[None]
    y = F.relu(norm(F.conv2d(y, t["stem.0.weight"], stride=2, padding=2), "stem.1"))
    for block in range(4):
        name, stride = f"blocks.{block}", 1 if block == 0 else 2
        z = F.relu(norm(F.conv2d(y, t[f"{name}.conv1.weight"], stride=stride, padding=1), f"{name}.norm1"))
        z = norm(F.conv2d(z, t[f"{name}.conv2.weight"], padding=1), f"{name}.norm2")
        if block:
            y = F.avg_pool2d(y, 2)
            y = norm(F.conv2d(y, t[f"{name}.shortcut.0.weight"]), f"{name}.shortcut.1")
        y = F.relu(z + y)
    return torch.stack([(channel.clamp(min=1e-6) ** power).mean() ** (1 / power) for channel in y[0]])


def test_features_are_those_of_the_formula() -> None:
    net = network()
    net.power.fill_(2.5)
    x = images(64)
    expected = torch.stack([naive(net.double().state_dict(), one, 2.5) for one in x.double()])
    torch.testing.assert_close(trunk_output(net, x.double()), expected)
    parameters = sum(p.numel() for name, p in net.named_parameters() if not name.startswith("head"))
    assert f"{parameters:,} parameters" in (CopyResNet.__doc__ or "")


@pytest.mark.parametrize("size", [2, 7, 28, 63])
def test_any_size_will_do(size: int) -> None:
    assert trunk_output(network(), images(size)).shape == (4, 192)


def test_brightness_changes_nothing() -> None:
    """And a blank image, whose standard deviation is 0, has finite features."""
    net, x = network().double(), images(64).double() / 2
    torch.testing.assert_close(trunk_output(net, x + 0.3), trunk_output(net, x))
    assert torch.isfinite(trunk_output(net, torch.full((1, 3, 64, 64), 0.5).double())).all()


def test_depths_and_widths_are_the_class_s() -> None:
    class Deeper(CopyResNet):
        widths, depths = (8, 16), (2, 1)

    deeper = Deeper(3, 1)
    assert len(deeper.blocks) == 3
    assert deeper(torch.rand(2, 1, 32, 32)).shape == (2, 3)
