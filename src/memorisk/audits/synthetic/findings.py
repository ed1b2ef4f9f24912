"""The statistics of a synthetic audit: METHODS section 5, from distances to who is listed and how sure that is."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from memorisk.audits.synthetic.comparing import Distances, PixelCopies, near
from memorisk.audits.synthetic.hidden import Plants
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.sets import Sets
from memorisk.statistics.calibration import one_per_group
from memorisk.statistics.copy_tests import (
    Authenticity,
    DataCopying,
    WassersteinTest,
    authenticity,
    data_copying,
    wasserstein,
)
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
    exposures,
    held_out_needed,
    nearness,
    reversed_queries,
)


@dataclass(frozen=True)
class PixelCounts:
    """Copies that pixels show, by patient, training beside held out."""

    certain: int
    """Synthetic images with the pixels of a training image that no held-out image shares."""
    certain_patients: int
    """Training patients whose images these are."""
    in_both: int
    """Synthetic images with pixels that training and held-out images share."""
    held: int
    """Synthetic images with the pixels of a held-out image and of no training image: the null of ``certain``."""
    near_train: int
    """Training patients with a nearly identical synthetic image."""
    near_held: int
    """Held-out patients with one."""
    near_p: float
    """Probability that at least so many of these patients are training ones, of a random split; NaN without any."""


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
class Findings:
    """What the distances say."""

    patients: np.ndarray
    """[N] patient of each training image."""
    held_patients: np.ndarray
    """[M] of each held-out image."""
    asked: ReversedQueries | None
    """Section 5's p-values and list; None without held-out images."""
    exposed: Exposures | None
    """Which synthetic images expose the listed patients."""
    set_p: np.ndarray
    """[S] p-value at which the patient of the nearest training image would be listed by this image; NaN without."""
    near_new: Nearness | None
    """Descriptive: where synthetic images lie among new patients' images."""
    copied: int
    """Copied training patients that a pass must be able to list."""
    needed: int
    """Held-out patients with which a list of so few is possible."""
    read_at: int
    """Length of the list whose cut the plants are read at: ``copied``, or the shortest possible if that is longer."""
    cut: float
    """p-value of a list of so many; NaN without held-out images."""
    power: PlantPower | None
    """Plants found at that cut; None without plants or held-out images."""
    bound: CopiesBound | None
    """Largest share of the set that copies of the planted kinds can be."""
    pixels: PixelCounts
    """Pairs by pixels."""
    unlike: NeighbourTest | None
    """Whether training and held-out images lie apart; None where there are none, or some of these were left out for
    being training images, which leaves no random split."""
    published: Published
    """Statistics of the literature."""


def find(sets: Sets, distances: Distances, copies: PixelCopies, plants: Plants, options: SyntheticOptions) -> Findings:
    """Everything that is computed from the distances.

    Args:
        sets: For the patients.
        distances: Of `comparing.compare`.
        copies: Of `comparing.compare_pixels`.
        plants: Kinds and sources; none of them is in the distances of real images.
        options: Levels, and what a pass needs.
    """
    patients = sets.train.manifest.groups.astype(str)
    held = np.empty(0, dtype=str) if sets.held is None else sets.held.manifest.groups.astype(str)
    theirs = np.char.add("held out: ", held)  # names that are no patients may occur on both sides
    n_patients = len(np.unique(patients))
    copied = max(1, math.ceil(options.copied * n_patients * (1 - 1e-12)))
    asked = exposed = power = bound = near_new = None
    set_p, cut, read_at = np.full(len(distances.synthetic), np.nan), math.nan, copied
    if len(held):
        asked = reversed_queries(distances.train, distances.held, patients, theirs, q=options.level)
        exposed = exposures(asked, distances.train, distances.train_nearest, patients)
        read_at = max(copied, min(asked.shortest_list, n_patients))
        cut = list_cut(asked, read_at)
        images_of = dict(zip(asked.unit.tolist(), asked.n_images.tolist(), strict=True))
        counts = np.array([images_of[p] for p in patients[distances.nearest]])
        set_p = copied_p(distances.synthetic, counts, distances.held, theirs)
        near_new = nearness(distances.synthetic, distances.held_to_train, theirs, distances.second)
        if plants.n:
            source = patients[plants.source]
            p = copied_p(distances.plant_source, [images_of[s] for s in source], distances.held, theirs)
            power = plant_power(distances.plant_source, source, p, cut, kinds=plants.kind.tolist(), seed=options.seed)
            found = int((set_p <= cut * (1 + 1e-12)).sum())
            bound = copies_bound(found, len(set_p), power.recall)
    return Findings(
        patients=patients,
        held_patients=held,
        asked=asked,
        exposed=exposed,
        set_p=set_p,
        near_new=near_new,
        copied=copied,
        needed=held_out_needed(n_patients, copied, options.level),
        read_at=read_at,
        cut=cut,
        power=power,
        bound=bound,
        pixels=_pixels(copies, patients, held),
        unlike=_unlike(sets, distances, patients, theirs, options.seed),
        published=_published(distances, theirs, options.seed),
    )


def _unlike(
    sets: Sets, distances: Distances, patients: np.ndarray, theirs: np.ndarray, seed: int
) -> NeighbourTest | None:
    if not len(theirs) or sets.shared_patients:
        return None
    part = np.repeat([0, 1], [len(patients), len(theirs)])
    return neighbour_test(distances.among_real, np.concatenate([patients, theirs]), part, seed=seed)


def _pixels(copies: PixelCopies, patients: np.ndarray, held: np.ndarray) -> PixelCounts:
    certain = (copies.identical >= 0) & ~copies.in_both
    train_near = len(np.unique(patients[near(copies.of_train)]))
    held_near = len(np.unique(held[near(copies.of_held)]))
    n, m = len(np.unique(patients)), len(np.unique(held))
    return PixelCounts(
        certain=int(certain.sum()),
        certain_patients=len(np.unique(patients[copies.identical[certain]])),
        in_both=int(copies.in_both.sum()),
        held=int((copies.identical_held >= 0).sum()),
        near_train=train_near,
        near_held=held_near,
        near_p=near_p(train_near, held_near, n, m),
    )


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
