"""Sign flips of twins: is a patient's gap more than the coins of the trainings explain?

METHODS section 1, "Null and p-value". One call handles one class: nulls are never pooled over classes. In each seed a
fair coin decided which twin saw a patient, so that without memorization the signs of its gaps are coins, too. A
patient's p-value is the share of all patients' flipped statistics, of the class's scored and unseen ones alike, that
reach the observed one.

Four deviations from METHODS, which compares with unseen patients only, by a maximum over as many images.

* **The scored patients are part of the null.** Their flips are exchangeable with the unseen ones by the coins alone:
  whatever noise each patient has, the expected number of patients with p at most a is a times their number. The null
  has seven times as many patients, so that large patients and noisy ones find their like in it, and does not rest on
  an unseen part that is as hard as the scored one. Patients who are remembered widen it, and large ones change what
  sizes are compared by. Therefore the patients on the list leave the null of all others with all that is computed
  from it, and the list is made anew until it stays the same.
* **Sizes are compared by what chance does to them.** The statistic of a patient with k images is the maximum over
  them, put in terms of a single image: the value that one image exceeds as often under flips as one of k exceeds the
  maximum. So patients of all sizes share one null, and a large one is not listed more often for its size.
* **Many images that are each remembered a little count as well.** The maximum does not see them: 0.2 nats on each of
  60 images reveal the patient, and no image is conspicuous. A patient with several images has therefore a second
  statistic, that of the sum of their gaps (`sums_of_images`), which is scaled so that it has the same size under flips
  for any number of images, however they are correlated. One coin decides over all images of a patient, those of other
  classes as well: a patient who has such has a further statistic, that of the sum over the images of all classes,
  which sees memory that is spread thinly over them. p is the smallest p times the number of statistics.
* **The statistic weighs the size of a gap and its agreement over seeds as the data say** (`agreement_weight`).

`recipes/verdict_truth.py` shows levels and power.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.statistics.memorization.nulls import UnitPValues
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg
from memorisk.statistics.randomization.sign_flips import (
    FloatArray,
    ImagesElsewhere,
    IntArray,
    Units,
    flip_blocks,
    flipped_sums,
    make_units,
    plan_flips,
)

MAX_DRAWS = 2**24
"""Flipped values of a class's images per pattern of missing seeds: all flips up to here, random ones beyond."""

SMALL_ERROR = 0.15
"""Number of nats added to every standard error, besides the median error (`typical_error`)."""

LARGEST_IMAGES = 0.1
"""Share of the images whose sizes tell how heavy the tail of the noise is."""

COMPARED = 1e-3
"""Share of flips down to which patients of different numbers of images are made equal; beyond, by its ratio of values.

Of 1e-2 to 1e-4 the one at which patients of 1 to 200 images are listed equally often by chance: deeper a single noisy
image decides, and a patient of 60 images is listed four times as often as one of a single image."""

REFERENCE = 2**20
"""Flipped values of images by which sizes are compared, about."""

_LEAST_ERROR = float(np.sqrt(np.finfo(np.float64).tiny))
"""Offset where most gaps are 0: an image without any gap has the statistic 0, not 0 / 0."""

ROUNDING = 1e-12
"""Relative difference up to which statistics count as equal."""


def median_error(gap: FloatArray) -> float:
    """Return the median over images of the standard error of a gap, `sqrt(mean D^2 / S)`; 0 without images.

    Args:
        gap: `[S, I]` gaps, whose flips have the same median.
    """
    return float(np.median(np.sqrt(np.mean(gap**2, axis=0) / len(gap)))) if gap.size else 0.0


def typical_error(gap: FloatArray) -> float:
    """Return the offset of the standard error of a gap, `0.15 + median over images of sqrt(mean D^2 / S)`.

    Without it an image whose few seeds happen to agree would rank above one with a large gap. The median is the
    standard error of a typical image, so that the offset grows with the noise of trainings; it does not change with
    flips. 0.15 nats keep it from vanishing where most images are learned without effort.

    Chosen by simulation among eight (`recipes/verdict_truth.py --offsets`).

    Args:
        gap: `[S, I]` loss gaps of all images of a class, in nats.

    Source:
        METHODS section 6, "Ranking"; the form is that of Tusher, Tibshirani and Chu (2001).
    """
    return SMALL_ERROR + median_error(gap)


