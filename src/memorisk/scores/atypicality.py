"""How far an image lies from its class and how near to another one, in a frozen feature space.

Paper 000, A.4 and table 7; METHODS section 1, "Distinctiveness, measured". Features are L2-normalised. Two forms:

* pairwise, leaving groups out (ours): mean cosine distance to the *images* of a class that belong to other groups. Its
  expectation does not depend on how many images the class has.
* centroid (the paper's): distance to the mean of a class. With x in its own centroid a rare class looks compact, since
  x is a large part of the mean; with x left out it looks spread, since the mean of few images is noisy. Either way
  rarity leaks into the score (tests/scores/test_atypicality.py shows both).

What is left in the pairwise ratio: the minimum over the other classes falls a little with their noise. In simulations
with classes of 5 to 160 images, the ratio's trend with size is a tenth of the centroid form's, and intra has no trend.

Arrays in, a frozen dataclass out; nothing is modelled or drawn.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]

NO_OTHER_GROUP = "its class has no image of another group"
NO_OTHER_CLASS = "no other class has an image of another group"
_LISTED = 5


@dataclass(frozen=True)
class Atypicality:
    """Cosine distances of each image to its own and to the nearest other class."""

    intra: FloatArray
    """`[N]` distance to the own class, in [0, 2]; NaN where it is undefined."""
    nearest_other: FloatArray
    """`[N]` smallest distance to another class, in [0, 2]; NaN where it is undefined."""
    ratio: FloatArray
    """`[N]` intra / nearest_other: atypical for its class *and* easily confused; NaN where either is NaN."""
    reason: NDArray[np.object_]
    """`[N]` reason why a value is NaN; empty where none is."""


def normalised_features(features: ArrayLike) -> FloatArray:
    """Scale features to unit length, `f / |f|`, in float64.

    Args:
        features: `[N, d]` features of the images, d at least 2.

    Raises:
        InputError: Not a table; rows that hold NaN or infinities, rows of length 0, rows of one repeated value, or
            the same row for every image. Row numbers count from 0.

    Example:
        >>> normalised_features([[3.0, 4.0], [0.0, 2.0]]).round(2).tolist()
        [[0.6, 0.8], [0.0, 1.0]]
    """
    try:
        f = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("features must be numbers, one row per image: leave out columns of text") from None
    if f.ndim != 2 or f.shape[1] < 2 or not len(f):
        raise InputError(f"features have the shape {f.shape}; needed is one row per image with at least 2 values")
    _refuse(~np.isfinite(np.abs(f).max(axis=1)), "hold NaN or infinities", "compute them anew")
    _refuse(
        np.abs(f).max(axis=1) == 0, "are all zero, so that no cosine exists", "use a layer that is not switched off"
    )
    _refuse(np.ptp(f, axis=1) == 0, "hold one value over and over", "use features that tell images apart")
    if len(f) > 1 and (f == f[0]).all():
        raise InputError("features are the same in every row: use features that tell images apart")
    scaled = f / np.abs(f).max(axis=1, keepdims=True)  # squares of tiny or huge values stay representable
    return scaled / np.linalg.norm(scaled, axis=1, keepdims=True)


def pairwise_atypicality(features: ArrayLike, label: ArrayLike, group: ArrayLike) -> Atypicality:
    """Compute distances to the images of each class that belong to other groups (pairwise, leave-group-out).

    `distance(x, c) = 1 - mean over y in class c with group(y) != group(x) of f(x) . f(y)`;
    `intra(x) = distance(x, class of x)`, `nearest_other(x) = min over c != class of x of distance(x, c)`.
    The cost is O(N d (C + classes of a group)): the sums of x's own group are subtracted from the class sums.

    Args:
        features: `[N, d]` features of the images; their length does not matter.
        label: `[N]` class of each row.
        group: `[N]` patient of each row; an image that has several rows (several findings) shares its group.

    Returns:
        The scores; NaN with a reason where a class has no image of another group.

    Raises:
        InputError: As `normalised_features`, or lengths differ, or fewer than two classes.

    Example:
        >>> features = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]
        >>> scores = pairwise_atypicality(features, ["a", "a", "b", "b"], ["p", "q", "r", "s"])
        >>> scores.intra.round(3).tolist()
        [0.005, 0.005, 0.005, 0.005]
    """
    f, classes, labels = _checked(features, label)
    _, groups = np.unique(_column("group", group, len(f)), return_inverse=True)
    n_classes = len(classes)
    sums = _sums(f, labels, n_classes)  # [C, d]
    dots = f @ sums.T  # [N, C]
    counts = np.tile(np.bincount(labels, minlength=n_classes), (len(f), 1))
    pair, pair_of_row = np.unique(groups * n_classes + labels, return_inverse=True)
    own_sums = _sums(f, pair_of_row, len(pair))  # [group x class, d]
    own_counts = np.bincount(pair_of_row)
    for c in range(n_classes):  # the rows whose group has images of class c, and that group's part of the class
        at = np.searchsorted(pair, groups * n_classes + c)
        rows = np.flatnonzero((at < len(pair)) & (pair[np.minimum(at, len(pair) - 1)] == groups * n_classes + c))
        dots[rows, c] -= np.einsum("nd,nd->n", f[rows], own_sums[at[rows]])
        counts[rows, c] -= own_counts[at[rows]]
    cosine = np.full(dots.shape, np.nan)
    np.divide(dots, counts, out=cosine, where=counts > 0)
    return _atypicality(np.clip(1 - cosine, 0.0, 2.0), labels)


def centroid_atypicality(features: ArrayLike, label: ArrayLike, *, leave_out: bool = False) -> Atypicality:
    """Compute the paper's form: `1 - cos(f(x), mu_c)`, the minimum over the other classes, and the ratio of the two.

    mu_c is the mean of the class's normalised features; groups do not matter.

    Args:
        features: `[N, d]` features of the images; their length does not matter.
        label: `[N]` class of each row.
        leave_out: Whether x is left out of its own class's centroid. For comparison: rarity then leaks the other way.

    Returns:
        The scores; with ``leave_out`` NaN with a reason for the only image of a class.

    Raises:
        InputError: As `normalised_features`, or lengths differ, or fewer than two classes.

    Example:
        >>> features = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]]
        >>> scores = centroid_atypicality(features, ["a", "a", "b", "b"])
        >>> scores.intra.round(3).tolist()
        [0.051, 0.051, 0.051, 0.051]
    """
    f, classes, labels = _checked(features, label)
    sums = _sums(f, labels, len(classes))
    cosine = f @ _unit(sums).T  # [N, C]; the mean and the sum have one direction
    if leave_out:
        cosine[np.arange(len(f)), labels] = np.einsum("nd,nd->n", f, _unit(sums[labels] - f))
        only = np.flatnonzero(np.bincount(labels)[labels] == 1)
        cosine[only, labels[only]] = np.nan
    return _atypicality(np.clip(1 - cosine, 0.0, 2.0), labels)


def _atypicality(distance: FloatArray, labels: NDArray[np.intp]) -> Atypicality:
    """Find own class, nearest other class and their ratio from distances `[N, C]`, NaN where a class has no image."""
    rows = np.arange(len(labels))
    intra = distance[rows, labels]
    others = np.where(np.isnan(distance), np.inf, distance)
    others[rows, labels] = np.inf
    nearest = others.min(axis=1)
    nearest[np.isinf(nearest)] = np.nan
    ratio = np.divide(intra, nearest, out=np.full(len(labels), np.nan), where=nearest > 0)
    reason = np.full(len(labels), "", dtype=object)
    reason[nearest == 0] = "it coincides with another class"
    reason[np.isnan(nearest)] = NO_OTHER_CLASS
    reason[np.isnan(intra)] = NO_OTHER_GROUP
    return Atypicality(intra, nearest, ratio, reason)


def _checked(features: ArrayLike, label: ArrayLike) -> tuple[FloatArray, NDArray, NDArray[np.intp]]:
    f = normalised_features(features)
    classes, labels = np.unique(_column("label", label, len(f)), return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"all {len(f)} images are of one class: the nearest other class needs a second one")
    return f, classes, labels


def _column(name: str, values: ArrayLike, n: int) -> NDArray:
    column = np.asarray(values)
    if column.shape != (n,):
        raise InputError(f"{name} has the shape {column.shape}; needed is one for each of the {n} feature rows")
    return column.astype(str) if column.dtype == object else column


def _sums(f: FloatArray, index: NDArray[np.intp], n: int) -> FloatArray:
    """Sum the rows of each index to `[n, d]`: the rows are sorted, then added block by block."""
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(n))
    return np.add.reduceat(f[order], starts, axis=0)


def _unit(vectors: FloatArray) -> FloatArray:
    """Scale rows to length 1; rows that cancelled out have no direction and become NaN."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, length, out=np.full(vectors.shape, np.nan), where=length > 1e-12)


def _refuse(bad: NDArray[np.bool_], what: str, cure: str) -> None:
    if bad.any():
        rows = np.flatnonzero(bad)
        listed = ", ".join(map(str, rows[:_LISTED])) + (", ..." if len(rows) > _LISTED else "")
        raise InputError(f"{len(rows)} feature rows {what} (rows {listed}, counted from 0): {cure}")
