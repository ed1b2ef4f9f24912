"""Which synthetic images are kept, and why the others are not: every image of the set has an answer."""

from dataclasses import dataclass

import numpy as np

from memorisk.audits.filter.screening import NO_SCORE, PIXELS, SCORE, Screened
from memorisk.audits.filter.sets import FilterSets

UNREADABLE, NOT_FILTERED = "unreadable", "not filtered"
REASONS: dict[str, str] = {
    SCORE: "A training image scores as high as the threshold or higher.",
    PIXELS: "It has the very pixels of a training image, as it is, mirrored or turned.",
    NO_SCORE: "Its features are not finite, or the measure is undefined for them.",
    UNREADABLE: "It could not be read, so that nothing is known of it.",
    NOT_FILTERED: "There is no threshold.",
}
"""Why an image is not kept."""


@dataclass(frozen=True, eq=False)
class Decision:
    """An answer for every synthetic image."""

    place: np.ndarray
    """[N] row among the images that could be read; -1 for the others."""
    reason: np.ndarray
    """[N] one of `REASONS`; empty for kept images."""

    @property
    def kept(self) -> np.ndarray:
        """[N]."""
        return self.reason == ""

    def of_readable(self, n: int) -> np.ndarray:
        """[S] whether an image that could be read is kept."""
        found = np.zeros(n, dtype=bool)
        found[self.place[self.kept]] = True
        return found


def decide(sets: FilterSets, screened: Screened | None) -> Decision:
    """Keep or reject.

    Args:
        sets: The images.
        screened: Of them; None where there is no threshold, and nothing is kept.
    """
    row = {image: i for i, image in enumerate(sets.synthetic.manifest.images)}
    place = np.array([row.get(image, -1) for image in sets.asked.images], dtype=np.int64)
    reason = np.full(len(place), UNREADABLE, dtype=object)
    read = place >= 0
    reason[read] = NOT_FILTERED if screened is None else screened.reason[place[read]]
    return Decision(place, reason)
