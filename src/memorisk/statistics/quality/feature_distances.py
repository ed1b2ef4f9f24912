"""Distances between two sets of features with intervals: FID, MiFID and KID.

**FID.** Frechet distance between two sets of features, exact in float64, with an interval.

    FID = |mu_1 - mu_2|^2 + tr S_1 + tr S_2 - 2 tr (S_1 S_2)^(1/2)

With ``Z_i`` the centred features over ``sqrt(n_i - 1)``, so that ``S_i = Z_i' Z_i``, the last trace is the nuclear
norm of ``Z_1 Z_2'``: a sum of singular values, with no product of covariances to take roots of and nothing
imaginary to drop, whatever n and d. The set with more rows than columns enters by the triangle of its QR
decomposition.

FID is biased: between two samples of one distribution it is above 0, and falls with n. The interval is about its
expected value at these numbers of images. It is an infinitesimal jackknife: with ``Z_1 Z_2' = U diag(s) V'`` the
derivative of the nuclear norm by the weight of image i is ``n/2 sum_k s_k U_ik^2``, so that the influences of all
images come out of the one decomposition:

    n c_i = 2 (mu_1 - mu_2)'(x_i - mu_1) + n |Z_i|^2 - n sum_k s_k U_ik^2   (less its mean)

The tests compare these with the difference quotient, and the simulation with delete-a-group.

**MiFID.** FID divided by how far the synthetic images lie from their nearest real ones, where that is suspiciously
near.

    s = mean_j min_i (1 - |cos(y_j, x_i)|),   MiFID = FID / s where s < 0.1, FID where not

The threshold comes from the competition that MiFID was made for and belongs to Inception features: in other
features 0.1 means something else, and whether the penalty applies is a choice of the feature space. MiFID is a
figure for a ranking and not a test of copying: a set with one copied patient among thousands has nearly the s of a set
without.

**KID.** The unbiased squared maximum mean discrepancy with the cubic polynomial kernel, of all pairs, with an
interval.

    k(x, y) = (x'y / d + 1)^3
    KID = mean_{i != j} k(x_i, x_j) + mean_{i != j} k(y_i, y_j) - 2 mean_{i, j} k(x_i, y_j)

The published figure averages this over random subsets (100 of 1,000 images); that is an average of the same
quantity with more noise. The deviation over subsets that is printed with it is not an interval: the subsets overlap,
so that it does not shrink with the number of images as it should. `kernel_distance` takes all pairs and leaves out
one unit at a time, exactly; `subset_kernel_distance` is the published form, draw for draw torch-fidelity's.

Unbiased for independent images: about 0 where the two distributions are one, and negative half of the time then.
With several images per patient, pairs of one patient are among the pairs, as in every published KID.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.figures import (
    Codes,
    FloatArray,
    QualityFigure,
    Samples,
    by_unit,
    check_samples,
    deleted_contributions,
    figure_interval,
    unit_sums,
)

THRESHOLD = 0.1
"""Distance s from which MiFID has no penalty."""
FLOOR = 10e-15
"""Number added to s, as it is published: a set of copies divides by this."""
_AT_ONCE = 1 << 23


@dataclass(frozen=True, eq=False)
class Frechet:
    """Frechet distance and the contribution of each image to it."""

    estimate: float
    """FID, not below 0."""
    real: FloatArray
    """Contributions of the real images, [n]; they sum to 0."""
    synthetic: FloatArray
    """Contributions of the synthetic images, [m]; they sum to 0."""


def frechet_distance(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None = None,
    synthetic_group: ArrayLike | None = None,
    *,
    level: float = 0.95,
    intervals: bool = True,
) -> QualityFigure:
    """Compute FID of two sets of features, with an interval over patients and synthetic images.

    Args:
        real: Features of the real images, [n, d], at least two rows.
        synthetic: Features of the synthetic images, [m, d].
        real_group: Patient of each real image, [n]; None: each its own.
        synthetic_group: Patient of each synthetic image, [m]; None: each its own.
        level: Coverage of the interval.
        intervals: Whether to compute the interval; False gives the figure alone, by singular values without their
            vectors.

    Raises:
        InputError: As `check_samples`.

    Source:
        Heusel and others (2017); equal to torch-fidelity's on the same features. Covariances with n - 1.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> distance = frechet_distance(rng.normal(size=(200, 4)), rng.normal(1, 1, size=(100, 4)))
        >>> round(distance.estimate, 2), distance.low < 4 < distance.high
        (3.95, True)
    """
    samples = check_samples(real, synthetic, real_group, synthetic_group, level=level)
    if not intervals:
        return samples.no_interval(_frechet_alone(samples), "none was requested")
    return frechet_figure(samples, frechet(samples))


def frechet_figure(samples: Samples, distance: Frechet) -> QualityFigure:
    """Return the figure of a distance that is already computed."""
    contributions = by_unit(distance.real, samples.real_unit), by_unit(distance.synthetic, samples.synthetic_unit)
    return figure_interval(samples, distance.estimate, *contributions, "log", "infinitesimal jackknife over units")


def frechet(samples: Samples) -> Frechet:
    """Compute FID and the contributions of all images, by one singular value decomposition of at most d x d."""
    difference = samples.real.mean(axis=0) - samples.synthetic.mean(axis=0)
    (z_real, q_real, r_real), (z_synthetic, q_synthetic, r_synthetic) = (
        _root(samples.real), _root(samples.synthetic),
    )  # fmt: skip
    u, s, vt = np.linalg.svd(r_real @ r_synthetic.T, full_matrices=False)
    spread = float(np.square(z_real).sum() + np.square(z_synthetic).sum())
    estimate = max(float(difference @ difference) + spread - 2 * float(s.sum()), 0.0)
    if estimate <= 64 * np.finfo(np.float64).eps * spread:  # equal sets to rounding
        return Frechet(0.0, np.zeros(len(z_real)), np.zeros(len(z_synthetic)))
    return Frechet(
        estimate,
        _influence(z_real, u if q_real is None else q_real @ u, s, difference),
        _influence(z_synthetic, vt.T if q_synthetic is None else q_synthetic @ vt.T, s, -difference),
    )


def _frechet_alone(samples: Samples) -> float:
    """Compute FID without contributions."""
    difference = samples.real.mean(axis=0) - samples.synthetic.mean(axis=0)
    triangles, spread = [], 0.0
    for values in (samples.real, samples.synthetic):
        z = (values - values.mean(axis=0)) / np.sqrt(len(values) - 1)
        spread += float(np.vdot(z, z))
        triangles.append(z if len(z) <= z.shape[1] else np.linalg.qr(z, mode="r"))
    nuclear = float(np.sum(scipy.linalg.svdvals(triangles[0] @ triangles[1].T, overwrite_a=True, check_finite=False)))
    estimate = max(float(difference @ difference) + spread - 2 * nuclear, 0.0)
    return estimate if estimate > 64 * np.finfo(np.float64).eps * spread else 0.0  # equal sets to rounding


def _root(values: FloatArray) -> tuple[FloatArray, FloatArray | None, FloatArray]:
    """Compute Z, and Q and R with Z = Q R; R is Z itself, without a Q, where Z has no more rows than columns."""
    z = (values - values.mean(axis=0)) / np.sqrt(len(values) - 1)
    if len(z) <= z.shape[1]:
        return z, None, z
    q, r = np.linalg.qr(z)
    return z, q, r


def _influence(z: FloatArray, vectors: FloatArray, s: FloatArray, difference: FloatArray) -> FloatArray:
    """Compute the contributions of one side's images, [n]."""
    n = len(z)
    moved = 2 * np.sqrt(n - 1) * (z @ difference) / n + np.square(z).sum(axis=1) - np.square(vectors) @ s
    return moved - moved.mean()


