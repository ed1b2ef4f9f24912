"""What calibration says of a threshold before anything is drawn: does it reject everybody, copied or not?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from memorisk.audits.filter.cost import real_share
from memorisk.audits.filter.screening import Matches, Screened
from memorisk.audits.filter.sets import FilterSets
from memorisk.images.copies.orientations import SamePixels
from memorisk.statistics.proportions import Proportion

NEARLY_ALL = 0.9
"""A threshold is hopeless where it rejects at least this share of new people: the lower 95 % limit of the share."""


def new_people(
    thresholds: Sequence[float], beside: tuple[Matches, ...], sets: FilterSets, seed: int
) -> Proportion | None:
    """Share of new patients whose real image would be rejected, as `audits.filter.cost.real_share` has it.

    Args:
        thresholds: Of each detector.
        beside: What the detectors say of the calibration images; none without them.
        sets: For the patients.
        seed: Of the image drawn of each.

    Returns:
        The share with its interval; None without calibration images.
    """
    if not beside:
        return None
    nothing = SamePixels(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    return real_share(Screened(tuple(thresholds), (), beside, nothing), sets, seed)[0]


def is_hopeless(share: Proportion | None) -> bool:
    """Whether (nearly) everybody would be rejected, so that few images or none will pass."""
    return share is not None and share.low >= NEARLY_ALL


def said_of(share: dict[str, Any], units: str) -> str:
    """The share in a sentence.

    Args:
        share: A `Proportion` as a dict.
        units: What new people are called.
    """
    low, high = (100 * share[name] for name in ("low", "high"))
    return f"the threshold rejects {low:.0f} to {high:.0f} % of new {units}, who are copied nowhere"
