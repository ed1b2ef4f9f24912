"""Is a synthetic set nearer to training patients than to held-out ones, all together? One test for the whole set.

The p-values of `reversed_queries` rank every training patient among the *same* held-out patients, so that they depend
on one another and their distribution may not be compared with a uniform one as if they were drawn apart. The samples
behind them are independent: W of training and W of held-out patients, W(r) the smallest distance of an image of r to
the set. If they are a random split and the set knows neither, both are samples of one distribution, and

    D = max over d of  F_train(d) - F_held(d)

is Kolmogorov and Smirnov's statistic of the alternative that training patients are nearer. Exact for continuous W; with
ties the p-value is too large rather than too small. A patient of many images has a smaller W without any memorization:
where the numbers of images of both parts are not alike, every patient counts by one (`image_counts`).
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from memorisk.statistics.copies.calibration import check_distances, group_values
from memorisk.statistics.copies.image_counts import counted_images


@dataclass(frozen=True)
class NearerSet:
    """Whether training patients are nearer to a set, as a distribution."""

    statistic: float
    """D, from 0 to 1."""
    at: float
    """The distance at which it is attained."""
    p_value: float
    """Of at least this D in a random split, one-sided."""
    n_train: int
    """Training patients: the independent units."""
    n_held: int
    """Held-out patients: likewise."""
    said: str = ""
    """That every patient counted by one image, why, and the way out; empty where all images counted."""


def nearer_set(
    train_distance: ArrayLike,
    held_distance: ArrayLike,
    train_group: ArrayLike | None = None,
    held_group: ArrayLike | None = None,
    *,
    seed: int = 0,
) -> NearerSet:
    """One-sided two-sample Kolmogorov-Smirnov test of the distances of training and held-out patients to a set.

    Args:
        train_distance: [N] of each training image to its nearest synthetic image.
        held_distance: [M] of each held-out image likewise.
        train_group: [N] patients, who count by their smallest distance, where numbers of images are not alike by that
            of one image; None: each image its own.
        held_group: [M] likewise.
        seed: Of which image that is.

    Raises:
        InputError: A part is empty, distances are not finite, or lengths differ.

    Source:
        Kolmogorov (1933), Smirnov (1939); exact by Hodges (1958), as SciPy has it. METHODS section 5, "Null".

    Example:
        >>> found = nearer_set([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
        >>> found.statistic, round(found.p_value, 3)
        (1.0, 0.05)
    """
    ours, theirs = check_distances(train_distance), check_distances(held_distance)
    units = np.arange(len(ours)) if train_group is None else np.asarray(train_group)
    others = np.arange(len(theirs)) if held_group is None else np.asarray(held_group)
    train, held = group_values(ours, units), group_values(theirs, others)
    counted = counted_images(units, others, seed=seed)
    if counted.one_each:
        train = group_values(ours[counted.train], units[counted.train])
        held = group_values(theirs[counted.held], others[counted.held])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # SciPy says when it goes over to the limit for large samples
        found: Any = stats.ks_2samp(train, held, alternative="greater", method="auto")
    return NearerSet(
        float(found.statistic), float(found.statistic_location), float(found.pvalue), len(train), len(held),
        counted.words,
    )  # fmt: skip
