"""What was measured of the images: what every detector saw, and the pairs that are equal or nearly so in pixels."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from memorisk.audits.synthetic.comparing import Distances, PixelCopies
from memorisk.audits.synthetic.hidden import Plants
from memorisk.audits.synthetic.measuring import FeatureTables
from memorisk.audits.synthetic.pairing import Pairing
from memorisk.audits.synthetic.reviewing import Review
from memorisk.audits.synthetic.sets import Sets
from memorisk.audits.synthetic.spreads import Spread
from memorisk.scores.similarity import MeasureSimilarity, Similarity


@dataclass(frozen=True, eq=False)
class View:
    """The sets as one detector sees them."""

    name: str
    """Of the detector, as the report has it."""
    features: FeatureTables
    similarity: Similarity
    distances: Distances
    spread: Spread | None
    """Of the logits; None without a head."""

    @property
    def has_head(self) -> bool:
        """Whether it gives probabilities."""
        return self.spread is not None

    @property
    def measure(self) -> str:
        """The distance in words, with what was fitted."""
        if isinstance(self.similarity, MeasureSimilarity):
            return self.similarity.measure.plain_words
        return f"minus the {self.similarity.words}"


@dataclass(frozen=True, eq=False)
class SyntheticEvidence:
    """Of all detectors."""

    sets: Sets
    plants: Plants
    views: tuple[View, ...]
    copies: PixelCopies
    pairing: Pairing | None
    """Who was generated from whom; None where that was not said."""
    review: Review


def probability(view: View, distance: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(distance))`` of a head's distances, minus logits; NaN without a head."""
    return expit(-distance) if view.has_head else np.full(len(distance), np.nan)
