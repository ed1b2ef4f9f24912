"""Pairs of images for the report, only at the user's request: a real image, a synthetic one, their difference."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from memorisk.audits.run_images import SYNTHETIC, TRAIN, Parts
from memorisk.images.pixels import same_channels
from memorisk.report.blocks import Block, Gallery, Name, Paragraph, Text, Thumbnail, data_uri
from memorisk.report.columns import column_texts
from memorisk.report.glance import short_name
from memorisk.report.result import Result
from memorisk.runs.errors import plural

MAX_PICTURES = 10
MOST_AT_A_GLANCE = 6
"""Number of pairs on a first screen."""
PICTURE_SIDE = 480
"""Side of the three pictures together in the report, in pixels."""
_GAP = 0.04  # transparent between the pictures, as a share of their width


Pair = tuple[str, str]
"""Names of a training and a synthetic image in the report."""
FACTORS = (32, 16, 8, 4, 2)
"""Factors by which a difference is made brighter, the largest first."""
_SHOWN_WHOLE = 99.5  # percent of the pixels of a difference that stay below white


@dataclass(frozen=True, eq=False)
class PairPicture:
    """Two images and their difference in one picture."""

    pixels: np.ndarray
    """Pixels of the picture, [h, w, C + 1] uint8; the last channel is opaque but between the images."""
    factor: int
    """Factor by which the difference is shown brighter than it is."""
    row: np.ndarray
    """The same training image, as it is or laid on the other, generated image and difference in a row, in this form."""
    mirrored: bool = False
    """Whether the difference is that to the mirrored training image."""

    @property
    def difference_words(self) -> str:
        """Say how the difference is shown; where nothing differs there is nothing to make brighter."""
        brighter = f"difference {self.factor} times brighter" if self.factor > 1 else "difference as it is"
        return f"{brighter}, to the mirrored training image" if self.mirrored else brighter

    @property
    def short_words(self) -> str:
        """Say the same where there is little room."""
        brighter = f" × {self.factor}" if self.factor > 1 else ""
        return f"difference{brighter}{', mirrored' if self.mirrored else ''}"


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
    """Draw a real image and a synthetic one, below them the size of their difference, [2 H + gap, 2 W + gap, C + 1].

    Args:
        real: Real image, [H, W, C] uint8 or uint16.
        synthetic: Synthetic image, in the same form; 16 bits are shown from the darkest to the brightest of both.
        mirrored: Whether to take the difference from the mirrored real image; it is shown as it is.
    """
    pair = np.stack([real, synthetic]).astype(np.float64)
    low, high = (0.0, 255.0) if real.dtype == np.uint8 else (pair.min(), max(pair.max(), pair.min() + 1))
    pair = (pair - low) * (255 / (high - low))
    below, factor = amplified(np.abs((pair[0][:, ::-1] if mirrored else pair[0]) - pair[1]))
    canvas, row = _joined([[pair[0], pair[1]], [below]]), _joined([[pair[0], pair[1], below]])
    return PairPicture(canvas, factor, row, mirrored)


def laid_on_one_another(real: np.ndarray, synthetic: np.ndarray, laid: np.ndarray) -> PairPicture:
    """Draw a real image and a synthetic one; below them the real one laid on the synthetic one, and their difference.

    Args:
        real: Real image, [H, W, C] uint8 or uint16.
        synthetic: Synthetic image, in the same form; 16 bits show the range from darkest to brightest of either pair.
        laid: Pixels of the real image at each pixel of the synthetic one, [H, W, C].

    Returns:
        Picture of [2 H + gap, 2 W + gap, C + 1].
    """
    aligned = side_by_side(laid, synthetic)
    canvas = side_by_side(real, synthetic).pixels
    height, width, _ = real.shape
    lower, right = len(canvas) - height, len(canvas[0]) - width
    canvas[lower:, :width] = aligned.pixels[:height, :width]
    canvas[lower:, right:] = aligned.pixels[lower:, :width]
    return PairPicture(canvas, aligned.factor, aligned.row)


def _joined(rows: list[list[np.ndarray]]) -> np.ndarray:
    """Join images of one shape in rows with transparent gaps, [h, w, C + 1] uint8.

    Args:
        rows: Images [H, W, C] of 0 to 255, row by row.
    """
    height, width, channels = rows[0][0].shape
    gap = max(1, round(_GAP * width))
    n_columns = max(map(len, rows))
    canvas = np.zeros((len(rows) * (height + gap) - gap, n_columns * (width + gap) - gap, channels + 1), dtype=np.uint8)
    for y, images in enumerate(rows):
        for x, image in enumerate(images):
            place = canvas[y * (height + gap) :, x * (width + gap) :][:height, :width]
            place[..., :channels], place[..., channels] = np.rint(image), 255
    return canvas


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

    def laid(self, pair: Pair, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what `images` does, and the training image laid on the synthetic one; of volumes middle slices.

        Args:
            pair: Ids of the training and the synthetic image.
            matrix: Transform of their alignment.

        Raises:
            InputError: One of the images cannot be read.
        """
        from memorisk.images.copies.alignment import laid_slice  # OpenCV, which a page without pictures does without

        real, synthetic = self.images(pair)
        source = real if len(matrix) == 2 else self.train.pixels_of(pair[0], whole=True)
        return real, synthetic, laid_slice(source, matrix, synthetic.shape)

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


