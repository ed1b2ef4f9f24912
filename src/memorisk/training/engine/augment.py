"""Random changes of training images, batched and on the device.

What is drawn for slot j of a step derives from (seed, epoch, step) on the CPU, so that twins, and CPU and GPU, draw
alike. Plain transforms need no library.

``contrast`` and ``shift1`` are those of paper 002, A.4: "We randomly adjust the contrast by a factor of 0.2 and we
apply random cropping (27, 27) so that we ensure we do not remove the unique features from the image".
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from memorisk.runs.errors import InputError, unknown_name
from memorisk.training.engine.pixels import PixelSource

Augmentation = Callable[[torch.Tensor, int], torch.Tensor]
Transform = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

AUGMENTATIONS: dict[str, Transform] = {}
_ROTATION_DEGREES = 20.0
_SMALLEST_CROP = 0.8
_CONTRAST = 0.2
_SAMPLE = 32


def augmentation(name: str) -> Callable[[Transform], Transform]:
    """Register a transform ``(x [b, C, H, W], generator on the CPU) -> x`` under a name."""

    def register(transform: Transform) -> Transform:
        """Keep a transform under the name."""
        AUGMENTATIONS[name] = transform
        return transform

    return register


@augmentation("hflip")
def hflip(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror left to right with probability one half."""
    return _flip(x, generator, dim=3)


@augmentation("vflip")
def vflip(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror top to bottom with probability one half."""
    return _flip(x, generator, dim=2)


@augmentation("rotate")
def rotate(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Turn by an angle uniform in +-20 degrees, bilinear, the border continued by reflection."""
    angle = (torch.rand(len(x), generator=generator) * 2 - 1) * (_ROTATION_DEGREES * torch.pi / 180)
    aspect = x.shape[2] / x.shape[3]
    theta = torch.zeros(len(x), 2, 3)
    theta[:, 0, 0], theta[:, 0, 1] = angle.cos(), -angle.sin() * aspect
    theta[:, 1, 0], theta[:, 1, 1] = angle.sin() / aspect, angle.cos()
    return _warp(x, theta)


@augmentation("crop")
def crop(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A square part of 80 to 100 % of the side, placed uniformly, enlarged to the full size."""
    scale = _SMALLEST_CROP + (1 - _SMALLEST_CROP) * torch.rand(len(x), generator=generator)
    shift = (torch.rand(len(x), 2, generator=generator) * 2 - 1) * (1 - scale)[:, None]
    theta = torch.zeros(len(x), 2, 3)
    theta[:, 0, 0] = theta[:, 1, 1] = scale
    theta[:, :, 2] = shift
    return _warp(x, theta)


@augmentation("contrast")
def contrast(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values spread about each channel's own mean by a factor uniform in 0.8 to 1.2, one for an image.

    ``(x - mean) f + mean`` as in tf.image.random_contrast. It is affine, so that it does the same to normalised pixels;
    nothing is clipped.
    """
    factor = 1 - _CONTRAST + 2 * _CONTRAST * torch.rand(len(x), generator=generator)
    mean = x.mean(dim=(2, 3), keepdim=True)
    return (x - mean) * factor.to(x.device, x.dtype)[:, None, None, None] + mean


@augmentation("shift1")
def shift1(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A part one pixel smaller in each direction, from one of its four places, put back at the top left.

    The edge is repeated in the row and the column that are left over: the size stays, and nothing one pixel from the
    border is lost (27 x 27 of 28 x 28).
    """
    height, width = x.shape[2:]
    if min(height, width) < 2:
        raise InputError(f"augmentation 'shift1' needs at least 2 px a side; these images have {height} x {width}")
    offset = torch.randint(2, (len(x), 2), generator=generator)
    row = (torch.arange(height).clamp(max=height - 2) + offset[:, :1]).to(x.device)
    column = (torch.arange(width).clamp(max=width - 2) + offset[:, 1:]).to(x.device)
    image = torch.arange(len(x), device=x.device)[:, None, None]
    return x.movedim(1, -1)[image, row[:, :, None], column[:, None, :]].movedim(-1, 1)  # channels stay last in memory


def build_augmentation(names: Sequence[str], source: PixelSource) -> Augmentation | None:
    """The named transforms, one after another; None for none.

    Each is tried on up to 32 of the images first: one that changes no pixel of them is refused, since a report would
    name an augmentation that never took place.

    Raises:
        InputError: for an unknown name, for inputs that are not images, or for a transform without effect.
    """
    if not names:
        return None
    for name in names:
        if name not in AUGMENTATIONS:
            raise unknown_name("augmentation", name, AUGMENTATIONS)
    sample = next(source.batches([torch.arange(min(_SAMPLE, len(source.rows)))]))
    if sample.ndim != 4:
        raise InputError("augmentation needs images; these are features")
    for name in names:
        if torch.equal(AUGMENTATIONS[name](sample, torch.Generator().manual_seed(0)), sample):
            raise InputError(f"augmentation {name!r} changes no pixel of these images: leave it out")
    transforms = [AUGMENTATIONS[name] for name in names]

    def augment(x: torch.Tensor, seed: int) -> torch.Tensor:
        """Apply the transforms in their order, all drawn from one seed."""
        generator = torch.Generator().manual_seed(seed)
        for transform in transforms:
            x = transform(x, generator)
        return x

    return augment


def _flip(x: torch.Tensor, generator: torch.Generator, dim: int) -> torch.Tensor:
    chosen = (torch.rand(len(x), generator=generator) < 0.5).to(x.device)
    return torch.where(chosen[:, None, None, None], x.flip(dim), x)


def _warp(x: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    grid = F.affine_grid(theta.to(x.device, x.dtype), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
