"""Neighbours of the images of two parts: are the parts a random split?

Are two parts of a data set a random split? The check counts the images whose nearest neighbours lie in
their own part, and those whose lie in the other.

Every comparison of training with held-out patients takes them for a random split. Two ways in which they are not:

* apart: the held-out ones come from another hospital or device, or several images of one patient occur under several
  names of one part. Neighbours share a part more often than by chance.
* together: held-out people are training people under other ids, so that copies of these are near to both. Such an
  image is not near its counterpart more often than near others (with one training image of each, its nearest
  training image lies in the other part anyhow): it is *clearly* nearer to it than to the next patient. Neighbours
  are therefore weighted by their lead, ``log(second distance / first)``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

_BLOCK = 100
_ROUNDING = 1e-12


@dataclass(frozen=True)
class NeighbourTest:
    """Nearest-neighbour test of two parts, in both directions."""

    share: float
    """Share of neighbours in the same part: mean over groups of the mean over their images."""
    expected: float
    """Expected share over random splits of the groups."""
    p_value: float
    """Two-sided p-value: twice the smaller of both below, at most 1."""
    n_groups: int
    """Number of independent units."""
    draws: int
    """Number of random splits."""
    p_apart: float
    """p-value of a share as large, over random splits; at least 1 / (draws + 1)."""
    p_together: float
    """p-value of neighbours as often in the other part, weighted by their leads, over random splits; at least as
    above."""
    across: float
    """Share of all leads that is of neighbours in the other part."""
    across_expected: float
    """Expectation of ``across`` over random splits."""

    @property
    def together(self) -> bool:
        """Return whether the parts are nearer to each other than a random split, rather than farther."""
        return self.p_together < self.p_apart


def neighbour_test(
    nearest: ArrayLike,
    group: ArrayLike,
    part: ArrayLike,
    lead: ArrayLike | None = None,
    *,
    draws: int = 999,
    seed: int = 0,
) -> NeighbourTest:
    """Test by permutation whether the parts are a random split of the groups.

    ``T = mean over groups g of mean over images i of g of [part of i = part of its nearest image of another group]``,
    of use against parts that lie apart, and ``A = sum of lead_i [parts differ] / sum of lead_i``, of use against people
    who are in both. Groups are exchanged whole, so that either p is exact: ``(1 + #{draws as large}) / (draws + 1)``.

    Args:
        nearest: Row of each image's nearest image of another group, of either part, [N].
        group: Group of each image, [N]; every group lies in one part.
        part: Part of each image, [N], one of two.
        lead: Lead of the nearest image over that of the next group, [N], 0 or more; None: all alike. An infinite one
            (equal
            images) counts as the largest finite one.
        draws: Number of random splits, with as many groups in either part.
        seed: Seed of the random splits.

    Raises:
        InputError: Lengths differ, a group lies in both parts, or there are not two parts.

    Source:
        Schilling (1986), Henze (1988), with the null by permutation of groups; weights by lead are memorisk's.
    """
    rows = np.asarray(nearest, dtype=np.int64)
    _, index = np.unique(np.asarray(group), return_inverse=True)
    kinds, side = np.unique(np.asarray(part), return_inverse=True)
    weight = np.ones(len(rows)) if lead is None else np.asarray(lead, dtype=np.float64)
    if not rows.shape == index.shape == side.shape == weight.shape or len(kinds) != 2:
        raise InputError(f"{len(rows)} neighbours need as many groups and parts, of two parts; {len(kinds)} are given")
    n = int(index.max()) + 1
    of_group = np.zeros(n, dtype=bool)
    of_group[index] = side == 1
    if (of_group[index] != (side == 1)).any():
        raise InputError("a group lies in both parts; the test exchanges whole groups")
    equal = 1 / (np.bincount(index)[index] * n)  # [N], one in all for every group
    weights = np.stack([equal, _shares(weight)], axis=1)
    theirs = index[rows]

    def shares(split: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compute the same-part shares by groups and by leads of splits [b, n]: [b, 2]."""
        return (split[:, index] == split[:, theirs]) @ weights

    observed = shares(of_group[None])[0]
    rng = np.random.default_rng(seed)
    null = np.concatenate([shares(rng.permuted(np.tile(of_group, (b, 1)), axis=1)) for b in _blocks(draws)])
    apart = (1 + int((null[:, 0] >= observed[0] - _ROUNDING).sum())) / (draws + 1)
    together = (1 + int((null[:, 1] <= observed[1] + _ROUNDING).sum())) / (draws + 1)
    expected = null.mean(0)
    return NeighbourTest(
        share=float(observed[0]),
        expected=float(expected[0]),
        p_value=min(1.0, 2 * min(apart, together)),
        n_groups=n,
        draws=draws,
        p_apart=apart,
        p_together=together,
        across=1 - float(observed[1]),
        across_expected=1 - float(expected[1]),
    )


def _shares(lead: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return leads as shares of their sum, [N]; all alike where all are 0."""
    finite = lead[np.isfinite(lead)]
    top = finite.max() if len(finite) and finite.max() > 0 else 1.0
    capped = np.clip(np.nan_to_num(lead, nan=0.0, posinf=top), 0, top)
    return capped / capped.sum() if capped.sum() > 0 else np.full(len(lead), 1 / len(lead))


def _blocks(draws: int) -> list[int]:
    """Return the sizes of blocks of draws."""
    return [min(_BLOCK, draws - start) for start in range(0, draws, _BLOCK)]
