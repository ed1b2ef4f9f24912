"""Quality of rendered images: PSNR and SSIM, one number per image."""

from typing import cast

import numpy as np
import scipy
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
_SIGMA, _TRUNCATE = 1.5, 3.5  # a window of 11 x 11
_K1, _K2 = 0.01, 0.03


def psnr(reconstructed: np.ndarray, wanted: np.ndarray, *, levels: int = 256) -> FloatArray:
    """Compute the peak signal-to-noise ratio, ``10 log10(1 / MSE)`` in decibels.

    The mean squared error counts at least as that of rounding to the stored levels, ``1 / (12 (levels - 1)^2)``, so
    that an image that is rendered exactly has a finite ratio (58.9 dB at 8 bits).

    Args:
        reconstructed: Rendered images, [n, ...] in [0, 1].
        wanted: Images that they should equal, of the same shape.
        levels: Number of levels that a stored pixel can have.

    Returns:
        Ratio of each image in decibels, [n] float64.

    Example:
        >>> psnr(np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.6)).round(2).tolist()
        [20.0]
    """
    apart = reconstructed.astype(np.float64) - wanted
    error = np.square(apart).reshape(len(apart), -1).mean(axis=1)
    return 10 * np.log10(1 / np.maximum(error, 1 / (12 * (levels - 1) ** 2)))


def ssim(reconstructed: np.ndarray, wanted: np.ndarray) -> FloatArray:
    """Compute the structural similarity (Wang et al. 2004), averaged over pixels and channels.

    Weights are Gaussian with sigma 1.5 in 11 x 11 pixels, mirrored at the border; K1 0.01, K2 0.03, range 1.

    Args:
        reconstructed: Rendered images, [n, C, h, w] in [0, 1].
        wanted: Images that they should equal, of the same shape.

    Returns:
        Similarity of each image, [n] float64, at most 1.

    Example:
        >>> images = np.linspace(0, 1, 256).reshape(1, 16, 16, 1)
        >>> ssim(images, images).round(3).tolist()
        [1.0]
    """
    x, y = reconstructed.astype(np.float64), wanted.astype(np.float64)
    mean_x, mean_y = _blur(x), _blur(y)
    var_x, var_y = _blur(x * x) - mean_x**2, _blur(y * y) - mean_y**2
    both = _blur(x * y) - mean_x * mean_y
    c1, c2 = _K1**2, _K2**2
    upper = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    lower = (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return (upper / lower).mean(axis=(1, 2, 3))


def _blur(x: FloatArray) -> FloatArray:
    return cast(FloatArray, scipy.ndimage.gaussian_filter(x, (0, 0, _SIGMA, _SIGMA), truncate=_TRUNCATE, mode="mirror"))
