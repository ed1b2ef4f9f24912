"""The statistics of a synthetic audit: METHODS section 5, from distances to who is listed and how sure that is.

Several detectors share the level: each has a list at q / D, a patient on any of them is listed, and of the union at
most q are expected to be there by chance. Their tests of the set as a whole are multiplied by D (Bonferroni).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from memorisk.audits.synthetic.comparing import Distances, PixelCopies, near
from memorisk.audits.synthetic.hidden import Plants
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.reviewing import NOTHING, Review
from memorisk.audits.synthetic.sets import Sets
from memorisk.statistics.calibration import group_values, one_per_group
from memorisk.statistics.copy_tests import (
    Authenticity,
    DataCopying,
    WassersteinTest,
    authenticity,
    data_copying,
    wasserstein,
)
from memorisk.statistics.image_counts import CountedImages
from memorisk.statistics.neighbour_test import NeighbourTest, neighbour_test
from memorisk.statistics.planted_copies import (
    CopiesBound,
    PlantPower,
    copied_p,
    copies_bound,
    list_cut,
    plant_power,
)
from memorisk.statistics.reversed_queries import (
    Exposures,
    Nearness,
    ReversedQueries,
    ahead_p,
    exposures,
    held_out_needed,
    nearness,
    reversed_queries,
    units_ahead,
)

_ROUNDING = 1e-12


@dataclass(frozen=True)
class PixelCounts:
    """Copies that pixels show, or a person, by patient, training beside held out."""

    certain: int
    """Synthetic images with the pixels of a training image that no held-out image shares."""
    certain_patients: int
    """Training patients whose images these are."""
    confirmed: list[tuple[int, int]]
    """Pairs that a person confirmed as copies: rows of the synthetic and the training image."""
    dismissed: list[tuple[int, int]]
    """Pairs that a person dismissed, which count nowhere else."""
    dismissed_identical: frozenset[tuple[int, int]]
    """Those with the pixels of a training image that no held-out image shares."""
    dismissed_near: int
    """Of the others, nearly identical ones."""
    in_both: int
    """Synthetic images with pixels that training and held-out images share."""
    held: int
    """Synthetic images with the pixels of a held-out image and of no training image: the null of ``certain``."""
    near_train: int
    """Training patients with a nearly identical synthetic image."""
    near_held: int
    """Held-out patients with one."""
    near_p: float
    """Probability that at least so many of these patients are training ones, of a random split; NaN without any. By the
    images that count (`ReversedQueries.counted`)."""


@dataclass(frozen=True)
class Published:
    """Statistics of the literature, which mix copies with a narrow spread; never used for the verdict."""

    wasserstein: WassersteinTest | None
    """Of distances to the training images: synthetic beside held-out, one image a patient."""
    c_t: DataCopying | None
    """One-cell C_T."""
    authentic: Authenticity
    """Share of synthetic images farther from their training image than that from its next."""


@dataclass(frozen=True, eq=False)
class DetectorFindings:
    """What one detector's distances say."""

    asked: ReversedQueries | None
    """Section 5's p-values and list, dismissed pairs left out; None without held-out images."""
    exposed: Exposures | None
    """Which synthetic images expose the listed patients."""
    set_p: np.ndarray
    """[S] p-value at which the patient of the nearest training image would be listed by this image; NaN without."""
    near_new: Nearness | None
    """Descriptive: where synthetic images lie among new patients' images."""
    cut: float
    """p-value of the list that it made, or of one of ``copied`` patients or the shortest possible, whichever is
    longest; NaN without held-out images."""
    plant_p: np.ndarray
    """[P] p-values that the plants would give their sources; NaN without held-out images."""
    power: PlantPower | None
    """Plants found at that cut by this detector alone; None without plants or held-out images."""
    unlike: NeighbourTest | None
    """Whether training and held-out images lie apart; None where there are none, or some of these were left out for
    being training images, which leaves no random split."""
    published: Published
    """Statistics of the literature."""


@dataclass(frozen=True, eq=False)
class Findings:
    """What all detectors say together."""

    by: tuple[DetectorFindings, ...]
    """Each."""
    patients: np.ndarray
    """[N] patient of each training image."""
    held_patients: np.ndarray
    """[M] of each held-out image."""
    unit: np.ndarray
    """[U] training patients, sorted."""
    listed: np.ndarray
    """[U] whether any detector lists them."""
    leader: np.ndarray
    """[U] the detector by which each patient comes nearest to its list; the first without held-out images."""
    exposing: np.ndarray
    """[S] whether an image exposes a listed patient."""
    n_dismissed_patients: int
    """Patients who would be listed, had no pair been dismissed."""
    ahead_by: int
    """The detector with the smallest ``p_ahead``."""
    p_ahead: float
    """Its probability, times the detectors; NaN without held-out images."""
    copied: int
    """Copied training patients that a pass must be able to list."""
    needed: int
    """Held-out patients with which a list of so few is possible."""
    read_at: int
    """Length of the list whose cut the plants are read at: ``copied``, or the shortest possible if that is longer, or
    the list that was made if that is longer still (of the detector that lists fewest, whose cut is ``cut``)."""
    cut: float
    """The smallest cut of the detectors; NaN without held-out images."""
    power: PlantPower | None
    """Plants found by any detector at its cut; None without plants or held-out images."""
    bound: CopiesBound | None
    """Largest share of the set that copies of the planted kinds can be, in any mixture: by the kind found least."""
    pixels: PixelCounts
    """Pairs by pixels."""
    unlike: NeighbourTest | None
    """The smallest p-value of the detectors, times their number."""

    @property
    def asked(self) -> ReversedQueries | None:
        """Of the detector with the smallest ``p_ahead``; its numbers of patients and floors are those of all."""
        return self.by[self.ahead_by].asked


