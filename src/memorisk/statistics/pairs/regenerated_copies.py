"""Copies that are kept where rejected images are drawn again: the guarantee of a filter, after a loop.

Every image is screened once, at a threshold that was fixed before, and a copy passes with probability at most alpha
(`miss_guarantee`). Drawing again does not change that for any single image, but a place whose image was rejected
gets further chances to be filled by a copy. Of the copies that were drawn, kept ones less ``alpha / (1 - alpha)``
times the rejected ones fall on average with every copy drawn, at whatever moment a place is done (a
supermartingale, optional stopping), and a rejected copy is a rejected image:

    E[kept copies] <= alpha / (1 - alpha) E[rejected images].

It holds however places differ and however often they are tried, so long as the copies drawn are as the
calibration's. For one place it says little: one that gives nothing but copies, tried T times, holds one in the end
with probability up to ``min(1, T alpha)``, whether its tries fare alike or not.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson


@dataclass(frozen=True)
class RegeneratedCopies:
    """Share of copies among kept images, bounded by what was rejected. The units are places."""

    share: float
    """Bound of the share: alpha / (1 - alpha) times the rejected images per kept one, at most 1; NaN if none was
    kept."""
    high: float
    """Share at the upper limit of the rejected images per kept one; 1 where nothing was kept."""
    place: float
    """Largest probability that a place which only ever gives copies holds one: min(1, tries alpha)."""
    first: Proportion
    """Share of places whose first image was rejected: the generator without the loop."""
    n_kept: int
    """Number of kept images."""
    n_rejected: int
    """Number of rejected images."""
    miss_rate: float
    """Largest share alpha of copies that may be missed."""
    level: float
    """Coverage of ``high``, one-sided."""


def regenerated_copies(
    rejected: ArrayLike, filled: ArrayLike, *, miss_rate: float, tries: int, level: float = 0.95
) -> RegeneratedCopies:
    """Bound the share of copies among the images that a loop keeps.

    ``share = alpha / (1 - alpha) * sum(rejected) / sum(filled)``. For ``high`` the quotient is raised by Student's
    quantile times the standard deviation of ``rejected - quotient * filled`` over places (the ratio estimator's), and
    is at least the odds of the exact upper limit of first rejections.

    Args:
        rejected: Number of images of each place that were rejected, [n].
        filled: Whether the place holds a kept image, [n].
        miss_rate: Largest share alpha of copies that may be missed, in (0, 1).
        tries: Number of tries that a place may have.
        level: Coverage of the upper limit.

    Raises:
        InputError: Lengths differ, no place, or levels outside (0, 1).

    Source:
        Doob's optional stopping theorem; Cochran (1977), ratio estimation; METHODS section 4, "Guarantee".

    Example:
        >>> found = regenerated_copies([0, 2, 0, 0], [True] * 4, miss_rate=0.05, tries=20)
        >>> round(found.share, 4), found.place, found.first.successes
        (0.0263, 1.0, 1)
    """
    lost, full = np.asarray(rejected, dtype=np.float64), np.asarray(filled, dtype=bool)
    if lost.ndim != 1 or lost.shape != full.shape or not len(lost):
        raise InputError(f"rejected {lost.shape} and filled {full.shape}: give one of each for every place")
    if not 0 < miss_rate < 1 or not 0 < level < 1 or tries < 1:
        raise InputError(f"miss rate {miss_rate}, level {level} and tries {tries}: give two shares and a whole number")
    n, n_kept, odds = len(lost), int(full.sum()), miss_rate / (1 - miss_rate)
    first = clopper_pearson(int((lost > 0).sum()), n, 2 * level - 1 if level > 0.5 else level)
    share, high = math.nan, 1.0
    if n_kept:
        quotient = float(lost.sum() / n_kept)
        raised = quotient
        if n > 1:
            spread = float(np.std(lost - quotient * full, ddof=1)) / math.sqrt(n)
            raised += float(scipy.stats.t.ppf(level, n - 1)) * spread / (n_kept / n)
        exact = first.high / (1 - first.high) if first.high < 1 else math.inf
        share, high = min(odds * quotient, 1.0), min(odds * max(raised, exact), 1.0)
    place = min(1.0, tries * miss_rate)
    return RegeneratedCopies(share, high, place, first, n_kept, int(lost.sum()), miss_rate, level)
