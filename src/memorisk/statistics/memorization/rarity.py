"""Are rare classes memorized more? One cell, an architecture on a data set (paper 000, sections 4 and A.11, table 1).

The paper's column is the Spearman correlation over images of class frequency and M, mean and s.d. over seeds, with a
parametric p that is printed as at most 1e-10. Its units are images, of which a class has thousands; the program adds
the correlation over classes and, for both, the p of permuting the frequencies over the classes of the data set
(METHODS section 1, "Rarity").

Simulated on the seven classes of HAM10000 (18 to 1,006 canaries; normal, exponential and noisy exponential M; class
effects of 0 to 0.8), both hold their level: 3 to 6 % at 5 % over images, 3 to 7 % over classes, where the parametric p
over images (independent normal M) rejects 38, 75 and 88 % of audits in which classes differ by effects of 0.1, 0.3
and 0.8 that have nothing to do with frequency.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, jackknife, jackknife_variance, unavailable
from memorisk.statistics.randomization.class_permutations import PermutationTest, no_test, within_classes
from memorisk.statistics.rank_correlation import spearman

FloatArray = NDArray[np.float64]

P_PRINTED = 1e-10
"""The paper prints no parametric p below this (A.11)."""
MIN_CLASSES = 5
"""Classes from which the jackknife over classes covers: 0.96 to 1.00 at 5 to 30 classes and rho of 0 to -0.95."""
MIN_GROUPS = 10
"""Groups from which an image-level interval is given."""


@dataclass(frozen=True)
class ImageRarity:
    """Spearman's rho of class frequency and M, every image a point."""

    rho: FloatArray
    """Spearman's rho of each seed, [S]."""
    mean: float
    """Mean over seeds: the paper's table 1."""
    sd: float
    """Standard deviation over seeds (S - 1); NaN with one."""
    of_mean: float
    """rho of the frequency and the seed-averaged M."""
    p_printed: float
    """Parametric p of ``of_mean``, not below 1e-10: the paper's. Its units are images; nothing follows from it."""
    interval: JackknifeInterval
    """Interval of ``mean``, over groups and seeds, *these classes as they are*: it says nothing of other classes."""
    permutation: PermutationTest
    """Test of ``mean``, frequencies permuted over classes: the answer."""
    n_images: int
    """Number of images with an M in some seed."""
    n_classes: int
    """Number of classes: the independent units of the permutation test."""


@dataclass(frozen=True)
class ClassRarity:
    """Spearman's rho of class frequency and mean M, every class a point."""

    rho: float
    """Spearman's rho; NaN below two classes or where all are equal."""
    interval: JackknifeInterval
    """Delete-one-class jackknife on Fisher's scale; not measurable below five classes."""
    permutation: PermutationTest
    """Test with frequencies permuted over classes."""
    n_classes: int
    """Number of classes: the independent units."""


def class_rarity(frequency: ArrayLike, mean_m: ArrayLike, *, draws: int = 9999, seed: int = 0) -> ClassRarity:
    """Spearman's rho of class frequency and class mean of M, with its permutation p and interval over classes.

    Args:
        frequency: Share of the data set's images of each class, [C].
        mean_m: Class means of M, [C].
        draws: Number of random permutations where there are too many to visit all (from 9 different frequencies).
        seed: Seed of the random permutations.

    Returns:
        rho (negative: rare classes are memorized more), interval, test. With 7 classes of different frequencies the
        smallest two-sided p is 2/7! = 0.0004.

    Raises:
        InputError: Lengths differ, or a NaN.

    Source:
        Paper 000, A.11 ("class-level mean-M Spearman"); METHODS section 1, "Rarity".
    """
    f, m = np.asarray(frequency, dtype=np.float64), np.asarray(mean_m, dtype=np.float64)
    if f.ndim != 1 or f.shape != m.shape or not (np.isfinite(f).all() and np.isfinite(m).all()):
        raise InputError("give one finite frequency and one finite mean of M per class: leave unscored classes out")
    n = len(f)
    rho = spearman(f, m) if n > 1 else float("nan")
    if np.isnan(rho):
        return ClassRarity(rho, unavailable("needs classes of different frequency and mean", n), no_test(), n)
    ranks = scipy.stats.rankdata(m) - (n + 1) / 2

    def statistic(frequencies: FloatArray) -> FloatArray:
        """Spearman's rho of each row of frequencies, [draws, classes], with the means."""
        order = scipy.stats.rankdata(frequencies, axis=1) - (n + 1) / 2
        return order @ ranks / np.sqrt((ranks @ ranks) * np.square(order).sum(axis=1))

    return ClassRarity(rho, _over_classes(rho, f, m), within_classes(statistic, f, draws, seed), n)


