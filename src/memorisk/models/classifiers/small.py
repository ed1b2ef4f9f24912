"""Small networks for small images: many of them train in a minute on two cores.

None has batch normalisation: an image's loss then depends on that image alone, in training as in evaluation; the nets
stack under `torch.func`; and differentially private training can use them as they are.
"""

import torch
from torch import nn

from memorisk.runs.errors import InputError

_LAST_SIDE = 3
_LEAST_SIZE = 4
_GROUPS = 8


class SmallCNN(nn.Module):
    """Convolutions of 3x3, each with a pool of 2x2, until at most 3 pixels a side are left; a hidden layer of 256.

    40,394 parameters at 8 px with one channel and ten classes, 173,578 at 28 px. Widths are multiples of 16, which the
    CPU's convolution kernels are made for. A second convolution before the first pool made a training three times as
    long at 28 px and no better on PneumoniaMNIST (held-out accuracy 0.960 and 0.958).

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Pixels a side, at least 4.
    """

    head_name = "head"
    stem_name = "features.0"
    widths = (16, 32, 64, 64)
    hidden = 256

    def __init__(self, num_classes: int, in_chans: int, image_size: int) -> None:
        super().__init__()
        if image_size < _LEAST_SIZE:
            raise InputError(f"images of {image_size} px are too small for small_cnn; it needs {_LEAST_SIZE} or more")
        layers: list[nn.Module] = []
        width, side, stage = in_chans, image_size, 0
        while side > _LAST_SIDE:
            out = self.widths[min(stage, len(self.widths) - 1)]
            layers += [nn.Conv2d(width, out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            width, side, stage = out, side // 2, stage + 1
        self.features = nn.Sequential(*layers)
        self.hidden_layer = nn.Linear(width * side * side, self.hidden)
        self.head = nn.Linear(self.hidden, num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to feature maps [b, w, h', w']."""
        return self.features(x)

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Feature maps to logits [b, k], or to what the last layer sees [b, 256]."""
        x = torch.relu(self.hidden_layer(x.flatten(1)))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


class SmallResNet(nn.Module):
    """A strided stem and three residual blocks, each halving the side, with group normalisation.

    601,767 parameters for three channels and seven classes. On HAM10000 at 64 px it reached a higher held-out accuracy
    than the same net with batch normalisation or than a deeper, narrower one of equal cost.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Not used: any size will do.
    """

    head_name = "head"
    stem_name = "stem.0"
    widths = (32, 64, 128, 128)

    def __init__(self, num_classes: int, in_chans: int, image_size: int = 64) -> None:
        super().__init__()
        first = self.widths[0]
        self.stem = nn.Sequential(
            nn.Conv2d(in_chans, first, 3, stride=2, padding=1, bias=False), nn.GroupNorm(_GROUPS, first), nn.ReLU()
        )
        pairs = zip(self.widths[:-1], self.widths[1:], strict=True)
        self.blocks = nn.Sequential(*[_ResidualBlock(width_in, width_out) for width_in, width_out in pairs])
        self.head = nn.Linear(self.widths[-1], num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to feature maps [b, 128, H/16, W/16]."""
        return self.blocks(self.stem(x))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Feature maps to logits [b, k], or to their mean over pixels [b, 128]."""
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


class _ResidualBlock(nn.Module):
    """Two 3x3 convolutions of stride 2 and 1 beside a 1x1 convolution of stride 2."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width_out, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(_GROUPS, width_out)
        self.conv2 = nn.Conv2d(width_out, width_out, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(_GROUPS, width_out)
        self.shortcut = nn.Sequential(
            nn.Conv2d(width_in, width_out, 1, stride=2, bias=False), nn.GroupNorm(_GROUPS, width_out)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))
