"""The noticeable gap of a class: the smallest gap of any single patient that its list finds with probability 0.8.

METHODS section 6, "Classifier" and "Third form". The power of the list is measured on simulated patients of known gap:
patients of the class whose gaps over seeds get random signs, which is what they are without memorization, and a gap on
one image. They are ranked as canaries are (`memorization.sign_flips`) and count as found where a list finds them
alone, with the only small p-value of the class. The noticeable gap is the largest of those of the strata: patients
with one image, with 2 to 9, with 10 and more, and the tenth whose gaps are largest.

Three readings of METHODS:

* Simulated patients are made of the scored ones, not of unseen ones: power is that for the very patients who are
  judged, and no stratum that was scored is without patients to measure it on. The gaps of a remembered patient who is
  not on the list count as noise, so that the power is too small, never too large.
* The gap's shape over seeds is always that of `GAP_SHAPE`. METHODS takes the shape of this run's highest canaries
  where there are any; but only a list shows whose gap is real, and an audit that lists a patient has failed.
  Unlisted maxima have the shape of noise.
* The gap is on one image of the patient. The same gap on several images is noticed more often, by the largest of them
  and by the sum over all.

The `paper` design has no flips: its simulated patients are made of unseen ones.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.memorization.nulls import comparison_sizes, unit_p_values
from memorisk.statistics.memorization.sign_flips import (
    MAX_DRAWS,
    FlipNull,
    flip_null,
    gap_statistic,
    joined_units,
    least_total,
    n_statistics,
)
from memorisk.statistics.randomization.sign_flips import (
    FloatArray,
    ImagesElsewhere,
    IntArray,
    Units,
    flip_blocks,
    plan_flips,
)
from memorisk.statistics.verdicts.levels import PASS_POWER, POWER

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

SIZES = {"one": (1, 1), "few": (2, 9), "many": (10, math.inf)}
"""Strata of patients by their number of images in the class, with the least and the largest number."""

NOISIEST, EVERY = "noisiest", "every"
"""Stratum of the `NOISIEST_SHARE` of the patients with the largest gaps, and that of all patients."""

NOISIEST_SHARE = 0.1

STRATA = (EVERY, *SIZES, NOISIEST)
"""Names of all strata, in the order in which they are shown."""


def stratum_of(n_images: int) -> str:
    """Return the stratum of patients with so many images, a key of `SIZES`.

    Example:
        >>> stratum_of(1), stratum_of(9), stratum_of(10)
        ('one', 'few', 'many')
    """
    return next(name for name, (least, most) in SIZES.items() if least <= n_images <= most)


_MOST_PATTERNS = 8
"""Patterns of missing seeds that are drawn; each needs a null distribution of its own."""

_FEWEST_FLIPS, _ENOUGH_ROOM = 2**12, 32
"""Fewest flips among which simulated patients are ranked, and the room that a part of all flips must leave."""


@dataclass(frozen=True)
class ClassList:
    """The data of one class's list: scored and unseen groups with their gaps, and the level."""

    units: Units
    """Scored groups, then unseen ones; in the `paper` design their means over seeds are the gaps of one seed."""
    n_scored: int
    """Number of scored groups."""
    level: float
    """Level of the class, q / C, with C the number of classes that have a list."""
    flip: bool = True
    """Whether signs may be flipped; False in the `paper` design, whose roles are not symmetric."""
    listed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """`[n_scored]` groups on the list, which leave the null of the others; empty for none."""

    @property
    def null_groups(self) -> NDArray[np.bool_]:
        """Mask of the groups that are the null of an unlisted one, `[U]`."""
        unseen = np.arange(len(self.units.ids)) >= self.n_scored
        if not self.flip:
            return unseen
        return unseen | ~np.append(self.listed, np.zeros(len(self.units.ids) - len(self.listed), dtype=bool))

    def flips(self, n_seeds: int) -> tuple[int, bool]:
        """Count the flips of a p-value over this many seeds, and say whether these are all (`flips.plan_flips`)."""
        return plan_flips(n_seeds, len(self.units.unit_of), MAX_DRAWS, 0) if self.flip else (1, True)


