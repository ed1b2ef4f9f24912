"""Pairs of images for the report, only when the user asked: a real image, a synthetic one, their difference."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.sets import Sets
from memorisk.audits.synthetic.verdict import AHEAD_LEVEL
from memorisk.images.store import ImageStore
from memorisk.report.frames import rows, texts, truths
from memorisk.report.result import Result

MOST = 10
SIDE = 320
"""Pixels of the three pictures together in the report, a side."""
_GAP = 0.04  # white between the pictures, as a share of their width


@dataclass(frozen=True, eq=False)
class Pictures:
    """Three pictures in one, by what the report shows them for."""

    exposed: dict[tuple[str, str], np.ndarray]
    """By training and synthetic image, of the patients that are listed or suspect."""
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
    pairs_of = _Pairs(sets, names)
    pairs = result.tables["pairs"]
    equal = rows(pairs, [part == "training" for part in texts(pairs, "part")]).head(MOST)
    near = result.per_image.sort_values(["distance", "image"], kind="stable").head(MOST)
    exposed = suspects(result).head(MOST)
    return Pictures(
        exposed=pairs_of.of(exposed["training_image"], exposed["synthetic_image"]),
        closest=pairs_of.of(near["nearest_image"], near["image"]),
        copies=pairs_of.of(equal["real_image"], equal["image"]),
    )


def suspects(result: Result) -> pd.DataFrame:
    """The listed patients; where none is, those nearer than every held-out one, if they are too many for chance."""
    listed, p = truths(result.per_group, "listed"), result.verdict["p_ahead"]
    if not listed.any() and p is not None and p <= AHEAD_LEVEL:
        listed = truths(result.per_group, "ahead")
    return rows(result.per_group, listed).sort_values(["p_value", "distance", "group"], kind="stable")


def side_by_side(real: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """A real image and a synthetic one, below them the size of their difference, [2 H + gap, 2 W + gap, C] uint8.

    Args:
        real: [H, W, C] uint8 or uint16.
        synthetic: Likewise; 16 bits are shown from the darkest to the brightest of both.
    """
    pair = np.stack([real, synthetic]).astype(np.float64)
    low, high = (0.0, 255.0) if real.dtype == np.uint8 else (pair.min(), max(pair.max(), pair.min() + 1))
    pair = (pair - low) * (255 / (high - low))
    height, width, channels = real.shape
    gap = max(1, round(_GAP * width))
    made = np.full((2 * height + gap, 2 * width + gap, channels), 255.0)
    made[:height, :width] = pair[0]
    made[:height, width + gap :] = pair[1]
    made[height + gap :, :width] = np.abs(pair[0] - pair[1])
    return np.rint(made).astype(np.uint8)


class _Pairs:
    """Pixels by the ids that the report shows."""

    def __init__(self, sets: Sets, names: Pseudonyms) -> None:
        self.real, self.synthetic = self._rows(sets.train, names), self._rows(sets.synthetic, names)
        self.sets = sets

    def of(self, real, synthetic) -> dict[tuple[str, str], np.ndarray]:
        """The pictures of each pair of ids."""
        return {
            (str(r), str(s)): side_by_side(
                np.asarray(self.sets.train.images[self.real[r]]),
                np.asarray(self.sets.synthetic.images[self.synthetic[s]]),
            )
            for r, s in zip(real, synthetic, strict=True)
        }

    @staticmethod
    def _rows(store: ImageStore, names: Pseudonyms) -> dict[str, int]:
        return {str(name): row for row, name in enumerate(names.names(store.manifest.images))}
