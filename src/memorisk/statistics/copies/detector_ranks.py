"""Ranks of detectors: which are ahead of which, and by how much all of them find.

An order by estimates is an order of noise wherever intervals overlap. Here a detector's place is a range: it is
behind those that find significantly more of the same copies, and ahead of those that find significantly fewer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.detector_comparison import DetectorComparison
from memorisk.statistics.jackknife import JackknifeInterval, jackknife

RANK_LEVEL = 0.05


@dataclass(frozen=True)
class RankRange:
    """Range of a detector's places."""

    first: int
    """First place: 1 and how many find significantly more."""
    last: int
    """Last place: the number of detectors less how many find significantly fewer."""

    @property
    def words(self) -> str:
        """Format the places as in "1" or "1 to 4"."""
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def rank_ranges(
    names: Sequence[str], comparisons: Sequence[DetectorComparison], level: float = RANK_LEVEL
) -> dict[str, RankRange]:
    """Compute the range of places of each detector.

    With probability 1 - level no detector's range excludes its true place among those that truly differ: Holm's
    procedure errs in no comparison with that probability.

    Args:
        names: Names of all detectors.
        comparisons: Comparisons of all pairs, Holm-adjusted.
        level: Level of the family of comparisons.
    """
    more, fewer = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for comparison in comparisons:
        if comparison.adjusted <= level:
            ahead, behind = comparison.first, comparison.second
            if comparison.hits.difference.estimate < 0:
                ahead, behind = behind, ahead
            more[behind] += 1
            fewer[ahead] += 1
    return {name: RankRange(1 + more[name], len(names) - fewer[name]) for name in names}


def mean_share(hits: ArrayLike, group: ArrayLike) -> JackknifeInterval:
    """Compute the share that several detectors find of a random copy of a random identity, with limits over identities.

    ``mean over identities of (mean over its copies and over detectors)``; delete-one-identity jackknife on the logit.
    The detectors are as they are: limits are of other patients, not of other detectors.

    Args:
        hits: Whether each copy is found, [D, N], by detector (or training) and copy.
        group: Identity of each copy's source, [N].

    Raises:
        InputError: Lengths differ, or the copies are missing.
    """
    hit_rows, groups = np.atleast_2d(np.asarray(hits, dtype=np.float64)), np.asarray(group)
    if not hit_rows.size or groups.shape != hit_rows.shape[1:]:
        raise InputError(f"hits {hit_rows.shape} and groups {groups.shape} must be [detectors, copies] and [copies]")
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    each = np.bincount(index, hit_rows.mean(axis=0)) / count
    total, n = float(each.sum()), len(each)
    deleted = (total - each) / max(n - 1, 1)
    return jackknife(total / n, deleted, np.zeros(n, dtype=np.intp), scale="logit", pairs=n)