@dataclass(frozen=True)
class StratumGap:
    """The noticeable gap of some patients of a class, with the power at this gap."""

    stratum: str
    """Stratum of patients: a key of `SIZES`, `NOISIEST` or `EVERY`."""
    n_groups: int
    """Number of patients that simulated ones are made of, the independent units."""
    gap: float
    """Smallest mean gap in nats that is found with probability `POWER`; infinite where no gap up to 16 nats is."""
    power: float
    """Probability with which this gap is found; without such a gap, that of 16 nats. NaN without a list."""
    low: float
    """Lower 95 % limit of the power over simulated patients (Clopper-Pearson; not over other patients)."""
    high: float
    """Upper 95 % limit of the power over simulated patients."""


@dataclass(frozen=True)
class NoticeableGap:
    """The noticeable gap of a class: that of the stratum in which least is noticed."""

    room: float
    """Room of the class (`room`)."""
    n_draws: int
    """Number of simulated patients in each stratum."""
    strata: tuple[StratumGap, ...]
    """Each stratum that has scored patients; empty without room."""

    @property
    def worst(self) -> StratumGap:
        """The stratum with the largest noticeable gap, and the least power among equals."""
        nan = float("nan")
        none = StratumGap(EVERY, 0, math.inf, nan, nan, nan)
        return max(self.strata, key=lambda s: (s.gap, -s.power), default=none)


