"""The networks of paper 002 layer by layer, and the known number of parameters of DenseNet-BC 100."""

import pytest
import torch
from torch import nn

from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.unique_features import CONV_DROPOUT, DENSE_DROPOUT, NAMES
from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.errors import InputError


def layers(model: nn.Module) -> list[str]:
    return [type(m).__name__ for m in model.modules() if not list(m.children()) and type(m) is not nn.Sequential]


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "side", "channels", "order", "size"),
    [
        ("mlp1", 28, 1, ["Linear", "ReLU"] * 3 + ["Linear"], 785 * 512 + 513 * 256 + 257 * 128 + 129 * 10),
        (
            "cnn1", 28, 1, ["Conv2d", "ReLU", "Conv2d", "MaxPool2d", "ReLU", *["Linear", "ReLU"] * 2, "Linear"],
            10 * 32 + 289 * 64 + (64 * 12 * 12 + 1) * 128 + 129 * 128 + 129 * 10,
        ),
        (
            "cnn2", 32, 3,
            [*["Conv2d", "ReLU", "Conv2d", "ReLU", "MaxPool2d"] * 2, "Linear", "ReLU", "Linear"],
            28 * 32 + 289 * 32 + 289 * 64 + 577 * 64 + (64 * 5 * 5 + 1) * 1024 + 1025 * 10,
        ),
    ],
)  # fmt: skip
def test_layer_by_layer(name: str, side: int, channels: int, order: list[str], size: int) -> None:
    model = create_model(name, num_classes=10, in_chans=channels, image_size=side, seed=0)
    assert layers(model) == order
    assert parameters(model) == size
    assert model(torch.zeros(2, channels, side, side)).shape == (2, 10)
    assert model_spec(name).lr == 3e-4
    regularised = create_model(f"{name}_dropout_bn", num_classes=10, in_chans=channels, image_size=side, seed=0)
    found = layers(regularised)
    for i, kind in enumerate(found):
        if kind == "ReLU":
            assert found[i - 1].startswith("BatchNorm")
            assert found[i + 1] == "Dropout"
    assert found[-2:] == ["Dropout", "Linear"]
    assert [k for k in found if not k.startswith(("BatchNorm", "Dropout"))] == order
    for module in regularised.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            assert (module.momentum, module.eps) == (0.01, 1e-3)
    rates = [m.p for m in regularised.modules() if isinstance(m, nn.Dropout)]
    behind_convolutions = order[: order.index("Linear")].count("ReLU")
    assert rates == [CONV_DROPOUT] * behind_convolutions + [DENSE_DROPOUT] * (order.count("Linear") - 1)


def test_densenet_has_its_known_size() -> None:
    model = create_model("densenet100", num_classes=10, image_size=32, seed=0).eval()
    assert parameters(model) == 769_162
    convolutions = sum(isinstance(m, nn.Conv2d) for m in model.modules())
    assert convolutions + 1 == 100  # and the linear layer
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_every_name_can_be_built_and_small_images_are_refused() -> None:
    assert len(NAMES) == 12
    for name in NAMES:
        model = create_model(name, num_classes=3, in_chans=1, image_size=28, seed=1)
        assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 3)
    with pytest.raises(InputError, match="images of 8 px are too small for cnn2"):
        create_model("cnn2", num_classes=3, in_chans=1, image_size=8, seed=1)
