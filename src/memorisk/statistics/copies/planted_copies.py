"""Power to find copies: planted copies, read blind (METHODS section 5, "Power, in every report").

Known copies of random training images are hidden among the synthetic images for features and distances, and taken
out again for p-values and list. Left in, they are listed themselves and, Benjamini-Hochberg being a step-up
procedure, make it easier for others to be listed: with 100 plants most audits name a patient who has no copy
(``docs/results/synthetic_null.md``).

Which plants count as noticed is decided before and without them (`tails`, equal pixels, a list): a plant is a
mask here. What is counted in the set must be counted by the same rule (`copies_bound`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import check_distances, one_per_group
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.statistics.memorization.nulls import unit_p_values

FloatArray = NDArray[np.float64]

BOUND_LEVEL = 0.95
"""Joint confidence of `copies_bound`, unless the caller gives another."""


@dataclass(frozen=True)
class PlantPower:
    """Share of planted copies that are noticed; units are source identities, one random plant of each."""

    recall: Proportion
    """Share for a random plant of a random source."""
    kinds: dict[str, Proportion]
    """Shares by kind, one plant of each source that has one; each interval by itself."""


@dataclass(frozen=True)
class CopiesBound:
    """Largest share of the set that copies of the planted kinds can be."""

    upper: float
    """Bound ``CP_upper(found, n) / CP_lower(recall)``, at most 1: both hold together with the level."""
    rule_of_three: float
    """Bound ``3 / (n R)`` with R the lower limit of the recall: METHODS' figure; NaN where images were found."""
    found: int
    """Number of images noticed."""
    n_images: int
    """Number of images of the set, drawn independently."""
    recall: float
    """Lower limit R of the recall."""
    level: float
    """Joint confidence of ``upper``."""


def planted_p_values(
    distance: ArrayLike,
    n_images: ArrayLike,
    held_distance: ArrayLike,
    held_group: ArrayLike | None = None,
    *,
    sizes: str = "matched",
) -> FloatArray:
    """Compute the p-value that a training patient would have at a distance: for plants, or for each synthetic image.

    Args:
        distance: Distance of a synthetic image, planted or not, to the nearest training image of a patient, [P].
        n_images: Number of training images of that patient, [P].
        held_distance: Distance of held-out images to the nearest non-planted image, [M].
        held_group: Patients of the held-out images, [M]; None: each image its own.
        sizes: Comparison of sizes, as in `reversed_queries`.

    Returns:
        p-values, [P], as `reversed_queries` would have given.

    Raises:
        InputError: Lengths differ, a distance is not finite, or a patient without images.

    Example:
        >>> planted_p_values([0.1, 0.5], [1, 1], [0.2, 0.4, 0.9]).tolist()
        [0.25, 0.75]
    """
    values, held = check_distances(distance), check_distances(held_distance)
    count = np.asarray(n_images)
    if count.shape != values.shape or count.min() < 1:
        raise InputError(f"{values.shape} distances need the number of images, at least 1, of each one's patient")
    held_units = np.arange(len(held)) if held_group is None else np.asarray(held_group)
    pairs, back = np.unique(np.stack([values, count]), axis=1, return_inverse=True)
    unit = np.repeat(np.arange(pairs.shape[1]), pairs[1].astype(np.int64))
    first = np.r_[True, unit[1:] != unit[:-1]]
    score = np.where(first, -pairs[0][unit], -max(pairs[0].max(), held.max()))  # other images count as the farthest
    return unit_p_values(score, unit, -held, held_units, sizes=sizes).p_value[back.ravel()]


