"""Pairs of images for the report, only when the user asked: a real image, a synthetic one, their difference."""

from collections.abc import Mapping

import numpy as np

from memorisk.report.blocks import (
    Gallery,
    Name,
    Thumbnail,
    data_uri,
)

MAX_PICTURES = 10
PICTURE_SIDE = 320
"""Pixels of the three pictures together in the report, a side."""
_GAP = 0.04  # white between the pictures, as a share of their width


Pair = tuple[str, str]
"""A training and a synthetic image, as the report names them."""


def side_by_side(real: np.ndarray, synthetic: np.ndarray, *, mirrored: bool = False) -> np.ndarray:
    """A real image and a synthetic one, below them the size of their difference, [2 H + gap, 2 W + gap, C] uint8.

    Args:
        real: [H, W, C] uint8 or uint16.
        synthetic: Likewise; 16 bits are shown from the darkest to the brightest of both.
        mirrored: Take the difference from the real image mirrored left to right; it is shown as it is.
    """
    pair = np.stack([real, synthetic]).astype(np.float64)
    low, high = (0.0, 255.0) if real.dtype == np.uint8 else (pair.min(), max(pair.max(), pair.min() + 1))
    pair = (pair - low) * (255 / (high - low))
    height, width, channels = real.shape
    gap = max(1, round(_GAP * width))
    made = np.full((2 * height + gap, 2 * width + gap, channels), 255.0)
    made[:height, :width] = pair[0]
    made[:height, width + gap :] = pair[1]
    made[height + gap :, :width] = np.abs((pair[0][:, ::-1] if mirrored else pair[0]) - pair[1])
    return np.rint(made).astype(np.uint8)


def laid_on_one_another(real: np.ndarray, synthetic: np.ndarray, laid: np.ndarray) -> np.ndarray:
    """A real image and a synthetic one; below them the real one laid on the synthetic one, and their difference.

    Args:
        real: [H, W, C] uint8 or uint16.
        synthetic: Likewise; 16 bits are shown from the darkest to the brightest of either pair.
        laid: [H, W, C], what the real image shows at each pixel of the synthetic one.

    Returns:
        [2 H + gap, 2 W + gap, C] uint8.
    """
    made = side_by_side(real, synthetic)
    height, width, _ = real.shape
    below = side_by_side(laid, synthetic)
    top = len(made) - height
    made[top:, :width] = below[:height, :width]
    made[top:, len(made[0]) - width :] = below[top:, :width]
    return made


def aligned_gallery(pairs: Mapping[tuple[str, str, str], np.ndarray]) -> Gallery:
    """Pairs laid on one another.

    Args:
        pairs: Pixels (`laid_on_one_another`) by training image, synthetic image, and what was done, in words.
    """
    items = [
        Thumbnail(
            data_uri=data_uri(pixels, side=PICTURE_SIDE),
            caption=[["training ", Name(real)], ["synthetic ", Name(made)], [said]],
            alternative="A training image, a synthetic image, the first laid on the second, and their difference",
        )
        for (real, made, said), pixels in pairs.items()
    ]
    caption = (
        "Confirmed pairs: training image, synthetic image; below them the training image laid on the synthetic one, "
        "and the difference that is left."
    )
    return Gallery(items=items, caption=caption)


def picture_gallery(pairs: Mapping[Pair, np.ndarray], title: str, mirrored: frozenset[Pair]) -> Gallery:
    """Pairs of images with their difference.

    Args:
        pairs: Pixels by training and synthetic image.
        title: What these pairs are.
        mirrored: Pairs whose difference was taken from the mirrored training image.
    """
    items = [
        Thumbnail(
            data_uri=data_uri(pixels, side=PICTURE_SIDE),
            caption=[
                ["training ", Name(pair[0])],
                ["synthetic ", Name(pair[1])],
                *(["the difference is to the mirrored training image"] if pair in mirrored else []),
            ],
            alternative="A training image, a synthetic image and their difference, named below",
        )
        for pair, pixels in pairs.items()
    ]
    return Gallery(items=items, caption=f"{title}: training image, synthetic image; below them their difference.")
