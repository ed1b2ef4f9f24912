"""A residual network for detectors of copies, the same for a mirrored or turned image: the trunk of ``default``.

    features(x) = (mean over pixels and poses of y^p)^(1/p),   y = blocks(stem((x - mean(x)) / (std(x) + 0.02)))

Mean and standard deviation are of the image itself, over its pixels and channels, so that brightness and contrast
leave the features nearly as they are; the 0.02 (of pixels in [0, 1]) keeps the noise of a nearly blank image small.

Every convolution is one of the group p4m (Cohen and Welling 2016, section 4.4): a field of the first layer answers in
the eight poses of a square, the four quarter turns of an image and of its mirror image, by one kernel in eight poses;
later ones combine fields by kernels whose poses turn along,

    W[o, g, i, h] = T_g psi[o, i, g^-1 h],   psi [fields out, fields in, 8, k, k], T_g the pose g of a kernel.

The pose of an image thus only permutes the answers, and their generalised mean (GeM; Radenovic, Tolias and Chum 2018,
equation 3; p is learned, from 3 on) forgets the order: all eight poses of an image have the same features, to rounding,
where its sides are divisible by 16. A layer multiplies as many numbers as an ordinary convolution of as many channels,
and an eighth of its weights are learned. GeM lies between the mean and the largest value; it finds a copy by a part of
it better than the mean does (Pizzi et al. 2022, SSCD).
"""

import torch
import torch.nn.functional as F
from torch import nn

POSES = 8
"""Number of poses of a square: pose g is a quarter turn g % 4 times, after a mirroring where g is 4 or more."""
_LEAST_CONTRAST = 0.02
_LEAST_ACTIVATION = 1e-4
_FIRST_POWER = 3.0
_MOMENTUM = 0.05


class CopyResNet(nn.Module):
    """Standardisation of each image, a strided stem, stages of residual blocks of p4m, GeM over pixels and poses.

    `fields` and `depths` are fields (of eight channels) and blocks of each stage; every stage but the first halves the
    side.
    The `top` fields of a last 1x1 convolution are averaged.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image; its pixels lie in [0, 1].
        image_size: Side in pixels; it is not used, since any size will do.
    """

    head_name = "head"
    stem_name = "stem"
    fields = (3, 6, 16, 32)
    depths = (1, 1, 1, 1)
    top = 128

    def __init__(self, num_classes: int, in_chans: int, image_size: int = 64) -> None:
        super().__init__()
        width = self.fields[0]
        self.stem = _FirstConvolution(in_chans, width)
        self.norm = _FieldNorm(width)
        blocks: list[nn.Module] = []
        for stage, (out, depth) in enumerate(zip(self.fields, self.depths, strict=True)):
            for place in range(depth):
                blocks.append(_Block(width, out, halve=stage > 0 and not place))
                width = out
        self.blocks = nn.Sequential(*blocks)
        self.last = _PoseConvolution(width, self.top, 1)
        self.last_norm = _FieldNorm(self.top)
        self.power = nn.Parameter(torch.tensor(_FIRST_POWER))
        self.head = nn.Linear(self.top, num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] in [0, 1] to feature maps [b, top * 8, H/16, W/16], the poses of a field in a row."""
        mean, std = x.mean((1, 2, 3), keepdim=True), x.std((1, 2, 3), keepdim=True)
        x = torch.relu(self.norm(self.stem((x - mean) / (std + _LEAST_CONTRAST))))
        return torch.relu(self.last_norm(self.last(self.blocks(x))))

    def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Map feature maps to logits [b, k], or to their generalised mean over pixels and poses [b, top]."""
        x = x.clamp(min=_LEAST_ACTIVATION).pow(self.power).mean((2, 3))
        x = x.reshape(len(x), -1, POSES).mean(2).pow(1 / self.power)
        return x if pre_logits else self.head(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] to logits [b, k]."""
        return self.forward_head(self.forward_features(x))


def pose(x: torch.Tensor, g: int) -> torch.Tensor:
    """Return pose ``g`` (`POSES`) of kernels or images [..., k, k]."""
    return torch.rot90(x.flip(-1) if g >= POSES // 2 else x, g % 4, (-2, -1))


def _divisions() -> torch.Tensor:
    """Return the table [8, 8] of the pose g^-1 h. A square of 2 x 2 has eight poses, so that it distinguishes them."""
    square = torch.arange(4).reshape(2, 2)
    number = {tuple(pose(square, g).flatten().tolist()): g for g in range(POSES)}
    product = [[number[tuple(pose(pose(square, h), g).flatten().tolist())] for h in range(POSES)] for g in range(POSES)]
    inverse = [row.index(0) for row in product]
    return torch.tensor([[product[inverse[g]][h] for h in range(POSES)] for g in range(POSES)])


class _FirstConvolution(nn.Module):
    """Kernels of 4x4 in eight poses over every second pixel, [b, C, H, W] to [b, fields * 8, H/2, W/2].

    Kernels of an even side meet all edges of an image of an even side alike; odd ones with a stride do not.
    """

    def __init__(self, channels: int, fields: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(fields, channels, 4, 4) * (2 / (channels * 16)) ** 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve with each kernel in its eight poses."""
        kernels = torch.stack([pose(self.weight, g) for g in range(POSES)], dim=1).flatten(0, 1)
        return F.conv2d(x, _laid_as(kernels, x), stride=2, padding=1)


