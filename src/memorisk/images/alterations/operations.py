"""Operations on batches of images that make copies: on the device of the pixels, one parameter for each image.

Pixels are floating point in [0, 1], [b, C, H, W]; nothing is drawn here. Pillow writes and reads real JPEG.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.images.alterations.planting import through_jpeg
from memorisk.runs.errors import InputError

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
    values = [int(value) for value in quality.tolist()]
    if len(pixels) > 1:
        with ThreadPoolExecutor(min(_JPEG_THREADS, torch.get_num_threads())) as pool:
            images = list(pool.map(through_jpeg, pixels, values))
    else:
        images = [through_jpeg(image, value) for image, value in zip(pixels, values, strict=True)]
    stacked = torch.from_numpy(np.stack(images)) if images else torch.from_numpy(pixels)
    return stacked.to(x.device).to(x.dtype).div(255).movedim(-1, 1)


def _broadcast(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Reshape [b] to [b, 1, 1, 1], of the device and type of the pixels."""
    return values.to(x.device, x.dtype)[:, None, None, None]
