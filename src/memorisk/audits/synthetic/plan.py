"""What a synthetic audit would compare and could say, before any feature is computed (``--dry-run``)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.audits.synthetic.hidden import Plants, draw_plants, hide
from memorisk.audits.synthetic.measuring import can_plant, open_detectors, shown_names
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.reviewing import NOTHING, Review
from memorisk.audits.synthetic.sets import Sets
from memorisk.images.copies.near_copies import LEARNED
from memorisk.runs.cost import Cost, total
from memorisk.statistics.copies.image_counts import counted_images
from memorisk.statistics.copies.singled_out import ENOUGH_HELD_OUT
from memorisk.statistics.memorization.nulls import unit_p_values
from memorisk.statistics.multiple import smallest_list_of
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.features.cost import features_cost


@dataclass(frozen=True)
class SyntheticPlan:
    """What a command would do.

    Attributes:
        images: In each set.
        patients: Training and held-out ones; images where no patients are given.
        left_out: Held-out patients left out since an image of theirs is a training image.
        features: What compares images.
        plants: Copies that would be hidden.
        plant_patients: Patients that they are of: the independent units of the power.
        shortest_list: The fewest patients that could be listed; None without held-out images or where none could.
        held_out_wanted: Held-out patients below which nobody, or hardly anybody, can be singled out.
        cost: Passes, pairs of images (all searches of every detector, and thumbnails) and bytes; not in it is that
            planted copies are compared with their sources one by one.
        notes: What was assumed or left out.
    """

    images: dict[str, int]
    patients: dict[str, int]
    left_out: int
    features: str
    plants: int
    plant_patients: int
    shortest_list: int | None
    held_out_wanted: int
    cost: Cost
    notes: tuple[str, ...]


def describe_sets(sets: Sets, options: SyntheticOptions, review: Review = NOTHING) -> SyntheticPlan:
    """Count what there is and say which list it allows.

    Args:
        sets: Decoded.
        options: Levels, plants, what compares.
        review: What a person said of pairs.
    """
    train = np.unique(sets.train.manifest.groups.astype(str), return_counts=True)[1]
    held = np.empty(0, np.int64)
    if sets.held is not None:
        held = np.unique(sets.held.manifest.groups.astype(str), return_counts=True)[1]
    n, s, m = len(sets.train.images), len(sets.synthetic.images), int(held.sum())
    wanted = options.plants if can_plant(options) else 0
    plants = draw_plants(sets.train, sets.synthetic, wanted, options.seed, options.kinds)
    detectors, level = open_detectors(options, sets), options.shared_level
    shortest = possible_list(train, held, level) if m else None
    return SyntheticPlan(
        images={"training": n, "synthetic": s, "held out": m},
        patients={"training": len(train), "held out": len(held)},
        left_out=sets.shared_patients,
        features=" and ".join(shown_names(detectors)),
        plants=plants.n,
        plant_patients=len(np.unique(sets.train.manifest.groups[plants.source].astype(str))),
        shortest_list=shortest if shortest is not None and shortest <= len(train) else None,
        held_out_wanted=ENOUGH_HELD_OUT,
        cost=_cost(sets, detectors, plants, options.seed, review),
        notes=(*sets.notes, *_counted(sets)),
    )


def possible_list(n_images: np.ndarray, held_images: np.ndarray, level: float) -> int:
    """The shortest list that the numbers of images allow, whatever is measured.

    Args:
        n_images: [U] of each training patient.
        held_images: [n] of each held-out patient.
        level: Of the list.
    """
    sizes, back = np.unique(n_images, return_inverse=True)
    unit, other = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.arange(len(held_images)), held_images)
    smallest = unit_p_values(np.zeros(len(unit)), unit, np.zeros(len(other)), other).floor[back]
    return smallest_list_of(smallest, level)


def _cost(sets: Sets, detectors: Sequence[PairDetector], plants: Plants, seed: int, review: Review) -> Cost:
    """Passes, pairs and bytes: what `measuring`, `comparing` and `clusters` do."""
    stores = [store for store in (sets.train, sets.held) if store is not None]
    hashes = [store.pixel_hashes for store in (*stores, hide(sets.synthetic, plants, seed).store)]
    features = total([features_cost(d.source, hashes, sets.train.images.shape, d.detector) for d in detectors])
    n, s = len(sets.train.images), len(sets.synthetic.images)
    m, counted = 0, 0
    if sets.held is not None:
        m = len(sets.held.images)
        chosen = counted_images(sets.train.manifest.groups.astype(str), sets.held.manifest.groups.astype(str))
        counted = len(chosen.train) + len(chosen.held)
    again = sum(len(left) for _, left in review.left_of(sets))
    searches = (n + m) * s + (m + s + plants.n) * n + (s + plants.n) * n + n * n + counted**2 + again
    searches += (2 * s + plants.n) * m
    alike = len(set(sets.synthetic.pixel_hashes.tolist()))
    known = min(LEARNED, len(set(np.concatenate([store.pixel_hashes for store in stores]).tolist())))
    thumbnails = (n + m) * s + (alike * (alike - 1) + known * (known - 1)) // 2
    return features + Cost(
        pairs=len(detectors) * searches + thumbnails,
        bytes_images=sum(store.images.nbytes for store in (*stores, sets.synthetic)),
    )


def _counted(sets: Sets) -> list[str]:
    """That patients would count by one image each, where they would."""
    if sets.held is None:
        return []
    said = counted_images(sets.train.manifest.groups.astype(str), sets.held.manifest.groups.astype(str)).words
    return [said] if said else []
