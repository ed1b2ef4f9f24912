"""Checks that two parts of a data set are a random split: unseen losses, neighbours, numbers of images.

**Unseen losses.** Prerequisites of the p-values: do unseen canaries look like test images to the models?

METHODS section 1, "Prerequisites, checked": canaries' losses under the model that did not see them against test
losses, per class, Kolmogorov-Smirnov over groups. A class that fails gets no p-values: its test images do not form a
null for its canaries (a drift between collection periods, an official test split, near-duplicates across the split).

The null is made of gaps, so that their spread matters as much as the level of losses: a test part whose gaps spread
half as much flags patients that no model remembers. Both parts have losses under S models that did not see the image,
one per seed. The statistic of a group is the mean over its images of the log of their standard deviation over seeds,
compared by the rank sum (Mann and Whitney 1947), which has more power against a ratio of spreads than the
Kolmogorov-Smirnov distance. Holm covers both comparisons of all classes.

**Neighbours.** Are two parts of a data set a random split? The check counts the images whose nearest neighbours lie in
their own part, and those whose lie in the other.

Every comparison of training with held-out patients takes them for a random split. Two ways in which they are not:

* apart: the held-out ones come from another hospital or device, or several images of one patient occur under several
  names of one part. Neighbours share a part more often than by chance.
* together: held-out people are training people under other ids, so that copies of these are near to both. Such an
  image is not near its counterpart more often than near others (with one training image of each, its nearest
  training image lies in the other part anyhow): it is *clearly* nearer to it than to the next patient. Neighbours
  are therefore weighted by their lead, ``log(second distance / first)``.

**Numbers of images.** A patient's distance to a set of images is that of the nearest of his images, and the nearest of
five is nearer than the nearest of one, without any memory. Two parts of patients are exchangeable, as a random split by
patient makes them, only where their numbers of images are. Wilcoxon's rank sum of these numbers checks whether they are
alike: of every order of patients the number of held-out ones with k images is multivariate hypergeometric, whatever the
ties, so that

    p = min(1, 2 min(1 + #{R* <= R}, 1 + #{R* >= R}) / (draws + 1)),   R the rank sum of the held-out patients,

is valid at any number of draws. Where p is at most 1 % every patient of either part counts by one image, drawn by
lot: one image each compares patients whatever the numbers are, at the price of not looking at the others.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.multiple_testing import holm
from memorisk.statistics.verdicts.levels import PREREQUISITE_LEVEL

FloatArray = NDArray[np.float64]

_BLOCK = 100
_ROUNDING = 1e-12
N_PERMUTATIONS = 9_999


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


@dataclass(frozen=True)
class NeighbourTest:
    """Nearest-neighbour test of two parts, in both directions."""

    share: float
    """Share of neighbours in the same part: mean over groups of the mean over their images."""
    expected: float
    """Expected share over random splits of the groups."""
    p_value: float
    """Two-sided p-value: twice the smaller of both below, at most 1."""
    n_groups: int
    """Number of independent units."""
    draws: int
    """Number of random splits."""
    p_apart: float
    """p-value of a share as large, over random splits; at least 1 / (draws + 1)."""
    p_together: float
    """p-value of neighbours as often in the other part, weighted by their leads, over random splits; at least as
    above."""
    across: float
    """Share of all leads that is of neighbours in the other part."""
    across_expected: float
    """Expectation of ``across`` over random splits."""

    @property
    def together(self) -> bool:
        """Return whether the parts are nearer to each other than a random split, rather than farther."""
        return self.p_together < self.p_apart


def neighbour_test(
    nearest: ArrayLike,
    group: ArrayLike,
    part: ArrayLike,
    lead: ArrayLike | None = None,
    *,
    draws: int = 999,
    seed: int = 0,
) -> NeighbourTest:
    """Test by permutation whether the parts are a random split of the groups.

    ``T = mean over groups g of mean over images i of g of [part of i = part of its nearest image of another group]``,
    of use against parts that lie apart, and ``A = sum of lead_i [parts differ] / sum of lead_i``, of use against people
    who are in both. Groups are exchanged whole, so that either p is exact: ``(1 + #{draws as large}) / (draws + 1)``.

    Args:
        nearest: Row of each image's nearest image of another group, of either part, [N].
        group: Group of each image, [N]; every group lies in one part.
        part: Part of each image, [N], one of two.
        lead: Lead of the nearest image over that of the next group, [N], 0 or more; None: all alike. An infinite one
            (equal
            images) counts as the largest finite one.
        draws: Number of random splits, with as many groups in either part.
        seed: Seed of the random splits.

    Raises:
        InputError: Lengths differ, a group lies in both parts, or there are not two parts.

    Source:
        Schilling (1986), Henze (1988), with the null by permutation of groups; weights by lead are memorisk's.
    """
    rows = np.asarray(nearest, dtype=np.int64)
    _, index = np.unique(np.asarray(group), return_inverse=True)
    kinds, side = np.unique(np.asarray(part), return_inverse=True)
    weight = np.ones(len(rows)) if lead is None else np.asarray(lead, dtype=np.float64)
    if not rows.shape == index.shape == side.shape == weight.shape or len(kinds) != 2:
        raise InputError(f"{len(rows)} neighbours need as many groups and parts, of two parts; {len(kinds)} are given")
    n = int(index.max()) + 1
    of_group = np.zeros(n, dtype=bool)
    of_group[index] = side == 1
    if (of_group[index] != (side == 1)).any():
        raise InputError("a group lies in both parts; the test exchanges whole groups")
    equal = 1 / (np.bincount(index)[index] * n)  # [N], one in all for every group
    weights = np.stack([equal, _shares(weight)], axis=1)
    theirs = index[rows]

    def shares(split: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compute the same-part shares by groups and by leads of splits [b, n]: [b, 2]."""
        return (split[:, index] == split[:, theirs]) @ weights

    observed = shares(of_group[None])[0]
    rng = np.random.default_rng(seed)
    null = np.concatenate([shares(rng.permuted(np.tile(of_group, (b, 1)), axis=1)) for b in _blocks(draws)])
    apart = (1 + int((null[:, 0] >= observed[0] - _ROUNDING).sum())) / (draws + 1)
    together = (1 + int((null[:, 1] <= observed[1] + _ROUNDING).sum())) / (draws + 1)
    expected = null.mean(0)
    return NeighbourTest(
        share=float(observed[0]),
        expected=float(expected[0]),
        p_value=min(1.0, 2 * min(apart, together)),
        n_groups=n,
        draws=draws,
        p_apart=apart,
        p_together=together,
        across=1 - float(observed[1]),
        across_expected=1 - float(expected[1]),
    )


def _shares(lead: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return leads as shares of their sum, [N]; all alike where all are 0."""
    finite = lead[np.isfinite(lead)]
    top = finite.max() if len(finite) and finite.max() > 0 else 1.0
    capped = np.clip(np.nan_to_num(lead, nan=0.0, posinf=top), 0, top)
    return capped / capped.sum() if capped.sum() > 0 else np.full(len(lead), 1 / len(lead))


def _blocks(draws: int) -> list[int]:
    """Return the sizes of blocks of draws."""
    return [min(_BLOCK, draws - start) for start in range(0, draws, _BLOCK)]


@dataclass(frozen=True, eq=False)
class ImageCounts:
    """Images by which patients of two parts are compared."""

    train: NDArray[np.intp]
    """Sorted rows of the training images that count."""
    held: NDArray[np.intp]
    """Sorted rows of the held-out images that count."""
    mean_train: float
    """Mean number of images of a training patient, over all images."""
    mean_held: float
    """Mean number of images of a held-out patient, over all images."""
    p_value: float
    """Two-sided p-value of numbers of images as different in a random split by patient."""

    @property
    def one_each(self) -> bool:
        """Return whether every patient counts by one image, since the numbers are not alike."""
        return self.p_value <= PREREQUISITE_LEVEL

    @property
    def words(self) -> str:
        """Note that patients count by one image each, and name the way out; empty elsewhere."""
        if not self.one_each:
            return ""
        return (
            f"Training patients have {self.mean_train:.1f} images on average and held-out patients {self.mean_held:.1f}"
            f" (not alike, p {self.p_value:.2g}): a patient with more images is nearer to any set, without being "
            "memorized. So every patient of both parts counts by one image, drawn by lot, and copies of the others do "
            "not count in the comparison of the two parts. Give held-out patients with as many images as training "
            "patients have."
        )


def image_counts(train_group: ArrayLike, held_group: ArrayLike, *, seed: int = 0) -> ImageCounts:
    """Choose all images where the numbers per patient are alike in both parts, else one of each patient.

    Args:
        train_group: Patient of each training image, [N].
        held_group: Patient of each held-out image, [M].
        seed: Seed of the test's draws and of the lot.

    Raises:
        InputError: A part is empty.

    Source:
        Wilcoxon (1945); the permutation distribution conditional on ties, by draws (Davison and Hinkley 1997, 4.3).

    Example:
        >>> counts = image_counts([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4], [5, 6, 7, 8, 9, 10])
        >>> counts.one_each, len(counts.train), len(counts.held), counts.mean_train
        (True, 5, 6, 3.0)
    """
    ours, theirs = np.asarray(train_group), np.asarray(held_group)
    if not len(ours) or not len(theirs):
        raise InputError("a part without images has no patients to compare; give at least one image of each")
    of_train, of_held = (np.unique(groups, return_counts=True)[1] for groups in (ours, theirs))
    p = _rank_sum_p(of_train, of_held, seed)
    rows = np.arange(len(ours)), np.arange(len(theirs))
    if p <= PREREQUISITE_LEVEL:
        rows = np.sort(one_per_group(ours, seed=seed)), np.sort(one_per_group(theirs, seed=seed))
    return ImageCounts(*rows, float(of_train.mean()), float(of_held.mean()), p)


def _rank_sum_p(of_train: NDArray[np.int64], of_held: NDArray[np.int64], seed: int) -> float:
    """Compute the two-sided p of the held-out patients' rank sum, over random orders of all patients."""
    both = np.concatenate([of_train, of_held])
    value, at, number = np.unique(both, return_index=True, return_counts=True)
    if len(value) == 1:
        return 1.0
    twice = np.rint(2 * scipy.stats.rankdata(both)[at]).astype(np.int64)  # mid-ranks, doubled: whole numbers
    observed = int(twice @ (of_held[:, None] == value).sum(0))
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(number, len(of_held), size=N_PERMUTATIONS) @ twice
    least = min(int((drawn <= observed).sum()), int((drawn >= observed).sum()))
    return min(1.0, 2 * (1 + least) / (1 + N_PERMUTATIONS))
