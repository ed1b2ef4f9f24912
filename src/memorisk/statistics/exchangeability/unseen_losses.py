"""Prerequisite of the p-values: unseen canaries look like test images to the models.

METHODS section 1, "Prerequisites, checked": canaries' losses under the model that did not see them against test
losses, per class, Kolmogorov-Smirnov over groups. A class that fails gets no p-values: its test images do not form a
null for its canaries (a drift between collection periods, an official test split, near-duplicates across the split).

The null is made of gaps, so that their spread matters as much as the level of losses: a test part whose gaps spread
half as much flags patients that no model remembers. Both parts have losses under S models that did not see the image,
one per seed. The statistic of a group is the mean over its images of the log of their standard deviation over seeds,
compared by the rank sum (Mann and Whitney 1947), which has more power against a ratio of spreads than the
Kolmogorov-Smirnov distance. Holm covers both comparisons of all classes.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.multiple_testing.lists import holm
from memorisk.statistics.verdicts.levels import PREREQUISITE_LEVEL

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class UnseenCheck:
    """Test whether the test groups of one class can represent its unseen canaries."""

    statistic: float
    """Kolmogorov-Smirnov distance; NaN where either side has no group."""
    p_value: float
    """Two-sided p-value of the losses; NaN where `statistic` is."""
    p_spread: float
    """Two-sided p-value of the losses' spread over seeds; NaN where `statistic` is, and with one seed."""
    adjusted: float
    """Smaller of both, Holm-adjusted over both comparisons of all classes."""
    by_spread: bool
    """Whether the spread has the smaller p-value."""
    ok: bool
    """Whether the check is passed (not rejected); False where nothing could be compared."""
    n_canary_groups: int
    """Number of canary groups with a scored seed."""
    n_test_groups: int
    """Number of test groups."""


def draw_twin_losses(loss_a: ArrayLike, loss_b: ArrayLike, group: ArrayLike, *, seed: int = 0) -> FloatArray:
    """Draw the loss of each test image under one twin per seed by a fair coin per group.

    The mean of both twins would average twice as many models as a canary's loss does, and differ from it by that alone.

    Args:
        loss_a: Losses under twin A, `[S, J]`.
        loss_b: Losses under twin B, `[S, J]`.
        group: Group ids, `[J]`: a group's images are read under the same twins.
        seed: Seed of the coins.

    Returns:
        Losses `[S, J]` in nats.

    Raises:
        InputError: Shapes differ.
    """
    a, b = np.asarray(loss_a, dtype=np.float64), np.asarray(loss_b, dtype=np.float64)
    _, index = np.unique(np.asarray(group), return_inverse=True)
    if a.ndim != 2 or a.shape != b.shape or index.shape != a.shape[1:]:
        raise InputError(
            f"losses {a.shape}, {b.shape} and {len(index)} group ids do not fit; give [seeds, images] twice"
        )
    coins = np.random.default_rng(seed).random((len(a), int(index.max(initial=-1)) + 1)) < 0.5
    return np.where(coins[:, index], a, b)


