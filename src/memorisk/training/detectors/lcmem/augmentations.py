"""Augmented images: the input of stage 2 of LCMem, and copies of a stated kind and strength (paper 004).

`augmented` makes copies of one family at one strength (section 4.2; METHODS section 4, "Copies"):

===========  =====================  =====================================================================
family       strengths              operation
===========  =====================  =====================================================================
blur         0.1, 1, 2, 6           Gaussian of that standard deviation in stored pixels, kernel 9
noise        0.01, 0.1, 0.2, 0.3    Gaussian of that standard deviation, of the range of grey
rotation     5, 10, 20, 30          degrees about the centre, either way (one coin per image)
brightness   1.1, 1.3, 1.6, 2       pixels times it
darkening    1.1, 1.3, 1.6, 2       pixels divided by it
contrast     1.1, 1.3, 1.6, 2       distance to the mean grey times it
jpeg         95, 70, 40, 10         written as JPEG of that quality and read again
===========  =====================  =====================================================================

The draws for an image depend on (seed, family, row) alone, not on the strength nor on the other rows: the noise
of a stronger copy is that of the weaker one, enlarged. Results are cut to [0, 1] and rounded to the type of the images.

`PairAugmentation` draws the input of stage 2: each operation by itself with probability 0.5 (the published code's for
rotation, flip, brightness, contrast and JPEG), in the order rotation, flip, blur, noise, brightness, contrast, JPEG.
Magnitudes: rotation uniform to 20 degrees either way, JPEG quality uniform from 10 to 95 (appendix B). The paper gives
no ranges for the others, and the released configuration had the identity for brightness and contrast; here blur is
log-uniform from 0.1 to 6 pixels, noise uniform to 0.3, brightness and contrast log-uniform from one half to 2, as in
the test copies. `operations_of` reads some of them from a text, for the single-stage rows of table 4.

Operations are batched, on the device of the pixels, one parameter per image; pixels are floating point in [0, 1],
[b, C, H, W]. Pillow writes and reads real JPEG.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from memorisk.images.alterations.families import FAMILIES
from memorisk.runs.errors import InputError, unknown_name

SMALLEST_SIDE = 5
"""Smallest side in pixels: a blur of 9 pixels reflects four."""
_BLUR_REACH = 4
_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601-2, as Pillow and torchvision have it
_JPEG_THREADS = 8


def check_pixels(shape: tuple[int, ...]) -> None:
    """Refuse input that is not a batch of images of 1 or 3 channels that a blur of 9 pixels fits into.

    Raises:
        InputError: The shape is not such a batch.
    """
    if len(shape) != 4 or shape[1] not in (1, 3) or min(shape[2:]) < SMALLEST_SIDE:
        raise InputError(
            f"augmented copies are made of images [b, C, H, W] of 1 or 3 channels and {SMALLEST_SIDE} pixels a side or "
            f"more, not {list(shape)}"
        )


def rotate(x: torch.Tensor, degrees: torch.Tensor) -> torch.Tensor:
    """Rotate about the centre, bilinear; pixels from outside have the darkest value of their channel.

    Args:
        x: Images, [b, C, H, W].
        degrees: Angle of each image in degrees, [b], counter-clockwise.
    """
    height, width = x.shape[2:]
    angle = torch.deg2rad(degrees.double())
    cos, sin = angle.cos(), angle.sin()
    nought = torch.zeros_like(cos)
    top = torch.stack([cos, -sin * (height / width), nought], dim=1)
    bottom = torch.stack([sin * (width / height), cos, nought], dim=1)
    matrix = torch.stack([top, bottom], dim=1).to(x.dtype)  # [b, 2, 3]
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
    low = x.amin(dim=(2, 3), keepdim=True)
    return F.grid_sample(x - low, grid, mode="bilinear", padding_mode="zeros", align_corners=False) + low


def shift_and_scale(
    x: torch.Tensor, degrees: torch.Tensor, factor: torch.Tensor, across: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    """Rotate, zoom and shift in one bilinear resampling; the border is repeated outside.

    Args:
        x: Images, [b, C, H, W].
        degrees: Angle of each image in degrees, [b], counter-clockwise.
        factor: Zoom of each image, [b]; above 1 enlarges.
        across: Shift to the right, [b], as a share of the width.
        down: Shift downwards, [b], as a share of the height.
    """
    height, width = x.shape[2:]
    angle = torch.deg2rad(degrees.double())
    cos, sin = angle.cos() / factor.double(), angle.sin() / factor.double()
    top = torch.stack([cos, -sin * (height / width), -2 * across.double()], dim=1)
    bottom = torch.stack([sin * (width / height), cos, -2 * down.double()], dim=1)
    grid = F.affine_grid(torch.stack([top, bottom], dim=1).to(x.dtype), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def mirror(x: torch.Tensor) -> torch.Tensor:
    """Mirror images left to right."""
    return x.flip(3)


def blur(x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """Blur by a Gaussian, a kernel of 9 pixels, the border reflected.

    Args:
        x: Images, [b, C, H, W].
        sigma: Standard deviation for each image, [b] in pixels, above 0.
    """
    b, channels, height, width = x.shape
    steps = torch.arange(-_BLUR_REACH, _BLUR_REACH + 1, device=x.device, dtype=torch.float64)
    kernel = (-0.5 * (steps / sigma.double()[:, None]) ** 2).exp()
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).to(x.dtype).repeat_interleave(channels, dim=0)  # [b C, 9]
    padded = F.pad(x, (_BLUR_REACH,) * 4, mode="reflect")
    planes = padded.reshape(1, b * channels, *padded.shape[2:])
    down = F.conv2d(planes, kernel[:, None, :, None], groups=b * channels)
    return F.conv2d(down, kernel[:, None, None, :], groups=b * channels).reshape(b, channels, height, width)


def noise(x: torch.Tensor, deviation: torch.Tensor, normal: torch.Tensor) -> torch.Tensor:
    """Add Gaussian noise, independent in every pixel and channel, cut to [0, 1].

    Args:
        x: Images, [b, C, H, W].
        deviation: Standard deviation for each image, [b], for pixels in [0, 1].
        normal: Standard normal draws, [b, C, H, W].
    """
    return (x + _broadcast(deviation, x) * normal).clamp(0, 1)


def brightness(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Compute ``x factor``, cut to [0, 1] (torchvision's adjust_brightness); below 1 it darkens.

    Args:
        x: Images, [b, C, H, W].
        factor: Factor of each image, [b].
    """
    return (x * _broadcast(factor, x)).clamp(0, 1)


