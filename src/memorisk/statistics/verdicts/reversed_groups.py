"""Reversed groups: scored groups whose losses are higher under the models that were trained on them.

No training does that; the table of who was trained on what may be wrong for these groups.

The interval of a class's mean M is over trainings, of these groups (`intervals.means.these_groups_interval`): one group
with -5 nats in every seed moves the mean of 80 groups to -0.06, and hardly its spread over trainings. That the mean is
surely below 0 therefore says nothing of the class. It does where the interval over groups as well lies below 0
(`intervals.means.two_way_interval`). Else a few groups carry the mean, and are named in place of the class: those of
lowest mean without which the mean is no longer surely below 0.

**Level.** The two are one doubt with two names: it is raised where the upper limit of the mean lies more than half the
interval below 0, as before the groups were named. Without memory the means of the S seeds are symmetric about 0, so
that the probability is that of a Student's t beyond twice its 97.5 % quantile: 0.7 % with three seeds, 0.1 % with ten
(`tests/statistics/verdicts/test_reversed_groups.py`).
"""

import numpy as np
from numpy.typing import NDArray

from memorisk.statistics.intervals.means import these_groups_interval, two_way_interval
from memorisk.statistics.randomization.sign_flips import FloatArray


def is_surely_below_zero(low: float, high: float) -> bool:
    """Return whether an interval lies below 0 by more than half of its length: by chance a mean hardly does.

    Args:
        low: Lower limit of a class's mean; NaN without an interval.
        high: Upper limit.
    """
    return high + (high - low) / 2 < 0


def reversed_groups(table: FloatArray) -> NDArray[np.bool_]:
    """Find the groups that carry a mean below 0; none where the mean is not surely below 0, or the class as a whole is.

    Args:
        table: Mean gap of each group in each seed, `[G, S]`, signed by membership; NaN where the group had no partner.

    Returns:
        Whether each group is one of them, `[G]`.

    Example:
        >>> table = np.tile([[0.1, -0.1, 0.05, 0.0]], (30, 1)) * np.where(np.arange(30) % 2, 1, -1)[:, None]
        >>> table[7] -= 5.0
        >>> np.flatnonzero(reversed_groups(table)).tolist()
        [7]
    """
    carries = np.zeros(len(table), bool)
    if len(table) < 2 or not _mean_is_below_zero(table) or two_way_interval(table).high < 0:
        return carries
    order = np.argsort(np.nanmean(table, axis=1), kind="stable")
    for n in range(1, len(table)):
        carries[order[n - 1]] = True
        if not _mean_is_below_zero(table[order[n:]]):
            return carries
    return np.ones(len(table), bool)


def _mean_is_below_zero(table: FloatArray) -> bool:
    """Return whether the mean of these groups is surely below 0 in other trainings."""
    interval = these_groups_interval(table)
    return is_surely_below_zero(interval.low, interval.high)
