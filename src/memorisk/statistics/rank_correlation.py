"""Rank correlation, and whether memorization agrees with attack success (METHODS section 1, "Attacks").

M and an attack on the same model share that model's losses, so that they agree whatever was memorized: from pure
noise the M of a model predicts the success of the attack on it (paper 000, section 4, "How does M relate to
standard MIA?", says "partly tautological"). Here the M that is set against the attack on seed s is the mean over
the *other* seeds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, Scale, jackknife, unavailable
from memorisk.statistics.placements import deletion_blocks, mid_ranks

FloatArray = NDArray[np.float64]

HIGH, LOW = 0.3, 0.1
"""Bands that the paper compares, in nats: M above HIGH against M at most LOW."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of an attack with M: does it find the images with high M?"""

    spearman: JackknifeInterval
    """Mean over seeds of Spearman's rho of M and success."""
    success_high: float
    """Share of successes at M above the high band's limit; NaN without such images."""
    success_low: float
    """Share of successes at M up to the low band's limit; NaN without such images."""
    difference: JackknifeInterval
    """Difference ``success_high - success_low``."""
    n_high: int
    """Number of image-seed pairs in the high band."""
    n_low: int
    """Number of image-seed pairs in the low band."""


@dataclass(frozen=True)
class AttackAgreement:
    """Agreement of M with attack success, from other seeds and from the same models."""

    other_seeds: Agreement
    """Agreement of M from the seeds that were not attacked: the answer."""
    circular: Agreement
    """Agreement of M from the attacked model's own pair: the paper's column; positive even when nothing is
    memorized."""


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Compute Spearman's rho with average ranks for ties, equal to SciPy's; NaN where either is constant.

    ``rho = cov(R(x), R(y)) / (sd(R(x)) sd(R(y)))``.

    Args:
        x: First column of values, [n].
        y: Second column of values, [n].

    Raises:
        InputError: Lengths differ, fewer than two values, or a NaN.

    Example:
        >>> round(spearman([1, 2, 3, 4], [1, 2, 4, 3]), 3)
        0.8
    """
    a, b = _paired(x, y)
    return _correlate(_standard_ranks(a), _standard_ranks(b))


def attack_agreement(
    gap: ArrayLike,
    sign: ArrayLike,
    success: ArrayLike,
    group: ArrayLike,
    *,
    bands: tuple[float, float] = (LOW, HIGH),
    max_groups: int = 100,
    seed: int = 0,
    level: float = 0.95,
) -> AttackAgreement:
    """Compare M with the success of an attack on each seed's model, images pooled within a seed, seeds averaged.

    For seed s, ``M_(-s)(x) = mean over t != s with sign_t(x) != 0 of sign_t(x) gap_t(x)``; the circular form takes
    ``sign_s(x) gap_s(x)``. Intervals: delete-one-group jackknife (Fisher's z for rho). A deletion changes every
    rank, so it is recomputed; above ``max_groups`` groups, that many blocks of whole groups are deleted instead.

    A difference of success between bands is also made by images that are merely hard: the M of a hard image spreads
    more, so that more of it lies in the high band by chance, and a loss-threshold attack rarely accuses it. Read it
    together with rho.

    Args:
        gap: Loss of B minus loss of A, [S, N].
        sign: Signs, [S, N]: +1 where A saw the image, -1 where B did, 0 where both or neither did.
        success: Success of the attack, [S, N]: 1 where it was right about the image in seed s, 0 where wrong (or a
            probability
            of it); NaN where it was not attacked.
        group: Group ids of the images, [N], any sortable ids.
        bands: Largest M of the low band, and the M above which the high one begins.
        max_groups: Largest number of deletions.
        seed: Seed of the blocks.
        level: Confidence level of the intervals.

    Returns:
        Both forms of the agreement. With one seed only the circular form exists; the other gives the reason.

    Raises:
        InputError: Shapes differ, a sign is not -1, 0 or +1, or a success is outside [0, 1].
    """
    gaps, signs = np.asarray(gap, dtype=np.float64), np.asarray(sign)
    outcome = np.asarray(success, dtype=np.float64)
    ids, index = np.unique(np.asarray(group), return_inverse=True)
    if gaps.ndim != 2 or gaps.shape != signs.shape or gaps.shape != outcome.shape or index.shape != gaps.shape[1:]:
        raise InputError(
            f"gap, sign and success must be [seeds, images], group [images]; "
            f"got {gaps.shape}, {signs.shape}, {outcome.shape}, {index.shape}"
        )
    _check_values(signs, outcome)
    own = np.where(signs != 0, signs * gaps, np.nan)
    scored = np.isfinite(own)
    others = scored.sum(axis=0) - scored
    total = np.where(scored, own, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = np.where(others > 0, (total.sum(axis=0) - total) / others, np.nan)
    block = deletion_blocks(index, len(ids), max_groups, seed)
    return AttackAgreement(
        other_seeds=_agreement(rest, outcome, block, level, bands),
        circular=_agreement(own, outcome, block, level, bands),
    )


def _check_values(signs: NDArray[np.generic], outcome: FloatArray) -> None:
    if not np.isin(signs, (-1, 0, 1)).all():
        raise InputError("signs must be +1 (seen by model A), -1 (seen by its twin) or 0")
    if (outcome < 0).any() or (outcome > 1).any():
        raise InputError(
            "success must lie between 0 (the attack was wrong) and 1 (it was right), NaN where not attacked"
        )


def _agreement(
    m: FloatArray, success: FloatArray, block: NDArray[np.intp], level: float, bands: tuple[float, float]
) -> Agreement:
    used = np.isfinite(m) & np.isfinite(success)
    m, success = np.where(used, m, np.nan), np.where(used, success, np.nan)
    high, low = success[m > bands[1]], success[m <= bands[0]]
    return Agreement(
        spearman=_deleted(_mean_rho, m, success, block, "fisher", level),
        success_high=float(high.mean()) if len(high) else float("nan"),
        success_low=float(low.mean()) if len(low) else float("nan"),
        difference=_deleted(partial(_band_difference, bands=bands), m, success, block, "difference", level),
        n_high=len(high),
        n_low=len(low),
    )


def _deleted(
    statistic: Callable[[FloatArray, FloatArray], float],
    m: FloatArray,
    success: FloatArray,
    block: NDArray[np.intp],
    scale: Scale,
    level: float,
) -> JackknifeInterval:
    present = np.unique(block[np.isfinite(m).any(axis=0)])
    seeds = int(np.isfinite(m).any(axis=1).sum())
    estimate = statistic(m, success)
    if np.isnan(estimate):
        return unavailable("needs M from another seed, and both successes and failures", len(present), seeds)
    values = [statistic(m[:, block != b], success[:, block != b]) for b in present]
    values = [v for v in values if not np.isnan(v)]
    if len(values) < len(present):
        return unavailable("one group carries all of a band or of the successes", len(present), seeds)
    kind = np.zeros(len(values), dtype=np.intp)
    return jackknife(estimate, values, kind, scale=scale, n_seeds=seeds, level=level)


def _mean_rho(m: FloatArray, success: FloatArray) -> float:
    """Average rho over seeds; seeds in which either is constant carry no information and are left out."""
    rhos = []
    for x, y in zip(m, success, strict=True):
        used = np.isfinite(x)
        if used.sum() >= 2:
            rhos.append(_correlate(_standard_ranks(x[used]), _standard_ranks(y[used])))
    rhos = [rho for rho in rhos if not np.isnan(rho)]
    return float(np.mean(rhos)) if rhos else float("nan")


def _band_difference(m: FloatArray, success: FloatArray, bands: tuple[float, float]) -> float:
    high, low = success[m > bands[1]], success[m <= bands[0]]
    return float(high.mean() - low.mean()) if len(high) and len(low) else float("nan")


def _paired(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or len(a) < 2:
        raise InputError(
            f"a correlation needs two equally long columns of at least 2 values; got {a.shape} and {b.shape}"
        )
    if np.isnan(a).any() or np.isnan(b).any():
        raise InputError("a correlation's columns must not hold NaN: leave those rows out first")
    return a, b


def _standard_ranks(values: FloatArray) -> FloatArray:
    """Compute average ranks with mean 0 and length 1; NaN where all are equal."""
    ranks = mid_ranks(values)
    centred = ranks - ranks.mean()
    length = np.sqrt(centred @ centred)
    return centred / length if length > 0 else np.full(len(values), np.nan)


def _correlate(a: FloatArray, b: FloatArray) -> float:
    return float(np.clip(a @ b, -1.0, 1.0)) if not np.isnan(a[0] + b[0]) else float("nan")
