"""What filtering costs: images by class, diversity before and after, and how many real images would be rejected.

METHODS section 4: the cost is stated per synthetic image against the whole training set. Real images of the
calibration, which copy nobody, say which share is rejected without being a copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from memorisk.audits.filter.screening import Screened
from memorisk.audits.filter.sets import FilterSets
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.proportions import Proportion, clopper_pearson
from memorisk.statistics.quality.retrieval_score import RetrievalScore, irs_of

_STREAM = 67  # keeps these draws apart from others of the same seed


@dataclass(frozen=True)
class Diversity:
    """IRS of some images by one detector: how much of the training set they reach as nearest neighbours."""

    detector: int
    """Which, as they were given."""
    images: str
    """"before", "kept" or "held-out real"."""
    score: RetrievalScore
    """Of all of them."""
    equal: RetrievalScore
    """Of as many random ones as the smallest of these sets has: IRS grows with the number of images."""


def real_share(screened: Screened, sets: FilterSets, seed: int) -> tuple[Proportion | None, np.ndarray]:
    """Share of new patients whose real image would be rejected, one random image each.

    Args:
        screened: Of all images.
        sets: For the patients.
        seed: Of the image drawn.

    Returns:
        The share with its interval over patients, None without calibration images; and [M] which of all of them would.
    """
    if sets.calibration is None:
        return None, np.empty(0, dtype=bool)
    rejected = np.array(np.any(screened.reaches(screened.real), axis=0))
    each = rejected[_one_each(sets, seed)]
    return clopper_pearson(int(each.sum()), len(each)), rejected


def synthetic_share(screened: Screened) -> Proportion:
    """Share of the synthetic images that reach a threshold, with its interval over images."""
    rejected = np.any(screened.reaches(screened.synthetic), axis=0)
    return clopper_pearson(int(rejected.sum()), len(rejected))


def diversity(screened: Screened, kept: np.ndarray, sets: FilterSets, seed: int) -> list[Diversity]:
    """IRS before and after, and of real images of new patients, one each, by every detector; sets without images not.

    Args:
        screened: Of all images.
        kept: [S] of the images that could be read.
        sets: For the training images and the patients.
        seed: Of the images drawn.
    """
    return diversity_of(screened, {"before": np.arange(len(kept)), "kept": np.flatnonzero(kept)}, sets, seed)


def diversity_of(screened: Screened, chosen: Mapping[str, np.ndarray], sets: FilterSets, seed: int) -> list[Diversity]:
    """As `diversity`, of any synthetic images.

    Args:
        screened: Of all images.
        chosen: Rows of the synthetic images, by what they are called.
        sets: For the training images and the patients.
        seed: Of the images drawn.
    """
    found = []
    for place, matches in enumerate(screened.synthetic):
        rows = {what: matches.row[some] for what, some in chosen.items()}
        if sets.calibration is not None:
            rows["held-out real"] = screened.real[place].row[_one_each(sets, seed)]
        rows = {what: some[some >= 0] for what, some in rows.items() if (some >= 0).any()}
        fewest = min(map(len, rows.values()), default=0)
        for what, some in rows.items():
            drawn = np.random.default_rng([_STREAM, seed, place]).permutation(len(some))[:fewest]
            scores = (irs_of(r, len(sets.train.images)) for r in (some, some[drawn]))
            found.append(Diversity(place, what, *scores))
    return found


def _one_each(sets: FilterSets, seed: int) -> np.ndarray:
    """[G] rows of one random calibration image of each patient."""
    assert sets.calibration is not None
    drawn = int(np.random.default_rng([_STREAM, seed]).integers(1 << 32))
    return one_per_group(sets.calibration.manifest.groups.astype(str), seed=drawn)