def contrast(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Compute ``m + (x - m) factor``, m the mean luma of the image, cut to [0, 1] (torchvision's adjust_contrast).

    Args:
        x: Images, [b, C, H, W].
        factor: Factor of each image, [b].
    """
    grey = x if x.shape[1] == 1 else (x * x.new_tensor(_LUMA)[:, None, None]).sum(dim=1, keepdim=True)
    mean = grey.mean(dim=(1, 2, 3), keepdim=True)
    return (mean + (x - mean) * _broadcast(factor, x)).clamp(0, 1)


def jpeg(x: torch.Tensor, quality: torch.Tensor) -> torch.Tensor:
    """Write images as JPEG of 8 bits per channel and read them again, by Pillow with its own chroma subsampling.

    Args:
        x: Images, [b, C, H, W] of 1 or 3 channels.
        quality: Quality of each image, [b] whole numbers from 1 to 95.
    """
    pixels = x.clamp(0, 1).mul(255).round().to(torch.uint8).movedim(1, -1).cpu().contiguous().numpy()
    values = quality.tolist()
    if len(pixels) > 1:
        with ThreadPoolExecutor(min(_JPEG_THREADS, torch.get_num_threads())) as pool:
            decoded = list(pool.map(_through_jpeg, pixels, values))
    else:
        decoded = [_through_jpeg(image, value) for image, value in zip(pixels, values, strict=True)]
    stacked = torch.from_numpy(np.stack(decoded)) if decoded else torch.from_numpy(pixels)
    return stacked.to(x.device).to(x.dtype).div(255).movedim(-1, 1)


def _through_jpeg(image: np.ndarray, quality: float) -> np.ndarray:
    """Write and read one image [H, W, C] uint8 as JPEG."""
    grey = image.shape[-1] == 1
    buffer = BytesIO()
    Image.fromarray(image[..., 0] if grey else image).save(buffer, format="JPEG", quality=int(quality))
    buffer.seek(0)
    with Image.open(buffer) as read:
        back = np.asarray(read)
    return back[..., None] if grey else back


def _broadcast(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Reshape [b] to [b, 1, 1, 1], of the device and type of the pixels."""
    return values.to(x.device, x.dtype)[:, None, None, None]


Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_STREAM = 4004  # keeps these draws apart from other uses of a seed
_BLOCK = 1 << 22  # pixels at a time
_PROBABILITY = 0.5
OPERATIONS = ("rotate", "flip", "blur", "noise", "brightness", "contrast", "jpeg")
"""Operations of stage 2, in this order; stage 1 may use some of them."""
_COLUMNS = 14


def augmented(images: np.ndarray, rows: np.ndarray, family: str, strength: float, *, seed: int) -> np.ndarray:
    """Make a copy of chosen images, all by one operation at one strength.

    Args:
        images: Images, uint8 or uint16 [N, H, W, C] of 1 or 3 channels; array or memory map.
        rows: Rows of the images to copy, [n].
        family: One of `FAMILIES`.
        strength: Strength in the family's unit; one of `FAMILIES` or another possible value.
        seed: Random seed of the noise and of the side to which an image is turned.

    Returns:
        Copies of the images, [n, H, W, C] in the type of the images.

    Raises:
        InputError: Family, strength, images or rows are invalid.
    """
    if family not in FAMILIES:
        raise unknown_name("family of augmentations", family, FAMILIES)
    _check_strength(family, strength)
    chosen = _checked_rows(images, rows)
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    shape = tuple(int(n) for n in images.shape[1:])
    out = np.empty((len(chosen), *shape), images.dtype)
    size = max(1, _BLOCK // int(np.prod(shape)))
    for begin in range(0, len(chosen), size):
        some = chosen[begin : begin + size]
        x = to_unit(np.stack([images[row] for row in some]))
        out[begin : begin + size] = from_unit(_apply(x, some, family, float(strength), seed), images.dtype)
    return out


def operations_of(text: str) -> tuple[str, ...]:
    """Read some of `OPERATIONS`, named with commas between them, in their own order.

    Raises:
        InputError: A name is not one of them.
    """
    named = {part.strip() for part in text.split(",")}
    for name in sorted(named - set(OPERATIONS)):
        raise unknown_name("operation of stage1_augment", name, ("none", "mild", *OPERATIONS))
    return tuple(name for name in OPERATIONS if name in named)


def to_unit(images: np.ndarray) -> torch.Tensor:
    """Convert stored pixels [n, H, W, C] to [n, C, H, W] float32 in [0, 1]."""
    top = np.float32(np.iinfo(images.dtype).max)
    return torch.from_numpy(images.astype(np.float32) / top).movedim(-1, 1).contiguous()


def from_unit(x: torch.Tensor, dtype: np.dtype) -> np.ndarray:
    """Convert [n, C, H, W] in [0, 1] to stored pixels [n, H, W, C], rounded."""
    top = float(np.iinfo(dtype).max)
    return np.rint(x.clamp(0, 1).movedim(1, -1).double().cpu().numpy() * top).astype(dtype)


def _apply(x: torch.Tensor, rows: np.ndarray, family: str, strength: float, seed: int) -> torch.Tensor:
    """Apply one family to images [n, C, H, W]."""
    value = torch.full((len(x),), strength, dtype=torch.float64)
    if family == "blur":
        return blur(x, value)
    if family == "brightness":
        return brightness(x, value)
    if family == "darkening":
        return brightness(x, 1 / value)
    if family == "contrast":
        return contrast(x, value)
    if family == "jpeg":
        return jpeg(x, value)
    index = list(FAMILIES).index(family)
    draws = [np.random.default_rng([_STREAM, seed, index, int(row)]) for row in rows]
    if family == "rotation":
        return rotate(x, value * torch.tensor([1.0 if rng.random() < _PROBABILITY else -1.0 for rng in draws]))
    normal = np.stack([rng.standard_normal(tuple(x.shape[1:]), dtype=np.float32) for rng in draws])
    return noise(x, value, torch.from_numpy(normal))


def _checked_rows(images: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if images.ndim != 4 or images.dtype not in (np.uint8, np.uint16):
        raise InputError(f"images are {images.dtype} {images.shape}; needed are uint8 or uint16 [N, H, W, C]")
    check_pixels((len(images), images.shape[3], *images.shape[1:3]))
    chosen = np.asarray(rows, dtype=np.int64)
    if chosen.ndim != 1 or (len(chosen) and (chosen.min() < 0 or chosen.max() >= len(images))):
        raise InputError(f"rows must be whole numbers from 0 to {len(images) - 1}")
    return chosen


def _check_strength(family: str, strength: float) -> None:
    least, most, what = {
        "noise": (0.0, np.inf, "a standard deviation of 0 or more"),
        "rotation": (-180.0, 180.0, "degrees from -180 to 180"),
        "jpeg": (1.0, 95.0, "a quality from 1 to 95"),
    }.get(family, (np.nextafter(0.0, 1.0), np.inf, "a number above 0"))
    if not (least <= strength <= most and np.isfinite(strength)):
        raise InputError(f"strength of {family} is {strength}; it must be {what}")


@dataclass(frozen=True, kw_only=True)
class PairAugmentation:
    """Augmentation of stage 2: each operation with a probability, its magnitude drawn."""

    probability: float = _PROBABILITY
    """Probability of each operation."""
    degrees: float = 20.0
    """Largest rotation either way, in degrees."""
    sigma: tuple[float, float] = (0.1, 6.0)
    """Range of the standard deviation of the blur in pixels, log-uniform."""
    deviation: float = 0.3
    """Largest standard deviation of the noise, uniform from 0."""
    factor: float = 2.0
    """Largest change of brightness and contrast: log-uniform from 1 / factor to factor."""
    quality: tuple[int, int] = (10, 95)
    """Range of the quality of JPEG, uniform."""
    operations: tuple[str, ...] = OPERATIONS
    """Operations that are used; the draws of one do not depend on the others."""

    def apply(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Make an augmented copy of each image.

        Args:
            x: Images, [b, C, H, W] in [0, 1].
            generator: Source of all draws, on the CPU, the same on every device.

        Returns:
            Copies of the same shape, in [0, 1].
        """
        check_pixels(tuple(x.shape))
        drawn = torch.rand(len(x), _COLUMNS, generator=generator, dtype=torch.float64)
        enabled = torch.tensor([name in self.operations for name in OPERATIONS])
        acts, values = (drawn[:, :7] < self.probability) & enabled, drawn[:, 7:]
        n_noisy = int(acts[:, 3].sum())
        normal = torch.randn(n_noisy, *x.shape[1:], generator=generator, dtype=torch.float32).to(x.device, x.dtype)
        spread = float(np.log(self.factor))
        low, high = (float(np.log(edge)) for edge in self.sigma)
        lowest, highest = self.quality
        turned = (2 * values[:, 0] - 1) * self.degrees
        x = _apply_where(acts[:, 0], x, rotate, turned)
        x = _apply_where(acts[:, 1], x, lambda some, _: mirror(some), values[:, 1])
        x = _apply_where(acts[:, 2], x, blur, (low + values[:, 2] * (high - low)).exp())
        x = _apply_where(
            acts[:, 3], x, lambda some, deviation: noise(some, deviation, normal), values[:, 3] * self.deviation
        )
        x = _apply_where(acts[:, 4], x, brightness, ((2 * values[:, 4] - 1) * spread).exp())
        x = _apply_where(acts[:, 5], x, contrast, ((2 * values[:, 5] - 1) * spread).exp())
        x = _apply_where(acts[:, 6], x, jpeg, (lowest + values[:, 6] * (highest + 1 - lowest)).floor())
        return x.clamp(0, 1)


@dataclass(frozen=True, kw_only=True)
class MildAugmentation:
    """Augmentation by the differences that two images of one patient have anyway: place and brightness.

    The paper has none in stage 1. With few patients a network soon knows their images by heart; this augmentation
    prevents that, and requires nothing that a re-identification should not forgive. All of it always acts,
    drawn uniformly.
    """

    degrees: float = 8.0
    """Largest rotation either way, in degrees."""
    scale: float = 0.08
    """Largest change of size, as a share."""
    shift: float = 0.06
    """Largest shift, as a share of the side."""
    factor: float = 0.2
    """Largest change of brightness, as a share."""
    deviation: float = 0.02
    """Standard deviation of the noise, as a share of the range of grey."""

    def apply(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Make a moved copy of each image; as `PairAugmentation.apply`."""
        check_pixels(tuple(x.shape))
        drawn = (2 * torch.rand(len(x), 5, generator=generator, dtype=torch.float64) - 1).to(x.device)
        normal = torch.randn(tuple(x.shape), generator=generator, dtype=torch.float32).to(x.device, x.dtype)
        across, down = drawn[:, 2] * self.shift, drawn[:, 3] * self.shift
        moved = shift_and_scale(x, drawn[:, 0] * self.degrees, 1 + drawn[:, 1] * self.scale, across, down)
        brighter = brightness(moved, 1 + drawn[:, 4] * self.factor)
        return noise(brighter, torch.full((len(x),), self.deviation, device=x.device), normal)


def _apply_where(acting: torch.Tensor, x: torch.Tensor, operation: Operation, values: torch.Tensor) -> torch.Tensor:
    """Apply an operation to the images that it acts on."""
    if not acting.any():
        return x
    chosen = acting.nonzero()[:, 0]
    out = x.clone()
    out[chosen.to(x.device)] = operation(x[chosen.to(x.device)], values[chosen].to(x.device))
    return out