class _PoseConvolution(nn.Module):
    """A convolution of p4m of an odd side, [b, fields in * 8, H, W] to [b, fields out * 8, H, W]."""

    places: torch.Tensor

    def __init__(self, fields_in: int, fields_out: int, side: int) -> None:
        super().__init__()
        n = POSES * side * side
        self.side = side
        self.weight = nn.Parameter(torch.randn(fields_out, fields_in, n) * (2 / (fields_in * n)) ** 0.5)
        turned = torch.stack([pose(torch.arange(side * side).reshape(side, side), g).flatten() for g in range(POSES)])
        places = _divisions()[:, :, None] * side * side + turned[:, None]  # [g, h, k * k]
        self.register_buffer("places", places.flatten(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve with W of the module's formula."""
        out, fields_in, _ = self.weight.shape
        kernels = self.weight[:, :, self.places].reshape(out, fields_in, POSES, POSES, self.side, self.side)
        kernels = kernels.transpose(1, 2).reshape(out * POSES, fields_in * POSES, self.side, self.side)
        return F.conv2d(x, _laid_as(kernels, x), padding=self.side // 2)


class _FieldNorm(nn.Module):
    """Batch normalisation with one scale and shift per field; in evaluation its eight poses share mean and variance."""

    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, fields: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(fields)), nn.Parameter(torch.zeros(fields))
        self.register_buffer("mean", torch.zeros(fields * POSES))
        self.register_buffer("variance", torch.ones(fields * POSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise by the batch's statistics in training, by the running ones in evaluation."""
        mean, variance = self.mean, self.variance
        if not self.training:
            mean, variance = (v.view(-1, POSES).mean(1).repeat_interleave(POSES) for v in (mean, variance))
        scale, shift = (v.repeat_interleave(POSES) for v in (self.scale, self.shift))
        return F.batch_norm(x, mean, variance, scale, shift, self.training, _MOMENTUM)


class _Block(nn.Module):
    """Two 3x3 convolutions with a shortcut (He et al. 2016, figure 2); one that halves takes means of 2x2 first."""

    def __init__(self, fields_in: int, fields_out: int, halve: bool) -> None:
        super().__init__()
        self.halve = halve
        self.first, self.first_norm = _PoseConvolution(fields_in, fields_out, 3), _FieldNorm(fields_out)
        self.second, self.second_norm = _PoseConvolution(fields_out, fields_out, 3), _FieldNorm(fields_out)
        self.shortcut = None
        if fields_in != fields_out:
            self.shortcut = nn.Sequential(_PoseConvolution(fields_in, fields_out, 1), _FieldNorm(fields_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, fields in * 8, H, W] to [b, fields out * 8, H, W], or half the sides."""
        if self.halve:
            x = F.avg_pool2d(x, 2, ceil_mode=True)
        y = self.second_norm(self.second(torch.relu(self.first_norm(self.first(x)))))
        return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def _laid_as(kernels: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the kernels in the memory order of the images, which the CPU's convolutions require."""
    channels_last = x.is_contiguous(memory_format=torch.channels_last)
    return kernels.contiguous(memory_format=torch.channels_last) if channels_last else kernels.contiguous()
