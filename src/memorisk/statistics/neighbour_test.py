"""Are two parts of a data set alike? Does an image's nearest neighbour lie in its part more often than by chance?

Every comparison of training with held-out patients takes them for a random split. If the held-out ones come from
another hospital or device, or if several images of one patient go under several names, neighbours share a part.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError

_BLOCK = 100


@dataclass(frozen=True)
class NeighbourTest:
    """The nearest-neighbour test of two parts."""

    share: float
    """Of neighbours in the same part: mean over groups of the mean over their images."""
    expected: float
    """The same over random splits of the groups."""
    p_value: float
    """Of a share as large, over random splits; no smaller than 1 / (draws + 1)."""
    n_groups: int
    """Independent units."""
    draws: int
    """Random splits."""


def neighbour_test(
    nearest: ArrayLike, group: ArrayLike, part: ArrayLike, *, draws: int = 999, seed: int = 0
) -> NeighbourTest:
    """Permutation test of "the parts are a random split of the groups", of use against parts that lie apart.

    ``T = mean over groups g of mean over images i of g of [part of i = part of its nearest image of another group]``;
    groups are exchanged whole, so that p is exact: ``p = (1 + #{draws with T as large}) / (draws + 1)``.

    Args:
        nearest: [N] row of each image's nearest image of another group, of either part.
        group: [N] whose image it is; every group lies in one part.
        part: [N] of two parts.
        draws: Random splits, with as many groups in either part.
        seed: Of them.

    Raises:
        InputError: Lengths differ, a group lies in both parts, or there are not two parts.

    Source:
        Schilling (1986), Henze (1988), with the null by permutation of groups.
    """
    rows = np.asarray(nearest, dtype=np.int64)
    _, index = np.unique(np.asarray(group), return_inverse=True)
    kinds, side = np.unique(np.asarray(part), return_inverse=True)
    if not rows.shape == index.shape == side.shape or len(kinds) != 2:
        raise InputError(f"{len(rows)} neighbours need as many groups and parts, of two parts; {len(kinds)} are given")
    n = int(index.max()) + 1
    of_group = np.zeros(n, dtype=np.int64)
    of_group[index] = side
    if (of_group[index] != side).any():
        raise InputError("a group lies in both parts; the test exchanges whole groups")
    weights = 1 / (np.bincount(index)[index] * n)  # [N], one in all for every group
    theirs = index[rows]

    def share(split: np.ndarray) -> np.ndarray:
        """T of splits [b, n]."""
        return (split[:, index] == split[:, theirs]) @ weights

    found = float(share(of_group[None])[0])
    rng = np.random.default_rng(seed)
    drawn = [share(rng.permuted(np.tile(of_group, (b, 1)), axis=1)) for b in _blocks(draws)]
    null = np.concatenate(drawn)
    p = (1 + int((null >= found - 1e-12).sum())) / (draws + 1)
    return NeighbourTest(found, float(null.mean()), p, n, draws)


def _blocks(draws: int) -> list[int]:
    """Sizes of blocks of draws."""
    return [min(_BLOCK, draws - start) for start in range(0, draws, _BLOCK)]
