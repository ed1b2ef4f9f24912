"""Placements: the AUC and its value without each group, from ranks, in O(N log N).

With U the count of (member, non-member) pairs in the right order, ties one half, and g a group,
``U_(-g) = U - (pairs of g's members) - (pairs of g's non-members) + (pairs within g)``; each term is a difference of
ranks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class GroupDeletedAuc:
    """The AUC of one attack on one model, and without each group."""

    auc: float
    """Of all images."""
    deleted: FloatArray
    """[G], without group g; NaN where that empties a side."""
    members: NDArray[np.intp]
    """[G], members of group g."""
    non_members: NDArray[np.intp]
    """[G], non-members of group g."""
    pairs: int
    """Groups of the side that has fewer: so many disjoint pairs of a member's and a non-member's group exist."""


def group_deleted_auc(
    score: FloatArray, role: NDArray[np.generic], index: NDArray[np.intp], n_groups: int
) -> GroupDeletedAuc:
    """AUC and its value without each group; the formula stands at the head of this module.

    Args:
        score: [N], higher = more likely a member.
        role: [N], 1 member, 0 non-member, anything else left out.
        index: [N], group of each image, 0 to G - 1.
        n_groups: G.

    Raises:
        InputError: A side is empty or has a NaN.
    """
    is_member, is_other = role == 1, role == 0
    member, other = check_sides(score[is_member], score[is_other])
    member_group, other_group = index[is_member], index[is_other]
    m, n = len(member), len(other)
    ranks = rankdata(np.concatenate([member, other]))
    below = ranks[:m] - rankdata(member)  # non-members below each member, ties one half
    above = m - (ranks[m:] - rankdata(other))  # members above each non-member
    both = rank_within(np.concatenate([member_group, other_group]), np.concatenate([member, other]))[:m]
    within = both - rank_within(member_group, member)
    pairs_kept = below.sum() + (
        np.bincount(member_group, within, n_groups)
        - np.bincount(member_group, below, n_groups)
        - np.bincount(other_group, above, n_groups)
    )
    m_g, n_g = np.bincount(member_group, minlength=n_groups), np.bincount(other_group, minlength=n_groups)
    total = (m - m_g) * (n - n_g)
    deleted = np.divide(pairs_kept, total, out=np.full(n_groups, np.nan), where=total > 0)
    return GroupDeletedAuc(float(below.sum() / (m * n)), deleted, m_g, n_g, int(min((m_g > 0).sum(), (n_g > 0).sum())))


def rank_within(group: NDArray[np.intp], values: FloatArray) -> FloatArray:
    """Average ranks, from 1, of each value among those of its group."""
    order = np.lexsort((values, group))
    g, v = group[order], values[order]
    new_group = np.r_[True, g[1:] != g[:-1]]
    new_value = new_group | np.r_[True, v[1:] != v[:-1]]
    run = np.cumsum(new_value) - 1
    start = np.flatnonzero(new_value)
    group_start = np.maximum.accumulate(np.where(new_group, np.arange(len(v)), 0))
    ranks = np.empty(len(v))
    ranks[order] = start[run] + (np.bincount(run)[run] + 1) / 2 - group_start
    return ranks


def check_sides(members: ArrayLike, non_members: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both sides as float64, or an InputError where one is empty or has a NaN."""
    member, non_member = np.asarray(members, dtype=np.float64), np.asarray(non_members, dtype=np.float64)
    if member.ndim != 1 or non_member.ndim != 1 or not len(member) or not len(non_member):
        raise InputError(
            f"an ROC needs members and non-members, one score each; got shapes {member.shape}, {non_member.shape}"
        )
    if np.isnan(member).any() or np.isnan(non_member).any():
        raise InputError("a score is NaN: leave out images without a score before comparing members with non-members")
    return member, non_member