def at_a_glance(pairs: Mapping[Pair, PairPicture]) -> dict[Pair, PairPicture]:
    """Choose the first pairs, which a first screen has room for; sections do not show them again.

    Args:
        pairs: Pixels by training and synthetic image, the gravest first.
    """
    return dict(list(pairs.items())[:MOST_AT_A_GLANCE])


def glance_gallery(pairs: Mapping[Pair, PairPicture], caption: str) -> Gallery:
    """Show the first pairs on a first screen, each named by its training and its generated image.

    Args:
        pairs: Pixels of the pairs `at_a_glance`.
        caption: Caption of all pairs.
    """
    items = [
        Thumbnail(
            data_uri=data_uri(picture.row, side=PICTURE_SIDE),
            caption=[[short_name(pair[0]), ", ", short_name(pair[1])], picture.short_words],
            alternative="A training image, a generated image and their difference",
        )
        for pair, picture in pairs.items()
    ]
    return Gallery(items=items, caption=caption, wide=True)


def picture_gallery(pairs: Mapping[Pair, PairPicture], title: str, at_top: Collection[Pair]) -> list[Block]:
    """Show pairs of images with their difference, without those that the first screen shows.

    Args:
        pairs: Pixels by training and synthetic image.
        title: Title of these pairs.
        at_top: Pairs of the first screen.
    """
    what = "A training image, a synthetic image and their difference, named below"
    rest = {pair: picture for pair, picture in pairs.items() if pair not in at_top}
    n_above = len(pairs) - len(rest)
    above = f"{title}: {plural(n_above, 'pair is', 'pairs are')} at the top of this page." if n_above else ""
    if not rest:
        return [Paragraph(above)] if above else []
    items = [_thumbnail(picture, pair, what, picture.difference_words) for pair, picture in rest.items()]
    caption = f"{title}: training image, synthetic image; below them their difference."
    return [*([Paragraph(above)] if above else []), Gallery(items=items, caption=caption)]


def _thumbnail(picture: PairPicture, pair: Pair, alternative: str, *lines: Text) -> Thumbnail:
    """Show a picture above the names of its images and further lines."""
    caption: list[Text] = [["training ", Name(pair[0])], ["synthetic ", Name(pair[1])], *lines]
    uri = data_uri(picture.pixels, side=PICTURE_SIDE)
    return Thumbnail(data_uri=uri, caption=caption, alternative=alternative)


def closest_pairs(result: Result, parts: Parts) -> dict[Pair, PairPicture]:
    """Return pictures of the pair that exposes each patient most, the closest first, by the ids in the report.

    Args:
        result: Result whose tables name the pairs.
        parts: Images of the training and of the synthetic part.
    """
    patients = result.per_group.head(MAX_PICTURES)
    pairs = zip(column_texts(patients, "training_image"), column_texts(patients, "synthetic_image"), strict=True)
    return ShownPairs(parts).pictures(pairs)