def agreement_weight(gap: FloatArray) -> float:
    """Return the power of the standard error by which mean gaps are divided, `S / (S + a)`, from the noise's tail.

    What tells a remembered image is that its gaps are large and that they agree over seeds. For gaps of any scale the
    likelihood of agreement grows as `|mean / error|^S`, and noise whose size r over images has the tail `r^-a` makes a
    large gap less likely by `r^-a`. The likelihood ratio of both ranks as `mean / error^(S / (S + a))`. a is Hill's
    estimate from the largest tenth of the images. Few images of extreme noise (small a) leave agreement to decide;
    where all images are noisy alike, size does. Sizes do not change with flips.

    Args:
        gap: `[S, I]` loss gaps of all images of a class, in nats.

    Returns:
        A number from 0 (rank means) to 1 (rank studentized means).
    """
    size = np.sort(np.sqrt(np.mean(gap**2, axis=0)))[::-1]
    n = max(int(LARGEST_IMAGES * len(size)), min(5, len(size)))
    if n < 2 or size[n - 1] <= 0:
        return 1.0
    spread = float(np.mean(np.log(size[:n] / size[n - 1])))
    return len(gap) * spread / (len(gap) * spread + 1)


def gap_statistic(total: FloatArray, gap: FloatArray, offset: float, weight: float) -> FloatArray:
    """Mean over seeds over a power of its enlarged standard error, of flipped sums.

    `m / (sqrt((q - m^2) / (S - 1)) + offset)^weight` with `m = total / S` and `q = mean over s of D_s^2`, which no
    flip changes. With one seed the error is 0.

    Args:
        total: `[flips, I]` sums over seeds of flipped gaps.
        gap: `[S, I]` gaps.
        offset: `typical_error`, in nats.
        weight: `agreement_weight`.

    Returns:
        `[flips, I]`, increasing in `total`.
    """
    n_seeds = len(gap)
    squares = np.zeros(gap.shape[1])
    for row in gap:
        squares += row * row
    mean = total / n_seeds
    spread = np.maximum(squares / n_seeds - mean * mean, 0.0)
    error = np.sqrt(spread / max(n_seeds - 1, 1)) + (offset or _LEAST_ERROR)
    return mean / error**weight


def least_total(statistic: FloatArray, gap: FloatArray, offset: float, weight: float) -> FloatArray:
    """Find the sum over seeds at which `gap_statistic` takes a positive value, by bisection; it increases in the sum.

    Args:
        statistic: `[I]` values that flipped sums of the images can reach.
        gap: `[S, I]` gaps.
        offset: `typical_error`, in nats.
        weight: `agreement_weight`.

    Returns:
        `[I]`, to a relative precision of 1e-12 of the largest sum.
    """
    low, high = np.zeros(gap.shape[1]), np.abs(gap).sum(axis=0)
    for _ in range(45):
        middle = (low + high) / 2
        above = gap_statistic(middle[None], gap, offset, weight)[0] >= statistic
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


def scaled_gaps(gap: FloatArray, offset: float) -> FloatArray:
    """Gaps of images without the scale of each, `D_si / (size_i + offset)`: `[S, I]`.

    size_i is the root mean square of the gaps of image i, so that few noisy images do not decide a sum.

    Args:
        gap: `[S, I]` gaps.
        offset: `typical_error`, in nats.
    """
    return gap / (np.sqrt(np.mean(gap**2, axis=0)) + offset)


def n_statistics(units: Units) -> IntArray:
    """Count the statistics of each unit, `[U]`.

    These are the largest image, the sum over the images of the class where the unit has several, and the sum over those
    of all classes where it has images in others.
    """
    return 1 + (units.sizes > 1).astype(np.int64) + units.has_elsewhere


def image_correlation(units: Units, offset: float) -> float:
    """Estimate the correlation of the `scaled_gaps` of two images of one unit in one seed, from 0.

    With n images of mean square v, the square of a unit's sum is `n v (1 + (n - 1) r)` on average. r is the excess of
    these squares, as multiples of `n v`, over 1, of all units with several images together, divided by the sum of
    `n - 1`. The unit with the largest excess does not count, so that one remembered patient does not set his own
    measure, also where no other patient has several images. r does not change with flips.

    Args:
        units: Units with their signed gaps, and with their images in other classes where these count.
        offset: `typical_error`, in nats.
    """
    sums, n = _sums(units, offset)
    several = n > 1
    square = float(np.mean(scaled_gaps(units.gap, offset) ** 2)) if units.gap.size else 0.0
    if several.sum() < 2 or not square:
        return 0.0
    excess = np.square(sums[:, several]).mean(axis=0) / (square * n[several]) - 1
    counted = np.arange(len(excess)) != np.argmax(excess)
    return max(float(excess[counted].sum()) / float((n[several][counted] - 1).sum()), 0.0)