def plant_power(
    found: ArrayLike,
    source: ArrayLike,
    *,
    kinds: Sequence[str] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> PlantPower:
    """Measure how surely a copy is noticed, from plants read by a rule frozen without them.

    Args:
        found: Whether each plant is noticed, [P].
        source: Patient whose image each plant copies, [P].
        kinds: Kind of change made to each copy, [P]; None: one kind.
        level: Level of the intervals; ``recall.low`` alone is a bound at ``(1 + level) / 2``.
        seed: Seed of the plant drawn from a source with several.

    Raises:
        InputError: Lengths differ.

    Source:
        METHODS section 5, "Power, in every report".

    Example:
        >>> power = plant_power([True] * 20, [f"source {k}" for k in range(20)])
        >>> round(power.recall.low, 3)
        0.832
    """
    noticed, sources = np.asarray(found, dtype=bool), np.asarray(source)
    names = np.asarray(["copies"] * len(noticed) if kinds is None else kinds)
    if not sources.shape == names.shape == noticed.shape:
        raise InputError(f"{len(noticed)} plants need one source and kind each")
    return PlantPower(
        recall=_share(noticed, sources, level, seed),
        kinds={
            str(kind): _share(noticed[names == kind], sources[names == kind], level, seed) for kind in np.unique(names)
        },
    )


def copies_bound(found: int, n_images: int, recall: Proportion, *, level: float = BOUND_LEVEL) -> CopiesBound:
    """Bound the share of a set that copies of the planted kinds can be, given how many images were found.

    If a share pi of the generator's images are such copies and each is found with probability R, found ones are at
    least ``Bin(n, pi R)``; so ``pi <= CP_upper(found, n) / R``, and for ``found = 0``
    ``pi <= (1 - ((1 - level) / 2)^(1/n)) / R``, METHODS' ``3 / (n R)`` with both uncertainties counted (3.7 in place
    of 3). All found images count as copies.

    Args:
        found: Number of images of the set, plants apart, that the rule notices by which the plants are read.
        n_images: Number of images of the set, each drawn anew from the generator.
        recall: Share of the plants noticed by that rule; its interval must have the same level.
        level: Joint confidence.

    Raises:
        InputError: Not ``0 <= found <= n_images``, or the recall's interval has another level.

    Source:
        METHODS section 5; Clopper and Pearson (1934), Bonferroni over the two.
    """
    if not math.isclose(recall.level, level):
        raise InputError(f"the recall's interval is at {recall.level}, the bound at {level}; use one level")
    high = clopper_pearson(found, n_images, level).high
    r = recall.low
    return CopiesBound(
        upper=min(1.0, high / r) if r > 0 else 1.0,
        rule_of_three=min(1.0, 3 / (n_images * r)) if not found and n_images and r > 0 else math.nan,
        found=int(found),
        n_images=int(n_images),
        recall=r,
        level=level,
    )


def plants_needed(noticed: Proportion, share: float, most: int, *, certainty: float = 0.9) -> int | None:
    """Compute how many plants of a kind would show that enough of them are noticed, if so many are as these suggest.

    Args:
        noticed: Plants of the kind that were noticed.
        share: Value that the lower limit of their share must reach.
        most: Largest number of plants.
        certainty: Probability with which the lower limit reaches it, over what is not known of the true share
            (Jeffreys) and over the plants (beta-binomial).

    Returns:
        A number larger than there were, in steps of a quarter of these; None where no number up to `most` suffices.
    """
    after = noticed.successes + 0.5, noticed.trials - noticed.successes + 0.5
    for n in range(noticed.trials, most + 1, max(1, noticed.trials // 4)):
        if (
            n > noticed.trials
            and scipy.stats.betabinom.sf(_fewest(n, share, noticed.level) - 1, n, *after) >= certainty
        ):
            return n
    return None


def fewest_plants(share: float, *, level: float = 0.95) -> int:
    """Compute how many plants show that a share of them is noticed where all of them are.

    Args:
        share: Value that the lower limit of their share must reach.
        level: Level of its interval.

    Example:
        >>> fewest_plants(0.8)
        17
    """
    return math.ceil(math.log((1 - level) / 2) / math.log(share))


def _fewest(n: int, share: float, level: float) -> int:
    """Compute how many of n plants must be noticed so that the lower limit of their share reaches a share; n + 1: more.

    That is where so many are noticed, at the share, with at most the probability of one side of the level.
    """
    return int(scipy.stats.binom.isf((1 - level) / 2, n, share)) + 1


def _share(hits: NDArray[np.bool_], source: NDArray, level: float, seed: int) -> Proportion:
    drawn = one_per_group(source, seed=seed)
    return clopper_pearson(int(hits[drawn].sum()), len(drawn), level)
