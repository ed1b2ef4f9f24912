"""The noticeable gap of a class: the smallest gap that its list finds with probability 0.8 were one patient to have it.

METHODS section 6, "Classifier". A pass that nobody could have failed says nothing, so the list is tried on patients
whose gap is known: unseen test groups of the class, to whose differences over seeds a gap is added, ranked as canaries
are (`nulls`) and listed where their p-value would be the only small one of the class.

Two readings of METHODS:

* The gap's shape over seeds is always that of `SHAPE`. METHODS takes the shape of this run's highest canaries where
  there are any; but only a list tells whose gap is real, and an audit that lists somebody has failed. Unlisted maxima
  have the shape of noise.
* The gap is on one image of the patient. M of a patient is the largest of their images, and one remembered image is the
  hardest to find.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv

from memorisk.runs.errors import InputError
from memorisk.statistics.flips import FloatArray, IntArray, Units, make_units, plan_flips, typical_error
from memorisk.statistics.nulls import MAX_DRAWS, Null, comparison_sizes
from memorisk.statistics.proportions import clopper_pearson

POWER = 0.8
"""Probability with which a noticeable gap is found: four of five cases."""

PASS_POWER = 0.9
"""Probability with which a pass must notice a patient of the gap that is asked for.

METHODS asks for 0.8, which lets one in five of them pass wherever the noticeable gap comes out just below what is asked
for: simulated with noisy trainings, one patient at 2 nats passes 4.0 % of audits (upper limit 7.7), here 1.0 % (3.6)
(`recipes/verdict_truth.py`)."""

MIN_ROOM = 2.0
"""Room below which no list is asked for: with 1 the patient's own sign flips already use the level up."""

SHAPE = ((1.0, 2.0, 4.0), (0.87, 0.71, 0.35), (0.12, 0.0, 0.0))
"""Mean gap in nats, its coefficient of variation over seeds, and the share of seeds without any gap, as measured on
real patients (METHODS section 6); between them on the logarithm of the mean, beyond them as at the ends."""

GAPS = 2.0 ** np.arange(-2, 4.01, 0.25)
"""Gaps that are tried, in nats: 0.25 to 16, in steps of 19 %."""

N_DRAWS = 500
"""Simulated patients a class: near 0.8 the power's standard error is 0.018."""

MOST_SEEDS = 32
"""Most seeds that `seeds_needed` tries: 64 models."""

_MOST_PATTERNS = 8
"""Of seeds that a group may lack: so many are drawn, since each has a null of its own."""

_FEWEST_FLIPS, _ENOUGH_ROOM = 2**12, 32
"""Simulated patients are ranked among all flips where there are so few, or a part of them that leaves so much room."""


@dataclass(frozen=True)
class ClassList:
    """What the list of one class rests on."""

    test: Units
    """Unseen test groups, all seeds."""
    scored: NDArray[np.bool_]
    """`[U, S]` in which seeds each scored group was."""
    sizes: IntArray
    """`[U]` images of each scored group."""
    level: float
    """Level of the class: q / C, C the classes that have a list."""
    flip: bool = True
    """False in the `paper` design, whose roles are not symmetric."""

    def flips(self, n_seeds: int) -> tuple[int, bool]:
        """How many flips are behind a p-value over so many seeds, and whether they are all (`flips.plan_flips`)."""
        if not self.flip:
            return 1, True
        return plan_flips(n_seeds, int(self.sizes.sum()) + len(self.test.unit_of), MAX_DRAWS, 0)


@dataclass(frozen=True)
class NoticeableGap:
    """What a class's list would have noticed."""

    gap: float
    """Smallest mean gap in nats that is found with probability `POWER`; infinite where none up to 16 nats is."""
    power: float
    """Probability with which it is found; where none is, that of the largest gap tried. NaN without a list."""
    low: float
    """95 % limits of that probability over simulated patients (Clopper-Pearson; not over other test groups)."""
    high: float
    """Upper limit."""
    room: float
    """Level of a single patient over the smallest p-value possible, as at least four of five scored groups have it."""
    n_draws: int
    """Simulated patients."""
    n_test: int
    """Unseen groups behind them: the independent units."""


def class_list(
    test_gap: ArrayLike, test_unit: ArrayLike, sign: ArrayLike, unit: ArrayLike, level: float, *, flip: bool = True
) -> ClassList:
    """What a class's list rests on, from the arrays that its p-values are made of.

    Args:
        test_gap: `[S, J]` loss gaps of the class's test images; in the `paper` design `[1, J]`, their means over seeds.
        test_unit: `[J]` their groups.
        sign: `[S, I]` membership of the class's scored images, as `nulls.sign_flip_p_values`.
        unit: `[I]` their groups.
        level: q / C.
        flip: False in the `paper` design.

    Raises:
        InputError: Shapes do not fit, or the level is no share.
    """
    if not 0 < level < 1:
        raise InputError(f"the level of a class's list is {level}; give a share between 0 and 1")
    tests = make_units("test", test_gap, test_unit)
    s = np.asarray(sign)
    scored = make_units("canary", np.zeros(s.shape), unit, sign=s, n_seeds=tests.n_seeds)
    some = scored.scored.any(axis=1)
    return ClassList(tests, scored.scored[some], scored.sizes[some], level, flip)


