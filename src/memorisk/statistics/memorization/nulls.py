"""Nulls: is a group's score more than retraining and the other canaries do to unseen images of its class?

METHODS section 1, "Null and p-value". One call handles one class: nulls are never pooled over classes (simulated at a
nominal 5 %, a pooled null flags 11 % of unmemorized images in rare classes and 4 % in common ones; `recipes/
null_simulation.py` prints the table).

One deviation, shown by simulation in the same recipe. METHODS compares the maximum over a group's images with the
maxima of the test groups whatever their sizes. The level then holds on average over a random split but not for a
given patient: with sizes from 1 to 60 and nothing memorized, at a nominal 5 % it flags 29 % of the patients with more
than 30 images and 2 % of those with one (a mean in place of the maximum errs the other way: 2 % and 6 %), and the
list names whoever has most images. So by default a group of k images is compared with test groups of at least k
images, k of theirs at a time (`sizes="matched"`): the share of the k-subsets of their images whose maximum reaches
the observed one. Few test groups are as large as the largest patients; these are compared in B = ceil(k / k') parts
of at most k' images, each with test groups of at least k', and B multiplies the p-value (Bonferroni over the parts).
k' is the size that gives the smallest attainable p-value, which depends on sizes only, never on losses. It flags 1 to
5 % at every size, and lists more of the planted groups (0.77 against 0.59). It takes a group's images to be as noisy
in large groups as in small ones. Where all groups have one size this is METHODS' p-value exactly; `sizes="any"` is
METHODS' form for all sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name
from memorisk.statistics.randomization import (
    FloatArray,
    IntArray,
    Units,
    flip_blocks,
    flipped_sums,
    make_units,
    plan_flips,
    studentized,
    typical_error,
)

MAX_DRAWS = 2**24
"""Flipped values of a class's images per pattern of missing seeds: all flips up to here, random ones beyond."""


RANKINGS = ("mean", "studentized")


@dataclass(frozen=True)
class UnitPValues:
    """p-values of the units (groups) of one class, and what each rests on."""

    unit: NDArray
    """`[U]` sorted unit ids."""
    statistic: FloatArray
    """`[U]` max over the unit's images of what they are ranked by (M in nats, or studentized); NaN where no seed scored
    the unit."""
    p_value: FloatArray
    """`[U]` NaN where no seed scored the unit."""
    floor: FloatArray
    """`[U]` smallest p-value that the unit could have had: what `multiple.smallest_list` needs."""
    n_compared: IntArray
    """`[U]` test units that the unit was compared with (the independent units of its null)."""
    n_seeds: IntArray
    """`[U]` seeds that scored the unit."""
    n_images: IntArray
    """`[U]` images of the unit."""
    n_test: int
    """Test units of the class."""
    n_flips: int
    """Flips behind the best-scored unit's p-value: 2^S', or the random ones with the identity."""
    exact: bool
    """True when every sign flip was enumerated for every unit."""


def sign_flip_p_values(
    gap: ArrayLike,
    sign: ArrayLike,
    unit: ArrayLike,
    test_gap: ArrayLike,
    test_unit: ArrayLike,
    *,
    sizes: str = "matched",
    ranking: str = "mean",
    max_draws: int = MAX_DRAWS,
    seed: int = 0,
) -> UnitPValues:
    """p-values of one class by flipping the twins' roles, over the unit itself and the test units of its class.

    `p(x) = #{flipped statistic >= observed} / ((n_test + 1) 2^S')`, the observed one counted; the statistic is the
    maximum over a unit's images of `mean over s of +-D_s`, with flips common to the images of a unit and S' the seeds
    that scored the unit (test units are restricted to the same seeds). Ties count as reaching. Values are added seed
    by seed in one fixed order, so the identity flip reproduces the observed statistic bit for bit and no rounding
    guard is needed.

    When the 2^S' flips of the class's images exceed `max_draws`, uniformly random flips take the place of the full
    set: the same ones for every unit, the identity among them, `p = (1 + hits) / ((n_test + 1) (1 + draws))` (valid
    at any number of draws: Hemerik and Goeman 2018, theorem 2). Memory stays within blocks of `flips.BLOCK` values in
    either case.

    Args:
        gap: `[S, I]` loss gaps `L_B - L_A` of the class's canaries.
        sign: `[S, I]` in {-1, 0, +1}, constant over a unit's images within a seed.
        unit: `[I]` unit ids: groups, or the images themselves for descriptive image p-values.
        test_gap: `[S, J]` loss gaps of the class's test images, all finite.
        test_unit: `[J]` unit ids of the test images.
        sizes: `"matched"` compares units at equal numbers of images (module docstring); `"any"` is METHODS' plain
            form.
        ranking: `"mean"` over seeds, or `"studentized"`: that mean over its standard error and `typical_error`
            (`flips.studentized`), which holds the level where images are unequally noisy and finds more.
        max_draws: Largest number of flipped values (flips x images of the class) that is enumerated; beyond it,
            random
            flips within the same budget, but no fewer than 1,000 and no more than 65,536.
        seed: Seed of the random flips; unused when all are enumerated.

    Returns:
        Statistics and p-values `[U]` by sorted unit id, and the smallest attainable p-values.

    Raises:
        InputError: Shapes do not fit, a sign differs within a unit, a needed gap is not finite, or `sizes` is
            unknown.

    Source:
        METHODS section 1, "Null and p-value".
    """
    if sizes not in ("matched", "any"):
        raise unknown_name("way to compare sizes", sizes, ("matched", "any"))
    if ranking not in RANKINGS:
        raise unknown_name("ranking", ranking, RANKINGS)
    canaries = make_units("canary", gap, unit, sign=sign)
    tests = make_units("test", test_gap, test_unit, n_seeds=canaries.n_seeds)
    how = {"matched": sizes == "matched", "studentize": ranking == "studentized"}
    return _p_values(canaries, tests, **how, max_draws=max_draws, seed=seed, flip=True)


