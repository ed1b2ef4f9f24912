"""MSE, NCC and SSIM of pairs of images: the pixel-wise baselines of paper 004's table 2, larger = more alike.

MSE: -mean (x - y)^2 on the scale of 8 bits;  NCC: Pearson's correlation of all pixels and channels;
SSIM: mean structural similarity (Wang et al., 2004), Gaussian window of 11, sigma 1.5, by kornia.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memorisk.runs.errors import InputError, MissingExtraError

FloatArray = NDArray[np.float64]
WINDOW = 11
SMALLEST = WINDOW // 2 + 1
"""Pixels a side that the window reflects into."""
_AT_ONCE = 1 << 21  # numbers of a batch


def pixel_scores(name: str, first: np.ndarray, second: np.ndarray, *, device: str = "cpu") -> FloatArray:
    """How alike each image is to the one beside it.

    Args:
        name: "mse", "ncc" or "ssim".
        first: uint8 or uint16 [n, H, W, C].
        second: The same shape and type.
        device: Where SSIM is computed.

    Returns:
        [n] float64; NaN where an image of one value has no correlation.

    Raises:
        InputError: Shapes differ, or images are too small for SSIM's window.
        MissingExtraError: SSIM without kornia.
    """
    if first.shape != second.shape or first.dtype != second.dtype or first.ndim != 4:
        raise InputError(f"images {first.shape} and {second.shape} cannot be compared pixel by pixel")
    size = max(1, _AT_ONCE // int(np.prod(first.shape[1:])))
    found = np.empty(len(first))
    for start in range(0, len(first), size):
        some = slice(start, start + size)
        found[some] = _batch(name, first[some], second[some], device)
    return found


def _batch(name: str, first: np.ndarray, second: np.ndarray, device: str) -> FloatArray:
    if name == "ssim":
        return _ssim(first, second, device)
    x, y = (a.reshape(len(a), -1).astype(np.float64) * (255 / np.iinfo(a.dtype).max) for a in (first, second))
    if name == "mse":
        return -np.square(x - y).mean(axis=1)
    x, y = (a - a.mean(axis=1, keepdims=True) for a in (x, y))
    length = np.sqrt(np.square(x).sum(axis=1) * np.square(y).sum(axis=1))
    constant = (first == first[:, :1, :1, :1]).all(axis=(1, 2, 3)) | (second == second[:, :1, :1, :1]).all(
        axis=(1, 2, 3)
    )
    return np.divide((x * y).sum(axis=1), length, out=np.full(len(x), np.nan), where=~constant)


def _ssim(first: np.ndarray, second: np.ndarray, device: str) -> FloatArray:
    """SSIM by kornia, averaged over pixels and channels."""
    if min(first.shape[1:3]) < SMALLEST:
        raise InputError(f"SSIM looks through a window of {WINDOW} pixels; images of {first.shape[1]} are too small")
    try:
        from kornia.metrics import ssim
    except ImportError:
        raise MissingExtraError("kornia", "detectors", "SSIM") from None
    x, y = (_planes(a, device) for a in (first, second))
    with torch.inference_mode():
        return ssim(x, y, WINDOW, max_val=255.0).double().mean(dim=(1, 2, 3)).cpu().numpy()


def _planes(images: np.ndarray, device: Any) -> torch.Tensor:
    """[n, C, H, W] float32 on the scale of 8 bits."""
    scaled = images.astype(np.float32) * np.float32(255 / np.iinfo(images.dtype).max)
    return torch.from_numpy(scaled).movedim(-1, 1).contiguous().to(device)
