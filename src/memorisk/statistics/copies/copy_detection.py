"""Detection of augmented copies: the share that is recognised, in the pools of paper 003 and corrected ones.

A pool is a set of queries, each with its distance to the nearest of some references: copies of these references, or
images of patients that have none there (the pool's null). Paper 003 judges copies of training images against the
training part and copies of validation images against the validation part at one threshold, from training images
searched among validation images. That baseline fits neither pool: more references are nearer without any copy, and a
detector knows its training images. Corrected (METHODS section 3, "Question"): as many references in both pools
(``calibration.equal_pools``), a threshold from each pool's own null over identities, and a hit is right only if the
nearest reference is the copy's source.
"""

import math
from dataclasses import dataclass

import numpy as np
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
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson


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
