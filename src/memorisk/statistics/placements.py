"""Placements: the AUC and its value without each group, from ranks, in O(N log N).

With U the count of (member, non-member) pairs in the right order, ties one half, and g a group, ``U_(-g) = U -
(pairs of g's members) - (pairs of g's non-members) + (pairs within g)``; each term is a difference of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]


def mid_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1 of values [N], the mean rank among equal ones: `scipy.stats.rankdata`, in a tenth of its time.

    Args:
        values: [N], finite.

    Example:
        >>> mid_ranks(np.array([3.0, 1.0, 1.0])).tolist()
        [3.0, 1.5, 1.5]
    """
    order = np.argsort(values)
    in_order = values[order]
    begins = np.ones(len(values), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=begins[1:])
    ends = np.append(np.flatnonzero(begins), len(values))
    place = np.cumsum(begins)
    ranks = np.empty(len(values))
    ranks[order] = 0.5 * (ends[place] + ends[place - 1] + 1)
    return ranks


@dataclass(frozen=True)
class GroupDeletedAuc:
    """The AUC of one attack on one model, and without each group."""

    auc: float
    """AUC of all images."""
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
    """Compute the AUC and its value without each group; the formula is at the head of this module.

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
    ranks = mid_ranks(np.concatenate([member, other]))
    below = ranks[:m] - mid_ranks(member)  # non-members below each member, ties one half
    above = m - (ranks[m:] - mid_ranks(other))  # members above each non-member
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
    """Average ranks, from 1, of each value among those of its group.

    Only groups of several values are sorted: most patients have one image in a role. Numbers of groups are sorted as
    16-bit integers where they fit, which NumPy does by counting.
    """
    ranks = np.ones(len(values))
    several = np.flatnonzero(np.bincount(group)[group] > 1)
    if not len(several):
        return ranks
    by_value = several[np.argsort(values[several])]
    of_group = group[by_value]
    short = of_group.astype(np.uint16) if of_group.max() <= np.iinfo(np.uint16).max else of_group
    order = by_value[np.argsort(short, kind="stable")]
    g, v = group[order], values[order]
    new_group = np.r_[True, g[1:] != g[:-1]]
    new_value = new_group | np.r_[True, v[1:] != v[:-1]]
    run = np.cumsum(new_value) - 1
    start = np.flatnonzero(new_value)
    group_start = np.maximum.accumulate(np.where(new_group, np.arange(len(v)), 0))
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


def deletion_blocks(index: NDArray[np.intp], n_groups: int, most: int, seed: int) -> NDArray[np.intp]:
    """Return the block that each image is deleted with, [N].

    Args:
        index: Group of each image, [N], from 0.
        n_groups: Number of groups.
        most: Largest number of blocks. Each group is a block where there are no more; else the blocks are random sets
            of groups, of nearly equal number.
        seed: Random seed of these sets.

    Example:
        >>> deletion_blocks(np.array([0, 0, 1, 2]), 3, most=3, seed=0).tolist()
        [0, 0, 1, 2]
    """
    if n_groups <= most:
        return index
    block = np.empty(n_groups, dtype=np.intp)
    block[np.random.default_rng(seed).permutation(n_groups)] = np.arange(n_groups) % most
    return block[index]
