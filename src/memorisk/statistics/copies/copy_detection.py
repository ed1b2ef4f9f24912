"""Copy detection: the share of augmented copies recognised, paired tests of detectors, and ranks of detectors.

**Detection.** What share of augmented copies is recognised, at which price: the pools of paper 003, as published
and corrected.

A pool is a set of queries, each with its distance to the nearest of some references: copies of these references, or
images of patients that have none there (the pool's null). Paper 003 judges copies of training images against the
training part and copies of validation images against the validation part at one threshold, from training images
searched among validation images. That baseline fits neither pool: more references are nearer without any copy, and a
detector knows its training images. Corrected (METHODS section 3, "Question"): as many references in both pools
(``calibration.equal_pools``), a threshold from each pool's own null over identities, and a hit is right only if the
nearest reference is the copy's source.

**Paired tests.** Which of two detectors finds more of the same copies? Paired tests over source identities, Holm
over comparisons.

Paper 003 compares detectors by t-tests over metrics, which are fourteen readings of one embedding and not
independent units (METHODS section 3, "Question"). Here the unit is the source's identity: all its copies are
exchanged together.

**Ranks.** Which detectors are ahead of which, and by how much all of them find: what a leaderboard may say.

An order by estimates is an order of noise wherever intervals overlap. Here a detector's place is a range: it is
behind those that find significantly more of the same copies, and ahead of those that find significantly fewer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import (
    Threshold,
    check_distances,
    group_values,
    one_per_group,
    percentile_threshold,
    specificity_threshold,
)
from memorisk.statistics.intervals import Proportion, clopper_pearson
from memorisk.statistics.jackknife import JackknifeInterval, jackknife
from memorisk.statistics.multiple_testing import holm

RANK_LEVEL = 0.05


@dataclass(frozen=True)
class Queries:
    """Distances of some images to the nearest of some references."""

    distance: ArrayLike
    """Distance of each image to the nearest reference, [N]."""
    group: ArrayLike
    """Identity of each image, [N]; of a copy, that of its source."""
    n_references: int
    """Number of references searched."""
    right: ArrayLike | None = None
    """Whether the nearest reference of each copy is its source, [N]; None where not known."""


@dataclass(frozen=True)
class Detection:
    """Shares of copies recognised; the units of the intervals are sources' identities, one random copy of each."""

    recognised: Proportion
    """Share of copies at most as far as the threshold from some reference: what paper 003 counts."""
    right: Proportion
    """Share recognised with the source as the nearest reference; no trials where that is not known."""
    share: float
    """Recognised share of all copies, identities with more copies counting more."""
    right_share: float
    """Share of all copies that are recognised by their own source; NaN where not known."""
    n_copies: int
    """Number of copies."""


@dataclass(frozen=True)
class PoolDetection:
    """One pool: its threshold, its copies, and how often it flags patients that have no copy there."""

    name: str
    """Name of the pool, such as "train copies -> train"."""
    threshold: Threshold
    """Threshold with its promise."""
    detection: Detection
    """Detection of the pool's copies."""
    false_flags: Proportion
    """Share of the pool's unrelated identities, those that did not make the threshold, with a flagged image."""
    n_references: int
    """Number of references of the pool."""


def detect(
    distance: ArrayLike, source: ArrayLike, threshold: Threshold, *, right: ArrayLike | None = None, seed: int = 0
) -> Detection:
    """Compute shares of copies recognised at a threshold.

    Copies of one source are found or missed together, so that the intervals count one copy of each, drawn by the seed:
    the
    share is that of a random copy of a random source.

    Args:
        distance: Distance of each copy to its nearest reference, [N].
        source: Identity of each copy's source, [N].
        threshold: Threshold that flags copies.
        right: Whether the nearest reference is the source, [N].
        seed: Seed of the draw.

    Raises:
        InputError: Lengths differ, or a distance is not finite.

    Source:
        Paper 003, section 3.3.1 "Detection of Augmented Copies"; METHODS section 3.
    """
    values, groups = check_distances(distance), np.asarray(source)
    answers = None if right is None else np.asarray(right, dtype=bool)
    if groups.shape != values.shape or (answers is not None and answers.shape != values.shape):
        raise InputError(f"{len(values)} copies need one source each, and one answer where right is given")
    hit, drawn = threshold.flags(values), one_per_group(groups, seed=seed)
    correct = None if answers is None else hit & answers
    return Detection(
        recognised=clopper_pearson(int(hit[drawn].sum()), len(drawn)),
        right=clopper_pearson(0, 0) if correct is None else clopper_pearson(int(correct[drawn].sum()), len(drawn)),
        share=float(hit.mean()),
        right_share=math.nan if correct is None else float(correct.mean()),
        n_copies=len(values),
    )