def class_list(
    gap: ArrayLike,
    sign: ArrayLike,
    unit: ArrayLike,
    test_gap: ArrayLike,
    test_unit: ArrayLike,
    level: float,
    *,
    elsewhere: ImagesElsewhere | None = None,
    flip: bool = True,
) -> ClassList:
    """Collect the data of one class's list from the arrays that give its p-values.

    Args:
        gap: `[S, I]` loss gaps of the class's scored images; in the `paper` design `[1, I]`, their means over seeds.
        sign: `[S, I]` membership, as in `sign_flips.sign_flip_p_values`.
        unit: `[I]` group of each scored image.
        test_gap: `[S, J]` gaps of the class's test images.
        test_unit: `[J]` group of each test image.
        level: Level of the class, q / C.
        elsewhere: Images of the groups in other classes, as in `sign_flips.sign_flip_p_values`.
        flip: Whether signs may be flipped; False in the `paper` design.

    Raises:
        InputError: Shapes do not fit, or the level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"the level of a class's list is {level}; give a share between 0 and 1")
    units = joined_units(gap, sign, unit, test_gap, test_unit, elsewhere)
    some = np.asarray(units.scored.any(axis=1))
    n_scored = int(some[: len(np.unique(np.asarray(unit)))].sum())
    return ClassList(units.take(np.flatnonzero(some), np.ones(units.n_seeds, dtype=bool)), n_scored, level, flip)


def room(listing: ClassList, n_seeds: int | None = None) -> float:
    """Compute the room of a class: the level of a single patient over the smallest p-value, `q / C n 2^S / m`.

    n are the groups of the null, m the scored groups, S the seeds. With missing seeds, and with unequal groups in the
    `paper` design, each scored group has its own smallest p-value; the room is then the value that at least four of
    five groups reach (`POWER`).

    Args:
        listing: Data of the class's list.
        n_seeds: Number of seeds to compute the room for; the audit's own if not given.

    Returns:
        The room; a class is testable from `MIN_ROOM` on. 0 without scored or without unseen groups.

    Source:
        METHODS section 6, "Room"; n as in `memorization.sign_flips`.
    """
    m, units = listing.n_scored, listing.units
    if not m or m == len(units.ids):
        return 0.0
    own = units.n_seeds if n_seeds is None else n_seeds
    scored = units.scored[:m]
    seeds, back = np.unique((~scored).sum(1), return_inverse=True)
    flips = np.array([listing.flips(max(own - int(n), 1))[0] for n in seeds], dtype=np.float64)[back]
    if listing.flip:
        patterns, of_group = np.unique(scored, axis=0, return_inverse=True)
        others = units.scored[listing.null_groups]
        compared = np.array([others[:, pattern].all(axis=1).sum() for pattern in patterns])[of_group.ravel()]
        rooms = listing.level * compared * flips / m / n_statistics(units)[:m]
    else:
        sizes, tests = units.sizes[:m], units.sizes[m:]
        size = comparison_sizes(sizes, tests)
        rooms = listing.level * ((tests >= size[:, None]).sum(1) + 1) / (-(-sizes // size) * m)
    return float(np.sort(rooms)[int((1 - POWER) * m + 1e-9)])


def noticeable_gap(listing: ClassList, *, seed: int, n_draws: int = N_DRAWS) -> NoticeableGap:
    """Compute the smallest gap that the list of a class finds with probability `POWER`, in each stratum, by simulation.

    A simulated patient is a patient of the stratum whose gaps get a random sign in each seed, and one of whose images
    gets a gap drawn from `GAP_SHAPE`. It is found where its p-value is at most `level / m`, so that it would be on the
    list alone. All gaps use the same draws, so that the power increases with the gap but for the gap's shape; the
    smallest gap is found by bisection of `GAPS`.

    Args:
        listing: Data of the class's list.
        seed: Seed of the draws.
        n_draws: Number of simulated patients in each stratum.

    Returns:
        The gaps with their power; no stratum where the room is below `MIN_ROOM`.

    Source:
        METHODS section 6, "Noticeable gap X" and "Third form".
    """
    space = room(listing)
    if space < MIN_ROOM:
        return NoticeableGap(space, 0, ())
    simulator = _Simulator(listing, seed, n_draws)
    return NoticeableGap(space, n_draws, tuple(simulator.stratum_gap(name) for name in strata(listing)))


def strata(listing: ClassList) -> dict[str, IntArray]:
    """Name the strata that have scored groups, each with the groups of which its simulated patients are made.

    Args:
        listing: Data of the class's list.

    Returns:
        `EVERY`, the strata of `SIZES` where there is more than one, and `NOISIEST`; positions in `listing.units`.
    """
    units, scored = listing.units, np.arange(len(listing.units.ids)) < listing.n_scored
    judged = scored & listing.null_groups if listing.flip else scored
    sources = judged if listing.flip else ~scored
    groups = {EVERY: np.flatnonzero(sources)}
    by_size = {}
    for name, (least, most) in SIZES.items():
        within = (units.sizes >= least) & (units.sizes <= most)
        if (judged & within).any():
            by_size[name] = np.flatnonzero(sources & within)
    if len(by_size) > 1:
        groups |= by_size
    squares = np.bincount(units.unit_of, weights=np.square(units.gap).mean(axis=0), minlength=len(units.ids))
    size = (squares / units.sizes)[groups[EVERY]]
    n = math.ceil(NOISIEST_SHARE * len(size))
    groups[NOISIEST] = np.sort(groups[EVERY][np.argsort(-size, kind="stable")[:n]])
    return groups


def power(
    listing: ClassList,
    gap: float,
    *,
    seed: int,
    stratum: str = "",
    n_draws: int = N_DRAWS,
    n_seeds: int | None = None,
) -> float:
    """Compute the probability that the list of a class finds a single patient with this mean gap.

    Args:
        listing: Data of the class's list.
        gap: Mean gap over trainings, in nats.
        seed: Seed of the draws.
        stratum: Stratum of the patients, a key of `strata`; the one in which fewest are found if not given.
        n_draws: Number of simulated patients in each stratum.
        n_seeds: Number of seeds to compute the power for, drawn with replacement from the audit's; its own if not
            given.

    Returns:
        Share of the simulated patients that are found.
    """
    if not room(listing, n_seeds):
        return 0.0
    simulator = _Simulator(listing, seed, n_draws, n_seeds)
    return min(simulator.power(name, gap) for name in ((stratum,) if stratum else simulator.groups))


def seeds_needed(listing: ClassList, gap: float, *, seed: int, n_draws: int = 200) -> int | None:
    """Compute the number of seeds with which the class has room and its list finds this gap as a pass needs it.

    That is with power `PASS_POWER` in each stratum, exceeded by two Monte Carlo standard errors, since the audit with
    more seeds has noise of its own.

    Args:
        listing: Data of the class's list.
        gap: Gap of a single patient, in nats.
        seed: Seed of the draws.
        n_draws: Number of simulated patients.

    Returns:
        A number larger than the audit's; None where `MAX_SEEDS` are too few, or where more seeds give no more flips.
    """
    if not listing.flip or not room(listing):
        return None
    low = listing.units.n_seeds + 1
    high = max(MAX_SEEDS, low)
    while room(listing, low) < MIN_ROOM:
        if low == high:
            return None
        low += 1

    def enough(n_seeds: int) -> bool:
        """Say whether this many seeds suffice in every stratum."""
        wanted = PASS_POWER + 2 * math.sqrt(PASS_POWER * (1 - PASS_POWER) / n_draws)
        simulator = _Simulator(listing, seed, n_draws, n_seeds)
        return all(simulator.power(name, gap) >= wanted for name in simulator.groups)

    step, tried = 0, low
    while not enough(tried):
        if tried == high:
            return None
        low, step = tried + 1, max(2 * step, 1)
        tried = min(tried + step, high)
    high = tried
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
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


@dataclass(frozen=True)
class _SeedPattern:
    """Null of patients scored by the same seeds, and what a list allows."""

    null: FlipNull
    place: IntArray
    """`[N]` position in the class's units of each unit of the null."""
    hits: float
    """Number of flipped statistics that may reach a patient with one image who is listed alone."""
    tail: FloatArray
    """Largest images of flipped units, ascending: more than a single patient and the allowed hits together."""
    sums_tail: FloatArray
    """The same of the sums over the images of the class; empty where all units have one image."""
    all_classes_tail: FloatArray
    """The same of the sums over the images of all classes; empty where no unit has images in others."""


