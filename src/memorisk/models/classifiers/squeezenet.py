"""SqueezeNet 1.1 (Iandola et al. 2016) as Caffe and Keras have it: a small trunk with published weights.

It differs from torchvision's in its input (blue, green, red; 0 to 255 minus a mean) and in that its pools drop the last
row where they do not fit. The trunk's 722,496 parameters have the names ``features.<layer>.weight`` and ``.bias``.
"""

from collections import OrderedDict

import torch
from torch import nn


class _Fire(nn.Module):
    """1x1 convolutions that squeeze, then 1x1 and 3x3 ones that expand, side by side."""

    def __init__(self, width_in: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze1x1 = nn.Conv2d(width_in, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.squeeze1x1(x))
        return torch.relu(torch.cat([self.expand1x1(x), self.expand3x3(x)], dim=1))


class SqueezeNet(nn.Module):
    """Eight fire modules, then the mean over pixels and one linear layer in place of the ImageNet classifier.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image, red first; they are reversed inside, as the weights expect.
    """

    head_name = "head"
    stem_name = "features.conv1"

    def __init__(self, num_classes: int, in_chans: int) -> None:
        super().__init__()
        layers: list[tuple[str, nn.Module]] = [
            ("conv1", nn.Conv2d(in_chans, 64, 3, stride=2)),
            ("relu1", nn.ReLU()),
            ("pool1", nn.MaxPool2d(3, 2)),
            ("fire2", _Fire(64, 16, 64)),
            ("fire3", _Fire(128, 16, 64)),
            ("pool3", nn.MaxPool2d(3, 2)),
            ("fire4", _Fire(128, 32, 128)),
            ("fire5", _Fire(256, 32, 128)),
            ("pool5", nn.MaxPool2d(3, 2)),
            ("fire6", _Fire(256, 48, 192)),
            ("fire7", _Fire(384, 48, 192)),
            ("fire8", _Fire(384, 64, 256)),
            ("fire9", _Fire(512, 64, 256)),
        ]
        self.features = nn.Sequential(OrderedDict(layers))
        self.head = nn.Linear(512, num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W], red first, to feature maps [b, 512, h, w]."""
        return self.features(x.flip(1))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Feature maps to logits [b, k], or to their mean over pixels [b, 512]."""
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))
