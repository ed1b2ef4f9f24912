"""Pairs of images for the report, only when the user asked: a real image, a synthetic one, their difference."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from memorisk.report.blocks import (
    Gallery,
    Name,
    Thumbnail,
    data_uri,
)

MAX_PICTURES = 10
PICTURE_SIDE = 480
"""Pixels of the three pictures together in the report, a side."""
_GAP = 0.04  # white between the pictures, as a share of their width


Pair = tuple[str, str]
"""A training and a synthetic image, as the report names them."""
FACTORS = (32, 16, 8, 4, 2)
"""By which a difference is made brighter, the largest first."""
_SHOWN_WHOLE = 99.5  # percent of the pixels of a difference that stay below white


@dataclass(frozen=True, eq=False)
class PairPicture:
    """Two images and their difference in one picture."""

    pixels: np.ndarray
    """[h, w, C] uint8."""
    factor: int
    """How many times brighter the difference is shown than it is."""

    @property
    def difference_words(self) -> str:
        """Say how the difference is shown; where nothing differs there is nothing to make brighter."""
        return f"difference {self.factor} times brighter" if self.factor > 1 else "difference as it is"


def amplified(difference: np.ndarray) -> tuple[np.ndarray, int]:
    """Make a difference bright enough to be seen.

    Args:
        difference: Of two images of 0 to 255, without sign.

    Returns:
        The difference times a factor of `FACTORS`, or as it is, cut at 255; and the factor.
    """
    most = float(np.percentile(difference, _SHOWN_WHOLE)) if difference.any() else 255.0
    factor = next((factor for factor in FACTORS if most * factor <= 255), 1)
    return np.minimum(difference * factor, 255.0), factor


def side_by_side(real: np.ndarray, synthetic: np.ndarray, *, mirrored: bool = False) -> PairPicture:
    """A real image and a synthetic one, below them the size of their difference, [2 H + gap, 2 W + gap, C].

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
    below, factor = amplified(np.abs((pair[0][:, ::-1] if mirrored else pair[0]) - pair[1]))
    made[height + gap :, :width] = below
    return PairPicture(np.rint(made).astype(np.uint8), factor)


def laid_on_one_another(real: np.ndarray, synthetic: np.ndarray, laid: np.ndarray) -> PairPicture:
    """A real image and a synthetic one; below them the real one laid on the synthetic one, and their difference.

    Args:
        real: [H, W, C] uint8 or uint16.
        synthetic: Likewise; 16 bits are shown from the darkest to the brightest of either pair.
        laid: [H, W, C], what the real image shows at each pixel of the synthetic one.

    Returns:
        [2 H + gap, 2 W + gap, C].
    """
    made = side_by_side(real, synthetic).pixels
    height, width, _ = real.shape
    aligned = side_by_side(laid, synthetic)
    below, top = aligned.pixels, len(made) - height
    made[top:, :width] = below[:height, :width]
    made[top:, len(made[0]) - width :] = below[top:, :width]
    return PairPicture(made, aligned.factor)


def aligned_gallery(pairs: Mapping[tuple[str, str, str], PairPicture]) -> Gallery:
    """Pairs laid on one another.

    Args:
        pairs: Pixels (`laid_on_one_another`) by training image, synthetic image, and what was done, in words.
    """
    items = [
        Thumbnail(
            data_uri=data_uri(picture.pixels, side=PICTURE_SIDE),
            caption=[["training ", Name(real)], ["synthetic ", Name(made)], [said], picture.difference_words],
            alternative="A training image, a synthetic image, the first laid on the second, and their difference",
        )
        for (real, made, said), picture in pairs.items()
    ]
    caption = (
        "Confirmed pairs: training image, synthetic image; below them the training image laid on the synthetic one, "
        "and the difference that is left."
    )
    return Gallery(items=items, caption=caption)


def picture_gallery(pairs: Mapping[Pair, PairPicture], title: str, mirrored: frozenset[Pair]) -> Gallery:
    """Pairs of images with their difference.

    Args:
        pairs: Pixels by training and synthetic image.
        title: What these pairs are.
        mirrored: Pairs whose difference was taken from the mirrored training image.
    """
    items = [
        Thumbnail(
            data_uri=data_uri(picture.pixels, side=PICTURE_SIDE),
            caption=[
                ["training ", Name(pair[0])],
                ["synthetic ", Name(pair[1])],
                picture.difference_words + (", to the mirrored training image" if pair in mirrored else ""),
            ],
            alternative="A training image, a synthetic image and their difference, named below",
        )
        for pair, picture in pairs.items()
    ]
    return Gallery(items=items, caption=f"{title}: training image, synthetic image; below them their difference.")