def find(
    sets: Sets,
    distances: Sequence[Distances],
    copies: PixelCopies,
    plants: Plants,
    options: SyntheticOptions,
    review: Review = NOTHING,
) -> Findings:
    """Everything that is computed from the distances.

    Args:
        sets: For the patients.
        distances: Of `comparing.compare`, a detector each.
        copies: Of `comparing.compare_pixels`.
        plants: Kinds and sources; none of them is in the distances of real images.
        options: Levels, and what a pass needs.
        review: What a person said of pairs; the distances know it already.
    """
    patients = sets.train.manifest.groups.astype(str)
    held = np.empty(0, dtype=str) if sets.held is None else sets.held.manifest.groups.astype(str)
    theirs = np.char.add("held out: ", held)  # names that are no patients may occur on both sides
    unit = np.unique(patients)
    copied = max(1, math.ceil(options.copied * len(unit) * (1 - 1e-12)))
    level, number = options.level / len(distances), len(distances)
    lists = [_lists(d, patients, theirs, level, options.seed) for d in distances] if len(held) else []
    shortest = lists[0][0].shortest_list if lists else 0
    asked_at = max(copied, min(shortest, len(unit)))
    by = tuple(
        _of_detector(sets, d, lists[i][0] if lists else None, plants, patients, theirs, asked_at, options.seed)
        for i, d in enumerate(distances)
    )
    cut = min((one.cut for one in by), default=math.nan)
    alone = [math.inf if one.asked is None else one.asked.p_ahead for one in by]
    ahead_by = int(np.argmin(alone))
    power, bound = _power(by, distances, plants, patients, cut, options.seed)
    near = [one.asked.p_value / one.cut for one in by if one.asked is not None]
    listed = np.any([np.zeros(len(unit), bool), *(one.asked.listed.rejected for one in by if one.asked)], axis=0)
    exposing = np.zeros(len(sets.synthetic.images), bool)
    exposing[[row for one in by if one.exposed is not None for row in one.exposed.images]] = True
    before = np.any([was.listed.rejected for _, was in lists], axis=0) if lists else listed
    return Findings(
        by=by,
        patients=patients,
        held_patients=held,
        unit=unit,
        listed=listed,
        leader=np.argmin(near, axis=0) if near else np.zeros(len(unit), np.int64),
        exposing=exposing,
        n_dismissed_patients=int((before & ~listed).sum()),
        ahead_by=ahead_by,
        p_ahead=min(1.0, number * alone[ahead_by]) if lists else math.nan,
        copied=copied,
        needed=held_out_needed(len(unit), copied, level),
        read_at=max(asked_at, min((stands.listed.n_rejected for stands, _ in lists), default=0)),
        cut=cut,
        power=power,
        bound=bound,
        pixels=_pixels(sets, copies, patients, held, review, lists[0][0].counted if lists else None),
        unlike=_least_alike([one.unlike for one in by]),
    )


def _lists(
    d: Distances, patients: np.ndarray, theirs: np.ndarray, level: float, seed: int
) -> tuple[ReversedQueries, ...]:
    """A detector's list as it stands, and as it was before pairs were dismissed.

    Whoever is near enough by another pair stays listed at the cut of the list as it was; nobody else leaves it.
    """
    was = reversed_queries(d.train, d.held, patients, theirs, q=level, seed=seed)
    distance = group_values(d.standing, patients)
    moved = np.flatnonzero(distance > was.distance)
    if not len(moved):
        return was, was
    p = was.p_value.copy()
    p[moved] = copied_p(distance[moved], was.n_images[moved], d.held, theirs)
    listed = was.listed.rejected & (p <= was.listed.q * was.listed.n_rejected / was.listed.m * (1 + _ROUNDING))
    ahead = int(units_ahead(d.standing, d.held, patients, was.counted).sum())
    stands = replace(
        was,
        distance=distance,
        p_value=p,
        listed=replace(was.listed, rejected=listed),
        ahead=ahead,
        p_ahead=ahead_p(ahead, len(was.unit), was.n_held),
    )
    return stands, was