def sums_of_images(units: Units, offset: float, correlation: float) -> Units:
    """Add up the `scaled_gaps` of all images of each unit, as the gap of one image: `x / sqrt(n (1 + (n - 1) r))`.

    The divisor is the size of a sum over n images that have the correlation r, so that a sum is as large by chance for
    a unit of any number of images.

    Args:
        units: Units with their signed gaps; their images in other classes count (not in `Units.of_one_class`).
        offset: `typical_error`, in nats.
        correlation: `image_correlation`.

    Returns:
        The same units with one gap each, without a unit.
    """
    sums, n = _sums(units, offset)
    one = np.ones(len(n), dtype=np.int64)
    return Units(units.ids, one, units.scored, sums / np.sqrt(n * (1 + (n - 1) * correlation)), np.arange(len(n)))


def _sums(units: Units, offset: float) -> tuple[FloatArray, IntArray]:
    """Add up the `scaled_gaps` of all images of each unit, `[S, U]`, and count these images, `[U]`."""
    scaled, n = scaled_gaps(units.gap, offset), units.sizes
    sums = np.zeros((len(scaled), len(n)))
    for row, values in zip(sums, scaled, strict=True):
        row += np.bincount(units.unit_of, values, len(n))
    if units.elsewhere is not None:
        sums, n = sums + units.elsewhere.sums, n + units.elsewhere.sizes
    return sums, n


@dataclass(frozen=True)
class FlipNull:
    """All patients of a class in seeds that scored each of them, with their flips."""

    units: Units
    """Scored and unseen patients, with the gaps signed by membership; unseen ones with any sign."""
    offset: float
    """Offset of the standard error, `typical_error`, in nats."""
    weight: float
    """Power of the standard error, `agreement_weight`."""
    flips: int
    """Number of flips, the identity included."""
    exact: bool
    """Whether they are all that there are."""
    seed: int
    """Seed of random flips."""
    quantiles: Mapping[int, FloatArray] = field(default_factory=dict)
    """For each number of images: values that one of so many exceeds in a share of the flips that falls from 1 to
    `COMPARED`; empty where all units have one number."""
    of_class: "SumsNull | None" = None
    """Null of the sums over the images of the class; None where no unit has several."""
    of_all_classes: "SumsNull | None" = None
    """Null of the sums over the images of all classes; None where no unit has images in others."""

    def of_images(self, signs: FloatArray, gap: FloatArray) -> FloatArray:
        """Compute the statistic of images under these flips: `[flips, S]` and `[S, I]` to `[flips, I]`."""
        return gap_statistic(flipped_sums(signs, gap), gap, self.offset, self.weight)

    def blocks(self, units: Units) -> Iterator[FloatArray]:
        """Blocks `[block, U]` of the largest image of each unit under all flips, the identity first."""
        for signs in flip_blocks(len(units.gap), self.flips, self.exact, self.seed, width=units.gap.shape[1]):
            yield self.in_terms_of_one(units.maxima(self.of_images(signs, units.gap)), units.sizes)

    def in_terms_of_one(self, maxima: FloatArray, sizes: IntArray) -> FloatArray:
        """Turn maxima `[.., U]` over these numbers of images into values that a single image exceeds as often."""
        if not self.quantiles:
            return maxima
        out = np.empty_like(maxima)
        for size in np.unique(sizes):
            own, one, at = self.quantiles[int(size)], self.quantiles[1], sizes == size
            values = maxima[..., at]
            ratio = one[-1] / own[-1] if own[-1] > 0 else 1.0
            out[..., at] = np.where(values > own[-1], values * ratio, np.interp(values, own, one))
        return out

    def observed(self, units: Units) -> FloatArray:
        """Compute the largest image of each unit as it is, `[U]`."""
        identity = np.ones((1, len(units.gap)))
        return self.in_terms_of_one(units.maxima(self.of_images(identity, units.gap)), units.sizes)[0]

    def hits(self, observed: FloatArray) -> FloatArray:
        """Count the flips of all units whose largest image reaches each of the observed values `[n]`."""
        return _hits(self.blocks(self.units), observed)

    def own_hits(self, units: Units, observed: FloatArray) -> FloatArray:
        """Count the flips of each of these units that reach its own observed value: `[U]` counts for `[U]` values."""
        return _own_hits(self.blocks(units), observed)

    def largest(self, n: int) -> FloatArray:
        """The n largest values of `blocks`, ascending; fewer where there are not so many."""
        return _largest(self.blocks(self.units), n)


