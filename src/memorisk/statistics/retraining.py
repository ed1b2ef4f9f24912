"""Change of memorization against what retraining alone changes (METHODS section 1).

Three tables of the same groups and seeds: before; after, retrained on changed images from the same start; and the
re-run, retrained on the same images from another start. ``difference = after - before``,
``noise = rerun - before``. The two together, group by group and seed by seed, decide whether the difference is more
than
retraining:

``excess = difference - noise = (after - before) - (rerun - before) = after - rerun``,

the difference in differences, in which what *before* drew by chance cancels. A difference is called larger than
what retraining alone does when the intervals of the difference *and* of the excess leave out 0 on the same side.
Where nothing but retraining happens each alone does so in 5 % of classes, both together in 0.3 to 0.6 % (simulated,
12 to 60 groups, 3 to 8 seeds). A re-run that strayed where nothing else did would also meet the second alone. The
reading is a claim about one class: m classes have m chances.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import Interval, difference_interval, two_way_interval
from memorisk.statistics.verdicts.tiers import MIN_GROUPS

LARGER = "larger than what retraining alone does"
NOT_LARGER = "not larger than what retraining alone does"
INSUFFICIENT = "insufficient evidence"


@dataclass(frozen=True)
class RetrainingDifference:
    """Difference, the same difference of a mere re-run, and the excess of the first over the second; all in nats."""

    before: float
    """Mean M before the change."""
    after: float
    """Mean M after the change."""
    rerun: float
    """Mean M of the re-run."""
    difference: Interval
    """Difference of after less before."""
    noise: Interval
    """Difference of re-run less before."""
    excess: Interval
    """Excess of the difference over the noise."""
    reading: str
    """Reading: `LARGER`, `NOT_LARGER`, or `INSUFFICIENT` where the interval does not cover other patients or
    trainings."""


def retraining_difference(
    before: ArrayLike, after: ArrayLike, rerun: ArrayLike, level: float = 0.95
) -> RetrainingDifference:
    """Compare a difference with the noise of retraining (module docstring).

    Null: after and re-run are two retrainings by one recipe, exchangeable seed by seed.

    Args:
        before: Group means of M by seed, `[G, S]`, NaN where a seed did not score a group.
        after: Group means of the same groups and seeds, `[G, S]`, retrained with the change to judge.
        rerun: Group means of the same groups and seeds, `[G, S]`, retrained from another start and otherwise unchanged.
        level: Coverage of each interval.

    Returns:
        Differences with two-way intervals over groups and seeds. Fewer than 10 groups or 3 seeds read as
        insufficient evidence, whatever the limits.

    Raises:
        InputError: The tables differ in shape, or as `two_way_interval`.

    Source:
        METHODS section 1, "Distinctiveness, intervened on" (re-run noise floor, differences with intervals).
    """
    tables = [np.asarray(t, dtype=np.float64) for t in (before, after, rerun)]
    shapes = [t.shape for t in tables]
    if len(set(shapes)) > 1:
        raise InputError(f"tables {shapes} do not compare; give the same groups and seeds three times")
    difference, noise, excess = (difference_interval(tables[i], tables[j], level) for i, j in ((1, 0), (2, 0), (1, 2)))
    means = [two_way_interval(t, level).estimate for t in tables]
    return RetrainingDifference(means[0], means[1], means[2], difference, noise, excess, _reading(difference, excess))


def _reading(difference: Interval, excess: Interval) -> str:
    """State in words what a difference shows."""
    if difference.n_groups < MIN_GROUPS or difference.conditional or excess.conditional:
        return INSUFFICIENT
    side = _side(difference)
    return LARGER if side != 0 and side == _side(excess) else NOT_LARGER


def _side(interval: Interval) -> int:
    """Return 1 or -1 where the whole interval lies on that side of 0, else 0."""
    return int(interval.low > 0) - int(interval.high < 0)