def room(listing: ClassList, n_seeds: int | None = None) -> float:
    """Room of a class: level of a single patient over the smallest p-value, `q / C (n + 1) 2^S / m`.

    With unequal groups or missing seeds each scored group has its own smallest p-value; the room is what at least four
    of five of them have (`POWER`).

    Args:
        listing: Of the class.
        n_seeds: As if so many seeds had been trained; those of the audit if not given.

    Returns:
        At least `MIN_ROOM` where a list may be asked for; 0 without scored groups.
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
    """The smallest gap that the list of a class finds with probability 0.8, by simulation.

    A simulated patient is an unseen group, its differences with a random sign a seed, and a gap drawn from `SHAPE` on
    one of its images; it lacks the seeds that a random scored group lacks. It is found where its p-value is at most
    `level / m`: alone on the list. Gaps are tried with the same draws, so that more gap is never found less often but
    for its shape; the smallest is looked for by bisection of `GAPS`.

    Args:
        listing: Of the class.
        seed: Of the draws, of the audit's own.
        n_draws: Simulated patients.

    Returns:
        The gap with its power; infinite where the room is below `MIN_ROOM` or no gap is found often enough.
    """
    nan, n_test, space = float("nan"), len(listing.test.ids), room(listing)
    if not n_test or space < MIN_ROOM:
        return NoticeableGap(math.inf, nan, nan, nan, space, 0, n_test)
    low, high = 0, len(GAPS) - 1
    found = {high: power(listing, float(GAPS[high]), seed=seed, n_draws=n_draws)}
    while found[high] >= POWER and low < high:
        middle = (low + high) // 2
        found[middle] = power(listing, float(GAPS[middle]), seed=seed, n_draws=n_draws)
        low, high = (low, middle) if found[middle] >= POWER else (middle + 1, high)
    share = clopper_pearson(round(found[high] * n_draws), n_draws)
    gap = float(GAPS[high]) if found[high] >= POWER else math.inf
    return NoticeableGap(gap, found[high], share.low, share.high, space, n_draws, n_test)


def power(listing: ClassList, gap: float, *, seed: int, n_draws: int = N_DRAWS, n_seeds: int | None = None) -> float:
    """Probability that the list of a class finds one patient with this mean gap.

    Args:
        listing: Of the class.
        gap: Mean over trainings, in nats.
        seed: Of the draws.
        n_draws: Simulated patients.
        n_seeds: As if so many seeds had been trained: seeds of the audit are drawn with replacement.

    Returns:
        Share of simulated patients that are found.
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
        shares.append(_found(listing, space, seeds, gap, int(n), rng).sum())
    return float(sum(shares) / n_draws)


def seeds_needed(listing: ClassList, gap: float, *, seed: int, n_draws: int = 200) -> int | None:
    """How many seeds would give the class's list room and find this gap with probability `PASS_POWER`.

    Args:
        listing: Of the class.
        gap: In nats.
        seed: Of the draws.
        n_draws: Simulated patients.

    Returns:
        At least those of the audit; None where `MOST_SEEDS` are too few, or more seeds give no more flips.
    """
    if not len(listing.test.ids) or not len(listing.sizes) or not listing.flip:
        return None
    low, high = listing.test.n_seeds, max(MOST_SEEDS, listing.test.n_seeds)
    while room(listing, low) < MIN_ROOM:
        if low == high:
            return None
        low += 1
    step, tried = 0, low
    while power(listing, gap, seed=seed, n_draws=n_draws, n_seeds=tried) < PASS_POWER:
        if tried == high:
            return None
        low, step = tried + 1, max(2 * step, 1)
        tried = min(tried + step, high)
    high = tried
    while low < high:
        middle = (low + high) // 2
        enough = power(listing, gap, seed=seed, n_draws=n_draws, n_seeds=middle) >= PASS_POWER
        low, high = (low, middle) if enough else (middle + 1, high)
    return high


def gap_profiles(gap: float, uniform: ArrayLike, present: ArrayLike) -> FloatArray:
    """Gaps over seeds of patients with this mean gap: zero in some seeds, gamma in the others (`SHAPE`).

    Args:
        gap: Mean over trainings, in nats.
        uniform: `[N, S]` uniform draws that place each gap in its distribution.
        present: `[N, S]` uniform draws that say in which seeds there is none.

    Returns:
        `[N, S]` with mean `gap` and the coefficient of variation of `SHAPE`.
    """
    means, variations, zeros = SHAPE
    variation, zero = (float(np.interp(np.log(gap), np.log(means), column)) for column in (variations, zeros))
    squared = (variation**2 + 1) * (1 - zero) - 1  # of the gaps that are there
    values = gammaincinv(1 / squared, np.asarray(uniform)) * squared * gap / (1 - zero)
    return np.where(np.asarray(present) < zero, 0.0, values)


def _found(
    listing: ClassList, space: float, seeds: IntArray, gap: float, n_draws: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Which of n simulated patients, scored in these seeds, the list finds; space is the class's `room`."""
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
    """`[R]` how many flips of an image's own gaps `[R, S]` reach what was observed.

    A patient's images are counted each by itself, which counts a flip twice where two of them reach: too many, so that
    the power is not overstated.
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
