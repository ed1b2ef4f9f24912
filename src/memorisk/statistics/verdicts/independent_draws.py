"""Draws of halves: were the coins of each seed tossed anew, and are members those that the table names?

Sign flips are a null only where each seed draws anew who is in which half. Halves that return carry what their members
have in common into every seed, which looks like memory (simulated: the same halves in every seed fail every audit in
which no patient is remembered).

The agreement of two seeds is ``|sum over groups of sign_s sign_t|``, n where the halves are the same or exchanged.
Twins are drawn by one coin for a pair of groups, and the same pairs may return in each seed, so that n groups hold
n / 2 coins in the worst case: ``p = 2 P(Bin(n / 2, 1/2) >= (n / 2 + agreement / 2) / 2)``, Bonferroni over pairs of
seeds. The number of independent draws is the number of sets of seeds that no such agreement connects.

**Exchanged roles.** Where the table exchanges the two models of a seed, its members have the higher losses. Per seed,
Wilcoxon's signed ranks of the groups' mean gaps, one-sided against negative ones, Holm over seeds. If no patient is
memorized the coins make the gaps symmetric; partners have opposite coins, which makes the test conservative. A single
remembered patient does not show in it (`uneven_gaps`).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.scores.memorization import group_table
from memorisk.statistics.multiple_testing.lists import holm
from memorisk.statistics.randomization.sign_flips import FloatArray
from memorisk.statistics.verdicts.levels import PREREQUISITE_LEVEL


@dataclass(frozen=True)
class Draws:
    """Draws of halves of an audit."""

    n_draws: int
    """Number of independent draws."""
    shared: tuple[int, ...]
    """Positions of seeds whose halves agree with another seed's."""
    n_groups: int
    """Number of groups that every pair of seeds has in common, at least."""
    n_needed: int
    """Smallest number of groups with which equal halves are seen."""


def independent_draws(sign: ArrayLike, unit: ArrayLike, level: float = PREREQUISITE_LEVEL) -> Draws:
    """Count the independent draws of halves.

    Args:
        sign: `[S, I]` membership, +1 in model A alone, -1 in B alone, 0 in both or neither.
        unit: `[I]` group of each image.
        level: Probability of any agreement where halves are drawn anew.

    Example:
        >>> halves = np.resize([1, -1], (3, 60))
        >>> independent_draws(halves, np.arange(60)).n_draws
        1
    """
    _, first = np.unique(np.asarray(unit).astype(str), return_index=True)
    signs = np.asarray(sign, dtype=np.float64)[:, first]
    n_seeds, pairs = len(signs), len(signs) * (len(signs) - 1) // 2
    both = np.abs(signs) @ np.abs(signs).T
    coins = np.floor(both / 2)
    reached = np.ceil((coins + np.abs(signs @ signs.T) / 2) / 2 - 1e-9)
    p = 2 * scipy.stats.binom.sf(reached - 1, coins, 0.5)
    agree = (p * max(pairs, 1) <= level) & ~np.eye(n_seeds, dtype=bool)
    n_draws, _ = scipy.sparse.csgraph.connected_components(agree, directed=False)
    n_groups = int(both[~np.eye(n_seeds, dtype=bool)].min(initial=both.max(initial=0)))
    needed = 2 * math.ceil(math.log2(2 * max(pairs, 1) / level))
    return Draws(int(n_draws), tuple(np.flatnonzero(agree.any(axis=1)).tolist()), n_groups, needed)


def exchanged_roles(gap: ArrayLike, sign: ArrayLike, unit: ArrayLike) -> FloatArray:
    """Test in each seed that members have the higher loss: `[S]` p-values, adjusted by Holm.

    Args:
        gap: `[S, I]` loss of model B less that of model A.
        sign: `[S, I]` membership, as in `independent_draws`.
        unit: `[I]` group of each image.
    """
    signs = np.asarray(sign)
    scored = (signs != 0).any(axis=0)
    table = group_table(np.asarray(gap)[:, scored], signs[:, scored], np.asarray(unit)[scored].astype(str)).values
    return holm(np.array([_lower(column[~np.isnan(column) & (column != 0)]) for column in table.T]))


def _lower(gaps: FloatArray) -> float:
    """Compute the p-value of gaps that lie below 0; 1 without any."""
    return float(scipy.stats.wilcoxon(gaps, alternative="less").pvalue) if len(gaps) else 1.0
