"""Does M grow with how often an image was in the training data?

Issue-level check of the score ("canaries duplicated 1, 2, 4, 8 times show a positive trend"): the slope of M on log2
of the number of copies, with groups and seeds as replicates.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals import Interval, two_way_interval


@dataclass(frozen=True)
class Trend:
    """Slope of a score per doubling of the copies."""

    slope: Interval
    """Nats per doubling, with its interval over groups and seeds."""
    n_levels: int
    """Different numbers of copies."""

    @property
    def positive(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.slope.low > 0


def duplicate_trend(values: ArrayLike, copies: ArrayLike, level: float = 0.95) -> Trend:
    """Least-squares slope of the score on log2 of the number of copies.

    With `c_g = (x_g - mean x) / sum (x - mean x)^2`, the slope is `sum_g c_g mean_s y_gs`. Each cell's contribution
    `slope + G c_g e_gs / (1 - h_g)` (residual e against the fit to the group means, leverage h: the delete-one-group
    jackknife) enters the two-way interval, so that neither equal variances nor one seed's luck are assumed.

    Args:
        values: `[G, S]` group means of the signed gap per seed, NaN where not scored (`differential.group_table`).
        copies: `[G]` how often each group's images were in the training data, at least 1.
        level: Coverage.

    Returns:
        The slope with its interval.

    Raises:
        InputError: Shapes do not fit, copies below 1, fewer than 3 scored groups, or all with the same number of
            copies.
    """
    table, n_copies = np.asarray(values, dtype=np.float64), np.asarray(copies, dtype=np.float64)
    if table.ndim != 2 or n_copies.shape != table.shape[:1] or not (n_copies >= 1).all():
        raise InputError(
            f"table {table.shape} and copies {n_copies.shape} do not fit; give [groups, seeds] and counts >= 1"
        )
    scored = ~np.isnan(table).all(1)
    table, x = table[scored], np.log2(n_copies[scored])
    levels = len(np.unique(x))
    if levels < 2 or len(x) < 3:
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
    return Trend(
        slope=Interval(
            estimate=slope,
            low=around.low + moved,
            high=around.high + moved,
            df=around.df,
            n_groups=around.n_groups,
            n_seeds=around.n_seeds,
            level=level,
            conditional=around.conditional,
            method=f"least squares on log2 copies, {around.method}",
        ),
        n_levels=levels,
    )
