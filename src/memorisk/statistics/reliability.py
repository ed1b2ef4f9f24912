"""Reliability of M over trainings, and from that how well anything could predict it.

The label of a probe (paper 000, A.9) is made of an M that is measured with noise, so that not even a probe that
knew the true M would reach an AUROC of 1. Half of the seeds do not reach that ceiling either: their M is as noisy
as the label, and a probe has no noise of its own. By Spearman's attenuation a correlation with M ends at the root
of its reliability, not at the reliability. METHODS section 1, "Where is it stored?", takes the halves' agreement
for the ceiling; simulated, the best possible probe lies 0.05 to 0.2 above that (`recipes/probe_ceiling.py`).
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.association import residualise
from memorisk.statistics.jackknife import JackknifeInterval, jackknife, unavailable
from memorisk.statistics.memorization.probes import above_class_median
from memorisk.statistics.placements import group_deleted_auc, rank_within

FloatArray = NDArray[np.float64]
MIN_SEEDS, MIN_GROUPS = 2, 3


@dataclass(frozen=True)
class Reliability:
    """Agreement of M with itself over halves of the seeds."""

    reliability: JackknifeInterval
    """Reliability of M over all seeds given, by Spearman and Brown; interval over groups."""
    half: float
    """Pearson's r of the halves, the mean over splits."""
    half_auroc: JackknifeInterval
    """AUROC of one half's M for "M above its class median" of the other half."""
    ceiling: JackknifeInterval
    """AUROC of the true M for "M above its class median", M over all seeds given: what no probe should exceed."""
    n_seeds: int
    """Number of seeds that are split."""
    n_splits: int
    """Number of splits averaged."""
    n_groups: int
    """Number of groups scored by both halves of some split."""


def split_half(
    signed: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    *,
    max_splits: int = 20,
    seed: int = 0,
    level: float = 0.95,
) -> Reliability:
    """Compute the split-half reliability of M over seeds, and the AUROC that M reaches for itself.

    `r = mean over splits of corr(M_1 - mean(M_1 | class), M_2 - mean(M_2 | class))`; stepped up to all seeds,
    `2 r / (1 + r)` (Spearman 1910, Brown 1910). AUROC: within-class ranks of M_1 against "M_2 above its class median",
    and the other way round. Intervals: jackknife over groups, class means and medians held. Ceiling: `auroc_ceiling`.

    Args:
        signed: Signed gaps sigma_s D_s of each image, `[S, n]`, NaN where the seed did not score it.
        label: Class of each image, `[n]`.
        group: Patient of each image, `[n]`.
        max_splits: Largest number of splits; all of them where there are no more.
        seed: Seed of the choice among them.
        level: Confidence level of the intervals.

    Returns:
        Reliability and AUROC, or the reason why they are undefined.

    Raises:
        InputError: Shapes differ.
    """
    table, labels = np.asarray(signed, dtype=np.float64), np.asarray(label)
    ids, index = np.unique(np.asarray(group), return_inverse=True)
    if table.ndim != 2 or table.shape[1:] != labels.shape or labels.shape != index.shape:
        raise InputError(
            f"signed gaps {table.shape}, label {labels.shape} and group {index.shape} do not fit; "
            "give [seeds, images] and one label and group per image"
        )
    n_seeds = len(table)
    if n_seeds < MIN_SEEDS:
        gone = unavailable(f"{n_seeds} other seed, and two halves need {MIN_SEEDS}", len(ids), n_seeds)
        return Reliability(gone, float("nan"), gone, gone, n_seeds, 0, 0)
    halves = [_halves(table, first, labels, index, len(ids)) for first in _splits(n_seeds, max_splits, seed)]
    halves = [h for h in halves if np.isfinite([h.r, h.auc]).all()]
    scored = np.any([h.scored for h in halves], axis=0) if halves else np.zeros(len(ids), dtype=bool)
    if scored.sum() < MIN_GROUPS:
        gone = unavailable("too few groups are scored by both halves of the seeds", int(scored.sum()), n_seeds)
        return Reliability(gone, float("nan"), gone, gone, n_seeds, 0, int(scored.sum()))
    kind = np.zeros(int(scored.sum()), dtype=np.intp)
    half = float(np.mean([h.r for h in halves]))
    deleted = _step_up(np.mean([h.deleted_r for h in halves], axis=0)[scored])
    stepped = jackknife(float(_step_up(half)), deleted, kind, scale="fisher", n_seeds=n_seeds, level=level)
    area, deleted = float(np.mean([h.auc for h in halves])), np.mean([h.deleted_auc for h in halves], axis=0)[scored]
    auroc = jackknife(area, deleted, kind, scale="logit", n_seeds=n_seeds, level=level)
    return Reliability(stepped, half, auroc, _ceiling(auroc), n_seeds, len(halves), int(scored.sum()))


def _ceiling(half: JackknifeInterval) -> JackknifeInterval:
    """Compute the ceiling that follows from one half's AUROC for the other, or state why none does.

    At a half's AUROC of 0.5 the ceiling is 0.5, and it rises steeply. Where the halves do not agree more than chance,
    the formula gives 0.5 for any limit, which is not an interval of a ceiling. There the ceiling may be anything up to
    1.
    """
    if not half.low > 0.5:
        reason = "the halves of the seeds do not agree more than chance would, so that no ceiling follows: more seeds"
        return unavailable(reason, half.n_groups, half.n_seeds)
    estimate, low, high = (float(auroc_ceiling(value)) for value in (half.estimate, half.low, half.high))
    method = f"ceiling that follows from {half.method}"
    return JackknifeInterval(estimate, low, high, half.df, half.n_groups, half.n_seeds, method)


