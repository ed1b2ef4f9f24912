"""Are training patients nearer to a synthetic set than patients it cannot know? The null of METHODS section 5.

Every real image is compared with its nearest image of the synthetic set, at distance ``d``; of a patient, ``W`` is the
smallest. Training patients are ranked among held-out patients, who are compared with the same set:

    p(r) = (1 + #{held-out h : W(h) <= W(r)}) / (n_held + 1),

ties against the patient; then Benjamini-Hochberg over training patients. Real images are compared with real ones,
so the synthetic set may be as narrow or as wide as it likes. The usual direction compares synthetic with real
images and rejects because they differ in spread.

What the level rests on. If training and held-out patients are a random split and the synthetic set had come about
without either, p is exact. A set made from the training part alone is nearer to it also by what any fit takes from
a finite sample; how much that is for a fitted mixture is in ``docs/results/synthetic_null.md``. "Flagged" therefore
means "nearer to the set than patients the generator did not see", of which a copy is one reason.

METHODS leaves two points open:

* A patient of many images has a smaller W without any memorization. As in ``nulls`` a patient of k images is by
  default compared with held-out patients at k images each (``sizes="matched"``); ``sizes="any"`` is METHODS' plain
  form. The count ``ahead`` is of all patients by all images or, where numbers of images are not alike in both
  parts, by one image each (`exchangeability.image_numbers.image_counts`).
* With n held-out and m training patients no p is below 1 / (n + 1), so that Benjamini-Hochberg at level q lists no
  fewer than m / (q (n + 1)) patients: with a split of 70 to 15 and q = 0.1 about 47, however many there are. Fewer
  copied patients stay unlisted, however exact the copies. ``shortest_list`` gives that number, and ``ahead`` answers a
  question that does not depend on a list: how many training patients are nearer than every held-out one.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, one_line, plural
from memorisk.statistics.copies.calibration import check_distances, group_values
from memorisk.statistics.exchangeability.image_numbers import ImageCounts, image_counts
from memorisk.statistics.memorization.nulls import unit_p_values
from memorisk.statistics.multiple_testing.lists import Rejections, benjamini_hochberg, smallest_list_of
from memorisk.statistics.verdicts.levels import VERDICT_LEVEL

FloatArray = NDArray[np.float64]
_ROUNDING = 1e-12


@dataclass(frozen=True)
class ReversedQueries:
    """Training patients ranked among held-out ones by their distance to the synthetic set."""

    unit: NDArray
    """Ids of the training patients, [U], sorted."""
    distance: FloatArray
    """Smallest distance W of an image of each patient to the synthetic set, [U]."""
    p_value: FloatArray
    """p-value of each patient, [U]: rank among held-out patients, ties against."""
    floor: FloatArray
    """Smallest p-value that each patient could have had, [U]."""
    n_images: NDArray[np.int64]
    """Number of images of each patient, [U]."""
    n_compared: NDArray[np.int64]
    """Number of held-out patients that each was ranked among, [U]: the independent units of its p-value."""
    listed: Rejections
    """Patients listed by Benjamini-Hochberg over the training patients."""
    shortest_list: int
    """Fewest patients that could have been listed; more than there are: no list was possible."""
    n_held: int
    """Number of held-out patients."""
    ahead: int
    """Number of training patients nearer than every held-out patient, by the images that count."""
    p_ahead: float
    """Probability that at least so many are, of a random split: exact, of the set as a whole, not of a patient."""
    promise: str
    """Promise in words."""
    counted: ImageCounts
    """Images that count for ``ahead``."""

    @property
    def testable(self) -> bool:
        """Return whether any list was possible."""
        return self.shortest_list <= len(self.unit)

    @property
    def flagged(self) -> NDArray:
        """Ids of the listed training patients."""
        return self.unit[self.listed.rejected]


@dataclass(frozen=True)
class Exposures:
    """Synthetic images at the distances of listed patients: one row per training image and its nearest."""

    unit: NDArray
    """Training patient of each row, [E]."""
    image: NDArray[np.intp]
    """Training image that is nearest to the set, [E]; several rows where several are equally near."""
    synthetic: NDArray[np.intp]
    """Synthetic image of each row, [E]."""
    distance: FloatArray
    """Distance between the two images, [E]."""

    @property
    def images(self) -> NDArray[np.intp]:
        """Sorted synthetic images that expose a patient; one that exposes several patients hardly copies them all."""
        return np.unique(self.synthetic)


@dataclass(frozen=True)
class Nearness:
    """Place of synthetic images among new patients' images, and the lead of the nearest one: a description.

    It has no p-value: synthetic images and patients' images differ in spread without any copy.
    """

    share: FloatArray
    """Share of new patients (of their images, patients equal) at least as near to the training set, [S]."""
    ratio: FloatArray
    """Ratio of nearest to second distance, [S]; 1 where both are 0, NaN without second distances."""
    n_patients: int
    """Number of held-out patients."""


def reversed_queries(
    train_distance: ArrayLike,
    held_distance: ArrayLike,
    train_group: ArrayLike | None = None,
    held_group: ArrayLike | None = None,
    *,
    q: float = VERDICT_LEVEL,
    sizes: str = "matched",
    seed: int = 0,
) -> ReversedQueries:
    """Compute Section 5's p-values and list.

    Args:
        train_distance: Distance of each training image to its nearest synthetic image, [N].
        held_distance: Distance of each held-out image to the same synthetic set, [M].
        train_group: Patients of the training images, [N]; None: each image its own (the per-image variant, which only
            describes images that share patients).
        held_group: Patients of the held-out images, [M], none of them a training patient.
        q: Level of the list.
        sizes: ``"matched"`` or ``"any"``, see the head of this module; the same where all patients have as many images.
        seed: Seed of the image of a patient that counts for ``ahead``, where one does.

    Returns:
        Results by sorted patient id.

    Raises:
        InputError: Lengths differ, a distance is not finite, a patient is on both sides, or q outside (0, 1).

    Source:
        METHODS section 5, "Null".
    """
    train, held = check_distances(train_distance), check_distances(held_distance)
    train_units = np.arange(len(train)) if train_group is None else np.asarray(train_group)
    held_units = np.arange(len(held)) if held_group is None else np.asarray(held_group)
    both = np.intersect1d(train_units, held_units)
    if train_group is not None and held_group is not None and len(both):
        who = plural(len(both), "patient is", "patients are")
        raise InputError(f"{who} in training and held out, such as {one_line(both[0])}; split by patient")
    result = unit_p_values(-train, train_units, -held, held_units, sizes=sizes)
    counted = image_counts(train_units, held_units, seed=seed)
    ahead = int(preceding_units(train, held, train_units, counted).sum())
    return ReversedQueries(
        unit=result.unit,
        distance=-result.statistic,
        p_value=result.p_value,
        floor=result.floor,
        n_images=result.n_images,
        n_compared=result.n_compared,
        listed=benjamini_hochberg(result.p_value, q),
        shortest_list=smallest_list_of(result.floor, q),
        n_held=result.n_test,
        ahead=ahead,
        p_ahead=precedence_p(ahead, len(result.unit), result.n_test),
        promise=f"of a list, at most {q:g} are expected to be patients no nearer to the synthetic set than "
        f"{result.n_test:,} held-out patients are; given a random split by patient, and a detector and a choice of "
        "checkpoint that knew neither part",
        counted=counted,
    )


def preceding_units(
    train_distance: ArrayLike, held_distance: ArrayLike, train_group: ArrayLike, counted: ImageCounts
) -> NDArray[np.bool_]:
    """Return whether each training unit is nearer than every held-out one by the images that count, [U] by sorted id.

    Args:
        train_distance: Distances of the training images, [N].
        held_distance: Distances of the held-out images, [M].
        train_group: Units of the training images, [N].
        counted: Images that count.
    """
    train, held = check_distances(train_distance), check_distances(held_distance)
    rows, groups = counted.train, np.asarray(train_group)
    return group_values(train[rows], groups[rows]) < held[counted.held].min()


def precedence_p(ahead: int, n_train: int, n_held: int) -> float:
    """Compute ``P(at least a training units come before every held-out one)`` of a random order.

    ``prod over i < a of (n_train - i) / (n_train + n_held - i)``: the precedence test. With 700 and 150 units, 16 ahead
    are needed for 5 %.

    Args:
        ahead: Number a of units ahead, counted strictly.
        n_train: Number of training units.
        n_held: Number of held-out units.

    Raises:
        InputError: Not ``0 <= a <= n_train``, or no held-out unit.

    Example:
        >>> round(precedence_p(16, 700, 150), 3)
        0.043
    """
    if not 0 <= ahead <= n_train or n_held < 1:
        raise InputError(
            f"{ahead} of {n_train} ahead of {n_held} is not a count; at least one held-out patient is needed"
        )
    i = np.arange(ahead)
    return float(np.exp(np.log1p(-n_held / (n_train + n_held - i)).sum()))


def held_out_needed(n_train: int, copied: int, q: float = VERDICT_LEVEL) -> int:
    """Compute how many held-out patients make a list of so few copied ones possible: ``n_train / (q copied) - 1``.

    Args:
        n_train: Number of training patients.
        copied: Length of the list.
        q: Level of the list.

    Raises:
        InputError: A count below 1, or q outside (0, 1).

    Example:
        >>> held_out_needed(1000, 1), held_out_needed(1000, 50)
        (9999, 199)
    """
    if n_train < 1 or copied < 1 or not 0 < q < 1:
        raise InputError(f"n_train {n_train} and copied {copied} must be at least 1, q {q} between 0 and 1")
    return max(1, math.ceil(n_train / (q * copied) * (1 - _ROUNDING)) - 1)


def exposures(
    result: ReversedQueries, train_distance: ArrayLike, nearest: ArrayLike, train_group: ArrayLike | None = None
) -> Exposures:
    """Find the synthetic images that realise the listed patients' W.

    A second copy of the same patient, farther away, is not among them.

    Args:
        result: Result of `reversed_queries` on these distances.
        train_distance: Distances as given there, [N].
        nearest: Index of the nearest synthetic image, [N].
        train_group: Groups as given there, [N].

    Raises:
        InputError: Lengths differ, or these are not the result's distances.
    """
    values, synthetic = check_distances(train_distance), np.asarray(nearest)
    groups = np.arange(len(values)) if train_group is None else np.asarray(train_group)
    if synthetic.shape != values.shape or groups.shape != values.shape:
        raise InputError(f"distances {values.shape}, nearest {synthetic.shape} and groups {groups.shape} do not fit")
    at = np.searchsorted(result.unit, groups)
    if not np.array_equal(result.unit[np.minimum(at, len(result.unit) - 1)], groups):
        raise InputError("these patients are not the result's; give the distances and groups it was made from")
    rows = np.flatnonzero(result.listed.rejected[at] & (values <= result.distance[at]))
    rows = rows[np.lexsort((rows, result.distance[at[rows]]))]
    return Exposures(groups[rows], rows, synthetic[rows].astype(np.intp), values[rows])


def nearness(
    synthetic_distance: ArrayLike,
    held_distance: ArrayLike,
    held_group: ArrayLike | None = None,
    second_distance: ArrayLike | None = None,
) -> Nearness:
    """Compute the descriptive column "nearer than a new patient would be", and the second-neighbour ratio.

    ``share(s) = mean over held-out patients of the share of their images with d <= d(s)``; small where a synthetic
    image is nearer to the training set than new patients' images are. ``ratio(s) = d_1(s) / d_2(s)``: near 0 where one
    training image is singled out, near 1 where several are as near.

    Args:
        synthetic_distance: Distance of each synthetic image to its nearest training image, [S].
        held_distance: Distance of each held-out image to its nearest training image, [M].
        held_group: Patients of the held-out images, [M]; None: each image its own.
        second_distance: Distance to the nearest training image of another patient, or the second nearest, [S].

    Raises:
        InputError: Lengths differ, a distance is not finite, or a second distance is below the first.

    Source:
        METHODS section 5: kept as a description, since as a test it flags 14 % at 5 % without any copy
        (`recipes/synthetic_null.py`).
    """
    distances, held = check_distances(synthetic_distance), check_distances(held_distance)
    groups = np.arange(len(held)) if held_group is None else np.asarray(held_group)
    if groups.shape != held.shape:
        raise InputError(f"{held.shape} held-out distances and {groups.shape} groups do not fit")
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(held)
    weight = np.concatenate([[0.0], np.cumsum(1 / (count[index[order]] * len(count)))])
    share = weight[np.searchsorted(held[order], distances, side="right")]
    ratio = np.full(len(distances), np.nan)
    if second_distance is not None:
        second = check_distances(second_distance)
        if second.shape != distances.shape or (second < distances).any():
            raise InputError("second distances must be one per synthetic image, none below the first")
        ratio = np.divide(distances, second, out=np.ones_like(distances), where=second > 0)
    return Nearness(np.minimum(share, 1.0), ratio, len(count))