@dataclass(frozen=True)
class SumsNull:
    """Null of the sums over the images of each unit."""

    offset: float
    """Offset of the scale of images, `typical_error`, in nats."""
    correlation: float
    """Correlation of two images of one unit, `image_correlation`."""
    null: FlipNull
    """Null of the sums, as of units with one image; it has the flips of the images."""

    @classmethod
    def of(cls, images: FlipNull, units: Units) -> "SumsNull":
        """Prepare the null of the sums of these units, from the null of their images."""
        correlation = image_correlation(units, images.offset)
        sums = sums_of_images(units, images.offset, correlation)
        offset, weight = median_error(sums.gap), agreement_weight(sums.gap)
        return cls(images.offset, correlation, FlipNull(sums, offset, weight, images.flips, images.exact, images.seed))

    def sums(self, units: Units) -> Units:
        """Add up the images of these units."""
        return sums_of_images(units, self.offset, self.correlation)


def flip_null(
    units: Units,
    *,
    sizes: ArrayLike = (),
    max_draws: int = MAX_DRAWS,
    most_flips: int | None = None,
    seed: int = 0,
) -> FlipNull:
    """Prepare the null of units that are scored in all of their seeds.

    Args:
        units: Scored and unseen units.
        sizes: Numbers of images of other units that are compared with them.
        max_draws: Largest number of flipped values that is enumerated (`randomization.sign_flips.plan_flips`).
        most_flips: Number of flips to which random ones are limited; all that `max_draws` allows if not given.
        seed: Seed of random flips.
    """
    n_images = len(units.unit_of)
    flips, exact = plan_flips(len(units.gap), max(n_images, 1), max_draws, seed)
    if most_flips is not None and flips > most_flips:
        flips, exact = most_flips, False
    offset, weight = typical_error(units.gap), agreement_weight(units.gap)
    null = FlipNull(units, offset, weight, flips, exact, seed)
    every_size = set(units.sizes.tolist()) | set(np.asarray(sizes, dtype=np.int64).tolist())
    return replace(
        null,
        quantiles=_quantiles(null, every_size) if len(every_size) > 1 else {},
        of_class=SumsNull.of(null, units.of_one_class) if max(every_size, default=1) > 1 else None,
        of_all_classes=SumsNull.of(null, units) if units.elsewhere is not None else None,
    )


