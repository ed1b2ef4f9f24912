"""Paired tests of detectors: which of two finds more of the same copies, with Holm over comparisons.

Paper 003 compares detectors by t-tests over metrics, which are fourteen readings of one embedding and not
independent units (METHODS section 3, "Question"). Here the unit is the source's identity: all its copies are
exchanged together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.jackknife import JackknifeInterval, jackknife
from memorisk.statistics.multiple_testing.lists import holm

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PairedHits:
    """Hits of two detectors on the same copies."""

    difference: JackknifeInterval
    """Share found by the first less share found by the second; jackknife over identities."""
    p_value: float
    """Two-sided exact p-value: McNemar's where every identity has one copy."""
    smallest_p: float
    """Smallest p-value that these differences could have had with other signs."""
    first_only: int
    """Number of copies that only the first finds."""
    second_only: int
    """Number of copies that only the second finds."""
    n_copies: int
    """Number of copies."""
    n_discordant: int
    """Number of identities on which the detectors differ: the units that decide."""


@dataclass(frozen=True)
class DetectorComparison:
    """Two detectors by name, with the p-value adjusted over all comparisons."""

    first: str
    """Name of the first detector."""
    second: str
    """Name of the second detector."""
    hits: PairedHits
    """Paired test of their hits."""
    adjusted: float
    """p-value, Holm-adjusted over all comparisons."""


def paired_hits(first: ArrayLike, second: ArrayLike, group: ArrayLike | None = None) -> PairedHits:
    """Test "both find equally many of these copies" exactly by sign flips over identities.

    ``d_g`` is the number of copies of identity g that the first finds, less that of the second;
    ``p = P(|sum of +-d_g| >= |sum of d_g|)`` over all signs, summed exactly (the values are whole numbers). With one
    copy of each identity this is McNemar's exact test, ``min(1, 2 P(Bin(b + c, 1/2) >= max(b, c)))``.

    Args:
        first: Whether the first detector finds each copy, [N].
        second: Whether the second detector finds each copy, [N].
        group: Identity of each copy's source, [N]; None: each copy its own.

    Raises:
        InputError: Lengths differ, or the copies are missing.

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
    remaining = len(a) - count
    deleted = np.divide(each.sum() - d, remaining, out=np.zeros(len(d)), where=remaining > 0)
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
    """Compute probabilities of ``sum of +-s_i``, s_i whole and positive, signs fair: [2 T + 1], T = sum of s_i.

    The sums run from -T to T.

    Sizes of equal value are one binomial, so that the work is that of a few convolutions.

    Args:
        sizes: Sizes s_i, [n].
    """
    probabilities = np.ones(1)
    for value, count in zip(*np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True), strict=True):
        spaced = np.zeros(2 * value * count + 1)
        spaced[:: 2 * value] = scipy.stats.binom.pmf(np.arange(count + 1), count, 0.5)
        probabilities = np.convolve(probabilities, spaced)
    return probabilities


def compare_pairs(
    pairs: Sequence[tuple[str, str]], hits: dict[str, np.ndarray], group: ArrayLike
) -> list[DetectorComparison]:
    """Test chosen pairs of detectors, Holm-adjusted over them.

    Args:
        pairs: Names of the detectors, first and second.
        hits: Whether each of S trainings of the detector finds each copy, [S, N] by name. Detectors of fewer trainings
            count them several times, so that each detector weighs as one.
        group: Identities of the copies' sources, [N]: the units.

    Returns:
        One comparison per pair, in order. Copies are those of the common multiple of the trainings.

    Raises:
        InputError: As `paired_detectors.paired_hits`.
    """
    tests = [_paired(hits[one], hits[other], np.asarray(group)) for one, other in pairs]
    adjusted = holm([test.p_value for test in tests])
    return [DetectorComparison(*pair, test, float(p)) for pair, test, p in zip(pairs, tests, adjusted, strict=True)]


def _paired(one: np.ndarray, other: np.ndarray, group: np.ndarray) -> PairedHits:
    """Test hits of two detectors: every training of either counts as often as of the other."""
    a, b = np.atleast_2d(one), np.atleast_2d(other)
    n = int(np.lcm(len(a), len(b)))
    first, second = (np.tile(h, (n // len(h), 1)).ravel() for h in (a, b))
    result = paired_hits(first, second, np.tile(group, n))
    if result.n_discordant:
        return result
    # No identity separates them: the difference is at most the share of identities that could.
    most = clopper_pearson(0, result.difference.n_groups).high
    method = "no identity tells them apart: Clopper-Pearson of the share that would"
    return replace(result, difference=replace(result.difference, low=-most, high=most, method=method))
