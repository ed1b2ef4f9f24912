"""Operations that make an augmented copy: batched, on the device of the pixels, one parameter per image.

Paper 003, section 3.2.3, names "rotation, scaling, flipping, affine transformations, bias field distortion, gamma
correction, noise addition, and blurring"; its code draws them with TorchIO. Here resampling, blur and motion are
kornia's, the bias field is MONAI's, written for a batch (tested against it); nothing is drawn in this module.
"""

from functools import lru_cache

import numpy as np
import torch

from memorisk.runs.errors import MissingExtraError

N_COEFFICIENTS = 10
"""Number of coefficients of a bias field of degree 3 in two directions, as MONAI counts them."""
_DEGREE = 3
_BLUR_WINDOW = 7  # three standard deviations of the widest blur to either side
_MOTION_SHARE = 5 / 224  # the published code moves by up to 5 pixels of 224


def kornia_module(name: str):
    """Import a module of kornia, or fail with one line that names the extra to install.

    Args:
        name: Name of the module, such as "kornia.filters".

    Raises:
        MissingExtraError: kornia is not installed.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError("kornia", "detectors", "augmented copies") from None


def turn_and_scale(x: torch.Tensor, degrees: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Rotate and zoom about the centre in one bilinear resampling.

    Pixels from outside the image have the darkest value of its channel (the published code pads with the minimum).

    Args:
        x: Images, [b, C, H, W].
        degrees: Angle of each image in degrees, [b], counter-clockwise.
        factor: Zoom of each image, [b]; above 1 enlarges.
    """
    transform = kornia_module("kornia.geometry.transform")
    height, width = x.shape[2:]
    low = x.amin(dim=(2, 3), keepdim=True)
    centre = x.new_tensor([(width - 1) / 2, (height - 1) / 2]).expand(len(x), 2)
    matrix = transform.get_rotation_matrix2d(centre, degrees, factor[:, None].expand(-1, 2))
    turned = transform.warp_affine(x - low, matrix, (height, width), padding_mode="zeros", align_corners=True)
    return turned + low


def upside_down(x: torch.Tensor) -> torch.Tensor:
    """Mirror images top to bottom."""
    return x.flip(2)


def bias_field(x: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """Apply smoothly uneven brightness, ``x exp(sum_ij c_ij P_i(row) P_j(column))``, Legendre polynomials on [-1, 1].

    Equal to MONAI's ``RandBiasField(degree=3)`` for the same coefficients: those of the lower triangle of c [4, 4] in
    row order, the constant one first; one field for all channels of an image.

    Args:
        x: Images, [b, C, H, W].
        coefficients: Coefficients of each image, [b, 10].
    """
    table = x.new_zeros(len(x), _DEGREE + 1, _DEGREE + 1)
    rows, columns = np.tril_indices(_DEGREE + 1)
    table[:, rows, columns] = coefficients
    down, across = (legendre(int(n)).to(x.device, x.dtype) for n in x.shape[2:])  # [H, 4], [W, 4]
    return x * (down @ table @ across.T).exp()[:, None]


@lru_cache(maxsize=16)
def legendre(n: int) -> torch.Tensor:
    """Compute Legendre polynomials of degree 0 to 3 at n places evenly over [-1, 1]: [n, 4] float64."""
    return torch.from_numpy(np.polynomial.legendre.legvander(np.linspace(-1.0, 1.0, n), _DEGREE))


def log_gamma(x: torch.Tensor, logarithm: torch.Tensor) -> torch.Tensor:
    """Compute ``x ** exp(logarithm)`` of pixels in [0, 1], as TorchIO's RandomGamma.

    MONAI's RandAdjustContrast stretches each image to its own darkest and brightest pixel first; TorchIO, which the
    published code uses, does not.

    Args:
        x: Images, [b, C, H, W], not negative.
        logarithm: Natural logarithm of gamma of each image, [b].
    """
    return x ** logarithm.exp()[:, None, None, None]


def noise(x: torch.Tensor, deviation: torch.Tensor, normal: torch.Tensor) -> torch.Tensor:
    """Add Gaussian noise, independent in every pixel and channel.

    Args:
        x: Images, [b, C, H, W].
        deviation: Standard deviation for each image, [b], for pixels in [0, 1].
        normal: Standard normal draws, [b, C, H, W].
    """
    return x + deviation[:, None, None, None] * normal


def blur(x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """Blur with a Gaussian of ``sigma`` [b] pixels, at most 1, the border reflected."""
    filters = kornia_module("kornia.filters")
    return filters.gaussian_blur2d(x, _BLUR_WINDOW, sigma[:, None].expand(-1, 2))


def motion(x: torch.Tensor, angle: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """Smear the image along a line, as if it had moved during exposure; `motion_reach` pixels to either side.

    Args:
        x: Images, [b, C, H, W].
        angle: Angle of the line in degrees, [b], counter-clockwise.
        direction: Place of the weight along the line, [b] in [-1, 1]; 0 is even.
    """
    filters = kornia_module("kornia.filters")
    size = 2 * motion_reach(int(min(x.shape[2:]))) + 1
    return filters.fft_conv(x, filters.get_motion_kernel2d(size, angle, direction, mode="bilinear"))


def motion_reach(side: int) -> int:
    """Return the pixels to either side over which motion smears: 5 of 224, in proportion, at least 1."""
    return max(1, round(side * _MOTION_SHARE))
