"""Small networks for small images: a CNN, residual networks, a vision transformer, SqueezeNet.

memorisk's own are small: many of them train in a minute on two cores. None has batch normalisation: an image's loss
then depends on that image alone, in training as in evaluation; the nets stack under `torch.func`; and differentially
private training can use them as they are. The vision transformer is timm's class at a size that trains on a CPU. It has
what LoRA adapts, attention with ``qkv`` and ``proj``, and no dropout.

ResNet-20 to -110 are those for CIFAR (He et al. 2016, section 4.2), with shortcuts of option A, which have no
parameters. Names of parameters are those of github.com/akamaster/pytorch_resnet_cifar10, whose published weights load
strictly.

SqueezeNet 1.1 (Iandola et al. 2016), as Caffe and Keras have it, is a small trunk with published weights. It differs
from torchvision's in its input (blue, green, red; 0 to 255 minus a mean) and in that its pools drop the last row where
they do not fit. The trunk's 722,496 parameters have the names ``features.<layer>.weight`` and ``.bias``.
"""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from memorisk.runs.errors import InputError

_LAST_SIDE = 3
_LEAST_SIZE = 4
_GROUPS = 8
_PATCHES = 8
_WIDTH, _DEPTH, _HEADS = 96, 4, 3


class SmallCNN(nn.Module):
    """Convolutions of 3x3, each with a pool of 2x2, until at most 3 pixels a side are left; a hidden layer of 256.

    40,394 parameters at 8 px with one channel and ten classes, 173,578 at 28 px. Widths are multiples of 16, which the
    CPU's convolution kernels are made for. A second convolution before the first pool made a training three times as
    long at 28 px and no better on PneumoniaMNIST (held-out accuracy 0.960 and 0.958).

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Side in pixels, at least 4.
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
        """Map [b, C, H, W] to feature maps [b, w, h', w']."""
        return self.features(x)

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Map feature maps to logits [b, k], or to the input of the last layer [b, 256]."""
        x = torch.relu(self.hidden_layer(x.flatten(1)))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


class SmallResNet(nn.Module):
    """A strided stem and three residual blocks, each halving the side, with group normalisation.

    601,767 parameters for three channels and seven classes. On HAM10000 at 64 px it reached a higher held-out accuracy
    than the same net with batch normalisation or than a deeper, narrower one of equal cost.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Side in pixels; it is not used, since any size will do.
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
        """Map [b, C, H, W] to feature maps [b, 128, H/16, W/16]."""
        return self.blocks(self.stem(x))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Map feature maps to logits [b, k], or to their mean over pixels [b, 128]."""
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


class _ResidualBlock(nn.Module):
    """Two 3x3 convolutions of stride 2 and 1, and a parallel 1x1 convolution of stride 2."""

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


def small_vit(num_classes: int, in_chans: int, image_size: int) -> nn.Module:
    """Build a network of 64 patches, width 96, 4 blocks of 3 heads: 0.47 million parameters for three channels.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Side in pixels, a multiple of 8.

    Raises:
        InputError: The image cannot be cut into 8 x 8 patches.
    """
    if image_size % _PATCHES:
        raise InputError(f"images of {image_size} px cannot be cut into {_PATCHES} x {_PATCHES} patches: use --size 64")
    from timm.models.vision_transformer import VisionTransformer  # timm takes seconds to import

    model = VisionTransformer(
        img_size=image_size,
        patch_size=image_size // _PATCHES,
        in_chans=in_chans,
        num_classes=num_classes,
        embed_dim=_WIDTH,
        depth=_DEPTH,
        num_heads=_HEADS,
    )
    setattr(model, "head_name", "head")  # noqa: B010 (modules type every attribute as a tensor)
    setattr(model, "stem_name", "patch_embed.proj")  # noqa: B010
    return model


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
        """Map [b, C, H, W] to feature maps [b, 64, H/4, W/4]."""
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.layer3(self.layer2(self.layer1(x)))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Map feature maps to logits [b, k], or to their mean over pixels [b, 64]."""
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.linear(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


def _stage(width_in: int, width_out: int, blocks: int) -> nn.Sequential:
    return nn.Sequential(*[_Block(width_in if i == 0 else width_out, width_out) for i in range(blocks)])


class _Fire(nn.Module):
    """Fire module: 1x1 convolutions that squeeze, then parallel 1x1 and 3x3 ones that expand."""

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
        """Map [b, C, H, W], red first, to feature maps [b, 512, h, w]."""
        return self.features(x.flip(1))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Map feature maps to logits [b, k], or to their mean over pixels [b, 512]."""
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))
