"""Prerequisites of the p-values: do unseen canaries look like test images to the models?

METHODS section 1, "Prerequisites, checked": canaries' losses under the model that did not see them against test
losses, per class, Kolmogorov-Smirnov over groups. A class that fails gets no p-values: its test images are no null
for its canaries (a drift between collection periods, an official test split, near-duplicates across the split).
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.multiple import holm

FloatArray = NDArray[np.float64]

LEVEL = 0.01
"""Share of sound audits in which any class may fail this check."""


@dataclass(frozen=True)
class UnseenCheck:
    """Whether the test groups of one class can stand for its unseen canaries."""

    statistic: float
    """Kolmogorov-Smirnov distance; NaN where either side has no group."""
    p_value: float
    """Two-sided p-value; NaN as `statistic`."""
    adjusted: float
    """Holm-adjusted over classes."""
    ok: bool
    """True when not rejected; False where nothing could be compared."""
    n_canary_groups: int
    """Canary groups with a scored seed."""
    n_test_groups: int
    """Test groups."""


def one_twin_losses(loss_a: ArrayLike, loss_b: ArrayLike, group: ArrayLike, *, seed: int = 0) -> FloatArray:
    """Loss of each test image under one twin per seed, drawn by a fair coin per group.

    Both twins would average twice as many models as a canary's loss does, and differ from it by that alone.

    Args:
        loss_a: `[S, J]` losses under twin A.
        loss_b: `[S, J]` losses under twin B.
        group: `[J]` group ids: a group's images are read under the same twins.
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


def unseen_against_test(
    unseen: ArrayLike,
    group: ArrayLike,
    label: ArrayLike,
    test_loss_a: ArrayLike,
    test_loss_b: ArrayLike,
    test_group: ArrayLike,
    test_label: ArrayLike,
    *,
    symmetric: bool = True,
    level: float = LEVEL,
    seed: int = 0,
) -> dict[str, UnseenCheck]:
    """Compare unseen canaries' losses with test losses, class by class, over groups.

    Two-sample Kolmogorov-Smirnov (exact for small groups) on group means of losses averaged over seeds, Holm over
    classes.

    Args:
        unseen: `[S, I]` each canary's loss under the twin that did not train on it; NaN where not scored.
        group: `[I]` group ids.
        label: `[I]` class labels.
        test_loss_a: `[S, J]` test images' losses under twin A.
        test_loss_b: `[S, J]` the same under B.
        test_group: `[J]` group ids.
        test_label: `[J]` class labels.
        symmetric: True for twins: a test group is read under one of them, by a coin per seed. False for the `paper`
            design, where the canaries' unseen model is always the independent one: tests are read under B alone.
        level: Level over all classes together.
        seed: Seed of the coins.

    Returns:
        A check per class of the canaries, by label.

    Raises:
        InputError: Shapes differ, or a level outside (0, 1).

    Source:
        METHODS section 1, "Prerequisites, checked".
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a share between 0 and 1, such as 0.01")
    tests = one_twin_losses(test_loss_a, test_loss_b, test_group, seed=seed) if symmetric else test_loss_b
    ours = _group_means("canary", unseen, group, label)
    theirs = _group_means("test", tests, test_group, test_label)
    labels = sorted(set(np.asarray(label).tolist()))
    found = [_compare(ours.get(name), theirs.get(name)) for name in labels]
    adjusted = holm(np.array([p for _, p in found]))
    return {
        name: UnseenCheck(
            statistic=statistic,
            p_value=p,
            adjusted=float(p_adjusted),
            ok=bool(p_adjusted > level),
            n_canary_groups=len(ours.get(name, ())),
            n_test_groups=len(theirs.get(name, ())),
        )
        for name, (statistic, p), p_adjusted in zip(labels, found, adjusted, strict=True)
    }


def _compare(ours: FloatArray | None, theirs: FloatArray | None) -> tuple[float, float]:
    """Kolmogorov-Smirnov distance and p-value; NaN when either side is empty."""
    if ours is None or theirs is None:
        return float("nan"), float("nan")
    with warnings.catch_warnings():
        # SciPy's exact count may round to a hair above 1; it then warns and takes the asymptotic form, p near 1 too.
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        statistic, p_value = stats.ks_2samp(ours, theirs)
    return float(statistic), float(p_value)  # pyright: ignore[reportArgumentType]


def _group_means(name: str, loss: ArrayLike, group: ArrayLike, label: ArrayLike) -> dict[str, FloatArray]:
    """Mean over images of the mean over scored seeds, for each group within each class; unscored images left out."""
    values, groups, labels = np.asarray(loss, dtype=np.float64), np.asarray(group), np.asarray(label)
    if values.ndim != 2 or groups.shape != values.shape[1:] or labels.shape != groups.shape:
        raise InputError(
            f"{name} losses {values.shape}, groups {groups.shape} and labels {labels.shape} do not fit; "
            "give [seeds, images] and one group and label per image"
        )
    scored = ~np.isnan(values)
    kept = scored.any(0)
    mean = np.where(scored, values, 0.0).sum(0)[kept] / scored.sum(0)[kept]
    groups, labels = groups[kept], labels[kept]
    means = {}
    for of_class in set(labels.tolist()):
        rows = labels == of_class
        _, index = np.unique(groups[rows], return_inverse=True)
        means[of_class] = np.bincount(index, weights=mean[rows]) / np.bincount(index)
    return means
