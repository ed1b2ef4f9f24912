"""Balanced accuracy of a membership attack at Youden's threshold, chosen on other folds (METHODS section 1, "Attacks").

Youden's threshold maximises TPR - FPR. Chosen and judged on the same images it flatters the attack (the paper's form,
which the report adds): with nothing to find it still finds something. Here folds are made of whole groups, the
threshold of each fold comes from the others, and the accusations of all folds are judged together. Simulated with
nothing to find: 0.495 to 0.503 for 20 to 200 groups, where the naive form gives 0.59 to 0.53.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.roc import roc_curve

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class YoudenAccuracy:
    """Balanced accuracy, out of fold and naive."""

    balanced_accuracy: float
    """``(TPR + 1 - FPR) / 2`` of the accusations made out of fold; NaN when not measurable."""
    naive: float
    """The same at the threshold that is best on these very images: the paper's column, optimistic."""
    accused: NDArray[np.bool_]
    """[N], accused of membership, out of fold."""
    fold: NDArray[np.intp]
    """[N], the fold of each image."""
    threshold: FloatArray
    """[folds], the threshold that each fold was judged at."""
    note: str
    """Empty, or "not measurable: ..."."""


def youden_threshold(members: ArrayLike, non_members: ArrayLike) -> float:
    """The threshold t that maximises TPR - FPR for "accuse where score >= t"; the highest of equals.

    It lies half-way between neighbouring scores, so that it does not hang on the last bit of one of them.

    Args:
        members: [m] scores.
        non_members: [n] scores.

    Raises:
        InputError: A side is empty or has a NaN.

    Example:
        >>> youden_threshold([0.9, 0.8], [0.6, 0.2])
        0.7
    """
    curve = roc_curve(members, non_members)
    best = int(np.argmax(curve.tpr - curve.fpr))
    if best == 0:
        return float("inf")
    if best == len(curve.threshold) - 1:
        return float("-inf")
    upper, lower = float(curve.threshold[best]), float(curve.threshold[best + 1])
    middle = lower + (upper - lower) / 2
    return middle if lower < middle <= upper else upper


def youden_by_folds(
    score: ArrayLike, member: ArrayLike, group: ArrayLike, *, folds: int = 5, seed: int = 0
) -> YoudenAccuracy:
    """Balanced accuracy with the threshold of each fold chosen on the other folds, folds made of whole groups.

    Groups are dealt to folds at random, those with members first, so that every fold gets its share of both sides. With
    fewer groups on a side than folds there are as many folds as that; with fewer than two it is not measurable.

    Args:
        score: [N], higher = more likely a member.
        member: [N] bool.
        group: [N], any sortable ids.
        folds: Number of folds, at least 2.
        seed: Seed of the assignment of groups to folds.

    Raises:
        InputError: Lengths differ, a NaN score, a side is empty, or fewer than 2 folds requested.
    """
    scores, members = np.asarray(score, dtype=np.float64), np.asarray(member, dtype=bool)
    ids, index = np.unique(np.asarray(group), return_inverse=True)
    if scores.ndim != 1 or scores.shape != members.shape or scores.shape != index.shape or folds < 2:
        raise InputError(
            f"score, member and group must be [images] and folds at least 2; "
            f"got {scores.shape}, {members.shape}, {index.shape}, {folds}"
        )
    curve = roc_curve(scores[members], scores[~members])
    naive = float((1 + np.max(curve.tpr - curve.fpr)) / 2)
    has_member = np.bincount(index, members, len(ids)) > 0
    has_other = np.bincount(index, ~members, len(ids)) > 0
    n_folds = int(min(folds, has_member.sum(), has_other.sum()))
    if n_folds < 2:
        note = "not measurable: fewer than two groups of members or of non-members"
        none = np.zeros(len(scores), dtype=bool)
        return YoudenAccuracy(float("nan"), naive, none, np.zeros(len(scores), dtype=np.intp), np.empty(0), note)
    fold = _deal(has_member, n_folds, seed)[index]
    accused = np.zeros(len(scores), dtype=bool)
    thresholds = np.empty(n_folds)
    for k in range(n_folds):
        other = fold != k
        thresholds[k] = youden_threshold(scores[other & members], scores[other & ~members])
        accused[~other] = scores[~other] >= thresholds[k]
    return YoudenAccuracy(_balanced(accused, members), naive, accused, fold, thresholds, "")


def seed_youden_by_folds(
    score: ArrayLike, role: ArrayLike, group: ArrayLike, *, folds: int = 5, seed: int = 0
) -> float:
    """Mean over seeds of the out-of-fold balanced accuracy (``youden_by_folds``); NaN where no seed has one.

    Args:
        score: [S, N], higher = more likely a member.
        role: [S, N], 1 member, 0 non-member, anything else left out in that seed.
        group: [N], any sortable ids.
        folds: Number of folds, at least 2.
        seed: Seed of the assignment of groups to folds.

    Raises:
        InputError: Shapes differ, or an image with a role has a NaN score.
    """
    scores, roles, groups = np.asarray(score, dtype=np.float64), np.asarray(role), np.asarray(group)
    if scores.ndim != 2 or scores.shape != roles.shape or groups.shape != scores.shape[1:]:
        raise InputError(
            f"score and role must be [seeds, images], group [images]; got {scores.shape}, {roles.shape}, {groups.shape}"
        )
    accuracies = []
    for one, part in zip(scores, roles, strict=True):
        used = (part == 1) | (part == 0)
        if (part == 1).any() and (part == 0).any():
            result = youden_by_folds(one[used], part[used] == 1, groups[used], folds=folds, seed=seed)
            accuracies.append(result.balanced_accuracy)
    accuracies = [value for value in accuracies if not np.isnan(value)]
    return float(np.mean(accuracies)) if accuracies else float("nan")


def _balanced(accused: NDArray[np.bool_], member: NDArray[np.bool_]) -> float:
    return float((accused[member].mean() + 1 - accused[~member].mean()) / 2)


def _deal(has_member: NDArray[np.bool_], folds: int, seed: int) -> NDArray[np.intp]:
    order = np.lexsort((np.random.default_rng(seed).random(len(has_member)), ~has_member))
    fold = np.empty(len(order), dtype=np.intp)
    fold[order] = np.arange(len(order)) % folds
    return fold