def _over_classes(rho: float, f: FloatArray, m: FloatArray) -> JackknifeInterval:
    n = len(f)
    if n < MIN_CLASSES:
        return unavailable(f"an interval over classes needs at least {MIN_CLASSES} of them", n)
    deleted = [spearman(np.delete(f, c), np.delete(m, c)) for c in range(n)]
    if np.isnan(deleted).any():
        return unavailable("one class carries all differences of frequency or of M", n)
    return jackknife(rho, deleted, np.zeros(n, dtype=np.intp), scale="fisher")


def image_rarity(
    frequency: ArrayLike,
    m: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    *,
    draws: int = 9999,
    seed: int = 0,
    max_groups: int = 100,
    level: float = 0.95,
) -> ImageRarity:
    """Compute Spearman's rho of class frequency and M over images, per seed: the paper's column, and ours.

    Permutation: a class's images take another class's frequency together; the statistic is the mean over seeds of rho,
    computed from class sums of ranks, ``rho_s = sum_c n_cs a_c b_cs / sqrt(sum_c n_cs a_c^2 sum_i (R_i - mean)^2)``
    with a_c the centred average rank of the class's frequency and b_cs its mean centred rank of M.

    Interval: variance of a delete-one-group jackknife (blocks of whole groups above ``max_groups``) plus s.d.^2 / S
    over seeds, on Fisher's scale, t with Satterthwaite's degrees of freedom.

    Args:
        frequency: Frequency of each image's class, [N].
        m: M of each seed, [S, N], NaN where the seed did not score the image.
        label: Class of each image, [N].
        group: Patient of each image, [N].
        draws: Number of random permutations where not all are visited.
        seed: Seed of the random permutations and of the blocks.
        max_groups: Largest number of deletions.
        level: Coverage of the interval.

    Returns:
        The paper's numbers and ours; seeds in which rho is undefined are NaN and left out of the mean.

    Raises:
        InputError: Shapes do not fit, infinite values, an image without M, or a class with two frequencies.

    Source:
        Paper 000, table 1 and A.11.
    """
    f, table, index, of_class, groups = _checked(frequency, m, label, group)
    rho = rho_per_seed(f, table)
    finite_rho = rho[~np.isnan(rho)]
    mean = float(finite_rho.mean()) if len(finite_rho) else float("nan")
    of_mean = spearman(f, np.nanmean(table, axis=0)) if len(f) > 1 else float("nan")

    def statistic(frequencies: FloatArray) -> FloatArray:
        """The mean rho over seeds of each row of frequencies, [draws, classes]."""
        return permuted_image_rho(frequencies, table, index)

    return ImageRarity(
        rho=rho,
        mean=mean,
        sd=float(finite_rho.std(ddof=1)) if len(finite_rho) > 1 else float("nan"),
        of_mean=of_mean,
        p_printed=_parametric(of_mean, len(f)),
        interval=_over_groups(f, table, groups, finite_rho, max_groups, seed, level),
        permutation=within_classes(statistic, of_class, draws, seed) if len(finite_rho) else no_test(),
        n_images=len(f),
        n_classes=len(of_class),
    )


def permuted_image_rho(frequencies: FloatArray, m: FloatArray, index: NDArray[np.intp]) -> FloatArray:
    """Mean over seeds of the image-level rho, for many assignments of frequencies to classes at once.

    Args:
        frequencies: [P, C], a row per assignment.
        m: [S, N], NaN where not scored.
        index: [N] class of each image, 0..C-1.

    Returns:
        [P]; seeds in which M is constant are left out.
    """
    n_classes = frequencies.shape[1]
    below = frequencies[:, None, :] < frequencies[:, :, None]  # [P, C, C] class d is rarer than class c
    equal = frequencies[:, None, :] == frequencies[:, :, None]
    total, used = np.zeros(len(frequencies)), 0
    for row in m:
        finite = np.isfinite(row)
        size = np.bincount(index[finite], minlength=n_classes).astype(np.float64)
        ranks = scipy.stats.rankdata(row[finite]) - (finite.sum() + 1) / 2 if finite.any() else np.empty(0)
        spread = ranks @ ranks
        # Rank of a class's images: all rarer ones come before, its own and equally rare ones share their places.
        place = below @ size + (equal @ size + 1) / 2 - (size.sum() + 1) / 2
        own = np.square(place) @ size
        if spread <= 0 or not (own > 0).all():
            continue
        total += place @ np.bincount(index[finite], weights=ranks, minlength=n_classes) / np.sqrt(own * spread)
        used += 1
    return total / used if used else np.full(len(frequencies), np.nan)


