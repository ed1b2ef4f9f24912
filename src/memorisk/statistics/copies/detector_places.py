"""Which detectors are ahead of which, and by how much all of them find: what a leaderboard may say.

An order by estimates is an order of noise wherever intervals overlap. Here a detector's place is a range: it is behind
those that find significantly more of the same copies, and ahead of those that find significantly fewer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.paired_detectors import DetectorComparison, PairedHits, paired_hits
from memorisk.statistics.jackknife import JackknifeInterval, jackknife
from memorisk.statistics.multiple import holm
from memorisk.statistics.proportions import clopper_pearson

LEVEL = 0.05


@dataclass(frozen=True)
class Place:
    """Where a detector may stand."""

    first: int
    """1 and how many find significantly more."""
    last: int
    """The number of detectors less how many find significantly fewer."""

    @property
    def words(self) -> str:
        """As in "1" or "1 to 4"."""
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def compare_pairs(
    pairs: Sequence[tuple[str, str]], hits: dict[str, np.ndarray], group: ArrayLike
) -> list[DetectorComparison]:
    """Paired tests of chosen pairs, Holm-adjusted over them.

    Args:
        pairs: Names, first and second.
        hits: [S, N] by name: whether each of S trainings of the detector finds each copy. Detectors of fewer trainings
            count them several times, so that each detector weighs as one.
        group: [N] identities of the copies' sources: the units.

    Returns:
        One comparison a pair, in order. Copies are those of the common multiple of the trainings.

    Raises:
        InputError: As `paired_detectors.paired_hits`.
    """
    tests = [_paired(hits[one], hits[other], np.asarray(group)) for one, other in pairs]
    adjusted = holm([test.p_value for test in tests])
    return [DetectorComparison(*pair, test, float(p)) for pair, test, p in zip(pairs, tests, adjusted, strict=True)]


def places(names: Sequence[str], comparisons: Sequence[DetectorComparison], level: float = LEVEL) -> dict[str, Place]:
    """The range of places of each detector.

    With probability 1 - level no detector's range excludes its true place among those that truly differ: Holm's
    procedure errs in no comparison with that probability.

    Args:
        names: All detectors.
        comparisons: Of all pairs, Holm-adjusted.
        level: Of the family of comparisons.
    """
    more, fewer = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for found in comparisons:
        if found.adjusted <= level:
            ahead, behind = found.first, found.second
            if found.hits.difference.estimate < 0:
                ahead, behind = behind, ahead
            more[behind] += 1
            fewer[ahead] += 1
    return {name: Place(1 + more[name], len(names) - fewer[name]) for name in names}


def mean_share(hits: ArrayLike, group: ArrayLike) -> JackknifeInterval:
    """The share that several detectors find of a random copy of a random identity, with its limits over identities.

    ``mean over identities of (mean over its copies and over detectors)``; delete-one-identity jackknife on the logit.
    The detectors are as they are: limits are of other patients, not of other detectors.

    Args:
        hits: [D, N] found or not, by detector (or training) and copy.
        group: [N] identities.

    Raises:
        InputError: Lengths differ, or there is no copy.
    """
    found, groups = np.atleast_2d(np.asarray(hits, dtype=np.float64)), np.asarray(group)
    if not found.size or groups.shape != found.shape[1:]:
        raise InputError(f"hits {found.shape} and groups {groups.shape} must be [detectors, copies] and [copies]")
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    each = np.bincount(index, found.mean(axis=0)) / count
    total, n = float(each.sum()), len(each)
    deleted = (total - each) / max(n - 1, 1)
    return jackknife(total / n, deleted, np.zeros(n, dtype=np.intp), scale="logit", pairs=n)


def _paired(one: np.ndarray, other: np.ndarray, group: np.ndarray) -> PairedHits:
    """Hits of two detectors as the test takes them: every training of either, as often as of the other."""
    a, b = np.atleast_2d(one), np.atleast_2d(other)
    n = int(np.lcm(len(a), len(b)))
    first, second = (np.tile(h, (n // len(h), 1)).ravel() for h in (a, b))
    found = paired_hits(first, second, np.tile(group, n))
    if found.n_discordant:
        return found
    # Nobody tells them apart: the difference is at most the share of identities who would.
    most = clopper_pearson(0, found.difference.n_groups).high
    method = "no identity tells them apart: Clopper-Pearson of the share that would"
    return replace(found, difference=replace(found.difference, low=-most, high=most, method=method))
