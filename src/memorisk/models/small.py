"""Small networks for small images: many of them train in a minute on two cores.

None has batch normalisation: an image's loss then depends on that image alone, in training as in evaluation; the nets
stack under `torch.func`; and differentially private training can use them as they are.
"""

import torch
from torch import nn

_LAST_SIDE = 3


class SmallCNN(nn.Module):
    """Convolutions of 3x3 and pools of 2x2 until at most 3 pixels a side are left, then one hidden layer.

    At 8 px with one channel and ten classes: 57,098 parameters; at 28 px: 142,602.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Pixels a side, at least 4.
    """

    head_name = "head"
    stem_name = "features.0"
    least_size = 4
    widths = (16, 32, 64, 64, 64)
    hidden = 128

    def __init__(self, num_classes: int, in_chans: int, image_size: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(in_chans, self.widths[0], 3, padding=1), nn.ReLU()]
        width, side, stage = self.widths[0], image_size, 1
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
        """Feature maps to logits [b, k], or to what the last layer sees [b, 128]."""
        x = torch.relu(self.hidden_layer(x.flatten(1)))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))
