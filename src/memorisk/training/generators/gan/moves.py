"""Images moved and coloured by matrices, each by its own; every operation has all derivatives.

For adaptive augmentation (`memorisk.training.generators.gan.augment`). Pixels are gathered and weighted, since the
derivative of torch's ``grid_sample`` has none. Beyond its edges an image is reflected at the middle of its outermost
pixels.
"""

import math

import torch
import torch.nn.functional as F

_SYM6 = (
    0.015404109327027373, 0.0034907120842174702, -0.11799011114819057, -0.048311742585633, 0.4910559419267466,
    0.787641141030194, 0.3379294217276218, -0.07263752278646252, -0.021060292512300564, 0.04472490177066578,
    0.0017677118642428036, -0.007800708325034148,
)  # fmt: skip
_PAD = len(_SYM6) // 4
_EDGE = 5
"""Pixels of twice the side that the filter needs beyond the image."""
_CENTRE = sum(t * weight for t, weight in enumerate(_SYM6)) / sum(_SYM6) - _EDGE
"""Where the middle of the first pixel lies in the image of twice the side: by the filter's centre of mass, so that an
even slope stays one."""


def move_pixels(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Pixels of each image taken from elsewhere in it; exact, for matrices that lead from pixel to pixel.

    Args:
        x: [b, c, s, s].
        matrix: [b, 3, 3], in pixels from the middle.
    """
    side = x.shape[-1]
    rows, columns = _sources(matrix, torch.arange(side, dtype=torch.float64), side)
    index = _mirrored(rows, side).round().long() * side + _mirrored(columns, side).round().long()
    return _gathered(x, index.to(x.device)).unflatten(2, (side, side))


def move_between_pixels(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Each image moved by any matrix, without aliases.

    It is made twice as large by the wavelet sym6, taken between its pixels by bilinear interpolation, and made half as
    large by sym6 again, which undoes the first step where nothing moves.

    Args:
        x: [b, c, s, s].
        matrix: [b, 3, 3], in pixels from the middle.
    """
    side = x.shape[-1]
    large, line = _twice(x), (torch.arange(-_EDGE, 2 * side + _EDGE, dtype=torch.float64) - _CENTRE) / 2
    rows, columns = (2 * _mirrored(place, side) + _CENTRE for place in _sources(matrix, line, side))
    seen = torch.zeros((), dtype=x.dtype, device=x.device)
    for down in (0, 1):
        row, row_weight = _neighbour(rows, down, 2 * side)
        for right in (0, 1):
            column, column_weight = _neighbour(columns, right, 2 * side)
            weight = (row_weight * column_weight).to(x.device, x.dtype)
            seen = seen + _gathered(large, (row * 2 * side + column).to(x.device)) * weight[:, None]
    return _half(seen.unflatten(2, (len(line), len(line))))


def recolour(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Colours of each image by an affine map; a grey image as if it were red, green and blue, of which the mean stays.

    Args:
        x: [b, c, s, s], c of 1 or 3.
        matrix: [b, 4, 4].
    """
    matrix = matrix.to(x.device)
    linear, shift = matrix[:, :3, :3], matrix[:, :3, 3]
    if x.shape[1] == 1:
        linear, shift = linear.sum(dim=2).mean(dim=1)[:, None, None], shift.mean(dim=1, keepdim=True)
    return (linear.to(x.dtype) @ x.flatten(2) + shift.to(x.dtype)[:, :, None]).unflatten(2, x.shape[2:])


def _sources(matrix: torch.Tensor, line: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each point of a grid is taken from: rows and columns, [b, n n] each, as pixels of the image are counted."""
    middle = (side - 1) / 2
    line = line.to(matrix.device) - middle
    y, x = (v.flatten() for v in torch.meshgrid(line, line, indexing="ij"))
    found = matrix @ torch.stack([x, y, torch.ones_like(x)])
    return found[:, 1] + middle, found[:, 0] + middle


def _mirrored(place: torch.Tensor, side: int) -> torch.Tensor:
    """Reflected into the image at the middle of its first and last pixels."""
    period = 2 * (side - 1)
    place = place.remainder(period)
    return torch.minimum(place, period - place)


def _neighbour(place: torch.Tensor, step: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The pixel before a place or after it, and its weight in a linear interpolation."""
    before = place.floor()
    share = place - before
    return (before + step).clamp(0, side - 1).long(), share if step else 1 - share


def _gathered(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[b, c, n] of the pixels at [b, n]; its derivative adds them up again, and is differentiable itself."""
    return x.flatten(2).gather(2, index[:, None].expand(-1, x.shape[1], -1))


def _filter(x: torch.Tensor) -> torch.Tensor:
    """The wavelet's low-pass filter, [12]."""
    return torch.tensor(_SYM6, dtype=x.dtype, device=x.device)


def _twice(x: torch.Tensor) -> torch.Tensor:
    """[b, c, 2s, 2s]: zeros between the pixels, then sym6 in both directions."""
    channels, line = x.shape[1], math.sqrt(2) * _filter(x)
    x, cut = F.pad(x, (_PAD,) * 4, mode="reflect"), 2 * _PAD + _EDGE
    for shape, stride in (((1, 1, -1, 1), (2, 1)), ((1, 1, 1, -1), (1, 2))):
        weight = line.reshape(shape).expand(channels, -1, -1, -1)
        x = F.conv_transpose2d(x, weight, stride=stride, groups=channels)
    return x[..., cut : x.shape[-2] - cut, cut : x.shape[-1] - cut]


def _half(x: torch.Tensor) -> torch.Tensor:
    """[b, c, s, s] of [b, c, 2s + 10, 2s + 10]: sym6 backwards in both directions, then every second pixel."""
    channels, line = x.shape[1], _filter(x) / math.sqrt(2)
    for shape, stride in (((1, 1, -1, 1), (2, 1)), ((1, 1, 1, -1), (1, 2))):
        x = F.conv2d(x, line.reshape(shape).expand(channels, -1, -1, -1), stride=stride, groups=channels)
    return x
