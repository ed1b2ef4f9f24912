"""Find patients whose losses differ between twins as no unseen patient's do, whatever the signs of the gaps.

A list ranks the mean gap over seeds. Two patients escape it: one whom only some trainings remember (a gap of 20 nats in
one seed of ten has the mean of 2 nats in each), and one whose roles were exchanged in some seeds, so that gaps cancel.
Neither is a gap that every training shows, which is what a pass is about, and neither should pass. What they have in
common is the size of the gap of a seed. The statistic of a patient i with mean gaps g_is in S seeds is

    u_i = log sqrt(mean over s of g_is^2).

If nobody is memorized, scored and unseen patients of a class are a random split and their gaps are of one kind, so that
u is exchangeable between the parts. The cut is `statistics.copies.singled_out.tail_cut` on the unseen patients' u:
their tail beyond the largest tenth is taken for exponential, which is a power law in the gaps themselves.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.statistics.copies.singled_out import CHANCE, tail_cut
from memorisk.statistics.flips import FloatArray


@dataclass(frozen=True)
class UnevenGaps:
    """Who differs more than chance explains."""

    size: FloatArray
    """[G] root mean square of each scored patient's gaps over seeds, in nats."""
    uneven: NDArray[np.bool_]
    """[G] whether it lies beyond the cut."""
    cut: float
    """In nats; inf where unseen patients are too few to tell."""
    largest_unseen: float
    """Largest root mean square of an unseen patient, in nats; NaN without any."""


def uneven_gaps(scored: ArrayLike, unseen: ArrayLike, chance: float = CHANCE) -> UnevenGaps:
    """Compare the size of each scored patient's gaps with unseen patients'.

    Args:
        scored: [G, S] mean gap of each scored patient in each seed, in nats; NaN where a patient has none.
        unseen: [T, S] loss of model B less that of model A of each unseen patient, likewise.
        chance: Probability that anybody lies beyond the cut where nobody is memorized.
    """
    size, null = _size(scored), _size(unseen)
    cut = np.inf
    if len(size) and len(null):
        cut = float(np.exp(tail_cut(_log(null), len(size), chance).cut))
    return UnevenGaps(size, size > cut, cut, float(null.max()) if len(null) else float("nan"))


def _size(gaps: ArrayLike) -> FloatArray:
    """[n] root mean square over the seeds that have a gap; 0 without any."""
    values = np.asarray(gaps, dtype=np.float64)
    there = ~np.isnan(values)
    squares = np.where(there, np.square(np.where(there, values, 0.0)), 0.0).sum(axis=1)
    return np.sqrt(squares / np.maximum(there.sum(axis=1), 1))


def _log(size: FloatArray) -> FloatArray:
    """Logarithms, of 0 that of the least number."""
    return np.log(np.maximum(size, np.finfo(np.float64).tiny))
