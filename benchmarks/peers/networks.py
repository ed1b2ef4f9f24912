"""Networks that a peer's environment, which has no memorisk, builds as well. Only PyTorch is imported."""

import numpy as np
import torch
from torch import nn


def cnn2() -> nn.Module:
    """CNN-2 of paper 002, A.3, for 32 x 32 x 3, without padding: 1.7 million weights."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 1024), nn.ReLU(), nn.Linear(1024, 10),
    )  # fmt: skip


def checkpoints(data: dict[str, np.ndarray]) -> list[dict[str, torch.Tensor]]:
    """State dicts of the inputs named influence."""
    prefixes = [f"checkpoint{s}." for s in range(len(data["lrs"]))]
    return [
        {name.removeprefix(p): torch.from_numpy(value) for name, value in data.items() if name.startswith(p)}
        for p in prefixes
    ]


def tensors(data: dict[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Images [N, 3, 32, 32] in [0, 1] and labels."""
    x = torch.from_numpy(data["images"]).permute(0, 3, 1, 2).contiguous().float() / 255
    return x, torch.from_numpy(data["labels"])


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1 as Caffe has it, up to the mean of its feature maps; input in [0, 1], red first."""

    def __init__(self, weights: str) -> None:
        super().__init__()
        with np.load(weights) as file:
            self.arrays = {name: torch.from_numpy(file[name]) for name in file.files}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, 3, H, W] to [b, 512]."""
        mean = torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
        x = torch.relu(self._layer("conv1", 255 * x.flip(1) - mean, stride=2))
        for stage in ((2, 3), (4, 5), (6, 7, 8, 9)):
            x = nn.functional.max_pool2d(x, 3, 2)
            for number in stage:
                s = torch.relu(self._layer(f"fire{number}.squeeze1x1", x))
                wide = self._layer(f"fire{number}.expand3x3", s, padding=1)
                x = torch.relu(torch.cat([self._layer(f"fire{number}.expand1x1", s), wide], dim=1))
        return x.mean(dim=(2, 3))

    def _layer(self, name: str, x: torch.Tensor, stride: int = 1, padding: int = 0) -> torch.Tensor:
        weight, bias = (self.arrays[f"features.{name}.{what}"] for what in ("weight", "bias"))
        return nn.functional.conv2d(x, weight, bias, stride=stride, padding=padding)