@dataclass(frozen=True)
class MemorizationInformed:
    """MiFID with the distance and the penalty behind it."""

    figure: QualityFigure
    """MiFID with its interval."""
    distance: float
    """Mean distance s of the synthetic images to their nearest real ones."""
    penalised: bool
    """Whether s is below the threshold."""


def mifid_figure(samples: Samples, distance: Frechet, *, threshold: float = THRESHOLD) -> MemorizationInformed:
    """Compute MiFID of synthetic images against training images from their Frechet distance.

    Args:
        samples: Features of both sets, none of them zero.
        distance: Frechet distance of the two.
        threshold: Distance s from which MiFID has no penalty.

    Returns:
        Figure; no interval where s lies so near to the threshold that chance decides on the penalty, or so near to
        0, as that of copies, that chance decides on its size.

    Raises:
        InputError: Rows of zeros, which have no cosine.

    Source:
        Bai and others (2021) and their published scoring: for every *generated* image the nearest real one.
        torchmetrics 1.9 averages over the real images instead: its MiFID with the two sets exchanged is this one.
    """
    near = nearest_cosines(samples)
    s = float(near.first.mean())
    penalised = s < threshold
    estimate = distance.estimate / (s + FLOOR) if penalised and distance.estimate > 1e-8 else distance.estimate
    real, synthetic = by_unit(distance.real, samples.real_unit), by_unit(distance.synthetic, samples.synthetic_unit)
    s_real, s_synthetic = _contributions(samples, near)
    half = _half_width(s_real, s_synthetic, samples.level)
    why = ""
    if abs(s - threshold) <= half:
        why = f"the penalty sets in at a distance of {threshold:g}, and that of {s:.3g} is too near to it"
    elif s <= half:
        why = f"it divides by a distance of {s:.3g}, whose own limits reach 0"
    if why:
        return MemorizationInformed(samples.no_interval(estimate, why), s, penalised)
    if penalised and distance.estimate > 0:
        real = estimate * (real / distance.estimate - s_real / (s + FLOOR))
        synthetic = estimate * (synthetic / distance.estimate - s_synthetic / (s + FLOOR))
    figure = figure_interval(samples, estimate, real, synthetic, "log", "infinitesimal jackknife over units")
    return MemorizationInformed(figure, s, penalised)


