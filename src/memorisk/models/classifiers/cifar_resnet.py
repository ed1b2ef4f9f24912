"""ResNet-20 to -110 for CIFAR (He et al. 2016, section 4.2), with shortcuts of option A, which have no parameters.

Names of parameters are those of github.com/akamaster/pytorch_resnet_cifar10, whose published weights load strictly.
"""

import torch
import torch.nn.functional as F
from torch import nn


class _Block(nn.Module):
    """Two 3x3 convolutions; the shortcut takes every second pixel and pads channels with zeros on both sides."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.stride = 1 if width_in == width_out else 2
        self.conv1 = nn.Conv2d(width_in, width_out, 3, stride=self.stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width_out)
        self.conv2 = nn.Conv2d(width_out, width_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        if self.stride == 2:
            side = y.shape[1] // 4
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, side, side))
        return torch.relu(x + y)


class CifarResNet(nn.Module):
    """Three stages of 16, 32 and 64 channels, then the mean over pixels and one linear layer.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        blocks: Blocks per stage; depth is ``6 blocks + 2``.
    """

    head_name = "linear"
    stem_name = "conv1"

    def __init__(self, num_classes: int, in_chans: int, *, blocks: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_chans, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _stage(16, 16, blocks)
        self.layer2 = _stage(16, 32, blocks)
        self.layer3 = _stage(32, 64, blocks)
        self.linear = nn.Linear(64, num_classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to feature maps [b, 64, H/4, W/4]."""
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.layer3(self.layer2(self.layer1(x)))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Feature maps to logits [b, k], or to their mean over pixels [b, 64]."""
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.linear(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


def _stage(width_in: int, width_out: int, blocks: int) -> nn.Sequential:
    return nn.Sequential(*[_Block(width_in if i == 0 else width_out, width_out) for i in range(blocks)])