def compare_unseen_losses(
    unseen: ArrayLike,
    group: ArrayLike,
    label: ArrayLike,
    test_loss_a: ArrayLike,
    test_loss_b: ArrayLike,
    test_group: ArrayLike,
    test_label: ArrayLike,
    *,
    symmetric: bool = True,
    level: float = PREREQUISITE_LEVEL,
    seed: int = 0,
) -> dict[str, UnseenCheck]:
    """Compare unseen canaries' losses with test losses, and their spread over seeds, class by class, over groups.

    Two-sample Kolmogorov-Smirnov (exact for small groups) on group means of losses averaged over seeds, rank sum on
    the log of their standard deviation over seeds, Holm over both and all classes.

    Args:
        unseen: Loss of each canary under the twin that did not train on it, `[S, I]`; NaN where not scored.
        group: Group ids of the canaries, `[I]`.
        label: Class labels of the canaries, `[I]`.
        test_loss_a: Losses of the test images under twin A, `[S, J]`.
        test_loss_b: Losses of the test images under twin B, `[S, J]`.
        test_group: Group ids of the test images, `[J]`.
        test_label: Class labels of the test images, `[J]`.
        symmetric: Whether the models are twins: a test group is then read under one of them, by a coin per seed. False
            for the `paper` design, where the canaries' unseen model is always the independent one: tests are read
            under B alone.
        level: Level over all classes together.
        seed: Seed of the coins.

    Returns:
        Check of each class of the canaries, by label.

    Raises:
        InputError: Shapes differ, or a level outside (0, 1).

    Source:
        METHODS section 1, "Prerequisites, checked".
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a share between 0 and 1, such as 0.01")
    tests = draw_twin_losses(test_loss_a, test_loss_b, test_group, seed=seed) if symmetric else test_loss_b
    ours = _group_means("canary", unseen, group, label)
    theirs = _group_means("test", tests, test_group, test_label)
    our_spread = _group_means("canary", _log_spread(unseen), group, label)
    their_spread = _group_means("test", _log_spread(tests), test_group, test_label)
    labels = sorted(set(np.asarray(label).tolist()))
    comparisons = [_compare(ours.get(name), theirs.get(name)) for name in labels]
    spreads = [_compare_spread(our_spread.get(name), their_spread.get(name)) for name in labels]
    adjusted = holm(np.array([*(p for _, p in comparisons), *spreads])).reshape(2, -1)
    smaller = np.fmin(*adjusted)
    return {
        name: UnseenCheck(
            statistic=statistic,
            p_value=p,
            p_spread=p_spread,
            adjusted=float(p_adjusted),
            by_spread=p_spread < p,
            ok=bool(p_adjusted > level),
            n_canary_groups=len(ours.get(name, ())),
            n_test_groups=len(theirs.get(name, ())),
        )
        for name, (statistic, p), p_spread, p_adjusted in zip(labels, comparisons, spreads, smaller, strict=True)
    }


def _log_spread(loss: ArrayLike) -> FloatArray:
    """Compute the log of the standard deviation over seeds of each image's loss, `[1, I]`; NaN with fewer than two."""
    values = np.asarray(loss, dtype=np.float64)
    n = np.sum(~np.isnan(values), axis=0)
    centred = values - np.where(n, np.nansum(values, axis=0) / np.maximum(n, 1), np.nan)
    variance = np.nansum(centred**2, axis=0) / np.maximum(n - 1, 1)
    return np.where(n > 1, np.log(np.maximum(variance, np.finfo(np.float64).tiny)) / 2, np.nan)[None]


def _compare_spread(ours: FloatArray | None, theirs: FloatArray | None) -> float:
    """Compute the two-sided p-value of the rank sum; NaN when either side is empty."""
    if ours is None or theirs is None or not len(ours) or not len(theirs):
        return float("nan")
    return float(scipy.stats.mannwhitneyu(ours, theirs).pvalue)


def _compare(ours: FloatArray | None, theirs: FloatArray | None) -> tuple[float, float]:
    """Compute the Kolmogorov-Smirnov distance and p-value; NaN when either side is empty."""
    if ours is None or theirs is None:
        return float("nan"), float("nan")
    with warnings.catch_warnings():
        # SciPy's exact count may round to a hair above 1; it then warns and takes the asymptotic form, p near 1 too.
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        statistic, p_value = scipy.stats.ks_2samp(ours, theirs)
    return float(statistic), float(p_value)  # pyright: ignore[reportArgumentType]


def _group_means(name: str, loss: ArrayLike, group: ArrayLike, label: ArrayLike) -> dict[str, FloatArray]:
    """Average the mean over scored seeds over images, for each group within each class, without unscored images."""
    values, groups, labels = np.asarray(loss, dtype=np.float64), np.asarray(group), np.asarray(label)
    if values.ndim != 2 or groups.shape != values.shape[1:] or labels.shape != groups.shape:
        raise InputError(
            f"{name} losses {values.shape}, groups {groups.shape} and labels {labels.shape} do not fit; "
            "give [seeds, images] and one group and label per image"
        )
    scored = ~np.isnan(values)
    has_loss = scored.any(0)
    mean = np.where(scored, values, 0.0).sum(0)[has_loss] / scored.sum(0)[has_loss]
    groups, labels = groups[has_loss], labels[has_loss]
    means = {}
    for of_class in set(labels.tolist()):
        rows = labels == of_class
        _, index = np.unique(groups[rows], return_inverse=True)
        means[of_class] = np.bincount(index, weights=mean[rows]) / np.bincount(index)
    return means
