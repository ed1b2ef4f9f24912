"""Frechet distance (FID) between two sets of features, exact in float64, with an interval.

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
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.statistics.quality.figures import (
    FloatArray,
    QualityFigure,
    Samples,
    by_unit,
    check_samples,
    figure_interval,
)


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
