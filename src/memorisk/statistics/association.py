"""Association of a score of images with their memorization, over all images and within classes.

Spearman's rho of the score and M, raw and after subtracting class means from both (paper 000, A.4 and table 7;
METHODS section 1, "Distinctiveness, measured"). Between classes a rare class may have high values of both for
reasons of its own; the residualised rho is the one that is about images.

Our part: the interval is a delete-one-group jackknife on Fisher's z, and the p-value of the residualised rho comes from
exchanging M between groups of the same make-up (`randomization.group_permutations.group_permutation`), where the paper
counts images. The raw rho has an interval for these classes, and we give it no p-value: what varies between classes has
the class as its unit, and there are too few of them. M is taken as measured; its noise over trainings shrinks both rhos
towards 0.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, jackknife, unavailable
from memorisk.statistics.placements import deletion_blocks
from memorisk.statistics.randomization.group_permutations import group_permutation

FloatArray = NDArray[np.float64]
_Columns = tuple[FloatArray, FloatArray, NDArray[np.intp], NDArray[np.intp]]

PAPER_FLOOR = 1e-10
"""Smallest p-value that the paper prints (A.11)."""


@dataclass(frozen=True)
class Association:
    """Association of one score with M."""

    raw: JackknifeInterval
    """Spearman's rho over all images, interval over groups."""
    residual: JackknifeInterval
    """Spearman's rho after subtracting class means from both, interval over groups."""
    p: float
    """Two-sided p-value of the residualised rho; null: within a class, M does not depend on the score."""
    smallest_p: float
    """Smallest value that p could have taken."""
    p_paper_raw: float
    """p-value of the raw rho in the paper's column: images counted as independent, floored at 1e-10."""
    p_paper_residual: float
    """p-value of the residualised rho as the paper computes it."""
    n: int
    """Number of images with a score and with M."""
    n_groups: int
    """Number of independent units: groups of these images."""
    n_movable: int
    """Number of groups that the permutations could exchange with another."""


def residualise(values: ArrayLike, label: ArrayLike) -> FloatArray:
    """Subtract the mean of their class from values, `v - mean(v | class)`.

    Args:
        values: Values of the images, `[..., n]`.
        label: Class of each column, `[n]`.

    Raises:
        InputError: Lengths differ, or a value is not finite.

    Example:
        >>> residualise([1.0, 3.0, 5.0], ["a", "a", "b"]).tolist()
        [-1.0, 1.0, 0.0]
    """
    v = np.asarray(values, dtype=np.float64)
    index = np.unique(np.asarray(label), return_inverse=True)[1]
    if v.ndim < 1 or v.shape[-1:] != index.shape:
        raise InputError(f"values have the shape {v.shape} and labels {index.shape}; give one label per value")
    if not np.isfinite(v).all():
        raise InputError("values to residualise must be finite: leave out images without a score first")
    return _centre(v, index)


def associate(
    scores: ArrayLike,
    m: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    *,
    draws: int = 9999,
    seed: int = 0,
    max_groups: int = 100,
    n_seeds: int = 1,
    level: float = 0.95,
) -> list[Association]:
    """Compute Spearman's rho of each score with M, raw and within-class residualised.

    `rho = corr(R(s), R(m))` with average ranks; residualised: `s - mean(s | class)` against `m - mean(m | class)`.
    `p = (1 + #{|rho of a permuted m| >= |rho|}) / (draws + 1)`, m exchanged between groups with equally many images of
    each class. Above ``max_groups`` groups the jackknife deletes that many random blocks of whole groups.

    Args:
        scores: Scores of the images, `[K, n]`, or `[n]` for one; an image where any is NaN is left out of all, so that
            they
            compare.
        m: Memorization of each image, `[n]`; NaN where it was not measured.
        label: Class of each image, `[n]`.
        group: Group (patient) of each image, `[n]`.
        draws: Number of random permutations, in addition to the identity.
        seed: Seed of the permutations and blocks.
        max_groups: Largest number of deletions.
        n_seeds: Number of seeds that m averages, for the record.
        level: Confidence level of the intervals.

    Returns:
        One association per score.

    Raises:
        InputError: Shapes differ, or draws is below 1.
    """
    if draws < 1:
        raise InputError(f"draws is {draws}; at least one permutation is needed")
    x, y, classes, groups = _checked(scores, m, label, group)
    n_groups = int(groups.max(initial=-1)) + 1
    if n_groups < 3:
        return [_nothing(len(y), n_groups) for _ in x]
    raw, residual = _rhos(x, y, classes)
    block = deletion_blocks(groups, n_groups, max_groups, seed)
    deleted = np.array([_rhos(x[:, block != b], y[block != b], classes[block != b]) for b in np.unique(block)])
    p, smallest, n_movable = _permutation_p(x, y, classes, groups, residual, draws, seed)
    return [
        Association(
            raw=_interval(raw[k], deleted[:, 0, k], n_groups, n_seeds, level),
            residual=_interval(residual[k], deleted[:, 1, k], n_groups, n_seeds, level),
            p=float(p[k]),
            smallest_p=smallest,
            p_paper_raw=paper_p(raw[k], len(y)),
            p_paper_residual=paper_p(residual[k], len(y)),
            n=len(y),
            n_groups=n_groups,
            n_movable=n_movable,
        )
        for k in range(len(x))
    ]