class _Simulator:
    """Simulated patients of a class, and which of them its list finds."""

    def __init__(self, listing: ClassList, seed: int, n_draws: int, n_seeds: int | None = None) -> None:
        self.listing, self.seed, self.n_draws, self.n_seeds = listing, seed, n_draws, n_seeds
        self.groups = strata(listing)
        self._patterns: dict[bytes, _SeedPattern] = {}

    def stratum_gap(self, stratum: str) -> StratumGap:
        """Find the noticeable gap of a stratum by bisection."""
        low, high, nan = 0, len(GAPS) - 1, float("nan")
        n = len(self.groups[stratum])
        if not n:
            return StratumGap(stratum, 0, math.inf, nan, nan, nan)
        powers = {high: self.power(stratum, float(GAPS[high]))}
        while powers[high] >= POWER and low < high:
            middle = (low + high) // 2
            powers[middle] = self.power(stratum, float(GAPS[middle]))
            low, high = (low, middle) if powers[middle] >= POWER else (middle + 1, high)
        share = clopper_pearson(round(powers[high] * self.n_draws), self.n_draws)
        gap = float(GAPS[high]) if powers[high] >= POWER else math.inf
        return StratumGap(stratum, n, gap, powers[high], share.low, share.high)

    def power(self, stratum: str, gap: float) -> float:
        """Compute the share of simulated patients of a stratum that the list finds at this gap."""
        groups, rng = self.groups[stratum], np.random.default_rng([self.seed, 23])
        if not len(groups):
            return 0.0
        if not self.listing.flip:
            return float(self._found_without_flips(rng.choice(groups, self.n_draws), gap, rng).mean())
        scored = self.listing.units.scored
        patterns = np.unique(scored[groups], axis=0)
        if len(patterns) > 1:
            patterns = scored[rng.choice(groups, _MOST_PATTERNS)]
        parts = np.diff(np.arange(len(patterns) + 1) * self.n_draws // len(patterns))
        n_found = 0
        for pattern, n in zip(patterns, parts, strict=True):
            alike = groups[scored[np.ix_(groups, pattern)].all(axis=1)]
            n_found += int(self._found(self._of_seeds(pattern), rng.choice(alike, n), gap, rng).sum())
        return n_found / self.n_draws

    def _of_seeds(self, pattern: NDArray[np.bool_]) -> _SeedPattern:
        """Prepare the null of a pattern of seeds, or take the one that is there."""
        if (key := pattern.tobytes()) not in self._patterns:
            units, seeds = self.listing.units, np.flatnonzero(pattern)
            if self.n_seeds is not None:  # as many seeds are missing as in the audit
                n = max(self.n_seeds - int((~pattern).sum()), 1)
                seeds = np.random.default_rng([self.seed, 29]).choice(seeds, size=n)
            place = np.flatnonzero(self.listing.null_groups & units.scored[:, pattern].all(axis=1))
            share = self.listing.level / self.listing.n_scored * len(place)
            flips = self.listing.flips(len(seeds))[0]
            most = max(_FEWEST_FLIPS, int(_ENOUGH_ROOM / share))
            null = flip_null(units.take(place, seeds), most_flips=most)
            hits = share * null.flips * (1 + 1e-12) if null.flips < flips else share * flips * (1 + 1e-12)
            n_tail = int(hits) + 1 + null.flips
            sums_tail, all_classes_tail = (
                np.empty(0) if of is None else of.null.largest(n_tail) for of in (null.of_class, null.of_all_classes)
            )
            self._patterns[key] = _SeedPattern(null, place, hits, null.largest(n_tail), sums_tail, all_classes_tail)
        return self._patterns[key]

    def _found(
        self, pattern: _SeedPattern, groups: IntArray, gap: float, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Say which of these groups, each with random signs and a gap on one image, the list finds."""
        null, n_seeds = pattern.null, len(pattern.null.units.gap)
        unit = np.searchsorted(pattern.place, groups)
        unit = unit[np.argsort(null.units.sizes[unit], kind="stable")]  # the order of `Units`
        n, k = len(unit), null.units.sizes[unit]
        image, draw, first = _images(null.units, unit)
        noise, signs = null.units.gap[:, image].T, rng.choice([-1.0, 1.0], size=(n, n_seeds))
        rows = noise * signs[draw]
        rows[first + (rng.random(n) * k).astype(np.int64)] += gap_profiles(gap, *rng.random((2, n, n_seeds)))
        value = np.full(n, -np.inf)
        np.maximum.at(value, draw, null.of_images(np.ones((1, n_seeds)), rows.T)[0])
        own, before = (_image_hits(null, part, draw, value) for part in (rows, noise))
        allowed = pattern.hits / n_statistics(null.units)[unit]
        is_listed = _reached(pattern.tail, null.in_terms_of_one(value, k), before) + own <= allowed
        others = None if null.units.elsewhere is None else null.units.elsewhere.take(unit, np.arange(n_seeds))
        turned = None if others is None else replace(others, sums=others.sums * signs.T)
        for has, of, tail, (own_others, noise_others) in (
            (k > 1, null.of_class, pattern.sums_tail, (None, None)),
            (null.units.has_elsewhere[unit], null.of_all_classes, pattern.all_classes_tail, (turned, others)),
        ):
            if of is not None and has.any():
                sums, noise_sums = (
                    of.sums(_simulated_units(x, draw, k, elsewhere)).gap[:, has].T
                    for x, elsewhere in ((rows, own_others), (noise, noise_others))
                )
                value = of.null.of_images(np.ones((1, n_seeds)), sums.T)[0]
                own, before = (_own_hits(of.null, part, value) for part in (sums, noise_sums))
                is_listed[has] |= _reached(tail, value, before) + own <= allowed[has]
        return is_listed

    def _found_without_flips(self, groups: IntArray, gap: float, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Say which of these unseen groups, each with a gap on one image, a list without flips finds."""
        units, n = self.listing.units, len(groups)
        image, draw, first = _images(units, groups)
        score = units.gap[0, image].copy()
        remembered = first + (rng.random(n) * units.sizes[groups]).astype(np.int64)
        score[remembered] += gap_profiles(gap, *rng.random((2, n, 1))).mean(axis=1)
        tests = units.unit_of >= self.listing.n_scored
        p = unit_p_values(score, draw, units.gap[0, tests], units.unit_of[tests]).p_value
        return p <= self.listing.level / self.listing.n_scored * (1 + 1e-12)


def _images(units: Units, unit: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the images of `[n]` units in turn, which of the n each belongs to, and where each unit's begin."""
    by_unit = np.argsort(units.unit_of, kind="stable")
    k = units.sizes[unit]
    draw, begin = np.repeat(np.arange(len(unit)), k), np.cumsum(k) - k
    first = np.searchsorted(units.unit_of[by_unit], unit)
    return by_unit[np.repeat(first - begin, k) + np.arange(len(draw))], draw, begin


def _simulated_units(rows: FloatArray, draw: IntArray, sizes: IntArray, elsewhere: ImagesElsewhere | None) -> Units:
    """Simulated patients `[n]` as units, from the gaps of the images `[R, S]` and the patient of each image."""
    scored = np.ones((len(sizes), rows.shape[1]), dtype=bool)
    return Units(np.arange(len(sizes)), sizes, scored, rows.T, draw, elsewhere)


def _reached(tail: FloatArray, observed: FloatArray, before: FloatArray) -> FloatArray:
    """Count the flipped values of other patients that reach the observed ones `[n]`.

    Args:
        tail: Largest flipped values of all patients, ascending.
        observed: Observed value of each simulated patient.
        before: Number of flipped values that reach it of the patient that the simulated one is made of.
    """
    return np.maximum(len(tail) - np.searchsorted(tail, observed) - before, 0)


def _image_hits(null: FlipNull, rows: FloatArray, draw: IntArray, observed: FloatArray) -> FloatArray:
    """Count the flips of the images `[R, S]` of n patients that reach the value observed of each patient: `[n]`.

    The images of a patient are counted one by one, so that a flip counts twice where two of them reach.
    """
    hits = np.zeros(len(observed))
    np.add.at(hits, draw, _own_hits(null, rows, observed[draw]))
    return hits


def _own_hits(null: FlipNull, rows: FloatArray, observed: FloatArray) -> FloatArray:
    """Count the flips of each image's own gaps `[R, S]` that reach the observed statistic `[R]`: `[R]` counts."""
    hits = np.zeros(len(rows))
    most = gap_statistic(np.abs(rows).sum(axis=1)[None], rows.T, null.offset, null.weight)[0]
    near = np.flatnonzero(most >= observed * (1 - 1e-9))
    if not len(near):
        return hits
    total = least_total(observed[near], rows[near].T, null.offset, null.weight)
    limit = np.where(observed[near] > 0, total * (1 - 1e-9), -np.inf)  # a sum of 64 terms rounds by less than 1e-13
    for signs in flip_blocks(rows.shape[1], null.flips, null.exact, null.seed, width=len(near)):
        hits[near] += (signs @ rows[near].T >= limit).sum(axis=0)
    return hits