def _quantiles(null: FlipNull, sizes: set[int]) -> dict[int, FloatArray]:
    """Find what one of k images exceeds in a share of the flips, for one image and each of these numbers of images."""
    units, n_seeds, n_images = null.units, len(null.units.gap), len(null.units.unit_of)
    few = max(REFERENCE // n_images, 1)
    flips, exact = (null.flips, null.exact) if null.flips <= few else (few, False)
    blocks = flip_blocks(n_seeds, flips, exact, null.seed + 1, width=n_images)
    values = np.sort(np.concatenate([null.of_images(signs, units.gap).ravel() for signs in blocks]))
    shares, quantiles = np.geomspace(1, COMPARED, 200), {}
    for size in {1, *sizes}:
        of_one_image = 1 - (1 - shares) ** (1 / size)
        rank = np.ceil(of_one_image * len(values) * (1 - ROUNDING)).astype(int)  # of the largest, from 1
        quantiles[size] = values[len(values) - np.clip(rank, 1, len(values))]
    return quantiles


def sign_flip_p_values(
    gap: ArrayLike,
    sign: ArrayLike,
    unit: ArrayLike,
    test_gap: ArrayLike,
    test_unit: ArrayLike,
    *,
    elsewhere: ImagesElsewhere | None = None,
    level: float | None = None,
    max_draws: int = MAX_DRAWS,
    seed: int = 0,
) -> UnitPValues:
    """p-values of one class by flipping the twins' roles, over all scored and unseen units of the class.

    `p(x) = #{flipped statistics of all units >= observed} / (number of units x 2^S')`, x among the units and its
    observed value among its flips; flips are common to the images of a unit, and S' are the seeds that scored x. Units
    that some of these seeds did not score are not in its null. Ties count as reaching. Of a unit with several images p
    is the smallest p of its statistics times their number (`n_statistics`).

    When the 2^S' flips of the class's images exceed `max_draws`, uniformly random flips take the place of the full
    set: the same ones for every unit, the identity among them (valid at any number of draws: Hemerik and Goeman 2018,
    theorem 2). Memory stays within blocks of `randomization.sign_flips.BLOCK` values in either case.

    Args:
        gap: `[S, I]` loss gaps `L_B - L_A` of the class's canaries.
        sign: `[S, I]` in {-1, 0, +1}, constant over a unit's images within a seed.
        unit: `[I]` unit ids: groups, or the images themselves for descriptive image p-values.
        test_gap: `[S, J]` loss gaps of the class's test images, all finite.
        test_unit: `[J]` unit ids of the test images.
        elsewhere: Images that each unit has in other classes, with the sums of their `scaled_gaps`; of the canaries by
            sorted id and then of the tests. None for none.
        level: Level of the class's list (Benjamini-Hochberg); the units on it leave the null of the others. None: all
            units stay.
        max_draws: Largest number of flipped values (flips x images of the class) that is enumerated; beyond it,
            random flips within the same budget, but no fewer than 1,000 and no more than 65,536.
        seed: Seed of the random flips; unused when all are enumerated.

    Returns:
        Statistics and p-values `[U]` by sorted unit id, and the smallest attainable p-values.

    Raises:
        InputError: Shapes do not fit, a sign differs within a unit, or a needed gap is not finite.

    Source:
        METHODS section 1, "Null and p-value"; module docstring.
    """
    canaries = make_units("canary", gap, unit, sign=sign)
    tests = make_units("test", test_gap, test_unit, n_seeds=canaries.n_seeds)
    every = joined_units(gap, sign, unit, test_gap, test_unit, elsewhere)
    parts = [
        _Pattern.of(every, pattern, len(canaries.ids))
        for pattern in np.unique(canaries.scored, axis=0)
        if pattern.any()
    ]
    listed = np.zeros(len(canaries.ids), dtype=bool)
    while True:
        statistic, p_value, floor, n_compared = (np.full(len(listed), np.nan) for _ in range(4))
        nulls = [part.null(listed, max_draws, seed) for part in parts]
        for part, null in zip(parts, nulls, strict=True):
            n_null, at = len(null.units.ids) + listed[part.members], part.members
            statistic[at], hits = part.hits(null, listed)
            p_value[at] = np.minimum(hits / (n_null * null.flips), 1.0)
            floor[at], n_compared[at] = part.n_statistics / (n_null * null.flips), n_null - 1
        grown = listed if level is None else listed | benjamini_hochberg(p_value, level).rejected
        if (grown == listed).all():
            break
        listed = grown
    return UnitPValues(
        unit=canaries.ids,
        statistic=statistic,
        p_value=p_value,
        floor=floor,
        n_compared=np.nan_to_num(n_compared).astype(np.int64),
        n_seeds=canaries.scored.sum(1),
        n_images=canaries.sizes,
        n_test=len(tests.ids),
        n_flips=max((null.flips for null in nulls), default=0),
        exact=all(null.exact for null in nulls),
    )


def joined_units(
    gap: ArrayLike,
    sign: ArrayLike,
    unit: ArrayLike,
    test_gap: ArrayLike,
    test_unit: ArrayLike,
    elsewhere: ImagesElsewhere | None = None,
) -> Units:
    """Put canaries and test images of a class into one set of units: the canaries' by sorted id, then the tests'.

    Args:
        gap: Loss gaps of the canaries, as in `sign_flip_p_values`.
        sign: Signs of the canaries, as in `sign_flip_p_values`.
        unit: Unit ids of the canaries, as in `sign_flip_p_values`.
        test_gap: Loss gaps of the test images, as in `sign_flip_p_values`.
        test_unit: Unit ids of the test images, as in `sign_flip_p_values`.
        elsewhere: Images in other classes, as in `sign_flip_p_values`.
    """
    d, s, t = np.asarray(gap, dtype=np.float64), np.asarray(sign), np.asarray(test_gap, dtype=np.float64)
    ids, of_canary = np.unique(np.asarray(unit), return_inverse=True)
    of_test = np.unique(np.asarray(test_unit), return_inverse=True)[1]
    units = make_units(
        "class",
        np.concatenate([d, t], axis=1),
        np.concatenate([of_canary, len(ids) + of_test]),
        sign=np.concatenate([s, np.ones(t.shape)], axis=1),
    )
    return replace(units, elsewhere=elsewhere)


@dataclass(frozen=True)
class _Pattern:
    """Canaries that the same seeds scored, with all units that these seeds scored."""

    members: NDArray[np.intp]
    """`[M]` positions among the class's canaries."""
    place: NDArray[np.intp]
    """`[N]` position among the class's units of each unit; the canaries come first."""
    units: Units
    """`N` units in these seeds."""

    @classmethod
    def of(cls, every: Units, pattern: NDArray[np.bool_], n_canaries: int) -> "_Pattern":
        """Collect the canaries of a pattern of seeds and all units that have these seeds."""
        place = np.flatnonzero(every.scored[:, pattern].all(axis=1))
        members = np.flatnonzero((every.scored[:n_canaries] == pattern).all(axis=1))
        return cls(members, place, every.take(place, pattern))

    def null(self, listed: NDArray[np.bool_], max_draws: int, seed: int) -> FlipNull:
        """Prepare the null of the units that are not among the listed canaries (mask over canaries)."""
        unlisted = np.flatnonzero(~np.isin(self.place, np.flatnonzero(listed)))
        return flip_null(self.take(unlisted), sizes=self.units.sizes, max_draws=max_draws, seed=seed)

    @property
    def n_statistics(self) -> IntArray:
        """Return the number of statistics of each member, `[M]`."""
        return n_statistics(self.units)[np.searchsorted(self.place, self.members)]

    def hits(self, null: FlipNull, listed: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Compute the largest image `[M]` and the hits `[M]`: in the null, and for a listed member in its own flips.

        Of members with several statistics the fewest hits of any count, times their number.
        """
        members = self.take(np.searchsorted(self.place, self.members))
        away = listed[self.members]
        statistic = null.observed(members)
        hits = null.hits(statistic)
        if away.any():
            hits[away] += null.own_hits(_subset(members, away), statistic[away])
        fewest = np.maximum(hits, 1.0)  # at least its own, whatever rounding does
        for has, of, units in (
            (members.sizes > 1, null.of_class, members.of_one_class),
            (members.has_elsewhere, null.of_all_classes, members),
        ):
            if of is not None and has.any():
                sums = of.sums(units)
                observed = of.null.observed(sums)
                hits = of.null.hits(observed)
                if away.any():
                    hits[away] += of.null.own_hits(_subset(sums, away), observed[away])
                fewest[has] = np.minimum(fewest, np.maximum(hits, 1.0))[has]
        return statistic, fewest * self.n_statistics.astype(np.float64)

    def take(self, members: IntArray) -> Units:
        """Take some of the units (sorted positions), in all of these seeds."""
        return self.units.take(members, np.ones(len(self.units.gap), dtype=bool))


def _subset(units: Units, mask: NDArray[np.bool_]) -> Units:
    """Take the units of a mask, in all of their seeds."""
    return units.take(np.flatnonzero(mask), np.ones(len(units.gap), dtype=bool))


def _hits(blocks: Iterator[FloatArray], observed: FloatArray) -> FloatArray:
    """Count the values of all blocks that reach each observed value."""
    limit, counts = _barely(observed), np.zeros(len(observed))
    for values in blocks:
        reached = np.sort(values.ravel())
        counts += len(reached) - np.searchsorted(reached, limit)
    return counts


def _own_hits(blocks: Iterator[FloatArray], observed: FloatArray) -> FloatArray:
    """Count the values of each column of all blocks that reach the observed value of the column."""
    limit, counts = _barely(observed), np.zeros(len(observed))
    for values in blocks:
        counts += (values >= limit).sum(axis=0)
    return counts


def _barely(observed: FloatArray) -> FloatArray:
    """The least value that counts as reaching each observed one."""
    return observed - ROUNDING * np.abs(observed)


def _largest(blocks: Iterator[FloatArray], n: int) -> FloatArray:
    """The n largest values of all blocks, ascending; fewer where there are not so many."""
    largest = np.empty(0)
    for values in blocks:
        flat = values.ravel()
        if len(largest) == n:
            flat = flat[flat > largest.min()]
        largest = np.concatenate([largest, flat])
        if len(largest) > n:
            largest = np.partition(largest, len(largest) - n)[len(largest) - n :]
    return np.sort(largest)
