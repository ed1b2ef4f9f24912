"""Pairs of images for the report, only when the user asked for pictures: a real image, a synthetic one, their difference."""

from dataclasses import dataclass

import numpy as np

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.sets import Sets
from memorisk.images.store import ImageStore
from memorisk.report.result import Result

MOST = 12
_GAP = 0.04  # white between the three pictures, as a share of their width


@dataclass(frozen=True, eq=False)
class Pictures:
    """Strips of three pictures, by what the report shows them for."""

    exposed: dict[tuple[str, str], np.ndarray]
    """By training and synthetic image, of the listed patients."""
    closest: dict[tuple[str, str], np.ndarray]
    """Of the closest pairs."""
    copies: dict[tuple[str, str], np.ndarray]
    """Of pairs with equal or nearly equal pixels."""


def pair_pictures(sets: Sets, result: Result, names: Pseudonyms) -> Pictures:
    """The pairs that the report names first, side by side.

    Args:
        sets: The pixels.
        result: Its tables say which pairs.
        names: As the tables have them.
    """
    strips = _Strips(sets, names)
    exposed = result.tables.get("exposures")
    pairs = result.tables["pairs"]
    shown = pairs[pairs["part"] == "training"].head(MOST)
    near = result.per_image.sort_values(["distance", "image"], kind="stable").head(MOST)
    return Pictures(
        exposed={} if exposed is None else strips.of(exposed["training_image"][:MOST], exposed["image"][:MOST]),
        closest=strips.of(near["nearest_image"], near["image"]),
        copies=strips.of(shown["real_image"], shown["image"]),
    )


def strip(real: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """A real image, a synthetic one and the size of their difference, [H, 3 W + gaps, C] uint8.

    Args:
        real: [H, W, C] uint8 or uint16.
        synthetic: Likewise; 16 bits are shown from the darkest to the brightest of both.
    """
    pair = np.stack([real, synthetic]).astype(np.float64)
    low, high = (0.0, 255.0) if real.dtype == np.uint8 else (pair.min(), max(pair.max(), pair.min() + 1))
    pair = (pair - low) * (255 / (high - low))
    difference = np.abs(pair[0] - pair[1])
    height, width, channels = real.shape
    gap = np.full((height, max(1, round(_GAP * width)), channels), 255.0)
    return np.rint(np.concatenate([pair[0], gap, pair[1], gap, difference], axis=1)).astype(np.uint8)


class _Strips:
    """Pixels by the ids that the report shows."""

    def __init__(self, sets: Sets, names: Pseudonyms) -> None:
        self.real, self.synthetic = self._rows(sets.train, names), self._rows(sets.synthetic, names)
        self.sets = sets

    def of(self, real, synthetic) -> dict[tuple[str, str], np.ndarray]:
        """A strip for each pair of ids."""
        return {
            (str(r), str(s)): strip(
                np.asarray(self.sets.train.images[self.real[r]]),
                np.asarray(self.sets.synthetic.images[self.synthetic[s]]),
            )
            for r, s in zip(real, synthetic, strict=True)
        }

    @staticmethod
    def _rows(store: ImageStore, names: Pseudonyms) -> dict[str, int]:
        return {str(name): row for row, name in enumerate(names.names(store.manifest.images))}
