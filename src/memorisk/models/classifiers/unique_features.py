"""Networks of paper 002, "Unintended memorisation of unique features in neural networks", A.3 and A.4.

Their names are ``mlp1``, ``cnn1``, ``cnn2``, each also with ``_dropout``, ``_bn`` or ``_dropout_bn``, and
``densenet100``. Convolutions have no padding, TensorFlow's default; the paper does not give it. Dropout is 0.2 behind
hidden dense layers and 0.5 behind convolutions, none before the softmax; batch normalisation comes before each
activation, with TensorFlow's momentum 0.99 (PyTorch's 0.01) and epsilon 1e-3.
"""

import torch
import torch.nn.functional as F
from torch import nn

from memorisk.runs.errors import InputError

DENSE_DROPOUT, CONV_DROPOUT = 0.2, 0.5
POOL, ACTIVATE = "pool", "activate"
_MOMENTUM, _EPSILON = 0.01, 1e-3

LAYERS: dict[str, tuple[tuple[int | str, ...], tuple[int, ...]]] = {
    "mlp1": ((), (512, 256, 128)),
    "cnn1": ((32, ACTIVATE, 64, POOL, ACTIVATE), (128, 128)),
    "cnn2": ((32, ACTIVATE, 32, ACTIVATE, POOL, 64, ACTIVATE, 64, ACTIVATE, POOL), (1024,)),
}
"""Layers of each network: 3 x 3 convolutions by their channels, 2 x 2 pools and activations in order; then dense
widths."""
VARIANTS = {"": {}, "_dropout": {"dropout": True}, "_bn": {"batch_norm": True}}


class PaperNet(nn.Module):
    """Network of paper 002: MLP-1, CNN-1 or CNN-2.

    Args:
        name: Name of the network in ``LAYERS``.
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Side in pixels.
        dropout: Whether the network has dropout.
        batch_norm: Whether batch normalisation comes before each activation.

    Raises:
        InputError: The images are too small for the convolutions.
    """

    head_name = "head"

    def __init__(
        self,
        name: str,
        num_classes: int,
        in_chans: int,
        image_size: int,
        *,
        dropout: bool = False,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        steps, hidden = LAYERS[name]
        self.stem_name = "features.0" if steps else ()  # no convolution reads the image
        layers: list[nn.Module] = []
        width, side = in_chans, image_size
        for step in steps:
            if isinstance(step, int):
                layers.append(nn.Conv2d(width, step, 3))
                width, side = step, side - 2
            elif step == POOL:
                layers.append(nn.MaxPool2d(2))
                side //= 2
            else:
                layers += [nn.BatchNorm2d(width, _EPSILON, _MOMENTUM)] if batch_norm else []
                layers += [nn.ReLU(), *([nn.Dropout(CONV_DROPOUT)] if dropout else [])]
        if side < 1:
            raise InputError(f"images of {image_size} px are too small for {name}")
        self.features = nn.Sequential(*layers)
        dense: list[nn.Module] = []
        width *= side * side
        for size in hidden:
            dense += [nn.Linear(width, size), *([nn.BatchNorm1d(size, _EPSILON, _MOMENTUM)] if batch_norm else [])]
            dense += [nn.ReLU(), *([nn.Dropout(DENSE_DROPOUT)] if dropout else [])]
            width = size
        self.dense = nn.Sequential(*dense)
        self.head = nn.Linear(width, num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to feature maps, or to the pixels in a network without convolutions."""
        return self.features(x)

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Map feature maps to logits [b, k], or to the latent before the last layer."""
        x = self.dense(x.flatten(1))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


class DenseLayer(nn.Module):
    """Bottleneck of 4 k channels, then k new ones appended to the input's (Huang et al. 2018, DenseNet-B)."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(width), nn.Conv2d(width, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, w, h, w'] to [b, w + k, h, w']."""
        new = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))
        return torch.cat([x, new], dim=1)


class DenseNet100(nn.Module):
    """DenseNet-BC of 100 layers, growth 12, three blocks of 16, compression one half: 769,162 parameters for CIFAR-10.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Side in pixels; it is not used, since any size from 4 px will do.
    """

    head_name, stem_name = "head", "stem"
    growth, blocks, layers = 12, 3, 16

    def __init__(self, num_classes: int, in_chans: int, image_size: int = 32) -> None:
        super().__init__()
        width = 2 * self.growth
        self.stem = nn.Conv2d(in_chans, width, 3, padding=1, bias=False)
        steps: list[nn.Module] = []
        for block in range(self.blocks):
            for _ in range(self.layers):
                steps.append(DenseLayer(width, self.growth))
                width += self.growth
            steps += [nn.BatchNorm2d(width), nn.ReLU()]
            if block + 1 < self.blocks:
                steps += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                width //= 2
        self.trunk = nn.Sequential(*steps)
        self.head = nn.Linear(width, num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to feature maps."""
        return self.trunk(self.stem(x))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Map feature maps to logits [b, k], or to their means over space."""
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


VARIANTS |= {"_dropout_bn": VARIANTS["_dropout"] | VARIANTS["_bn"]}
"""Regularisers by the end of a name."""

NAMES = tuple(name + end for name in LAYERS for end in VARIANTS)
"""Names of every MLP and CNN."""


def paper_net(name: str, num_classes: int, in_chans: int, image_size: int) -> PaperNet:
    """Build a network of ``NAMES``.

    Args:
        name: Name of the network, regularisers included.
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Side in pixels.

    Raises:
        InputError: The images are too small for it.
    """
    base, _, end = name.partition("_")
    return PaperNet(base, num_classes, in_chans, image_size, **VARIANTS[f"_{end}" if end else ""])
