"""Which of two detectors finds more of the same copies? Paired tests over source identities, Holm over comparisons.

Paper 003 compares detectors by t-tests over metrics, which are fourteen readings of one embedding and no independent
units (METHODS section 3, "Question"). Here the unit is the source's identity: all its copies are exchanged together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, jackknife
from memorisk.statistics.multiple import holm

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PairedHits:
    """Hits of two detectors on the same copies."""

    difference: JackknifeInterval
    """Share found by the first less share found by the second; jackknife over identities."""
    p_value: float
    """Two-sided, exact: McNemar's where every identity has one copy."""
    smallest_p: float
    """The smallest p-value that these differences could have had with other signs."""
    first_only: int
    """Copies that only the first finds."""
    second_only: int
    """Copies that only the second finds."""
    n_copies: int
    """Copies."""
    n_discordant: int
    """Identities on which the detectors differ: the units that decide."""


@dataclass(frozen=True)
class DetectorComparison:
    """Two detectors by name, with the p-value adjusted over all comparisons."""

    first: str
    """Name."""
    second: str
    """Name."""
    hits: PairedHits
    """The test."""
    adjusted: float
    """Holm-adjusted p-value."""


def paired_hits(first: ArrayLike, second: ArrayLike, group: ArrayLike | None = None) -> PairedHits:
    """Exact sign-flip test over identities of "both find equally many of these copies".

    ``d_g`` is the number of copies of identity g that the first finds, less that of the second;
    ``p = P(|sum of +-d_g| >= |sum of d_g|)`` over all signs, summed exactly (the values are whole numbers). With one
    copy of each identity this is McNemar's exact test, ``min(1, 2 P(Bin(b + c, 1/2) >= max(b, c)))``.

    Args:
        first: [N] whether the first detector finds each copy.
        second: [N] the same of the second.
        group: [N] identities; None: each copy its own.

    Raises:
        InputError: Lengths differ, or there is no copy.

    Source:
        McNemar (1947); METHODS section 3 "Paired tests over images".
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    groups = np.arange(len(a)) if group is None else np.asarray(group)
    if a.ndim != 1 or not len(a) or a.shape != b.shape or groups.shape != a.shape:
        raise InputError(f"hits {a.shape} and {b.shape} and groups {groups.shape} must be [copies], at least one")
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    each = a.astype(np.int64) - b
    d = np.rint(np.bincount(index, each)).astype(np.int64)
    chance = signed_sums(np.abs(d[d != 0]))
    largest, total = len(chance) // 2, int(abs(d.sum()))
    estimate = float(each.mean())
    left = len(a) - count
    deleted = np.divide(each.sum() - d, left, out=np.zeros(len(d)), where=left > 0)
    interval = jackknife(estimate, deleted, np.zeros(len(d), dtype=np.intp), scale="difference")
    return PairedHits(
        difference=interval,
        p_value=min(1.0, 2 * float(chance[largest + total :].sum())) if total else 1.0,
        smallest_p=min(1.0, 2 * float(chance[-1])),
        first_only=int((each > 0).sum()),
        second_only=int((each < 0).sum()),
        n_copies=len(a),
        n_discordant=int((d != 0).sum()),
    )


def signed_sums(sizes: ArrayLike) -> FloatArray:
    """Probabilities of ``sum of +-s_i``, s_i whole and positive, signs fair: [2 T + 1], from -T to T = sum of s_i.

    Sizes of equal value are one binomial, so that the work is that of a few convolutions.

    Args:
        sizes: [n].
    """
    found = np.ones(1)
    for value, count in zip(*np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True), strict=True):
        spaced = np.zeros(2 * value * count + 1)
        spaced[:: 2 * value] = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        found = np.convolve(found, spaced)
    return found


def compare_detectors(
    hits: Mapping[str, ArrayLike], group: ArrayLike | None = None, *, against: str | None = None
) -> list[DetectorComparison]:
    """Every pair of detectors, or all against one, on the same copies; p-values Holm-adjusted over the comparisons.

    Args:
        hits: [N] found or not, by the detector's (or measure's) name.
        group: [N] identities; None: each copy its own.
        against: Compare all others with this one only.

    Returns:
        In the order of the names.

    Raises:
        InputError: Fewer than two detectors, lengths differ, or ``against`` is not among the names.
    """
    names = list(hits)
    if len(names) < 2 or (against is not None and against not in hits):
        raise InputError(f"a comparison needs two detectors; got {names} against {against or 'each other'}")
    pairs = list(combinations(names, 2)) if against is None else [(n, against) for n in names if n != against]
    tests = [paired_hits(hits[one], hits[other], group) for one, other in pairs]
    adjusted = holm([test.p_value for test in tests])
    return [DetectorComparison(*pair, test, float(p)) for pair, test, p in zip(pairs, tests, adjusted, strict=True)]
