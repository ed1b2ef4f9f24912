"""A residual network for detectors of copies: the trunk of the detector ``default``.

    features(x) = (mean over pixels of y^p)^(1/p),   y = blocks(stem((x - mean(x)) / (std(x) + 0.02)))

Mean and standard deviation are of the image itself, over its pixels and channels, so that brightness and contrast
leave the features nearly as they are; the 0.02 (of pixels in [0, 1]) keeps the noise of a nearly blank image small.
The generalised mean (GeM; Radenovic, Tolias and Chum 2018, equation 3), p learned from 3 on, lies between the mean
and the largest value over pixels. It finds a copy by a part of it better than the mean does (Pizzi et al. 2022, SSCD).
Blocks are those of He et al. (2016), figure 2; a shortcut that halves the side takes the mean of 2 x 2 pixels.
"""

import torch
import torch.nn.functional as F
from torch import nn

_LEAST_CONTRAST = 0.02
_LEAST_ACTIVATION = 1e-6
_FIRST_POWER = 3.0


class CopyResNet(nn.Module):
    """Standardisation of each image, a strided stem, stages of residual blocks with batch normalisation, GeM.

    691,705 parameters for three channels, without the head. `widths` and `depths` are channels
    and blocks of each stage; every stage but the first halves the side.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image; its pixels lie in [0, 1].
        image_size: Not used: any size will do.
    """

    head_name = "head"
    stem_name = "stem.0"
    widths = (24, 48, 96, 192)
    depths = (1, 1, 1, 1)

    def __init__(self, num_classes: int, in_chans: int, image_size: int = 64) -> None:
        super().__init__()
        width = self.widths[0]
        self.stem = nn.Sequential(
            nn.Conv2d(in_chans, width, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks: list[nn.Module] = []
        for stage, (out, depth) in enumerate(zip(self.widths, self.depths, strict=True)):
            for place in range(depth):
                blocks.append(_Block(width, out, stride=2 if stage and not place else 1))
                width = out
        self.blocks = nn.Sequential(*blocks)
        self.power = nn.Parameter(torch.tensor(_FIRST_POWER))
        self.head = nn.Linear(width, num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] in [0, 1] to feature maps [b, w, H/16, W/16], w the last width."""
        mean, std = x.mean((1, 2, 3), keepdim=True), x.std((1, 2, 3), keepdim=True)
        return self.blocks(self.stem((x - mean) / (std + _LEAST_CONTRAST)))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Feature maps to logits [b, k], or to their generalised mean over pixels [b, w]."""
        x = x.clamp(min=_LEAST_ACTIVATION).pow(self.power).mean((2, 3)).pow(1 / self.power)
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


class _Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut: the mean of 2 x 2 pixels where it strides, a 1x1 one to other widths."""

    def __init__(self, width_in: int, width_out: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(width_in, width_out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width_out)
        self.conv2 = nn.Conv2d(width_out, width_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width_out)
        self.shortcut = None
        if width_in != width_out or stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(width_in, width_out, 1, bias=False), nn.BatchNorm2d(width_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        x = x if self.stride == 1 else F.avg_pool2d(x, 2, ceil_mode=True)
        return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))
