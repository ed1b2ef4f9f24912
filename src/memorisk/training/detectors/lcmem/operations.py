"""The operations that LCMem learns to look through: each batched, on the device of the pixels, a parameter an image.

Paper 004, section 4.2 and appendix B: blur, noise, rotation, brightness, contrast, JPEG; stage 2 also mirrors. Pixels
are floating point in [0, 1], [b, C, H, W]; nothing is drawn in this module. JPEG is the real one, by Pillow.
"""

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from memorisk.runs.errors import InputError

SMALLEST_SIDE = 5
"""Pixels: a blur of 9 pixels reflects four."""
_BLUR_REACH = 4
_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601-2, as Pillow and torchvision have it
_JPEG_THREADS = 8


def check_pixels(shape: tuple[int, ...]) -> None:
    """Refuse what is no batch of images of 1 or 3 channels that a blur of 9 pixels fits into.

    Raises:
        InputError: It is none.
    """
    if len(shape) != 4 or shape[1] not in (1, 3) or min(shape[2:]) < SMALLEST_SIDE:
        raise InputError(
            f"augmented copies are made of images [b, C, H, W] of 1 or 3 channels and {SMALLEST_SIDE} pixels a side or "
            f"more, not {list(shape)}"
        )


def rotate(x: torch.Tensor, degrees: torch.Tensor) -> torch.Tensor:
    """Rotation about the centre, bilinear; what comes from outside is the darkest value of its channel.

    Args:
        x: [b, C, H, W].
        degrees: [b], counter-clockwise.
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
    """Rotation, zoom and shift in one bilinear resampling; the border is repeated outside.

    Args:
        x: [b, C, H, W].
        degrees: [b], counter-clockwise.
        factor: [b], above 1 enlarges.
        across: [b], to the right, as a share of the width.
        down: [b], as a share of the height.
    """
    height, width = x.shape[2:]
    angle = torch.deg2rad(degrees.double())
    cos, sin = angle.cos() / factor.double(), angle.sin() / factor.double()
    top = torch.stack([cos, -sin * (height / width), -2 * across.double()], dim=1)
    bottom = torch.stack([sin * (width / height), cos, -2 * down.double()], dim=1)
    grid = F.affine_grid(torch.stack([top, bottom], dim=1).to(x.dtype), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def mirror(x: torch.Tensor) -> torch.Tensor:
    """Left to right."""
    return x.flip(3)


def blur(x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """Gaussian blur, a kernel of 9 pixels, the border reflected.

    Args:
        x: [b, C, H, W].
        sigma: [b] in pixels, above 0.
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
    """Gaussian noise, independent in every pixel and channel.

    Args:
        x: [b, C, H, W].
        deviation: [b], of pixels in [0, 1].
        normal: [b, C, H, W], standard normal.
    """
    return (x + _each(deviation, x) * normal).clamp(0, 1)


def brightness(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """``x factor``, cut to [0, 1] (torchvision's adjust_brightness); below 1 it darkens.

    Args:
        x: [b, C, H, W].
        factor: [b].
    """
    return (x * _each(factor, x)).clamp(0, 1)


def contrast(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """``m + (x - m) factor`` with m the mean luma of the image, cut to [0, 1] (torchvision's adjust_contrast).

    Args:
        x: [b, C, H, W].
        factor: [b].
    """
    grey = x if x.shape[1] == 1 else (x * x.new_tensor(_LUMA)[:, None, None]).sum(dim=1, keepdim=True)
    mean = grey.mean(dim=(1, 2, 3), keepdim=True)
    return (mean + (x - mean) * _each(factor, x)).clamp(0, 1)


def jpeg(x: torch.Tensor, quality: torch.Tensor) -> torch.Tensor:
    """Written as JPEG of 8 bits a channel and read again, by Pillow with its own chroma subsampling.

    Args:
        x: [b, C, H, W] of 1 or 3 channels.
        quality: [b] whole numbers from 1 to 95.
    """
    pixels = x.clamp(0, 1).mul(255).round().to(torch.uint8).movedim(1, -1).cpu().contiguous().numpy()
    values = quality.tolist()
    if len(pixels) > 1:
        with ThreadPoolExecutor(min(_JPEG_THREADS, torch.get_num_threads())) as pool:
            found = list(pool.map(_through_jpeg, pixels, values))
    else:
        found = [_through_jpeg(image, value) for image, value in zip(pixels, values, strict=True)]
    stacked = torch.from_numpy(np.stack(found)) if found else torch.from_numpy(pixels)
    return stacked.to(x.device).to(x.dtype).div(255).movedim(-1, 1)


def _through_jpeg(image: np.ndarray, quality: float) -> np.ndarray:
    """[H, W, C] uint8 to the same."""
    grey = image.shape[-1] == 1
    buffer = BytesIO()
    Image.fromarray(image[..., 0] if grey else image).save(buffer, format="JPEG", quality=int(quality))
    buffer.seek(0)
    with Image.open(buffer) as read:
        back = np.asarray(read)
    return back[..., None] if grey else back


def _each(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """[b] to [b, 1, 1, 1] as the pixels are."""
    return values.to(x.device, x.dtype)[:, None, None, None]
