"""The noticeable gap of a class: the smallest gap of a single patient that its list finds with probability 0.8.

METHODS section 6, "Classifier". The power of the list is measured on simulated patients of known gap: unseen test
groups of the class, to whose differences over seeds a gap is added. They are ranked as canaries are
(`memorization.nulls`) and count as found where a list finds them alone, with the only small p-value of the class.

Two readings of METHODS:

* The gap's shape over seeds is always that of `GAP_SHAPE`. METHODS takes the shape of this run's highest canaries
  where there are any; but only a list shows whose gap is real, and an audit that lists somebody has failed.
  Unlisted maxima have the shape of noise.
* The gap is on one image of the patient. M of a patient is the maximum over the patient's images, so that one
  remembered image is the hardest case.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals import clopper_pearson
from memorisk.statistics.memorization.nulls import MAX_DRAWS, Null, comparison_sizes
from memorisk.statistics.randomization import FloatArray, IntArray, Units, make_units, plan_flips, typical_error

POWER = 0.8
"""Probability with which the noticeable gap is found: four of five cases."""

PASS_POWER = 0.9
"""Probability with which a pass must notice a patient of the gap that is asked for.

METHODS asks for 0.8, which lets one in five of them pass wherever the noticeable gap comes out just below what is asked
for: simulated with noisy trainings, one patient at 2 nats passes 4.0 % of audits (upper limit 7.7), here 1.0 % (3.6)
(`recipes/verdict_truth.py`)."""

MIN_ROOM = 2.0
"""Smallest room with which a class counts as testable: at 1 the patient's own sign flips use up the level."""

GAP_SHAPE = ((1.0, 2.0, 4.0), (0.87, 0.71, 0.35), (0.12, 0.0, 0.0))
"""Mean gap in nats, its coefficient of variation over seeds, and the share of seeds without any gap, as measured on
real patients (METHODS section 6); between them on the logarithm of the mean, beyond them as at the ends."""

GAPS = 2.0 ** np.arange(-2, 4.01, 0.25)
"""Gaps that are simulated, in nats: 0.25 to 16, in steps of 19 %."""

N_DRAWS = 500
"""Number of simulated patients a class; near 0.8 the standard error of the power is 0.018."""

MAX_SEEDS = 32
"""Largest number of seeds that `seeds_needed` tries: 64 models."""

_MOST_PATTERNS = 8
"""Patterns of missing seeds that are drawn; each needs a null distribution of its own."""

_FEWEST_FLIPS, _ENOUGH_ROOM = 2**12, 32
"""Fewest flips among which simulated patients are ranked, and the room that a part of all flips must leave."""


@dataclass(frozen=True)
class ClassList:
    """The data of one class's list: unseen test groups, scored groups and the level."""

    test: Units
    """Unseen test groups, with all seeds."""
    scored: NDArray[np.bool_]
    """`[U, S]` whether each scored group was scored in each seed."""
    sizes: IntArray
    """`[U]` number of images of each scored group."""
    level: float
    """Level of the class, q / C, with C the number of classes that have a list."""
    flip: bool = True
    """Whether signs may be flipped; False in the `paper` design, whose roles are not symmetric."""

    def flips(self, n_seeds: int) -> tuple[int, bool]:
        """Count the flips of a p-value over this many seeds, and say whether these are all (`flips.plan_flips`)."""
        if not self.flip:
            return 1, True
        return plan_flips(n_seeds, int(self.sizes.sum()) + len(self.test.unit_of), MAX_DRAWS, 0)


@dataclass(frozen=True)
class NoticeableGap:
    """The noticeable gap of a class, with the power at this gap."""

    gap: float
    """Smallest mean gap in nats that is found with probability `POWER`; infinite where no gap up to 16 nats is."""
    power: float
    """Probability with which this gap is found; where no gap is, that of 16 nats. NaN without a list."""
    low: float
    """Lower 95 % limit of the power over simulated patients (Clopper-Pearson; not over other test groups)."""
    high: float
    """Upper limit."""
    room: float
    """Room of the class (`room`)."""
    n_draws: int
    """Number of simulated patients."""
    n_test: int
    """Number of unseen test groups behind them, the independent units."""