def unit_p_values(
    score: ArrayLike, unit: ArrayLike, test_score: ArrayLike, test_unit: ArrayLike, *, sizes: str = "matched"
) -> UnitPValues:
    """p-values of one class without flips, for the `paper` design, from image scores.

    As `sign_flip_p_values` with the identity as the only flip: the roles of candidate and independent model are not
    symmetric. With units of one image this is `candidate_p_values`.

    Args:
        score: `[I]` `L_ind - L_cand` of the class's canaries.
        unit: `[I]` unit ids.
        test_score: `[J]` the same of its test images.
        test_unit: `[J]` unit ids.
        sizes: As `sign_flip_p_values`.

    Returns:
        Statistics and p-values by sorted unit id.

    Raises:
        InputError: As `sign_flip_p_values`.
    """
    if sizes not in ("matched", "any"):
        raise unknown_name("way to compare sizes", sizes, ("matched", "any"))
    values = np.asarray(score, dtype=np.float64)[None]
    canaries = make_units("canary", values, unit, sign=np.ones_like(values))
    tests = make_units("test", np.asarray(test_score, dtype=np.float64)[None], test_unit, n_seeds=1)
    how = {"matched": sizes == "matched", "studentize": False}
    return _p_values(canaries, tests, **how, max_draws=MAX_DRAWS, seed=0, flip=False)


def candidate_p_values(score: ArrayLike, test_score: ArrayLike) -> FloatArray:
    """p-values of the `paper` design, `(1 + #{test >= M}) / (n_test + 1)`, from one score per group.

    Args:
        score: `[U]` M per group; NaN is passed on.
        test_score: `[n]` the same statistic of the class's test groups, all finite. For groups of several images see
            `unit_p_values`: a maximum over more images is larger without any memorization.

    Returns:
        p-values `[U]`.

    Raises:
        InputError: A test score is not finite, or the arrays are not one-dimensional.
    """
    m, test = np.asarray(score, dtype=np.float64), np.asarray(test_score, dtype=np.float64)
    if m.ndim != 1 or test.ndim != 1:
        raise InputError(f"scores {m.shape} and test scores {test.shape} must be one-dimensional: one per group")
    if not np.isfinite(test).all():
        raise InputError("a test group's score is not finite; find the model whose loss became NaN or infinite")
    reached = len(test) - np.searchsorted(np.sort(test), m, side="left")
    return np.where(np.isnan(m), np.nan, (1 + reached) / (len(test) + 1))


