"""Pairs of images to judge identities: of one identity, of two, and the weight of each pair (METHODS section 4).

An identity of n images has n (n - 1) / 2 positive pairs, so that few patients with many images own most of them: in
264 patients of NIH's chest X-rays eight own 82 %. Pairs are therefore weighted by 1 / pairs of the identity, and
negatives are drawn so that every other identity is equally likely.

A group is an identity wherever it occurs. Where data sets are put together, give groups names that differ between them.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name

FloatArray = NDArray[np.float64]
Rows = NDArray[np.intp]
Partner = Literal["identity", "image"]


@dataclass(frozen=True)
class Pairs:
    """Pairs of images by their rows."""

    first: Rows
    """Row of each pair's first image, [P]."""
    second: Rows
    """Row of each pair's second image, [P]."""

    def __len__(self) -> int:
        return len(self.first)


def positive_pairs(groups: ArrayLike) -> Pairs:
    """List every pair of different images of a group, once: first < second, in the order of the rows.

    Args:
        groups: Group ids of the images, [N], any sortable ids.

    Returns:
        Pairs, P = sum over groups of n (n - 1) / 2.

    Source:
        Paper 004, section 4, "Metrics".

    Example:
        >>> found = positive_pairs(["a", "b", "a", "a"])
        >>> list(zip(found.first.tolist(), found.second.tolist()))
        [(0, 2), (0, 3), (2, 3)]
    """
    _, index, count = np.unique(_column(groups), return_inverse=True, return_counts=True)
    order, start = np.argsort(index, kind="stable"), np.cumsum(count) - count
    first, second = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
    for size in np.unique(count[count > 1]):
        members = order[start[count == size, None] + np.arange(size)]  # [groups of this size, size]
        i, j = np.triu_indices(size, 1)
        first.append(members[:, i].ravel())
        second.append(members[:, j].ravel())
    a, b = np.concatenate(first), np.concatenate(second)
    by_row = np.lexsort((b, a))
    return Pairs(a[by_row], b[by_row])