def class_list(
    test_gap: ArrayLike, test_unit: ArrayLike, sign: ArrayLike, unit: ArrayLike, level: float, *, flip: bool = True
) -> ClassList:
    """Collect the data of one class's list from the arrays that give its p-values.

    Args:
        test_gap: `[S, J]` loss gaps of the class's test images; in the `paper` design `[1, J]`, their means over seeds.
        test_unit: `[J]` group of each test image.
        sign: `[S, I]` membership of the class's scored images, as in `nulls.sign_flip_p_values`.
        unit: `[I]` group of each scored image.
        level: Level of the class, q / C.
        flip: Whether signs may be flipped; False in the `paper` design.

    Raises:
        InputError: Shapes do not fit, or the level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"the level of a class's list is {level}; give a share between 0 and 1")
    tests = make_units("test", test_gap, test_unit)
    s = np.asarray(sign)
    scored = make_units("canary", np.zeros(s.shape), unit, sign=s, n_seeds=tests.n_seeds)
    some = scored.scored.any(axis=1)
    return ClassList(tests, scored.scored[some], scored.sizes[some], level, flip)


def room(listing: ClassList, n_seeds: int | None = None) -> float:
    """Compute the room of a class: the level of a single patient over the smallest p-value, `q / C (n + 1) 2^S / m`.

    n are the test groups, m the scored groups, S the seeds. With unequal groups or missing seeds each scored group has
    its own smallest p-value; the room is then the value that at least four of five groups reach (`POWER`).

    Args:
        listing: Data of the class's list.
        n_seeds: Number of seeds to compute the room for; the audit's own if not given.

    Returns:
        The room; a class is testable from `MIN_ROOM` on. 0 without scored groups.

    Source:
        METHODS section 6, "Room".
    """
    m = len(listing.sizes)
    if not m:
        return 0.0
    size = comparison_sizes(listing.sizes, listing.test.sizes)
    n_compared = (listing.test.sizes >= size[:, None]).sum(1)
    missing = (~listing.scored).sum(1)
    own = listing.test.n_seeds if n_seeds is None else n_seeds
    seeds = np.maximum(own - missing, 1)
    counts, back = np.unique(seeds, return_inverse=True)
    flips = np.array([listing.flips(int(s))[0] for s in counts], dtype=np.float64)[back]
    parts = -(-listing.sizes // size)
    rooms = listing.level * (n_compared + 1) * flips / (parts * m)
    return float(np.sort(rooms)[int((1 - POWER) * m + 1e-9)])


def noticeable_gap(listing: ClassList, *, seed: int, n_draws: int = N_DRAWS) -> NoticeableGap:
    """Compute the smallest gap that the list of a class finds with probability `POWER`, by simulation.

    A simulated patient is an unseen group: its differences get a random sign a seed, and one of its images a gap drawn
    from `GAP_SHAPE`; it lacks the seeds that a random scored group lacks. It is found where its p-value is at most
    `level / m`, so that it would be on the list alone. All gaps use the same draws, so that the power increases with
    the gap but for the gap's shape; the smallest gap is found by bisection of `GAPS`.

    Args:
        listing: Data of the class's list.
        seed: Seed of the draws.
        n_draws: Number of simulated patients.

    Returns:
        The gap with its power; infinite where the room is below `MIN_ROOM` or no gap is found often enough.

    Source:
        METHODS section 6, "Noticeable gap X".
    """
    nan, n_test, space = float("nan"), len(listing.test.ids), room(listing)
    if not n_test or space < MIN_ROOM:
        return NoticeableGap(math.inf, nan, nan, nan, space, 0, n_test)
    low, high = 0, len(GAPS) - 1
    powers = {high: power(listing, float(GAPS[high]), seed=seed, n_draws=n_draws)}
    while powers[high] >= POWER and low < high:
        middle = (low + high) // 2
        powers[middle] = power(listing, float(GAPS[middle]), seed=seed, n_draws=n_draws)
        low, high = (low, middle) if powers[middle] >= POWER else (middle + 1, high)
    share = clopper_pearson(round(powers[high] * n_draws), n_draws)
    gap = float(GAPS[high]) if powers[high] >= POWER else math.inf
    return NoticeableGap(gap, powers[high], share.low, share.high, space, n_draws, n_test)


def power(listing: ClassList, gap: float, *, seed: int, n_draws: int = N_DRAWS, n_seeds: int | None = None) -> float:
    """Compute the probability that the list of a class finds a single patient with this mean gap.

    Args:
        listing: Data of the class's list.
        gap: Mean gap over trainings, in nats.
        seed: Seed of the draws.
        n_draws: Number of simulated patients.
        n_seeds: Number of seeds to compute the power for, drawn with replacement from the audit's; its own if not
            given.

    Returns:
        Share of the simulated patients that are found.
    """
    rng, space = np.random.default_rng([seed, 23]), room(listing, n_seeds)
    if not space or not len(listing.test.ids):
        return 0.0
    patterns = listing.scored[rng.integers(len(listing.scored), size=_MOST_PATTERNS)]
    if (listing.scored == listing.scored[0]).all():
        patterns = listing.scored[:1]
    shares = []
    parts = np.diff(np.arange(len(patterns) + 1) * n_draws // len(patterns))
    for pattern, n in zip(patterns, parts, strict=True):
        seeds = np.flatnonzero(pattern)
        if n_seeds is not None:  # as many seeds are missing as in the audit
            seeds = rng.choice(seeds, size=max(n_seeds - int((~pattern).sum()), 1))
        shares.append(_listed(listing, space, seeds, gap, int(n), rng).sum())
    return float(sum(shares) / n_draws)


def seeds_needed(listing: ClassList, gap: float, *, seed: int, n_draws: int = 200) -> int | None:
    """Compute the number of seeds with which the class has room and its list finds this gap with power `PASS_POWER`.

    The power must exceed `PASS_POWER` by two Monte Carlo standard errors, since the audit with more seeds has noise of
    its own.

    Args:
        listing: Data of the class's list.
        gap: Gap of a single patient, in nats.
        seed: Seed of the draws.
        n_draws: Number of simulated patients.

    Returns:
        A number larger than the audit's; None where `MAX_SEEDS` are too few, or where more seeds give no more flips.
    """
    if not len(listing.test.ids) or not len(listing.sizes) or not listing.flip:
        return None
    low = listing.test.n_seeds + 1
    high, enough = max(MAX_SEEDS, low), PASS_POWER + 2 * math.sqrt(PASS_POWER * (1 - PASS_POWER) / n_draws)
    while room(listing, low) < MIN_ROOM:
        if low == high:
            return None
        low += 1
    step, tried = 0, low
    while power(listing, gap, seed=seed, n_draws=n_draws, n_seeds=tried) < enough:
        if tried == high:
            return None
        low, step = tried + 1, max(2 * step, 1)
        tried = min(tried + step, high)
    high = tried
    while low < high:
        middle = (low + high) // 2
        power_here = power(listing, gap, seed=seed, n_draws=n_draws, n_seeds=middle)
        low, high = (low, middle) if power_here >= enough else (middle + 1, high)
    return high


def gap_profiles(gap: float, uniform: ArrayLike, present: ArrayLike) -> FloatArray:
    """Draw gaps over seeds of patients with this mean gap: zero in some seeds, gamma-distributed in the others.

    Args:
        gap: Mean gap over trainings, in nats.
        uniform: `[N, S]` uniform draws, the quantiles of the gamma distribution.
        present: `[N, S]` uniform draws that decide in which seeds the gap is zero.

    Returns:
        `[N, S]` gaps in nats, with mean `gap` and the coefficient of variation and share of zeros of `GAP_SHAPE`.
    """
    means, variations, zeros = GAP_SHAPE
    variation, zero = (float(np.interp(np.log(gap), np.log(means), column)) for column in (variations, zeros))
    squared = (variation**2 + 1) * (1 - zero) - 1  # of the gaps that are there
    values = scipy.special.gammaincinv(1 / squared, np.asarray(uniform)) * squared * gap / (1 - zero)
    return np.where(np.asarray(present) < zero, 0.0, values)


def _listed(
    listing: ClassList, space: float, seeds: IntArray, gap: float, n_draws: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Simulate n patients that are scored in these seeds, and say which the list finds; space is the `room`."""
    tests, n_seeds = listing.test, len(seeds)
    unseen = Units(tests.ids, tests.sizes, tests.scored[:, seeds], tests.gap[seeds], tests.unit_of)
    n_flips, exact = listing.flips(n_seeds)
    part = max(_FEWEST_FLIPS, int(n_flips * _ENOUGH_ROOM / space))
    if n_flips > part:
        n_flips, exact = part, False
    null = Null(unseen, typical_error(unseen.gap) if listing.flip else None, n_flips, exact, seed=0)

    patient = rng.integers(len(tests.ids), size=n_draws)
    k = tests.sizes[patient]
    side = rng.choice([-1.0, 1.0], size=(n_draws, n_seeds)) if listing.flip else np.ones((n_draws, n_seeds))
    by_unit = np.argsort(tests.unit_of, kind="stable")
    first = np.searchsorted(tests.unit_of[by_unit], patient)
    draw = np.repeat(np.arange(n_draws), k)  # [rows] each image of each simulated patient
    image = by_unit[np.repeat(first, k) + np.arange(len(draw)) - np.repeat(np.cumsum(k) - k, k)]
    rows = unseen.gap[:, image].T * side[draw]  # [rows, S]
    remembered = np.cumsum(k) - k + (rng.random(n_draws) * k).astype(np.int64)  # the row with the gap
    profile = gap_profiles(gap, *rng.random((2, n_draws, n_seeds)))
    rows[remembered] += profile if listing.flip else profile.mean(axis=1, keepdims=True)

    identity = np.ones((1, n_seeds))
    observed = np.full(n_draws, -np.inf)
    np.maximum.at(observed, draw, null.ranked(identity, rows.T)[0])
    size = comparison_sizes(k, tests.sizes)
    hits = null.hits(observed, size)
    reachable = null.ranked(identity, np.abs(rows).T)[0] >= observed[draw]
    np.add.at(hits, draw[reachable], _own_hits(null, rows[reachable], observed[draw[reachable]]))
    n_compared = (tests.sizes >= size[:, None]).sum(1)
    p = -(-k // size) * hits / ((n_compared + 1.0) * n_flips)
    return p <= listing.level / len(listing.sizes) * (1 + 1e-12)


def _own_hits(null: Null, rows: FloatArray, observed: FloatArray) -> FloatArray:
    """Count the flips of each image's own gaps `[R, S]` that reach the observed statistic `[R]`: `[R]` counts.

    The images of a patient are counted one by one, so that a flip counts twice where two of them reach: the count is
    then too large and the power too small, never too large.
    """
    n_seeds, total = rows.shape[1], observed
    if null.offset is not None:  # the sum at which `flips.studentized` is what was observed
        square, error = observed**2 / max(n_seeds - 1, 1), observed * null.offset
        root = np.sqrt(np.maximum((1 + square) * square * np.mean(rows**2, axis=1) - square * error**2, 0.0))
        total = n_seeds * (error + root) / (1 + square)
    limit = np.where(observed > 0, total * (1 - 1e-9), -np.inf)  # a sum of 64 terms rounds by less than 1e-13
    hits = np.zeros(len(rows))
    for signs in null.blocks(len(rows)):
        hits += (signs @ rows.T >= limit).sum(0)
    return hits