def false_flags(distance: ArrayLike, group: ArrayLike | None, threshold: Threshold) -> Proportion:
    """Compute the share of unrelated identities with at least one flagged image, Clopper-Pearson over identities.

    Of the identities that the threshold was made from the share is (rank - 1) / n by construction: give others.

    Args:
        distance: Distances of images of identities without a copy among the references, [N].
        group: Identity of each image, [N]; None: each image its own.
        threshold: Threshold that flags copies.
    """
    flagged = threshold.flags(group_values(distance, group, of="smallest"))
    return clopper_pearson(int(flagged.sum()), len(flagged))


def published_pools(
    train_copies: Queries, validation_copies: Queries, baseline: Queries, *, percent: float = 5.0, seed: int = 0
) -> tuple[PoolDetection, PoolDetection]:
    """Compute paper 003's two detection ratios at one tau.

    Tau is a percentile of training images searched among validation images.

    Args:
        train_copies: Copies of training images searched among training images.
        validation_copies: Copies of validation images searched among validation images.
        baseline: Training images searched among validation images.
        percent: Percentile of the baseline.
        seed: Seed of the copy drawn from each source for the intervals.

    Returns:
        Both pools. False flags are the baseline's identities, images of which made tau: above the percentile where
        identities have several images.
    """
    tau = percentile_threshold(baseline.distance, percent)
    flags = false_flags(baseline.distance, baseline.group, tau)
    return (
        _pool("train copies -> train", train_copies, tau, flags, seed),
        _pool("validation copies -> validation", validation_copies, tau, flags, seed),
    )


def corrected_pools(
    train_copies: Queries,
    train_null: Queries,
    validation_copies: Queries,
    validation_null: Queries,
    *,
    specificity: float = 0.95,
    confidence: float | None = None,
    seed: int = 0,
) -> tuple[PoolDetection, PoolDetection]:
    """Answer the same question with each pool's own null, equal numbers of references and right answers counted.

    Half of each null's identities, drawn by the seed, make the threshold; the other half are the false flags.

    Args:
        train_copies: Copies of training images searched among training images.
        train_null: Images of other patients searched among the same images.
        validation_copies: Copies of validation images searched among validation images.
        validation_null: Images of other patients searched among these.
        specificity: Specificity of the thresholds, see `calibration.specificity_threshold`.
        confidence: Share of calibrations in which it is kept, see `calibration.specificity_threshold`.
        seed: Seed of the halves and of the copy drawn from each source.

    Returns:
        Both pools; a pool with too few identities in its null has a threshold that flags nothing, which its promise
        states.

    Raises:
        InputError: The pools differ in their number of references.
    """
    sizes = [pool.n_references for pool in (train_copies, train_null, validation_copies, validation_null)]
    if len(set(sizes)) > 1:
        raise InputError(
            f"the pools search {', '.join(f'{n:,}' for n in sizes)} references; more references are nearer without any "
            "copy, so cut them to one number first (calibration.equal_pools)"
        )
    pools = []
    for name, copies, null in (
        ("train copies -> train", train_copies, train_null),
        ("validation copies -> validation", validation_copies, validation_null),
    ):
        own_half, other = null_halves(null, seed)
        values, groups = np.asarray(null.distance), np.asarray(null.group)
        cut = specificity_threshold(values[own_half], groups[own_half], specificity=specificity, confidence=confidence)
        flags = false_flags(values[other], groups[other], cut) if other.any() else clopper_pearson(0, 0)
        pools.append(_pool(name, copies, cut, flags, seed))
    return pools[0], pools[1]


def _pool(name: str, copies: Queries, threshold: Threshold, flags: Proportion, seed: int) -> PoolDetection:
    detection = detect(copies.distance, copies.group, threshold, right=copies.right, seed=seed)
    return PoolDetection(name, threshold, detection, flags, copies.n_references)


def null_halves(null: Queries, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Select the rows of the half of a null's identities that makes the threshold, and of the half flagged at it.

    Args:
        null: Images of patients that have none among the references.
        seed: Seed of the draw; the first half is the larger where they are odd.

    Returns:
        Two masks [N].
    """
    ids, index = np.unique(np.asarray(null.group), return_inverse=True)
    first = np.zeros(len(ids), dtype=bool)
    first[np.random.default_rng(seed).permutation(len(ids))[: (len(ids) + 1) // 2]] = True
    return first[index], ~first[index]


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