def one_positive_each(groups: ArrayLike, *, seed: int) -> Pairs:
    """Draw one random pair of different images of each group with two or more: the units of `guarantee.miss_guarantee`.

    Args:
        groups: Group ids of the images, [N], any sortable ids.
        seed: Seed of the draw; all pairs of a group are equally likely.

    Returns:
        Pairs in the order of the sorted group ids, first < second.

    Example:
        >>> pairs = one_positive_each(["p", "p", "q"], seed=0)
        >>> pairs.first.tolist(), pairs.second.tolist()
        ([0], [1])
    """
    _, index, count = np.unique(_column(groups), return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(len(index))
    order = shuffled[np.argsort(index[shuffled], kind="stable")]
    start = (np.cumsum(count) - count)[count > 1]
    a, b = order[start], order[start + 1]
    return Pairs(np.minimum(a, b), np.maximum(a, b))


def negative_pairs(
    groups: ArrayLike,
    anchors: Pairs | int,
    *,
    dataset: ArrayLike | None = None,
    partner: Partner = "identity",
    seed: int,
) -> Pairs:
    """Draw random pairs of two different groups of one data set.

    Args:
        groups: Group ids of the images, [N], any sortable ids.
        anchors: Pairs: one negative for each, row by row, that keeps its first image. A number: so many, whose first
            image is a random one of a random group.
        dataset: Data set of each image, [N]; None: one. The look of data sets separates images of different ones, so
            that
            such pairs say little of a detector.
        partner: Kind of the second image: ``"identity"``, a random image of a random other group, or ``"image"``, a
            random image of any other group, as papers draw it: groups with many images are then drawn more often.
        seed: Seed of the draw; a pair may be drawn twice.

    Returns:
        Negative pairs, P of them; ``first`` of another group than ``second``.

    Raises:
        InputError: Lengths differ, an unknown ``partner``, or an anchor's data set has one group only.

    Source:
        Paper 004, section 4, "Metrics": "one negative pairing by combining different images from the same dataset".
    """
    if partner not in ("identity", "image"):
        raise unknown_name("partner", partner, ("identity", "image"))
    group = _column(groups)
    sets = np.zeros(len(group), dtype=np.intp) if dataset is None else np.unique(dataset, return_inverse=True)[1]
    if sets.shape != group.shape:
        raise InputError(f"{group.shape} groups and {sets.shape} data sets do not fit; give one of each per image")
    # Groups of a data set are adjacent, their images as well: "another one" is a draw that skips a block.
    _, index, count = np.unique(_joined(sets, group), return_inverse=True, return_counts=True)
    order, start = np.argsort(index, kind="stable"), np.cumsum(count) - count
    set_of = sets[order[start]]  # [G], rising
    n_groups = np.bincount(set_of)
    first_group = np.cumsum(n_groups) - n_groups
    rng = np.random.default_rng(seed)
    if isinstance(anchors, Pairs):
        first = anchors.first
    else:
        able = np.flatnonzero(n_groups[set_of] > 1)
        if not len(able) and anchors:
            raise InputError("no data set has two groups, so that no negative pair exists; give more identities")
        drawn = able[rng.integers(len(able), size=anchors)] if anchors else able[:0]
        first = order[start[drawn] + rng.integers(count[drawn])]
    own, at = index[first], set_of[index[first]]
    if (n_groups[at] < 2).any():
        raise InputError("a data set has one group only, so that no negative pair exists in it; leave it out")
    if partner == "identity":
        other = first_group[at] + rng.integers(n_groups[at] - 1)
        other += other >= own
        return Pairs(first, order[start[other] + rng.integers(count[other])])
    n_images = np.bincount(sets)
    place = (np.cumsum(n_images) - n_images)[at] + rng.integers(n_images[at] - count[own])
    place += np.where(place >= start[own], count[own], 0)
    return Pairs(first, order[place])


def pair_weights(groups: ArrayLike) -> FloatArray:
    """Compute ``1 / pairs of the identity`` for each pair, so that every identity counts one.

    Args:
        groups: Identity of each pair, [P]; of a negative pair, that of the image it is anchored at.

    Example:
        >>> pair_weights(["a", "a", "b"]).tolist()
        [0.5, 0.5, 1.0]
    """
    _, index, count = np.unique(_column(groups), return_inverse=True, return_counts=True)
    return 1.0 / count[index]


def cliques(n: int, first: ArrayLike, second: ArrayLike) -> Rows:
    """Partition into sets of which all members are linked pair by pair, [n].

    One after the other, each joins the first set to whose every member it is linked, or opens one: a chain of links
    never joins two that no link joins, as connected components do.

    Args:
        n: Number of members to partition.
        first: One end of each link, [L], below n.
        second: Other end of each link, [L].

    Returns:
        Numbers of the sets from 0, in the order of the first members.

    Example:
        >>> cliques(4, [0, 1], [1, 2]).tolist()
        [0, 0, 1, 2]
    """
    beside: list[set[int]] = [set() for _ in range(n)]
    for one, other in zip(np.asarray(first).tolist(), np.asarray(second).tolist(), strict=True):
        beside[one].add(other)
        beside[other].add(one)
    clique_of, members = np.zeros(n, dtype=np.intp), list[set[int]]()
    for i, linked in enumerate(beside):
        open_to = sorted({int(clique_of[j]) for j in linked if j < i})
        clique_of[i] = next((c for c in open_to if members[c] <= linked), len(members))
        if clique_of[i] == len(members):
            members.append(set())
        members[clique_of[i]].add(i)
    return clique_of


def _column(groups: ArrayLike) -> NDArray:
    """Check that ids are one column."""
    column = np.asarray(groups)
    if column.ndim != 1:
        raise InputError(f"groups have shape {column.shape}; give one id per image")
    return column


def _joined(sets: Rows, group: NDArray) -> NDArray[np.int64]:
    """Number each (data set, group), [N], rising with the data set."""
    ids, index = np.unique(group, return_inverse=True)
    return sets.astype(np.int64) * len(ids) + index