def _of_detector(
    sets: Sets,
    d: Distances,
    asked: ReversedQueries | None,
    plants: Plants,
    patients: np.ndarray,
    theirs: np.ndarray,
    asked_at: int,
    seed: int,
) -> DetectorFindings:
    exposed = near_new = power = None
    cut, set_p, plant_p = math.nan, np.full(len(d.synthetic), np.nan), np.full(plants.n, np.nan)
    if asked is not None:
        exposed = exposures(asked, d.standing, d.standing_nearest, patients)
        cut = list_cut(asked, asked_at)
        images_of = dict(zip(asked.unit.tolist(), asked.n_images.tolist(), strict=True))
        set_p = copied_p(d.synthetic, [images_of[p] for p in patients[d.nearest]], d.held, theirs)
        near_new = nearness(d.synthetic, d.held_to_train, theirs, d.second)
        if plants.n:
            source = patients[plants.source]
            plant_p = copied_p(d.plant_source, [images_of[s] for s in source], d.held, theirs)
            power = plant_power(d.plant_source, source, plant_p, cut, kinds=plants.kind.tolist(), seed=seed)
    unlike = _unlike(sets, d, patients, theirs, seed)
    return DetectorFindings(asked, exposed, set_p, near_new, cut, plant_p, power, unlike, _published(d, theirs, seed))


def _power(
    by: Sequence[DetectorFindings],
    distances: Sequence[Distances],
    plants: Plants,
    patients: np.ndarray,
    cut: float,
    seed: int,
) -> tuple[PlantPower | None, CopiesBound | None]:
    """Plants found by any detector, and what follows for the set: p-values in units of each detector's own cut."""
    if by[0].power is None:
        return None, None
    plant_p, set_p = (np.min([p * (cut / one.cut) for one, p in found], axis=0) for found in (
        [(one, one.plant_p) for one in by], [(one, one.set_p) for one in by]))  # fmt: skip
    nearest = distances[0].plant_source
    power = plant_power(nearest, patients[plants.source], plant_p, cut, kinds=plants.kind.tolist(), seed=seed)
    least = min(power.kinds.values(), key=lambda share: share.low)  # holds for any mixture of the kinds
    return power, copies_bound(int((set_p <= cut * (1 + _ROUNDING)).sum()), len(set_p), least)


def _least_alike(tests: Sequence[NeighbourTest | None]) -> NeighbourTest | None:
    found = [test for test in tests if test is not None]
    if not found:
        return None
    least = min(found, key=lambda test: test.p_value)
    return replace(least, p_value=min(1.0, len(found) * least.p_value))


def _unlike(
    sets: Sets, distances: Distances, patients: np.ndarray, theirs: np.ndarray, seed: int
) -> NeighbourTest | None:
    if not len(theirs) or sets.shared_patients:
        return None
    part, rows = np.repeat([0, 1], [len(patients), len(theirs)]), distances.among_rows
    return neighbour_test(distances.among_real, np.concatenate([patients, theirs])[rows], part[rows], seed=seed)


def _pixels(
    sets: Sets, copies: PixelCopies, patients: np.ndarray, held: np.ndarray, review: Review,
    counted: CountedImages | None,
) -> PixelCounts:  # fmt: skip
    """Counts of all images, and the p of those that count."""
    certain = (copies.identical >= 0) & ~copies.in_both
    ours, theirs = near(copies.of_train), near(copies.of_held)
    n, m = len(np.unique(patients)), len(np.unique(held))
    some = [ours, theirs] if counted is None else [_only(ours, counted.train), _only(theirs, counted.held)]
    return PixelCounts(
        certain=int(certain.sum()),
        certain_patients=len(np.unique(patients[copies.identical[certain]])),
        confirmed=review.pairs(sets, review.confirmed),
        dismissed=review.pairs(sets, review.dismissed),
        dismissed_identical=copies.dismissed_identical,
        dismissed_near=len(copies.dismissed_near),
        in_both=int(copies.in_both.sum()),
        held=int((copies.identical_held >= 0).sum()),
        near_train=len(np.unique(patients[ours])),
        near_held=len(np.unique(held[theirs])),
        near_p=near_p(len(np.unique(patients[some[0]])), len(np.unique(held[some[1]])), n, m),
    )


def _only(chosen: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """[n] what is chosen among these rows."""
    kept = np.zeros(len(chosen), bool)
    kept[rows] = chosen[rows]
    return kept


def near_p(train: int, held: int, n_train: int, n_held: int) -> float:
    """``P(at least so many of the patients with a near copy are training patients)`` of a random split: hypergeometric.

    Args:
        train: Training patients with one.
        held: Held-out patients with one.
        n_train: Training patients.
        n_held: Held-out patients; 0 gives NaN.
    """
    if not n_held or not train + held:
        return math.nan
    return float(stats.hypergeom.sf(train - 1, n_train + n_held, train + held, n_train))


def _published(distances: Distances, held_patients: np.ndarray, seed: int) -> Published:
    if not len(held_patients):
        alone = authenticity(distances.synthetic, distances.nearest, distances.among_train)
        return Published(None, None, alone)
    one_each = one_per_group(held_patients, seed=seed)
    new = distances.held_to_train[one_each]
    return Published(
        wasserstein=wasserstein(distances.synthetic, new, seed=seed),
        c_t=data_copying(distances.synthetic, new),
        authentic=authenticity(
            distances.synthetic,
            distances.nearest,
            distances.among_train,
            distances.held_to_train,
            distances.held_to_train_nearest,
            held_patients,
        ),
    )
