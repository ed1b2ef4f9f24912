"""Distances below which a pair counts as a copy, and what each such threshold promises, from how many units.

Small distances mean alike; give similarities negated. A percentile of a pool of images (paper 003, section 3.4) is a
number about that pool and promises nothing of the next patient. A specificity or a sensitivity does, by order
statistics over independent identities, one value each:

* specificity: the *smallest* distance of each unrelated identity, because one flagged image flags a patient;
* sensitivity: *one random* copy of each source, or its largest distance where every copy is to be found. The smallest
  would promise only that the easiest copy of each source is found.

Images of one patient are not independent: thresholds over images fail the promise several times as often as stated
(METHODS section 4: 16 to 24 % of calibrations for 5 %).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name

FloatArray = NDArray[np.float64]
GroupStatistic = Literal["smallest", "random", "largest"]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Threshold:
    """Distance, with the promise of flagging at it."""

    value: float
    """Distance of the threshold; -inf where no order statistic keeps a specificity, +inf where none keeps a
    sensitivity."""
    inclusive: bool
    """Whether a distance equal to the value is flagged; chosen so that ties never break the promise."""
    rule: str
    """Rule of the threshold: ``"percentile"``, ``"specificity"`` or ``"sensitivity"``."""
    level: float
    """Percentile as a share, the specificity or the sensitivity."""
    confidence: float
    """Share of calibrations in which the promise holds; NaN where it holds on average over calibrations only."""
    rank: int
    """Rank of the order statistic, 1 the smallest; 0 where it is missing or a percentile is interpolated."""
    n_units: int
    """Number of independent units behind it: identities; images for a percentile."""
    needed: int
    """Least number of identities that the promise needs; 1 for a percentile."""
    promise: str
    """Promise in words."""

    @property
    def kept(self) -> bool:
        """Return whether there were enough identities."""
        return math.isfinite(self.value)

    def flags(self, distance: ArrayLike) -> NDArray[np.bool_]:
        """Return which distances are near enough to count as copies.

        Args:
            distance: Distances of any shape, in the unit of the pool.
        """
        values = np.asarray(distance, dtype=np.float64)
        return values <= self.value if self.inclusive else values < self.value


def percentile_threshold(distance: ArrayLike, percent: float = 5.0) -> Threshold:
    """Compute paper 003's tau: a percentile of the baseline's nearest-neighbour distances, images as they come.

    Strictly nearer images are flagged. The share of *this* pool below it is the percentile; of another pool, of other
    patients or of another number of references, nothing is promised.

    Args:
        distance: Distance of each baseline image to its nearest reference, [N].
        percent: Percentile from 0 to 100, interpolated linearly between order statistics as `numpy.percentile`.

    Raises:
        InputError: An empty pool, a distance that is not finite, or a percentile outside [0, 100].

    Source:
        Paper 003, sections 3.1 and 3.3.1; METHODS section 3, "Question".

    Example:
        >>> percentile_threshold([1.0, 2.0, 3.0, 4.0, 5.0], 50.0).value
        3.0
    """
    values = check_distances(distance)
    if not 0 <= percent <= 100:
        raise InputError(f"the percentile is {percent}; give a number from 0 to 100, such as 5")
    return Threshold(
        value=float(np.percentile(values, percent)),
        inclusive=False,
        rule="percentile",
        level=percent / 100,
        confidence=math.nan,
        rank=0,
        n_units=len(values),
        needed=1,
        promise=f"{percent:g} % of these {len(values):,} images lie nearer; nothing is promised of others",
    )


def specificity_threshold(
    distance: ArrayLike, group: ArrayLike | None = None, *, specificity: float = 0.95, confidence: float | None = None
) -> Threshold:
    """Find the largest order statistic at which a new unrelated identity stays unflagged with the given probability.

    One value per identity, the smallest of its distances: W_(1) <= ... <= W_(n). Flagged is what is strictly below
    ``W_(k)``, so that of a new identity ``P(W < W_(k)) <= k / (n + 1)`` on average over calibrations (ties included),
    and ``P(W < W_(k) | calibration) <= Beta(k, n + 1 - k)``. ``k`` is the largest with ``k / (n + 1) <= 1 -
    specificity``, or with a confidence the largest with ``P(Beta(k, n + 1 - k) <= 1 - specificity) >= confidence``.

    Args:
        distance: Distances of images of unrelated identities to their nearest reference, [N].
        group: Identity of each image, [N]; None: each image its own.
        specificity: Share of new identities with no flagged image.
        confidence: Share of calibrations in which that is kept; None: on average.

    Returns:
        Threshold; -inf, which flags nothing, where there are fewer identities than `identities_needed`. The new
        identity is one like these: with as many images each, against as many references.

    Raises:
        InputError: Lengths differ, a distance is not finite, or a level outside (0, 1).

    Source:
        Wilks (1941), tolerance limits; METHODS sections 3 ("each pool's own null") and 4 ("Guarantee").

    Example:
        >>> specificity_threshold(range(1, 40), specificity=0.95).value
        2.0
    """
    values = group_values(distance, group, of="smallest")
    missed = misses_allowed(len(values), 1 - specificity, confidence)
    sure = "" if confidence is None else f", in {confidence:.0%} of calibrations"
    how = "on average over calibrations" if confidence is None else "in each of these"
    return Threshold(
        value=float(np.sort(values)[missed]) if missed >= 0 else -math.inf,
        inclusive=False,
        rule="specificity",
        level=specificity,
        confidence=math.nan if confidence is None else confidence,
        rank=missed + 1,
        n_units=len(values),
        needed=identities_needed(specificity, confidence),
        promise=f"no image of a random unrelated identity is flagged, with probability at least {specificity:g} {how}"
        f"{sure}; from {len(values):,} identities",
    )


def sensitivity_threshold(
    distance: ArrayLike,
    group: ArrayLike | None = None,
    *,
    sensitivity: float = 0.95,
    confidence: float | None = 0.95,
    of: GroupStatistic = "random",
    seed: int = 0,
) -> Threshold:
    """Find the smallest order statistic at which a new source's copy is flagged with the given probability.

    One value per source, D_(1) <= ... <= D_(n); flagged is what is at most ``D_(j)``. With ``c = n - j`` misses,
    ``c = max{c : P(Bin(n, 1 - sensitivity) <= c) <= 1 - confidence}``, or ``c + 1 <= (1 - sensitivity)(n + 1)`` on
    average over calibrations.

    Args:
        distance: Distances of copies to their sources, [N].
        group: Identities of the sources, [N]; None: each copy its own.
        sensitivity: Share of new sources that are found.
        confidence: Share of calibrations in which that is kept; None: on average.
        of: ``"random"``: one copy of each source, drawn by the seed: a random copy is found. ``"largest"``: every copy
            of the source is found, of as many as here. ``"smallest"``: at least one is.
        seed: Seed of the draw.

    Returns:
        Threshold; +inf, which flags everything, where there are too few identities.

    Raises:
        InputError: As `specificity_threshold`, or an unknown ``of``.

    Source:
        METHODS section 4, "Guarantee".

    Example:
        >>> sensitivity_threshold(range(1, 100), sensitivity=0.9).value
        95.0
    """
    values = group_values(distance, group, of=of, seed=seed)
    missed = misses_allowed(len(values), 1 - sensitivity, confidence)
    what = {"random": "a random copy", "largest": "every copy", "smallest": "the nearest copy"}[of]
    how = "on average over calibrations" if confidence is None else f"in {confidence:.0%} of calibrations"
    return Threshold(
        value=float(np.sort(values)[len(values) - 1 - missed]) if missed >= 0 else math.inf,
        inclusive=True,
        rule="sensitivity",
        level=sensitivity,
        confidence=math.nan if confidence is None else confidence,
        rank=len(values) - missed if missed >= 0 else 0,
        n_units=len(values),
        needed=identities_needed(sensitivity, confidence),
        promise=f"{what} of a random new source, made as these were, is flagged with probability at least "
        f"{sensitivity:g} {how}; from {len(values):,} sources",
    )


def misses_allowed(n: int, alpha: float, confidence: float | None = None) -> int:
    """Count how many of n calibration values may lie on the wrong side of the threshold; -1 if not even none may.

    ``max{c : (c + 1) / (n + 1) <= alpha}`` on average, ``max{c : P(Bin(n, alpha) <= c) <= 1 - confidence}`` with
    confidence.

    Args:
        n: Number of independent values.
        alpha: Share of new values that may lie on the wrong side.
        confidence: Share of calibrations in which that is kept, as in `specificity_threshold`.

    Raises:
        InputError: A level outside (0, 1), or n negative.

    Example:
        >>> misses_allowed(100, 0.05)
        4
    """
    if not 0 < alpha < 1 or not (confidence is None or 0 < confidence < 1):
        raise InputError(f"levels are {1 - alpha:g} and {confidence}; give shares between 0 and 1, such as 0.95")
    if n < 0:
        raise InputError(f"{n} values; give a count")
    if confidence is None:
        return int(np.floor(alpha * (n + 1) + _ROUNDING)) - 1
    c = int(scipy.stats.binom.ppf(1 - confidence, n, alpha))  # the smallest with a probability at least that
    below = float(scipy.stats.binom.cdf(c, n, alpha))
    return c if below <= (1 - confidence) * (1 + _ROUNDING) else c - 1


def identities_needed(level: float, confidence: float | None = None) -> int:
    """Compute the least number of identities with a threshold.

    It is ``1 / (1 - level) - 1``, or ``ln(1 - confidence) / ln(level)``.

    Args:
        level: Specificity or sensitivity.
        confidence: Share of calibrations in which the promise is kept, as in `specificity_threshold`.

    Raises:
        InputError: A level outside (0, 1).

    Example:
        >>> [identities_needed(level, 0.95) for level in (0.99, 0.95, 0.9)], identities_needed(0.95)
        ([299, 59, 29], 19)
    """
    misses_allowed(0, 1 - level, confidence)
    exact = 1 / (1 - level) - 1 if confidence is None else math.log(1 - confidence) / math.log(level)
    return math.ceil(exact - _ROUNDING)


def group_values(
    distance: ArrayLike, group: ArrayLike | None = None, *, of: GroupStatistic = "smallest", seed: int = 0
) -> FloatArray:
    """Choose one distance per group, in the order of the sorted group ids.

    Args:
        distance: Distances of the images, [N].
        group: Group ids of the images, [N], any sortable ids; None: each image its own group.
        of: ``"smallest"``, ``"largest"``, or ``"random"``, one drawn evenly from each group.
        seed: Seed of the draw.

    Raises:
        InputError: Lengths differ, an empty pool, a distance that is not finite, or an unknown ``of``.
    """
    values = check_distances(distance)
    if of not in ("smallest", "random", "largest"):
        raise unknown_name("value of a group", of, ("smallest", "random", "largest"))
    if group is None:
        return values
    if of == "random":
        return values[one_per_group(_groups_of(values, group), seed=seed)]
    ids, index = np.unique(_groups_of(values, group), return_inverse=True)
    extremes = np.full(len(ids), np.inf if of == "smallest" else -np.inf)
    (np.minimum if of == "smallest" else np.maximum).at(extremes, index, values)
    return extremes


def one_per_group(group: ArrayLike, *, seed: int = 0) -> NDArray[np.intp]:
    """Draw the row of one image of each group evenly, [G], in the order of the sorted group ids.

    Args:
        group: Group ids of the images, [N], any sortable ids.
        seed: Seed of the draw.

    Example:
        >>> one_per_group(["q", "p", "q"], seed=0).tolist()
        [1, 2]
    """
    index = np.unique(np.asarray(group), return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(len(index))
    return order[np.unique(index[order], return_index=True)[1]]


def equal_pools(first: ArrayLike, second: ArrayLike, *, seed: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Cut two pools of references to one size, by rows: the larger pool loses groups drawn by the seed.

    The nearest of more references is nearer, with no copy anywhere, so that distances to pools of unequal sizes are
    not alike (METHODS section 3: "equal pool sizes"). Groups are kept whole, but for the last, which is cut.

    Args:
        first: Groups of the images of a pool, [N].
        second: Groups of the images of the other pool, [M].
        seed: Seed of the order in which groups are kept.

    Returns:
        Sorted rows of either, min(N, M) each.

    Raises:
        InputError: A pool is empty.
    """
    pools = [np.asarray(first), np.asarray(second)]
    size = min(len(pool) for pool in pools)
    if not size:
        raise InputError("a pool of references is empty; give at least one image of each")
    rows = []
    for pool in pools:
        index = np.unique(pool, return_inverse=True)[1]
        rng = np.random.default_rng(seed)
        shuffled = rng.permutation(len(pool))
        place = rng.permutation(index.max() + 1)[index[shuffled]]
        rows.append(np.sort(shuffled[np.argsort(place, kind="stable")][:size]))
    return rows[0], rows[1]


def check_distances(distance: ArrayLike) -> FloatArray:
    """Check that distances are one finite column.

    Raises:
        InputError: Another shape, an empty pool, or a distance that is not finite.
    """
    values = np.asarray(distance, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"distances have shape {values.shape}; give one list, with one image at least")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InputError(f"{len(bad)} of {len(values)} distances are not finite, first in row {bad[0]}; leave them out")
    return values


def _groups_of(values: FloatArray, group: ArrayLike) -> NDArray:
    """Check that groups have one entry per value."""
    groups = np.asarray(group)
    if groups.shape != values.shape:
        raise InputError(f"{values.shape} distances and {groups.shape} groups do not fit; give one group per image")
    return groups