def _checked(scores: ArrayLike, m: ArrayLike, label: ArrayLike, group: ArrayLike) -> _Columns:
    """Return the images with every score and with M; classes and groups become numbers from 0."""
    x = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    y, labels, groups = np.asarray(m, dtype=np.float64), np.asarray(label), np.asarray(group)
    if x.ndim != 2 or not (x.shape[1:] == y.shape == labels.shape == groups.shape):
        raise InputError(
            f"scores, m, label and group have shapes {x.shape}, {y.shape}, {labels.shape}, {groups.shape}; "
            "give one value of each per image"
        )
    used = np.isfinite(x).all(axis=0) & np.isfinite(y)
    classes = np.unique(labels[used], return_inverse=True)[1]
    return x[:, used], y[used], classes, np.unique(groups[used], return_inverse=True)[1]


def paper_p(rho: float, n: int) -> float:
    """Compute the paper's p-value of a rank correlation: Student's t on n - 2 images, floored at 1e-10 (A.11).

    `t = rho sqrt((n - 2) / (1 - rho^2))`.

    Args:
        rho: Spearman's rho of the images.
        n: Number of images.

    Example:
        >>> round(paper_p(0.5, 30), 4)
        0.0049
    """
    if np.isnan(rho) or n < 3:
        return float("nan")
    t = abs(rho) * np.sqrt((n - 2) / max(1 - rho**2, np.finfo(float).tiny))
    return max(float(2 * scipy.stats.t.sf(t, n - 2)), PAPER_FLOOR)


def _rhos(x: FloatArray, y: FloatArray, classes: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Compute the raw and the residualised rho of each row of x with y."""
    raw = _ranked(x) @ _ranked(y)
    return raw, _ranked(_centre(x, classes)) @ _ranked(_centre(y, classes))


def _centre(values: FloatArray, index: NDArray[np.intp]) -> FloatArray:
    """Subtract class means from values `[..., n]`. What rounding leaves of a constant is 0, lest its ranks be noise."""
    flat = values.reshape(-1, values.shape[-1])
    counts = np.maximum(np.bincount(index), 1)
    means = np.stack([np.bincount(index, weights=row) / counts for row in flat]) if len(flat) else flat
    centred = flat - means[:, index]
    centred[np.abs(centred) <= 1e-12 * np.abs(flat).max(axis=1, initial=0.0, keepdims=True)] = 0.0
    return centred.reshape(values.shape)


def _ranked(values: FloatArray) -> FloatArray:
    """Compute average ranks `[..., n]` with mean 0 and length 1; NaN where all are equal."""
    ranks = scipy.stats.rankdata(values, axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    return np.divide(centred, length, out=np.full(centred.shape, np.nan), where=length > 0)


def _permutation_p(
    x: FloatArray,
    y: FloatArray,
    classes: NDArray[np.intp],
    groups: NDArray[np.intp],
    observed: FloatArray,
    draws: int,
    seed: int,
) -> tuple[FloatArray, float, int]:
    """Compute the p-value of each score; class means are those of any permutation, so that ranks are taken once."""
    scores, target = _ranked(_centre(x, classes)), _ranked(_centre(y, classes))
    permutation = group_permutation(classes, groups)
    rng = np.random.default_rng(seed)
    slack = 1e-12  # equal permutations may differ in the last bits of their sums; they must still count as equal
    extreme = np.ones(len(x))
    for _ in range(draws):
        extreme += np.abs(scores @ target[permutation.draw(rng)]) >= np.abs(observed) - slack
    p = np.where(np.isnan(observed), np.nan, extreme / (draws + 1))
    return p, permutation.smallest_p(draws), permutation.n_movable


def _interval(estimate: float, deleted: FloatArray, n_groups: int, n_seeds: int, level: float) -> JackknifeInterval:
    if np.isnan(estimate):
        return unavailable("the score or M is constant", n_groups, n_seeds)
    if np.isnan(deleted).any():
        return unavailable("one group carries all that varies", n_groups, n_seeds)
    interval = jackknife(estimate, deleted, np.zeros(len(deleted), dtype=np.intp), scale="fisher", level=level)
    return JackknifeInterval(
        interval.estimate, interval.low, interval.high, interval.df, n_groups, n_seeds, interval.method
    )


def _nothing(n: int, n_groups: int) -> Association:
    nan = float("nan")
    gone = unavailable("fewer than three groups have both a score and M", n_groups)
    return Association(gone, gone, nan, nan, nan, nan, n, n_groups, 0)
