"""Pairs of images for the report, only at the user's request: a real image, a synthetic one, their difference."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from memorisk.audits.run_images import SYNTHETIC, TRAIN, Parts
from memorisk.images.pixels import same_channels
from memorisk.report.blocks import Gallery, Name, Text, Thumbnail, data_uri

MAX_PICTURES = 10
MOST_AT_A_GLANCE = 6
"""Number of pairs on a first screen."""
PICTURE_SIDE = 480
"""Side of the three pictures together in the report, in pixels."""
_GAP = 0.04  # white between the pictures, as a share of their width


Pair = tuple[str, str]
"""Names of a training and a synthetic image in the report."""
FACTORS = (32, 16, 8, 4, 2)
"""Factors by which a difference is made brighter, the largest first."""
_SHOWN_WHOLE = 99.5  # percent of the pixels of a difference that stay below white


@dataclass(frozen=True, eq=False)
class PairPicture:
    """Two images and their difference in one picture."""

    pixels: np.ndarray
    """Pixels of the picture, [h, w, C] uint8."""
    factor: int
    """Factor by which the difference is shown brighter than it is."""
    row: np.ndarray
    """The same training image, as it is or laid on the other, generated image and difference in a row, [h, w, C]."""

    @property
    def difference_words(self) -> str:
        """Say how the difference is shown; where nothing differs there is nothing to make brighter."""
        return f"difference {self.factor} times brighter" if self.factor > 1 else "difference as it is"


def amplified(difference: np.ndarray) -> tuple[np.ndarray, int]:
    """Make a difference bright enough to be seen.

    Args:
        difference: Difference of two images of 0 to 255, without sign.

    Returns:
        The difference times a factor of `FACTORS`, or as it is, cut at 255; and the factor.
    """
    most = float(np.percentile(difference, _SHOWN_WHOLE)) if difference.any() else 255.0
    factor = next((factor for factor in FACTORS if most * factor <= 255), 1)
    return np.minimum(difference * factor, 255.0), factor


def side_by_side(real: np.ndarray, synthetic: np.ndarray, *, mirrored: bool = False) -> PairPicture:
    """Draw a real image and a synthetic one, below them the size of their difference, [2 H + gap, 2 W + gap, C].

    Args:
        real: Real image, [H, W, C] uint8 or uint16.
        synthetic: Synthetic image, in the same form; 16 bits are shown from the darkest to the brightest of both.
        mirrored: Whether to take the difference from the mirrored real image; it is shown as it is.
    """
    pair = np.stack([real, synthetic]).astype(np.float64)
    low, high = (0.0, 255.0) if real.dtype == np.uint8 else (pair.min(), max(pair.max(), pair.min() + 1))
    pair = (pair - low) * (255 / (high - low))
    height, width, channels = real.shape
    gap = max(1, round(_GAP * width))
    canvas = np.full((2 * height + gap, 2 * width + gap, channels), 255.0)
    canvas[:height, :width] = pair[0]
    canvas[:height, width + gap :] = pair[1]
    below, factor = amplified(np.abs((pair[0][:, ::-1] if mirrored else pair[0]) - pair[1]))
    canvas[height + gap :, :width] = below
    white = np.full((height, gap, channels), 255.0)
    row = np.concatenate([pair[0], white, pair[1], white, below], axis=1)
    return PairPicture(np.rint(canvas).astype(np.uint8), factor, np.rint(row).astype(np.uint8))


def laid_on_one_another(real: np.ndarray, synthetic: np.ndarray, laid: np.ndarray) -> PairPicture:
    """Draw a real image and a synthetic one; below them the real one laid on the synthetic one, and their difference.

    Args:
        real: Real image, [H, W, C] uint8 or uint16.
        synthetic: Synthetic image, in the same form; 16 bits show the range from darkest to brightest of either pair.
        laid: Pixels of the real image at each pixel of the synthetic one, [H, W, C].

    Returns:
        Picture of [2 H + gap, 2 W + gap, C].
    """
    canvas = side_by_side(real, synthetic).pixels
    height, width, _ = real.shape
    aligned = side_by_side(laid, synthetic)
    below, top = aligned.pixels, len(canvas) - height
    canvas[top:, :width] = below[:height, :width]
    canvas[top:, len(canvas[0]) - width :] = below[top:, :width]
    return PairPicture(canvas, aligned.factor, aligned.row)


class ShownPairs:
    """Pixels of pairs by the ids that a report shows.

    Args:
        parts: Images of the training and of the synthetic part.
    """

    def __init__(self, parts: Parts) -> None:
        self.train, self.synthetic = parts(TRAIN), parts(SYNTHETIC)

    def images(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        """Return the pixels of the training and the synthetic image, of equally many channels.

        Raises:
            InputError: One of the images cannot be read.
        """
        return same_channels(self.train.pixels_of(pair[0]), self.synthetic.pixels_of(pair[1]))

    def pictures(self, pairs: Iterable[Pair], mirrored: Collection[Pair] = ()) -> dict[Pair, PairPicture]:
        """Draw pairs side by side.

        Args:
            pairs: Ids of the images of each pair.
            mirrored: Pairs whose difference is taken from the mirrored training image.
        """
        return {pair: side_by_side(*self.images(pair), mirrored=pair in mirrored) for pair in pairs}


def aligned_gallery(pairs: Mapping[tuple[str, str, str], PairPicture]) -> Gallery:
    """Show pairs laid on one another.

    Args:
        pairs: Pixels (`laid_on_one_another`) by training image, synthetic image, and the transform, in words.
    """
    what = "A training image, a synthetic image, the first laid on the second, and their difference"
    items = [
        _thumbnail(picture, (real, synthetic), what, [alignment], picture.difference_words)
        for (real, synthetic, alignment), picture in pairs.items()
    ]
    caption = (
        "Confirmed pairs: training image, synthetic image; below them the training image laid on the synthetic one, "
        "and the difference that is left."
    )
    return Gallery(items=items, caption=caption)


def glance_gallery(pairs: Mapping[Pair, PairPicture], caption: str) -> Gallery:
    """Show the first pairs on a first screen, each named by its generated image.

    Args:
        pairs: Pixels by training and synthetic image, the gravest first.
        caption: Caption of all pairs.
    """
    items = [
        Thumbnail(
            data_uri=data_uri(picture.row, side=PICTURE_SIDE),
            caption=[Name(pair[1])],
            alternative="A training image, a generated image and their difference",
        )
        for pair, picture in list(pairs.items())[:MOST_AT_A_GLANCE]
    ]
    return Gallery(items=items, caption=caption, wide=True)


def picture_gallery(pairs: Mapping[Pair, PairPicture], title: str, mirrored: frozenset[Pair]) -> Gallery:
    """Show pairs of images with their difference.

    Args:
        pairs: Pixels by training and synthetic image.
        title: Title of these pairs.
        mirrored: Pairs whose difference was taken from the mirrored training image.
    """
    what = "A training image, a synthetic image and their difference, named below"
    to_mirrored = {True: ", to the mirrored training image", False: ""}
    items = [
        _thumbnail(picture, pair, what, picture.difference_words + to_mirrored[pair in mirrored])
        for pair, picture in pairs.items()
    ]
    return Gallery(items=items, caption=f"{title}: training image, synthetic image; below them their difference.")


def _thumbnail(picture: PairPicture, pair: Pair, alternative: str, *lines: Text) -> Thumbnail:
    """Show a picture above the names of its images and further lines."""
    caption: list[Text] = [["training ", Name(pair[0])], ["synthetic ", Name(pair[1])], *lines]
    uri = data_uri(picture.pixels, side=PICTURE_SIDE)
    return Thumbnail(data_uri=uri, caption=caption, alternative=alternative)
