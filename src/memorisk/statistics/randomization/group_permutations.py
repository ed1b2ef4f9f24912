"""Permutations of groups within classes: the null "within a class, it does not matter which patient".

Groups are exchanged whole, and only with groups that hold as many images of each class (one stratum); so what
images of one patient share stays together, and class means do not change. A group without an equal stays where it is.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError


@dataclass(frozen=True)
class GroupPermutation:
    """Strata of groups that may be exchanged."""

    strata: tuple[NDArray[np.intp], ...]
    """Row numbers of each stratum, one `[k, s]` array: k groups of s images each, sorted by class."""
    n: int
    """Number of rows."""
    n_groups: int
    """Number of groups."""

    @property
    def n_movable(self) -> int:
        """Number of groups that have at least one other to be exchanged with."""
        return sum(len(rows) for rows in self.strata if len(rows) > 1)

    def smallest_p(self, draws: int) -> float:
        """Return the smallest p-value that this many random permutations, or all there are, can give."""
        log_all = sum(math.lgamma(len(rows) + 1) for rows in self.strata)
        return max(1 / (draws + 1), math.exp(-log_all))

    def draw(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw the row whose value each row gets, `[n]`."""
        sources = np.arange(self.n)
        for rows in self.strata:
            if len(rows) > 1:
                sources[rows.ravel()] = rows[rng.permutation(len(rows))].ravel()
        return sources


def group_permutation(label: ArrayLike, group: ArrayLike) -> GroupPermutation:
    """Find strata of groups with equally many images of each class.

    Args:
        label: Class of each row, `[n]`.
        group: Group of each row, `[n]`.

    Raises:
        InputError: Lengths differ.
    """
    labels = np.unique(np.asarray(label), return_inverse=True)[1]
    groups = np.unique(np.asarray(group), return_inverse=True)[1]
    if labels.shape != groups.shape or labels.ndim != 1:
        raise InputError(f"label and group have shapes {labels.shape} and {groups.shape}; give one of each per image")
    if not len(labels):
        return GroupPermutation((), 0, 0)
    order = np.lexsort((labels, groups))
    starts = np.flatnonzero(np.r_[True, groups[order][1:] != groups[order][:-1]])
    members: dict[bytes, list[NDArray[np.intp]]] = {}
    for rows in np.split(order, starts[1:]):
        members.setdefault(labels[rows].tobytes(), []).append(rows)
    return GroupPermutation(tuple(np.stack(rows) for rows in members.values()), len(labels), len(starts))