@dataclass(frozen=True, eq=False)
class NearestCosines:
    """Distances ``1 - |cos|`` of every synthetic image to the real ones."""

    first: FloatArray
    """Least distance of each synthetic image, [m]."""
    unit: Codes
    """Unit of the real image at that distance, [m]."""
    second: FloatArray
    """Least distance to real images of other units, [m]; inf with a single unit."""


def nearest_cosines(samples: Samples) -> NearestCosines:
    """Find the nearest real image of every synthetic one, and the nearest of another unit; a block of pairs at a time.

    Raises:
        InputError: Rows of zeros.
    """
    x, y, unit = _directions(samples.real, "real"), _directions(samples.synthetic, "synthetic"), samples.real_unit
    m = len(y)
    first, second, whose = np.empty(m), np.full(m, np.inf), np.empty(m, np.int64)
    step = max(1, _AT_ONCE // len(x))
    for start in range(0, m, step):
        some = y[start : start + step]
        rows = slice(start, start + len(some))
        cosines = np.abs(some @ x.T)
        best = cosines.argmax(axis=1)
        first[rows], whose[rows] = _apart(some, x[best]), unit[best]
        cosines[unit[None, :] == unit[best][:, None]] = -1.0
        other = cosines.argmax(axis=1)
        apart = _apart(some, x[other])
        second[rows] = np.where(cosines[np.arange(len(some)), other] >= 0, np.maximum(apart, first[rows]), np.inf)
    return NearestCosines(first, whose, second)


def _directions(values: FloatArray, what: str) -> FloatArray:
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    if n := int((lengths == 0).sum()):
        raise InputError(f"the features of {n:,} {what} images are zero, where a cosine is undefined; leave them out")
    return values / lengths


def _apart(a: FloatArray, b: FloatArray) -> FloatArray:
    """Compute ``1 - |cos|`` of unit vectors, [n], exact near 0: half the squared distance to the nearer of b and -b."""
    return np.minimum(np.square(a - b).sum(axis=1), np.square(a + b).sum(axis=1)) / 2


def _contributions(samples: Samples, near: NearestCosines) -> tuple[FloatArray, FloatArray]:
    """Return the contributions of the units of both sides to s."""
    m, (n_real, _) = len(near.first), samples.units
    synthetic = by_unit((near.first - near.first.mean()) / m, samples.synthetic_unit)
    if n_real < 2:
        return np.zeros(n_real), synthetic
    lost = unit_sums((near.second - near.first) / m, near.unit, n_real)
    return -deleted_contributions(lost), synthetic


def _half_width(real: FloatArray, synthetic: FloatArray, level: float) -> float:
    """Compute half the width of the interval of s."""
    error = math.sqrt(float(np.square(real).sum() + np.square(synthetic).sum()))
    return float(scipy.stats.norm.ppf((1 + level) / 2)) * error


@dataclass(frozen=True)
class SubsetDistance:
    """KID in its published form."""

    mean: float
    """Mean of KID over subsets."""
    deviation: float
    """Standard deviation over subsets; not a standard error."""
    subsets: int
    """Number of subsets."""
    size: int
    """Number of images of each side in a subset."""


def kernel_distance(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None = None,
    synthetic_group: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> QualityFigure:
    """Compute KID of all pairs, with an interval over patients and synthetic images.

    Args:
        real: Features of the real images, [n, d], at least two rows.
        synthetic: Features of the synthetic images, [m, d].
        real_group: Patient of each real image, [n]; None: each its own.
        synthetic_group: Patient of each synthetic image, [m]; None: each its own.
        level: Coverage of the interval.

    Returns:
        Figure; KID may be negative. Memory is that of a block of pairs.

    Raises:
        InputError: As `check_samples`.

    Source:
        Binkowski and others (2018); the delete-one jackknife of a U-statistic, Arvesen (1969).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> distance = kernel_distance(rng.normal(size=(200, 4)), rng.normal(1, 1, size=(100, 4)))
        >>> round(distance.estimate, 2), distance.low > 0
        (8.66, True)
    """
    samples = check_samples(real, synthetic, real_group, synthetic_group, level=level)
    x, y = samples.real, samples.synthetic
    all_x, all_y = _Side.of(x, samples.real_unit), _Side.of(y, samples.synthetic_unit)
    cross_x, cross_y = _cross_sums(x, y)
    cross = float(cross_x.sum())
    estimate = all_x.mean + all_y.mean - 2 * cross / (len(x) * len(y))
    if min(samples.units) < 2:
        return samples.no_interval(estimate, "one set has a single independent unit")
    deleted = [
        _without(side, other, cross, unit_sums(sums, unit), np.bincount(unit))
        for side, other, unit, sums in (
            (all_x, all_y, samples.real_unit, cross_x),
            (all_y, all_x, samples.synthetic_unit, cross_y),
        )
    ]
    return _figure(samples, estimate, deleted)


def _figure(samples: Samples, estimate: float, deleted: list[FloatArray]) -> QualityFigure:
    if not all(np.isfinite(part).all() for part in deleted):
        return samples.no_interval(estimate, "one unit holds nearly all images of a set")
    real, synthetic = (deleted_contributions(part) for part in deleted)
    return figure_interval(samples, estimate, real, synthetic, "asinh", "jackknife over units")


def subset_kernel_distance(
    real: ArrayLike, synthetic: ArrayLike, *, subsets: int = 100, size: int = 1000, seed: int = 2020
) -> SubsetDistance:
    """Average KID over random subsets: the published form.

    Args:
        real: Features of the real images, [n, d].
        synthetic: Features of the synthetic images, [m, d].
        subsets: Number of subsets.
        size: Number of images of each side in a subset, at most n and m.
        seed: Seed of the draw; torch-fidelity's own is 2020.

    Returns:
        Distance that ``kid_features_to_metric(synthetic, real)`` of torch-fidelity gives for these features: it draws
        the
        synthetic images of each subset first.

    Raises:
        InputError: As `check_samples`; or a subset that is larger than a set.
    """
    samples = check_samples(real, synthetic)
    x, y = samples.real, samples.synthetic
    if not 2 <= size <= min(len(x), len(y)) or subsets < 1:
        raise InputError(
            f"{subsets:,} subsets of {size:,} cannot be drawn from {len(x):,} real and {len(y):,} synthetic images"
        )
    rng = np.random.RandomState(seed)  # torch-fidelity's draws
    distances = np.empty(subsets)
    for i in range(subsets):
        some = y[rng.choice(len(y), size, replace=False)]
        others = x[rng.choice(len(x), size, replace=False)]
        units = np.arange(size)
        within = _Side.of(some, units).mean + _Side.of(others, units).mean
        distances[i] = within - 2 * float(_cross_sums(some, others)[0].sum()) / size**2
    return SubsetDistance(float(distances.mean()), float(distances.std()), subsets, size)


def kernel(x: FloatArray, y: FloatArray) -> FloatArray:
    """Compute ``(x'y / d + 1)^3``, [n, m], in place and by two products: a power takes ten times as long."""
    base = x @ y.T
    base /= x.shape[1]
    base += 1
    cube = base * base
    cube *= base
    return cube


@dataclass(frozen=True, eq=False)
class _Side:
    """Sums of the kernel over ordered pairs of different images of one set."""

    n: int
    total: float
    """Sum over all pairs."""
    rows: FloatArray
    """Sums over pairs whose first image is of a unit, [G]."""
    within: FloatArray
    """Sums over pairs with both images of a unit, [G]."""

    @classmethod
    def of(cls, values: FloatArray, unit: Codes) -> "_Side":
        """Compute the kernel sums of a set, a block of pairs at a time."""
        sums = _cross_sums(values, values)[0] - _diagonal(values)
        return cls(len(values), float(sums.sum()), unit_sums(sums, unit), _within(values, unit))

    @property
    def mean(self) -> float:
        """Return the mean of the kernel over pairs."""
        return self.total / (self.n * (self.n - 1))


def _without(side: _Side, other: _Side, cross: float, crossing: FloatArray, images: Codes) -> FloatArray:
    """Compute KID without each unit of one side, [G]; infinite where a single image is left."""
    n_left = side.n - images
    total = side.total - 2 * side.rows + side.within
    with np.errstate(divide="ignore", invalid="ignore"):
        return total / (n_left * (n_left - 1)) + other.mean - 2 * (cross - crossing) / (n_left * other.n)


def _diagonal(values: FloatArray) -> FloatArray:
    """Compute k(x, x) of each image, [n]."""
    return (np.einsum("ij,ij->i", values, values) / values.shape[1] + 1) ** 3


def _within(values: FloatArray, unit: Codes) -> FloatArray:
    """Sum the kernel over pairs of different images of each unit, [G]."""
    sums, diagonal = np.zeros(int(unit.max()) + 1), _diagonal(values)
    order = np.argsort(unit, kind="stable")
    ends = np.cumsum(np.bincount(unit))
    for g, end in enumerate(ends):
        rows = order[(ends[g - 1] if g else 0) : end]
        if len(rows) > 1:
            sums[g] = _cross_sums(values[rows], values[rows])[0].sum() - diagonal[rows].sum()
    return sums


def _cross_sums(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum ``k(x_i, y_j)`` over the other side, [n] and [m]."""
    by_x, by_y = np.empty(len(x)), np.zeros(len(y))
    step = max(1, _AT_ONCE // len(y))
    for start in range(0, len(x), step):
        block = kernel(x[start : start + step], y)
        by_x[start : start + step] = block.sum(axis=1)
        by_y += block.sum(axis=0)
    return by_x, by_y
