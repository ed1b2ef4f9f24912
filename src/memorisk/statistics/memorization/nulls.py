"""Nulls without flips: is a group's score more than that of unseen groups of its class?

METHODS section 1, "Null and p-value", for the `paper` design, whose roles are not symmetric, and for distances to a
synthetic set. Twins have `sign_flips`. One call handles one class: nulls are never pooled over classes (simulated at a
nominal 5 %, a pooled null flags 11 % of unmemorized images in rare classes and 4 % in common ones; `recipes/
null_simulation.py` prints the table).

One deviation, shown by simulation in the same recipe. METHODS compares the maximum over a group's images with the
maxima of the test groups whatever their sizes. The level then holds on average over a random split but not for a
given patient: with sizes from 1 to 60 and nothing memorized, at a nominal 5 % it flags 29 % of the patients with more
than 30 images and 2 % of those with one. So by default a group of k images is compared with test groups of at least k
images, k of theirs at a time (`sizes="matched"`): the share of the k-subsets of their images whose maximum reaches
the observed one. Few test groups are as large as the largest patients; these are compared in B = ceil(k / k') parts
of at most k' images, each with test groups of at least k', and B multiplies the p-value (Bonferroni over the parts).
k' is the size that gives the smallest attainable p-value, which depends on sizes only, never on losses. It takes a
group's images to be as noisy in large groups as in small ones. Where all groups have one size this is METHODS' p-value
exactly; `sizes="any"` is METHODS' form for all sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name
from memorisk.statistics.randomization.sign_flips import FloatArray, IntArray, Units, make_units


@dataclass(frozen=True)
class UnitPValues:
    """p-values of the units (groups) of one class, and what each rests on."""

    unit: NDArray
    """`[U]` sorted unit ids."""
    statistic: FloatArray
    """`[U]` largest over the unit's images of what they are ranked by; NaN where no seed scored the unit."""
    p_value: FloatArray
    """`[U]` NaN where no seed scored the unit."""
    floor: FloatArray
    """`[U]` smallest p-value that the unit could have had: what `multiple.smallest_list` needs."""
    n_compared: IntArray
    """`[U]` other units that the unit was compared with (the independent units of its null)."""
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


def unit_p_values(
    score: ArrayLike, unit: ArrayLike, test_score: ArrayLike, test_unit: ArrayLike, *, sizes: str = "matched"
) -> UnitPValues:
    """p-values of one class from image scores, `(1 + #{test units that reach the unit}) / (n_test + 1)`.

    A unit's score is the maximum over its images. With units of one image this is `candidate_p_values`.

    Args:
        score: `[I]` `L_ind - L_cand` of the class's canaries.
        unit: `[I]` unit ids.
        test_score: `[J]` the same of its test images.
        test_unit: `[J]` unit ids.
        sizes: `"matched"` compares units at equal numbers of images (module docstring); `"any"` is METHODS' plain
            form.

    Returns:
        Statistics and p-values by sorted unit id.

    Raises:
        InputError: Shapes do not fit, a score is not finite, or `sizes` is unknown.

    Example:
        >>> values = unit_p_values([2.0, 0.1], ["p", "q"], [0.0, 0.5, 1.0], ["r", "s", "t"])
        >>> values.p_value.tolist()
        [0.25, 0.75]
    """
    if sizes not in ("matched", "any"):
        raise unknown_name("way to compare sizes", sizes, ("matched", "any"))
    values = np.asarray(score, dtype=np.float64)[None]
    canaries = make_units("canary", values, unit, sign=np.ones_like(values))
    tests = make_units("test", np.asarray(test_score, dtype=np.float64)[None], test_unit, n_seeds=1)
    matched = sizes == "matched"
    size = comparison_sizes(canaries.sizes, tests.sizes) if matched else canaries.sizes
    parts = -(-canaries.sizes // size)
    n_compared = (tests.sizes >= size[:, None]).sum(1) if matched else np.full(len(canaries.ids), len(tests.ids))
    observed = canaries.maxima(canaries.gap)[0]
    hits = 1 + _hits(tests, observed, size if matched else None)
    return UnitPValues(
        unit=canaries.ids,
        statistic=observed,
        p_value=np.minimum(1.0, parts * hits / (n_compared + 1.0)),
        floor=np.minimum(1.0, parts / (n_compared + 1.0)),
        n_compared=n_compared.astype(np.int64),
        n_seeds=canaries.scored.sum(1),
        n_images=canaries.sizes,
        n_test=len(tests.ids),
        n_flips=1,
        exact=True,
    )


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

    Example:
        >>> candidate_p_values([2.0, 0.6], [0.0, 0.5, 1.0]).tolist()
        [0.25, 0.5]
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


def _hits(tests: Units, observed: FloatArray, size: IntArray | None) -> FloatArray:
    """`[U]` how many test units reach each observed value; with sizes, expected over k-subsets.

    Args:
        tests: Test units.
        observed: `[U]` values of the units.
        size: `[U]` how many images of a test unit are compared at a time; None for all that it has.
    """
    counts = np.zeros(len(observed))
    for k, values in tests.sorted_by_size(tests.gap):
        for rank, weight in enumerate(_largest_weights(k, size)):  # [1, test units, k], ascending
            reaching = np.sort(values[0, :, k - 1 - rank])
            counts += weight * (len(reaching) - np.searchsorted(reaching, observed))
    return counts


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
