"""Data and networks that the training tests share."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Digits:
    """scikit-learn's scans as an image store holds them."""

    images: np.ndarray
    labels: np.ndarray
    features: np.ndarray


class NoisyNet(nn.Module):
    """Batch normalisation and dropout in one small net: running statistics, and draws in every step."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(torch.relu(self.norm(self.conv(x))).mean(dim=(2, 3))))


def weights_of(model: nn.Module) -> bytes:
    """All parameters and buffers as bytes."""
    return b"".join(value.detach().contiguous().numpy().tobytes() for value in model.state_dict().values())
