"""Difference of two means of different groups, as of two classes, from the interval of each.

MOVER, the method of variance estimates recovery (Zou and Donner 2008): each limit's distance from its estimate
replaces ``t x standard error`` on that side, and distances add as squares. It takes the two as independent. Two
classes of one audit share their seeds; where a seed moves both the same way the interval is wider than it need be,
never narrower.
"""

import numpy as np

from memorisk.statistics.intervals.means import Interval


def unpaired_difference(first: Interval, second: Interval) -> Interval:
    """Compute the interval of ``first - second``.

    ``low = d - sqrt((x1 - l1)^2 + (u2 - x2)^2)``, ``high = d + sqrt((u1 - x1)^2 + (x2 - l2)^2)`` with d = x1 - x2.

    Args:
        first: Estimate x1 with limits l1, u1.
        second: Estimate x2 with limits l2, u2, of other groups, at the same level.

    Returns:
        Difference of the two; NaN limits where either has none.

    Source:
        Zou and Donner, Statistics in Medicine 27 (2008), equation 1.
    """
    d = first.estimate - second.estimate
    low = d - np.hypot(first.estimate - first.low, second.high - second.estimate)
    high = d + np.hypot(first.high - first.estimate, second.estimate - second.low)
    return Interval(
        estimate=float(d),
        low=float(low),
        high=float(high),
        df=float("nan"),
        n_groups=first.n_groups + second.n_groups,
        n_seeds=min(first.n_seeds, second.n_seeds),
        level=first.level,
        conditional=first.conditional or second.conditional,
        method="MOVER from the two intervals, groups independent",
    )