def auroc_ceiling(half: ArrayLike) -> FloatArray:
    """Compute the AUROC that the true M reaches for the label, from the AUROC of one half of the seeds for the other.

    For two normal variables with correlation r, the AUROC of one for "the other is above its median" is
    `A(r) = 1/2 + (2 / pi) asin(r / sqrt(2))` (the orthant probability of three normals). The half's AUROC gives
    `r = sqrt(2) sin(pi / 2 (half - 1/2))`, Spearman and Brown the reliability of all seeds `rho = 2 r / (1 + r)`, and
    the true M correlates with M as `sqrt(rho)`: the ceiling is `A(sqrt(rho))`. It is in ranks, so that a few very large
    M
    do not decide. Simulated against the best possible probe: within 0.01 for normal and heavy-tailed noise, up to 0.03
    too
    low where noise differs between images, 0.07 to 0.09 too high where one image in ten is memorized
    (`recipes/probe_ceiling.py`).

    Args:
        half: AUROC of a half, any shape; up to 0.5 gives 0.5, NaN gives NaN.
    """
    r = np.sqrt(2) * np.sin(np.pi / 2 * (np.clip(np.asarray(half, dtype=np.float64), 0.5, 1.0) - 0.5))
    return 0.5 + 2 / np.pi * np.arcsin(np.clip(np.sqrt(_step_up(r) / 2), 0.0, np.sqrt(0.5)))


@dataclass(frozen=True)
class _Halves:
    """One split of the seeds: r and AUROC, and both without each group."""

    r: float
    deleted_r: FloatArray
    auc: float
    deleted_auc: FloatArray
    scored: NDArray[np.bool_]


def _halves(
    table: FloatArray, first: NDArray[np.intp], labels: NDArray, index: NDArray[np.intp], n_groups: int
) -> _Halves:
    second = np.setdiff1d(np.arange(len(table)), first)
    one, two = _mean(table[first]), _mean(table[second])
    used = np.isfinite(one) & np.isfinite(two)
    one, two, labels, index = one[used], two[used], labels[used], index[used]
    r, deleted_r = _correlation(one, two, labels, index, n_groups)
    auc, deleted_auc = _self_auroc(one, two, labels, index, n_groups)
    return _Halves(r, deleted_r, auc, deleted_auc, np.bincount(index, minlength=n_groups) > 0)


def _splits(n_seeds: int, most: int, seed: int) -> list[NDArray[np.intp]]:
    """List first halves: all that differ (the first seed always among them for even numbers), or some of them."""
    halves = [np.array(c, dtype=np.intp) for c in combinations(range(n_seeds), n_seeds // 2)]
    if n_seeds % 2 == 0:
        halves = [h for h in halves if h[0] == 0]
    if len(halves) <= most:
        return halves
    chosen = np.sort(np.random.default_rng(seed).choice(len(halves), most, replace=False))
    return [halves[i] for i in chosen]


def _mean(values: FloatArray) -> FloatArray:
    finite = np.isfinite(values)
    n = finite.sum(axis=0)
    return np.divide(np.where(finite, values, 0.0).sum(axis=0), n, out=np.full(n.shape, np.nan), where=n > 0)


def _correlation(
    one: FloatArray, two: FloatArray, label: NDArray, index: NDArray[np.intp], n_groups: int
) -> tuple[float, FloatArray]:
    """Compute Pearson's r within classes, and without each group, from sums."""
    if len(one) < 3:
        return float("nan"), np.full(n_groups, np.nan)
    a, b = residualise(np.stack([one, two]), label)
    columns = (np.ones(len(a)), a, b, a * a, b * b, a * b)
    whole = np.array([c.sum() for c in columns])
    less = whole[:, None] - np.stack([np.bincount(index, weights=c, minlength=n_groups) for c in columns])
    return float(_pearson(whole)), np.asarray(_pearson(less))


def _pearson(sums: NDArray) -> FloatArray:
    n, a, b, aa, bb, ab = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ab - a * b / n) / np.sqrt((aa - a * a / n) * (bb - b * b / n))


def _self_auroc(
    one: FloatArray, two: FloatArray, label: NDArray, index: NDArray[np.intp], n_groups: int
) -> tuple[float, FloatArray]:
    """Compute the AUROC of each half's within-class ranks for the other half's label, both directions averaged."""
    if len(one) < 3:
        return float("nan"), np.full(n_groups, np.nan)
    classes = np.unique(label, return_inverse=True)[1]
    size = np.bincount(classes)[classes]
    by_half = []
    for score, target in ((one, two), (two, one)):
        high = above_class_median(target, label)
        if high.all() or not high.any():
            return float("nan"), np.full(n_groups, np.nan)
        ranks = rank_within(classes, score) / (size + 1)
        by_half.append(group_deleted_auc(ranks, high.astype(np.int8), index, n_groups))
    return float(np.mean([f.auc for f in by_half])), np.mean([f.deleted for f in by_half], axis=0)


def _step_up(r: ArrayLike) -> FloatArray:
    """Compute the reliability of twice as many seeds, `2 r / (1 + r)`; at r below -1/3 it stops at -1."""
    values = np.maximum(np.asarray(r, dtype=np.float64), -1 / 3)
    return 2 * values / (1 + values)
