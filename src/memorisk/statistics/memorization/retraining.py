"""A change of memorization beside what retraining alone changes (METHODS section 1, "Distinctiveness, intervened on").

Three tables of the same groups and seeds: before; after, retrained on changed images from the same start; and the
re-run, retrained on the same images from another start. ``difference = after - before``, ``noise = rerun - before``.
Whether the difference is more than retraining is asked of the two together, group by group and seed by seed:

``excess = difference - noise = (after - before) - (rerun - before) = after - rerun``,

the difference in differences, in which what *before* drew by chance cancels. A difference is called larger than what
retraining alone does when the intervals of the difference *and* of the excess leave out 0 on the same side. Where
nothing but retraining happens each alone does so in 5 % of classes, both together in 0.3 to 0.6 % (simulated, 12 to 60
groups, 3 to 8 seeds). The second alone would also be met where the re-run strayed and nothing else did. It is a claim
about one class: m classes have m chances.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals import Interval, difference_interval, two_way_interval
from memorisk.statistics.verdicts.tiers import MIN_GROUPS

LARGER = "larger than what retraining alone does"
NOT_LARGER = "not larger than what retraining alone does"
INSUFFICIENT = "insufficient evidence"


@dataclass(frozen=True)
class RetrainingDifference:
    """A difference, the same of a mere re-run, and what stands between them; all in nats."""

    before: float
    """Mean M before."""
    after: float
    """Mean M after."""
    rerun: float
    """Mean M of the re-run."""
    difference: Interval
    """After less before."""
    noise: Interval
    """Re-run less before."""
    excess: Interval
    """Difference less noise."""
    reading: str
    """`LARGER`, `NOT_LARGER`, or `INSUFFICIENT` where the interval would not speak of other patients or trainings."""


def retraining_difference(
    before: ArrayLike, after: ArrayLike, rerun: ArrayLike, level: float = 0.95
) -> RetrainingDifference:
    """Set a difference beside the noise of retraining (module docstring).

    Null: after and re-run are two retrainings by one recipe, exchangeable seed by seed.

    Args:
        before: `[G, S]` group means of M by seed, NaN where a seed did not score a group.
        after: `[G, S]`, the same groups and seeds, retrained with what is to be judged.
        rerun: `[G, S]`, the same groups and seeds, retrained with nothing else than another start.
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
    """What may be said of a difference."""
    if difference.n_groups < MIN_GROUPS or difference.conditional or excess.conditional:
        return INSUFFICIENT
    side = _side(difference)
    return LARGER if side != 0 and side == _side(excess) else NOT_LARGER


def _side(interval: Interval) -> int:
    """1 or -1 where the whole interval lies on that side of 0, else 0."""
    return int(interval.low > 0) - int(interval.high < 0)
