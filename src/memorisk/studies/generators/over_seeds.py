"""One row of several seeds: the mean, with an interval that knows both the seeds and what each of them was read on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from memorisk.report.frames import numbers


def mean_over_seeds(
    table: pd.DataFrame, by: Sequence[str], values: Mapping[str, tuple[float, float]], kept: Sequence[str] = ()
) -> pd.DataFrame:
    """The rows of a table that differ in the seed alone as one.

    Of S seeds with estimates e and limits (l, h) the row has the mean of e and the wider of two intervals: Student's
    over seeds, ``mean e +- t sd / sqrt(S)``, and the mean of l to the mean of h. The second alone would overlook that
    trainings differ, the first that all seeds share the held-out patients, and both are needed where seeds agree by
    luck. A seed alone keeps its own limits.

    Args:
        table: A row a seed, with ``NAME``, ``NAME_low`` and ``NAME_high``.
        by: Columns that tell rows apart.
        values: Names with the least and greatest value that each can have.
        kept: Columns of which the mean is taken along.

    Returns:
        A row for each different ``by``, in their order, with ``n_seeds``.
    """
    if not len(table):
        return pd.DataFrame()
    found = []
    for key, own in table.groupby(list(by), sort=False, dropna=False):
        row: dict[str, Any] = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        for name, ends in values.items():
            estimate, low, high = combine(*(numbers(own, f"{name}{end}") for end in ("", "_low", "_high")), ends=ends)
            row |= {name: estimate, f"{name}_low": low, f"{name}_high": high}
        found.append({**row, **{name: float(np.mean(numbers(own, name))) for name in kept}, "n_seeds": len(own)})
    return pd.DataFrame(found)


def combine(
    estimate: np.ndarray, low: np.ndarray, high: np.ndarray, *, ends: tuple[float, float], level: float = 0.95
) -> tuple[float, float, float]:
    """Mean of several seeds with its limits, as `mean_over_seeds`.

    Args:
        estimate: [S].
        low: [S] lower limits; NaN where there is none.
        high: [S] upper limits.
        ends: Least and greatest value.
        level: Coverage of Student's interval.
    """
    known = np.isfinite(estimate)
    if not known.any():
        return float("nan"), float("nan"), float("nan")
    e, n = estimate[known], int(known.sum())
    middle = float(e.mean())
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * e.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    below = [middle - half] if n > 1 else []
    above = [middle + half] if n > 1 else []
    if np.isfinite(low[known]).all() and np.isfinite(high[known]).all():
        below, above = [*below, float(low[known].mean())], [*above, float(high[known].mean())]
    if not below:
        return middle, float("nan"), float("nan")
    return middle, max(min(below), ends[0]), min(max(above), ends[1])
