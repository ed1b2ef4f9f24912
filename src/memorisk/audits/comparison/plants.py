"""Known copies planted among the synthetic images, and which kinds of them are surely noticed.

METHODS section 5, "Power, in every report": the audit measures which copies it would have found. Features and
distances are computed for one set in which a plant is placed like any other image, under no name. P-values and the
list then use the other images only. The seed draws everything, so that a resumed run plants the same copies in the
same places.

A pass is about planted kinds of copies, each by its own interval. An average over kinds says nothing of the kind
that a release holds: a detector that is blind to one of them would pass. Each kind's lower limit is a bound at 97.5
%. That all reach the recall is wrong for some kind no more often than one of them is, so that no limit has to be
wider.

Fewer copies of the other kinds are hidden as well. They show what would have been missed. They change no number of the
required kinds, whose turns do not count them and behind which they are hidden, and no verdict.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from memorisk.images.alterations.planting import PlantedCopy, plant_copy
from memorisk.images.alterations.plants import ALL_KINDS, PLANT_KINDS
from memorisk.images.alterations.transformations import PLACES, PlantKind
from memorisk.images.pixels import hash_pixels
from memorisk.images.stacked_images import StackedImages
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.images.volumes import is_volume
from memorisk.runs.errors import listed, plural
from memorisk.statistics.copies.planted_copies import PlantPower
from memorisk.statistics.copies.singled_out import copies_for_power
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.verdicts.tiers import format_against_gates

_STREAM = 53  # keeps these draws apart from others of the same seed


@dataclass(frozen=True, eq=False)
class Plants:
    """Known copies of training images."""

    pixels: np.ndarray
    """Pixels of the copies, [P, H, W, C]."""
    kind: np.ndarray
    """Kind of each copy, [P]."""
    parameter: np.ndarray
    """Parameter of each copy in words, [P]."""
    source: np.ndarray
    """Row of the copied training image, [P]."""
    base: np.ndarray
    """Row of the synthetic image that a part of the copy is from, [P]; -1 for kinds without one."""
    required: np.ndarray
    """Whether a pass is about the kind, [P]; these come first."""
    per_kind: int
    """Number of copies of each required kind that the settings request."""

    @property
    def n(self) -> int:
        """Number of planted copies."""
        return len(self.kind)

    @property
    def n_required(self) -> int:
        """Number of plants of required kinds."""
        return int(self.required.sum())


@dataclass(frozen=True, eq=False)
class PlantedSet:
    """The synthetic images with the plants among them."""

    store: ImageStore
    """Images of both, [S + P] rows in a random order, plants of other kinds last; ids and groups are numbers."""
    of_set: np.ndarray
    """Place of each synthetic image, [S]."""
    of_plants: np.ndarray
    """Place of each plant, [P]."""


def no_plants(train: ImageStore, per_kind: int = 0) -> Plants:
    """Return an empty set of plants."""
    empty, rows = np.empty(0, dtype=object), np.empty(0, dtype=np.int64)
    pixels = np.empty((0, *train.images.shape[1:]), train.images.dtype)
    return Plants(pixels, empty, empty, rows, rows, np.empty(0, dtype=bool), per_kind)


def draw_plants(
    train: ImageStore,
    synthetic: ImageStore,
    per_kind: int,
    seed: int,
    kinds: Collection[str] = tuple(PLANT_KINDS),
    further: int = 0,
) -> Plants:
    """Draw copies of random training patients' images, as many of each kind.

    A patient gives no second copy before every patient has given one, and never two of one kind. An image that a kind
    would leave as it is, or of one value only, is passed over. Kinds that are not defined for volumes make
    none of volumes.

    Args:
        train: Training images, which are copied.
        synthetic: Synthetic images, of the same shape.
        per_kind: Number of copies of each required kind; fewer where fewer patients have images that can be copied so.
        seed: Seed of patients, images and parameters.
        kinds: Required kinds; the draws of a kind are of its own stream, whichever others there are.
        further: Number of copies of each other kind.
    """
    if not per_kind:
        return no_plants(train)
    patients, index = np.unique(train.manifest.groups.astype(str), return_inverse=True)
    rows = np.split(np.argsort(index, kind="stable"), np.cumsum(np.bincount(index))[:-1])
    copies = {required: np.zeros(len(patients), dtype=np.int64) for required in (False, True)}
    plants: list[tuple[PlantedCopy, str, int, int]] = []
    # A patient's turn depends on the copies drawn before. By default kinds are drawn in the order of their entries, so
    # that a new entry, which is the last, moves no copy of another kind; and further kinds move no required one.
    first = () if set(kinds) == set(PLANT_KINDS) else kinds
    defined = [kind for kind in ALL_KINDS.values() if kind.of_volumes or not is_volume(train.images.shape)]
    for kind in sorted(defined, key=lambda kind: kind.name not in first):
        required = kind.name in kinds
        rng = np.random.default_rng([_STREAM, seed, kind.stream])
        n_made = 0
        for patient in np.lexsort((rng.permutation(len(patients)), copies[required])):
            if n_made == (per_kind if required else further):
                break
            copy = _copy(kind, train, synthetic, rng.permutation(rows[patient]), rng)
            if copy is not None:
                plants.append(copy)
                copies[False][patient] += 1
                copies[True][patient] += required
                n_made += 1
    if not plants:
        return no_plants(train, per_kind)
    plants.sort(key=lambda one: one[1] not in kinds)
    return Plants(
        pixels=np.stack([copy.pixels for copy, *_ in plants]),
        kind=np.array([kind for _, kind, *_ in plants], dtype=object),
        parameter=np.array([copy.parameter for copy, *_ in plants], dtype=object),
        source=np.array([source for *_, source, _ in plants], dtype=np.int64),
        base=np.array([base for *_, base in plants], dtype=np.int64),
        required=np.array([kind in kinds for _, kind, *_ in plants], dtype=bool),
        per_kind=per_kind,
    )


def insert_plants(synthetic: ImageStore, plants: Plants, seed: int) -> PlantedSet:
    """Put the plants at random places among the synthetic images.

    Args:
        synthetic: The synthetic set.
        plants: Planted copies of `draw_plants`.
        seed: Seed of the places.
    """
    n, rng = len(synthetic.images), np.random.default_rng([_STREAM, seed, PLACES])
    hidden = n + plants.n_required
    order = rng.permutation(hidden) if plants.n_required else np.arange(n)
    order = np.concatenate([order, np.arange(hidden, n + plants.n)])
    place = np.argsort(order)
    images = cast(np.ndarray, StackedImages([synthetic.images, plants.pixels], order))
    hashes = [*synthetic.pixel_hashes, *(hash_pixels(image) for image in plants.pixels)]
    store = store_of_pixels(images, synthetic, "the synthetic set", hashes=np.array(hashes, dtype=object)[order])
    return PlantedSet(store, place[:n], place[n:])


def _copy(
    kind: PlantKind, train: ImageStore, synthetic: ImageStore, rows: np.ndarray, rng: np.random.Generator
) -> tuple[PlantedCopy, str, int, int] | None:
    """Copy the first of some images that its kind can copy; return it with its kind, its row and the synthetic row."""
    for row in rows:
        base = int(rng.integers(len(synthetic.images)))
        second = synthetic.images[base]
        if kind.second == "patient":
            others = np.flatnonzero(train.manifest.groups != train.manifest.groups[row])
            if not len(others):
                return None
            second = train.images[rng.choice(others)]
        copy = plant_copy(kind, np.asarray(train.images[row]), np.asarray(second), rng)
        if copy is not None:
            return copy, kind.name, int(row), base if kind.second == "synthetic" else -1
    return None


Shares = Mapping[str, Proportion]
"""Shares of plants that were noticed, by kind."""


def least_noticed_kind(by_kind: Shares) -> str:
    """Return the kind with the lowest lower limit."""
    return min(by_kind, key=lambda kind: by_kind[kind].low)


def kinds_promise(power: PlantPower, probability: float, n_train: int) -> str:
    """Say how surely the audit would have noticed copies of the planted kinds.

    Args:
        power: Power for plants of one kind or more.
        probability: Probability that one copy at least would have been noticed.
        n_train: Number of training patients, hence how many can have been copied.
    """
    kind, least = min(power.kinds.items(), key=lambda item: item[1].low)
    n, low = copies_for_power(least.low, probability), format_against_gates(least.low, probability)
    how = f"of the weakest kind, {kind}: {least.successes:,} of {least.trials:,} source identities, lower limit {low}"
    if n is None or n > n_train:
        return f"even copies of all {n_train:,} training patients in one of these ways could go unnoticed ({how})"
    if n == 1:
        event = "if a random training patient had been copied in one of these ways, the copy"
    else:
        event = f"if at least {n:,} training patients had been copied in one of these ways, one copy at least"
    return (
        f"{event} would have been singled out, seen by its pixels or confirmed by the second look, with probability at "
        "least "
        f"{low if n == 1 else format_against_gates(probability, probability)} ({how}); a generator's own copies may "
        "be of other kinds"
    )


def kinds_words(planted: Sequence[str], also: Shares) -> str:
    """Name the kinds of copies that a pass is about, and those of `PLANT_KINDS` that it is not about.

    Args:
        planted: Kinds that a pass is about.
        also: Shares of the further kinds that were tried.
    """
    remaining = [kind for kind in PLANT_KINDS if kind not in planted]
    others = {
        "tried, not required": [f"{kind} ({counted(also[kind])} noticed)" for kind in remaining if kind in also],
        "not tried": [kind for kind in remaining if kind not in also],
    }
    clauses = [f"; {how}: {listed(kinds, len(ALL_KINDS))}" for how, kinds in others.items() if kinds]
    kinds = plural(len(planted), "kind", "kinds")
    return f"{kinds} of copies, each by itself: {listed(planted, len(ALL_KINDS))}{''.join(clauses)}"


def counted(share: Proportion) -> str:
    """Say how many of how many plants were noticed."""
    return f"{share.successes:,} of {share.trials:,}"


def mostly_missed(also: Shares) -> dict[str, Proportion]:
    """Return the kinds of which fewer than half of the plants were noticed.

    Args:
        also: Shares of plants that were noticed, by kind.
    """
    return {kind: share for kind, share in also.items() if 2 * share.successes < share.trials}


def recall_doubt(by_kind: Shares, planted: Sequence[str], recall: float) -> str | None:
    """Say why the kinds do not allow a pass; None where they do.

    Args:
        by_kind: Shares that were noticed, of the kinds of which a copy could be made.
        planted: Names of all requested kinds.
        recall: Recall that the lower limit of each must reach.
    """
    missed = missed_kinds(by_kind, planted, recall)
    unmade = [kind for kind in planted if kind not in by_kind]
    doubts = []
    if missed:
        each = ", ".join(f"{kind} ({by_kind[kind].successes:,} of {by_kind[kind].trials:,})" for kind in missed)
        of = plural(len(planted), "planted kind", "planted kinds")
        doubts.append(f"too few planted copies were noticed of {len(missed):,} of {of}: {each}")
    if unmade:
        doubts.append(f"no training image could be copied in this way: {listed(unmade, len(ALL_KINDS))}")
    if not doubts:
        return None
    return f"{'; '.join(doubts)}; for a pass the lower limit of every kind must reach {100 * recall:g} %"


def missed_kinds(by_kind: Shares, planted: Sequence[str], recall: float) -> list[str]:
    """Return the planted kinds that are not surely noticed as often as a pass needs.

    Args:
        by_kind: Shares that were noticed, of the kinds of which a copy could be made.
        planted: Names of all requested kinds.
        recall: Recall that the lower limit of each must reach.
    """
    return [kind for kind in planted if kind in by_kind and by_kind[kind].low < recall]
