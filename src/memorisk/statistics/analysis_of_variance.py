"""Analysis of variance of a table of groups x seeds with missing cells.

A table of groups x seeds is analysed two ways, with missing cells: `intervals` is built on
it. METHODS section 1, "Class summary". A cell is missing when a group had no partner in that seed.
Missing cells are filled by Yates' method (the values that make the error sum of squares smallest) and cost the
error its degrees of freedom.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class MeanSquares:
    """Mean squares of tables `[..., G, S]`; each field has the leading shape."""

    mean: FloatArray
    """Grand mean (the least-squares mean where cells are missing)."""
    groups: FloatArray
    """Mean square of groups MS_G, on `df_groups`."""
    seeds: FloatArray
    """Mean square of seeds MS_S, on `df_seeds`."""
    error: FloatArray
    """Mean square of the error MS_E, on `df_error`."""
    df_groups: int
    """Degrees of freedom of groups, G - 1."""
    df_seeds: int
    """Degrees of freedom of seeds, S - 1."""
    df_error: int
    """Degrees of freedom of the error, (G - 1)(S - 1) less one per missing cell."""


def mean_squares(values: FloatArray, n_missing: int = 0) -> MeanSquares:
    """Compute mean squares of complete tables, `MS_G = S sum_g (r_g - m)^2 / (G - 1)` and the same for seeds.

    Args:
        values: Tables `[..., G, S]` without NaN, G and S at least 2.
        n_missing: Number of cells of each table that were filled.
    """
    n_groups, n_seeds = values.shape[-2:]
    mean = values.mean((-2, -1), keepdims=True)
    row, column = values.mean(-1, keepdims=True), values.mean(-2, keepdims=True)
    df_error = (n_groups - 1) * (n_seeds - 1) - n_missing
    return MeanSquares(
        mean=mean[..., 0, 0],
        groups=n_seeds * ((row - mean) ** 2).sum((-2, -1)) / (n_groups - 1),
        seeds=n_groups * ((column - mean) ** 2).sum((-2, -1)) / (n_seeds - 1),
        error=((values - row - column + mean) ** 2).sum((-2, -1)) / df_error,
        df_groups=n_groups - 1,
        df_seeds=n_seeds - 1,
        df_error=df_error,
    )


def is_connected(present: NDArray[np.bool_]) -> bool:
    """Return whether seeds and groups form one block, so that the additive model has one fit.

    Args:
        present: Whether a seed scored a group, `[G, S]`; no empty column.

    Example:
        >>> is_connected(np.array([[True, False], [True, True]]))
        True
        >>> is_connected(np.array([[True, False], [False, True]]))
        False
    """
    return bool(np.linalg.matrix_rank(_seed_system(present)) >= present.shape[1] - 1)


def fill_missing(values: FloatArray) -> FloatArray:
    """Fill missing cells by Yates' method: the least-squares fit `group + seed` of the additive model.

    Args:
        values: Table `[G, S]` with NaN where missing; every row and column has a value and the cells connect.

    Returns:
        The table without NaN.

    Example:
        >>> table = [[1.0, 2.0], [3.0, float("NaN")]]
        >>> fill_missing(np.array(table)).round(6).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    present = (~missing).astype(float)
    per_group = present.sum(1, keepdims=True)
    present_values = np.where(missing, 0.0, values)
    target = (present_values - present * (present_values.sum(1, keepdims=True) / per_group)).sum(0)
    seed_effect = np.linalg.pinv(_seed_system(~missing), hermitian=True) @ target
    group_effect = (present_values - present * seed_effect).sum(1, keepdims=True) / per_group
    return np.where(missing, group_effect + seed_effect, values)


def _seed_system(present: NDArray[np.bool_]) -> FloatArray:
    """Build the normal equations of the seed effects after sweeping out groups: S x S for any number of groups."""
    p = present.astype(float)
    return np.diag(p.sum(0)) - p.T @ (p / p.sum(1, keepdims=True))
