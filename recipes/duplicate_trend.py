"""Does M grow with how often an image was in the training data? The slope of M on log2 of the number of copies.

Groups and seeds are the replicates. ``recipes/validity.py`` computes it of copies that ``recipes/planted.py`` makes.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import Interval, two_way_interval


def duplicate_trend(values: ArrayLike, copies: ArrayLike, level: float = 0.95) -> Interval:
    """Compute the least-squares slope of the score on log2 of the number of copies.

    With `c_g = (x_g - mean x) / sum (x - mean x)^2`, the slope is `sum_g c_g mean_s y_gs`. Each cell's contribution
    `slope + G c_g e_gs / (1 - h_g)` (residual e against the fit to the group means, leverage h: the delete-one-group
    jackknife) enters the two-way interval, so that neither equal variances nor one seed's luck are assumed.

    Args:
        values: Group means of the signed gap per seed, `[G, S]`, NaN where not scored
            (`scores.memorization.group_table`).
        copies: Number of copies of each group's images in the training data, `[G]`, at least 1.
        level: Coverage of the interval.

    Returns:
        Slope with its interval.

    Raises:
        InputError: Shapes do not fit, copies below 1, fewer than 3 scored groups, or all with the same number of
            copies.

    Example:
        >>> round(duplicate_trend([[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]], [1, 2, 4]).estimate, 3)
        1.0
    """
    table, n_copies = np.asarray(values, dtype=np.float64), np.asarray(copies, dtype=np.float64)
    if table.ndim != 2 or n_copies.shape != table.shape[:1] or not (n_copies >= 1).all():
        raise InputError(
            f"table {table.shape} and copies {n_copies.shape} do not fit; give [groups, seeds] and counts >= 1"
        )
    scored = ~np.isnan(table).all(1)
    table, x = table[scored], np.log2(n_copies[scored])
    if len(np.unique(x)) < 2 or len(x) < 3:
        raise InputError("a trend needs at least 3 scored groups with at least 2 different numbers of copies")
    y = np.nanmean(table, axis=1)
    centred = x - x.mean()
    weight = centred / (centred**2).sum()
    slope = float(weight @ y)
    fit = y.mean() + slope * centred
    leverage = 1 / len(x) + centred * weight
    # A group that alone carries its number of copies with no other spread has leverage 1 and no residual to show.
    shrink = np.where(leverage < 1 - 1e-9, 1 - leverage, 1.0)
    contribution = slope + len(x) * (weight / shrink)[:, None] * (table - fit[:, None])
    around = two_way_interval(contribution, level)
    moved = slope - around.estimate
    return replace(
        around,
        estimate=slope,
        low=around.low + moved,
        high=around.high + moved,
        method=f"least squares on log2 copies, {around.method}",
    )
