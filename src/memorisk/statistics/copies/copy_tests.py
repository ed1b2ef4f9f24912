"""Published tests of copying from distances: Wasserstein-1, the C_T test, authenticity.

These published statistics of distances accompany METHODS section 5's. Each compares
synthetic with real images, and so mixes "copies" with "a narrower spread than the data": a generator that memorized
nothing and is a little concentrated is called copying by C_T and by authenticity
(``docs/results/synthetic_null.md``), and Wasserstein-1 has no direction. Reports show them with the reversed queries
because they are published, not as evidence.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import check_distances, group_values
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson

FloatArray = NDArray[np.float64]
MIN_PER_CELL = 20
"""Number of synthetic images that a cell needs for the normal approximation to the rank sum."""
BLOCK = 2**22


@dataclass(frozen=True)
class WassersteinTest:
    """Wasserstein-1 between two pools of distances, with its permutation p over groups."""

    distance: float
    """Distance ``integral |F(t) - G(t)| dt``, in the unit of the distances; images weigh alike."""
    p_value: float
    """Share of the assignments of groups to sides that reach it, the observed one counted."""
    n_first: int
    """Number of groups of the first pool."""
    n_second: int
    """Number of groups of the second pool."""
    draws: int
    """Number of random assignments."""


@dataclass(frozen=True)
class DataCopying:
    """Data-copying test of Meehan and others."""

    c_t: float
    """Mean of the cells' z, weighted by their share of test images; well below 0: nearer than test images. NaN where
    no cell has images enough."""
    p_value: float
    """p-value ``Phi(z)`` in the one-cell form; NaN with several cells, whose weighted mean is not standard normal."""
    z: FloatArray
    """Mann-Whitney z of each cell, [k]; NaN where a side has no image."""
    n_synthetic: NDArray[np.int64]
    """Number of synthetic images of each cell, [k]."""
    n_test: NDArray[np.int64]
    """Number of test images of each cell, [k]."""
    used: NDArray[np.bool_]
    """Whether each cell has enough synthetic images and a test image, [k]."""


@dataclass(frozen=True)
class Authenticity:
    """Share of synthetic images that are not nearer to their training image than its own nearest neighbour is."""

    share: Proportion
    """Share of the synthetic images; the interval is of the generator's further images, given this training set."""
    of_new: Proportion
    """Share of held-out patients, one image each: what a set without any copy would show; no trials without."""