def comparison_sizes(n_images: ArrayLike, test_n_images: ArrayLike) -> IntArray:
    """Count the images at a time by which each unit is compared with test units: k' of the module docstring.

    Among k and the test sizes below it, the one with the smallest `ceil(k / k') / (1 + #{test units of >= k'
    images})`; of equals the largest, which splits the unit least.

    Args:
        n_images: `[U]` images of each unit.
        test_n_images: `[n]` images of each test unit.

    Returns:
        k' `[U]`.
    """
    test = np.sort(np.asarray(test_n_images, dtype=np.int64))
    chosen = {}
    for k in np.unique(np.asarray(n_images, dtype=np.int64)).tolist():
        candidates = np.append(np.unique(test[test < k]), k)
        n_large = len(test) - np.searchsorted(test, candidates, side="left")
        floor = -(-k // candidates) / (1 + n_large)
        chosen[k] = int(candidates[np.flatnonzero(floor == floor.min())[-1]])
    return np.array([chosen[k] for k in np.asarray(n_images, dtype=np.int64).tolist()], dtype=np.int64)


def _p_values(
    canaries: Units, tests: Units, *, matched: bool, studentize: bool, max_draws: int, seed: int, flip: bool
) -> UnitPValues:
    """The p-values, pattern by pattern of missing seeds."""
    n_units = len(canaries.ids)
    n_seeds = canaries.scored.sum(1)
    size = comparison_sizes(canaries.sizes, tests.sizes) if matched else canaries.sizes
    parts = -(-canaries.sizes // size)
    n_compared = (tests.sizes >= size[:, None]).sum(1) if matched else np.full(n_units, len(tests.ids))
    statistic, p_value, floor = (np.full(n_units, np.nan) for _ in range(3))
    most_flips, all_exact = 0, True
    n_images = len(canaries.unit_of) + len(tests.unit_of)
    for pattern in np.unique(canaries.scored, axis=0):
        if not pattern.any():
            continue
        members = np.flatnonzero((canaries.scored == pattern).all(1))
        flips, exact = plan_flips(int(pattern.sum()), n_images, max_draws, seed) if flip else (1, True)
        part, unseen = canaries.take(members, pattern), tests.restrict(pattern)
        null = Null(unseen, typical_error(unseen.gap) if studentize else None, flips, exact, seed)
        observed, hits = _count_hits(part, null, size[members] if matched else None)
        denominator = (n_compared[members] + 1.0) * flips
        statistic[members] = observed if studentize else observed / pattern.sum()
        p_value[members] = np.minimum(1.0, parts[members] * hits / denominator)
        floor[members] = np.minimum(1.0, parts[members] / denominator)
        most_flips, all_exact = max(most_flips, flips), all_exact and exact
    return UnitPValues(
        unit=canaries.ids,
        statistic=statistic,
        p_value=p_value,
        floor=floor,
        n_compared=n_compared.astype(np.int64),
        n_seeds=n_seeds,
        n_images=canaries.sizes,
        n_test=len(tests.ids),
        n_flips=most_flips,
        exact=all_exact,
    )


@dataclass(frozen=True)
class Null:
    """The test units of a class, what they are ranked by, and their flips."""

    tests: Units
    """Test units in the seeds that scored the units compared with them."""
    offset: float | None
    """`typical_error` of studentized ranks; None: means are ranked."""
    flips: int
    """Number of flips, the identity included."""
    exact: bool
    """Whether they are all that there are."""
    seed: int
    """Seed of random flips."""

    def blocks(self, width: int) -> Iterator[FloatArray]:
        """Blocks of flips `[block, S]`; `width` values per flip decide how many fit in a block."""
        return flip_blocks(len(self.tests.gap), self.flips, self.exact, self.seed, width=width)

    def ranked(self, signs: FloatArray, gap: FloatArray) -> FloatArray:
        """Compute what images are ranked by under these flips: `[flips, S]` and `[S, I]` to `[flips, I]`.

        Sums over seeds in place of means: S' is the same for all, and integer-valued gaps stay exact.
        """
        total = flipped_sums(signs, gap)
        return total if self.offset is None else studentized(total, gap, self.offset)

    def hits(self, observed: FloatArray, size: IntArray | None) -> FloatArray:
        """`[U]` how many flipped test units reach each observed value; with sizes, expected over k-subsets.

        Args:
            observed: `[U]` values of the units.
            size: `[U]` how many images of a test unit are compared at a time; None for all that it has.
        """
        order = np.argsort(observed)
        ranked, counts = observed[order], np.zeros(len(observed))
        if not len(observed):
            return counts
        for signs in self.blocks(self.tests.gap.shape[1]):
            for k, values in self.tests.sorted_by_size(self.ranked(signs, self.tests.gap)):
                for rank, weight in enumerate(_largest_weights(k, size)):  # [flips, test units, k], ascending
                    reaching = values[..., k - 1 - rank].ravel()
                    reaching = reaching[reaching >= ranked[0]]
                    tally = np.bincount(np.searchsorted(ranked, reaching, side="right"), minlength=len(ranked) + 1)
                    reached = np.empty(len(ranked))
                    reached[order] = tally[:0:-1].cumsum()[::-1]  # of each observed value: how many reach it
                    counts += weight * reached
        return counts


def _count_hits(units: Units, null: Null, size: IntArray | None) -> tuple[FloatArray, FloatArray]:
    """Observed values `[U]`, and how many flipped values of the unit itself and of the test units reach them `[U]`.

    `size` holds the images at a time for each unit, or is None for the plain maximum over all of a test unit's images.
    """
    observed = units.maxima(null.ranked(np.ones((1, len(units.gap))), units.gap))[0]
    hits = null.hits(observed, size)
    for signs in null.blocks(units.gap.shape[1]):
        hits += (units.maxima(null.ranked(signs, units.gap)) >= observed).sum(0)
    return observed, hits


def _largest_weights(k: int, size: IntArray | None) -> Iterator[FloatArray | float]:
    """`[U]` probability, by rank (0 the largest) of a test unit's k images, that it is the largest of `size` drawn.

    `C(k - 1 - rank, size - 1) / C(k, size)`, as a running product of ratios; 0 where the test unit is too small. Ends
    with the last rank that any unit gives weight to. None: all k images are drawn, so the largest always counts.
    """
    if size is None:
        yield 1.0
        return
    weight = np.where(size <= k, size / k, 0.0)
    for rank in range(k):
        if not weight.any():
            return
        yield weight
        weight = weight * np.maximum(k - rank - size, 0) / max(k - 1 - rank, 1)