def rho_per_seed(frequency: FloatArray, m: FloatArray) -> FloatArray:
    """Image-level rho of each seed over the images that it scored, [S]; NaN where it is undefined.

    Args:
        frequency: [N] of each image's class.
        m: [S, N], NaN where not scored.
    """
    finite = np.isfinite(m)
    return np.array(
        [spearman(frequency[t], row[t]) if t.sum() > 1 else np.nan for row, t in zip(m, finite, strict=True)]
    )


def _parametric(rho: float, n: int) -> float:
    """Two-sided p of ``t = rho sqrt((n - 2) / (1 - rho^2))``, as SciPy's, not below 1e-10."""
    if np.isnan(rho) or n < 3:
        return float("nan")
    if abs(rho) >= 1:
        return P_PRINTED
    return max(float(2 * scipy.stats.t.sf(abs(rho) * np.sqrt((n - 2) / (1 - rho**2)), n - 2)), P_PRINTED)


def _over_groups(
    f: FloatArray, m: FloatArray, group: NDArray, known: FloatArray, most: int, seed: int, level: float
) -> JackknifeInterval:
    """Interval of the mean rho over groups and seeds."""
    ids, unit = np.unique(group, return_inverse=True)
    n_groups, n_seeds = len(ids), len(known)
    if n_groups < MIN_GROUPS or n_seeds < 1 or abs(theta := float(known.mean())) >= 1:
        why = f"needs at least {MIN_GROUPS} groups and images of different frequency and M"
        return unavailable(why, n_groups, n_seeds)
    n_blocks = min(most, n_groups)
    block = np.random.default_rng(seed).permutation(np.arange(n_groups) % n_blocks)[unit]
    subsets = [block != b for b in range(n_blocks)]
    deleted: FloatArray = np.array([float(np.nanmean(rho_per_seed(f[k], m[:, k]))) for k in subsets])
    v_groups, df_groups = jackknife_variance(deleted, np.zeros(n_blocks, dtype=np.intp))
    v_seeds = float(known.var(ddof=1)) / n_seeds if n_seeds > 1 else 0.0
    variance = v_groups + v_seeds
    if not variance > 0:
        return unavailable("no variation between groups to measure", n_groups, n_seeds)
    spread = v_groups**2 / df_groups + (v_seeds**2 / (n_seeds - 1) if n_seeds > 1 else 0.0)
    df = variance**2 / spread
    half = float(scipy.stats.t.ppf((1 + level) / 2, df)) * np.sqrt(variance) / (1 - theta**2)
    centre = np.arctanh(theta)
    words = "groups and seeds" if n_seeds > 1 else "groups"
    method = f"jackknife over {words}, t on fisher scale, these classes as they are"
    return JackknifeInterval(
        theta, float(np.tanh(centre - half)), float(np.tanh(centre + half)), df, n_groups, n_seeds, method
    )


def _checked(*columns: ArrayLike) -> tuple[FloatArray, FloatArray, NDArray[np.intp], FloatArray, NDArray]:
    """Frequencies [N], M [S, N], class [N] as numbers, frequencies of the classes [C], groups [N]."""
    frequency, m, label, group = (np.asarray(c) for c in columns)
    f, table = frequency.astype(np.float64), m.astype(np.float64)
    if table.ndim != 2 or not f.size or any(c.shape != table.shape[1:] for c in (f, label, group)):
        raise InputError(f"m must be [seeds, images] and the rest [images]; got {table.shape} and {f.shape}")
    if not np.isfinite(f).all() or np.isinf(table).any() or not np.isfinite(table).any(axis=0).all():
        raise InputError("frequencies and M must be finite, and every image scored in some seed: leave the others out")
    _, first, index = np.unique(label.astype(str), return_index=True, return_inverse=True)
    if not np.array_equal(f[first][index], f):
        raise InputError("a class has two frequencies: give each image the share of its class")
    return f, table, index, f[first], group.astype(str)