def wasserstein(
    first: ArrayLike,
    second: ArrayLike,
    first_group: ArrayLike | None = None,
    second_group: ArrayLike | None = None,
    *,
    draws: int = 999,
    seed: int = 0,
) -> WassersteinTest:
    """Compute Wasserstein-1 of two pools of distances; p by exchanging whole groups between the pools.

    The null is "groups of both pools are alike", exact where they are. Synthetic images, each a group of its own, are
    not exchangeable with patients of several images: give one image per patient there (`calibration.one_per_group`).

    Args:
        first: Distances of the first pool, [N].
        second: Distances of the second pool, [M].
        first_group: Group of each distance of the first pool, [N]; None: each image its own. No group is on both sides.
        second_group: Group of each distance of the second pool, [M].
        draws: Number of random assignments.
        seed: Seed of the random assignments.

    Raises:
        InputError: Lengths differ, a distance is not finite, or a group is on both sides.

    Source:
        Paper 003, figure 3 (distributions); METHODS section 3, "Generators characterised".

    Example:
        >>> test = wasserstein([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
        >>> round(test.distance, 3)
        1.0
    """
    a, b = check_distances(first), check_distances(second)
    has_groups = first_group is not None and second_group is not None
    ours = np.arange(len(a)) if first_group is None else np.asarray(first_group)
    theirs = np.arange(len(b)) if second_group is None else np.asarray(second_group)
    if ours.shape != a.shape or theirs.shape != b.shape or (has_groups and len(np.intersect1d(ours, theirs))):
        raise InputError("give one group per distance, and no group on both sides")
    one, other = np.unique(ours, return_inverse=True)[1], np.unique(theirs, return_inverse=True)[1]
    n_one, n_other = int(one.max()) + 1, int(other.max()) + 1
    order = np.argsort(np.concatenate([a, b]), kind="stable")
    gaps = np.diff(np.concatenate([a, b])[order])
    group = np.concatenate([one, other + n_one])[order]
    rng = np.random.default_rng(seed)
    observed = float(_gap_areas((np.arange(n_one + n_other) < n_one)[None], group, gaps)[0])
    extreme, done, step = 0, 0, max(1, BLOCK // len(order))
    while done < draws:
        k = min(step, draws - done)
        sides = rng.permuted(np.tile(np.arange(n_one + n_other) < n_one, (k, 1)), axis=1)
        extreme += int((_gap_areas(sides, group, gaps) >= observed * (1 - 1e-12)).sum())
        done += k
    p = (1 + extreme) / (1 + draws)
    return WassersteinTest(float(scipy.stats.wasserstein_distance(a, b)), p, n_one, n_other, draws)


def _gap_areas(sides: NDArray[np.bool_], group: NDArray[np.intp], gaps: FloatArray) -> FloatArray:
    """Compute ``sum |F - G| gap`` for each assignment of groups `[k, groups]`, [k]; images are in sorted order."""
    chosen = sides[:, group]
    n = chosen.sum(1, keepdims=True)
    below = np.cumsum(chosen, axis=1)[:, :-1]
    rank = np.arange(1, len(group))
    return (np.abs(below / n - (rank - below) / (len(group) - n)) * gaps).sum(1)


def copying_z(synthetic: ArrayLike, test: ArrayLike) -> float:
    """Compute Z_U of one cell: the Mann-Whitney z of the synthetic images' distances among the test images'.

    ``U = #{(s, t): L(s) > L(t)} + #{ties} / 2``, ``Z_U = (U - m n / 2) / sqrt(m n (m + n + 1) / 12)``, m synthetic and
    n test images. The published code adds a continuity correction of 1/2 to U; the formula of the paper does not.

    Args:
        synthetic: Distances of the synthetic images to the nearest training image (of the cell), [m].
        test: Distances of the test images to the nearest training image (of the cell), [n].

    Raises:
        InputError: A side is empty or a distance is not finite.

    Source:
        Meehan, Chaudhuri and Dasgupta (2020), section 3.
    """
    ours, theirs = check_distances(synthetic), check_distances(test)
    m, n = len(ours), len(theirs)
    u = scipy.stats.rankdata(np.concatenate([ours, theirs]))[:m].sum() - m * (m + 1) / 2
    return float((u - m * n / 2) / math.sqrt(m * n * (m + n + 1) / 12))


def data_copying(
    synthetic: ArrayLike,
    test: ArrayLike,
    synthetic_cell: ArrayLike | None = None,
    test_cell: ArrayLike | None = None,
    *,
    least: int = MIN_PER_CELL,
) -> DataCopying:
    """Compute the C_T statistic: ``sum over used cells of P_n(c) Z_U(c) / sum over used cells of P_n(c)``.

    ``P_n(c)`` is the share of test images in cell c; used are cells with at least ``least`` synthetic images (the
    published threshold tau on their share, times m). Without cells it is the one-cell form, Z_U.

    Assumes images to be independent (one image per patient), test images drawn as training images were, and that a
    generator without copies has the test images' distances to the training set: it fails for concentrated generators.

    Args:
        synthetic: Distance of each synthetic image to its nearest training image *of its cell*, [m].
        test: Distance of each test image to its nearest training image of its cell, [n].
        synthetic_cell: Cell of each synthetic image in a partition fitted on training images, [m]; None: one cell.
        test_cell: Cell of each test image, [n].
        least: Number of synthetic images that a cell needs.

    Raises:
        InputError: Lengths differ, one side only has cells, or a distance is not finite.

    Source:
        Meehan, Chaudhuri and Dasgupta (2020), "A non-parametric test to detect data-copying in generative models".
    """
    ours, theirs = check_distances(synthetic), check_distances(test)
    if (synthetic_cell is None) != (test_cell is None):
        raise InputError("give the cells of both sides, or of neither")
    cells = np.zeros(len(ours)) if synthetic_cell is None else np.asarray(synthetic_cell)
    test_cells = np.zeros(len(theirs)) if test_cell is None else np.asarray(test_cell)
    if cells.shape != ours.shape or test_cells.shape != theirs.shape:
        raise InputError("give one cell per image")
    ids = np.unique(np.concatenate([cells, test_cells]))
    m, n = (cells == ids[:, None]).sum(1), (test_cells == ids[:, None]).sum(1)
    z = np.full(len(ids), np.nan)
    for i in np.flatnonzero((m > 0) & (n > 0)):
        z[i] = copying_z(ours[cells == ids[i]], theirs[test_cells == ids[i]])
    used = (m >= least) & (n > 0)
    c_t = float(z[used] @ n[used] / n[used].sum()) if used.any() else math.nan
    return DataCopying(
        c_t=c_t,
        p_value=float(scipy.stats.norm.cdf(c_t)) if len(ids) == 1 else math.nan,
        z=z,
        n_synthetic=m,
        n_test=n,
        used=used,
    )


def authenticity(
    distance: ArrayLike,
    nearest: ArrayLike,
    train_distance: ArrayLike,
    held_distance: ArrayLike | None = None,
    held_nearest: ArrayLike | None = None,
    held_group: ArrayLike | None = None,
) -> Authenticity:
    """Compute the share of synthetic images s with ``d(s, r) > d(r, r')``.

    Here r is the nearest training image to s, and r' the nearest other to r.

    Assumes nothing as a description; "copied" where the inequality fails takes generator and data to be equally dense
    around r, which spread alone breaks. The published code indexes the training images by the synthetic image nearest
    to each, and so compares another pair of distances; this is the definition of the text.

    Args:
        distance: Distance of each synthetic image to its nearest training image, [S].
        nearest: Index of that training image, [S].
        train_distance: Distance of each training image to its nearest other training image, [N] (of another patient,
            where
            patients have several).
        held_distance: Distance of each held-out image to its nearest training image, [M], for comparison.
        held_nearest: Index of that training image, [M].
        held_group: Patient of each held-out image, [M]; each counts as authentic if all its images are; None: each its
            own.

    Raises:
        InputError: Lengths differ, an index out of range, or a distance that is not finite.

    Source:
        Alaa, van Breugel, Saveliev and van der Schaar (2022), "How faithful is your synthetic data?", section 3.

    Example:
        >>> authenticity([0.1, 0.5], [0, 1], [0.3, 0.3]).share.estimate
        0.5
    """
    own = check_distances(train_distance)
    apart = _authentic(distance, nearest, own)
    of_new = clopper_pearson(0, 0)
    if held_distance is not None:
        if held_nearest is None:
            raise InputError("held-out distances need the index of the nearest training image, too")
        new = group_values(_authentic(held_distance, held_nearest, own).astype(np.float64), held_group)
        of_new = clopper_pearson(int(new.sum()), len(new))
    return Authenticity(clopper_pearson(int(apart.sum()), len(apart)), of_new)


def _authentic(distance: ArrayLike, nearest: ArrayLike, own: FloatArray) -> NDArray[np.bool_]:
    """Return whether each image is farther from its nearest training image than that one from its nearest other."""
    values, index = check_distances(distance), np.asarray(nearest)
    if index.shape != values.shape or index.min() < 0 or index.max() >= len(own):
        raise InputError(f"{values.shape} distances need the index, from 0 to {len(own) - 1}, of a training image each")
    return values > own[index]
