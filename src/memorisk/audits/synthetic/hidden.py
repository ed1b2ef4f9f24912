"""Known copies hidden among the synthetic images, so that the audit can say what it would have found.

METHODS section 5, "Power, in every report": features and distances are computed for one set in which a plant stands
like any other image, under no name; p-values and the list then use the other images only. Everything is drawn by the
seed, so that a run that goes on hides the same copies in the same places.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd

from memorisk.images.copies.planting import KINDS, Copy, PlantKind, plant_copy
from memorisk.images.decoding.decoding import hash_pixels
from memorisk.images.manifest import Manifest
from memorisk.images.stacked import StackedImages
from memorisk.images.store import ImageStore

_STREAM = 53  # keeps these draws apart from others of the same seed
_PLACES = len(KINDS)


@dataclass(frozen=True, eq=False)
class Plants:
    """Known copies of training images."""

    pixels: np.ndarray
    """[P, H, W, C]."""
    kind: np.ndarray
    """[P] what was done."""
    parameter: np.ndarray
    """[P] in words."""
    source: np.ndarray
    """[P] row of the copied training image."""
    base: np.ndarray
    """[P] row of the synthetic image that a region was pasted into; -1 for the other kinds."""
    asked: int
    """Copies of each kind asked for."""

    @property
    def n(self) -> int:
        """P."""
        return len(self.kind)


@dataclass(frozen=True, eq=False)
class HiddenSet:
    """The synthetic images with the plants among them."""

    store: ImageStore
    """[S + P] rows in a random order; ids and groups are numbers."""
    of_set: np.ndarray
    """[S] place of each synthetic image."""
    of_plants: np.ndarray
    """[P] place of each plant."""


def no_plants(train: ImageStore, asked: int = 0) -> Plants:
    """None at all."""
    empty, rows = np.empty(0, dtype=object), np.empty(0, dtype=np.int64)
    return Plants(np.empty((0, *train.images.shape[1:]), train.images.dtype), empty, empty, rows, rows, asked)


def draw_plants(
    train: ImageStore, synthetic: ImageStore, per_kind: int, seed: int, kinds: Collection[str] = tuple(KINDS)
) -> Plants:
    """Copies of random training patients' images, as many of each kind.

    A patient gives no second copy before every patient has given one, and never two of one kind. An image that a kind
    would leave as it is, or of one value only, is passed over.

    Args:
        train: Training images.
        synthetic: Synthetic images, of the same shape.
        per_kind: Copies of each kind; fewer where there are fewer patients whose images can be copied so.
        seed: Of patients, images and parameters.
        kinds: Which; the draws of a kind are of its own stream, whichever others there are.
    """
    if not per_kind:
        return no_plants(train)
    patients, index = np.unique(train.manifest.groups.astype(str), return_inverse=True)
    rows = np.split(np.argsort(index, kind="stable"), np.cumsum(np.bincount(index))[:-1])
    given = np.zeros(len(patients), dtype=np.int64)
    found: list[tuple[Copy, str, int, int]] = []
    for number, kind in enumerate(KINDS.values()):
        if kind.name not in kinds:
            continue
        rng = np.random.default_rng([_STREAM, seed, number])
        made = 0
        for patient in np.lexsort((rng.permutation(len(patients)), given)):
            if made == per_kind:
                break
            copy = _copy(kind, train, synthetic, rng.permutation(rows[patient]), rng)
            if copy is not None:
                found.append(copy)
                given[patient] += 1
                made += 1
    if not found:
        return no_plants(train, per_kind)
    return Plants(
        pixels=np.stack([copy.pixels for copy, *_ in found]),
        kind=np.array([kind for _, kind, *_ in found], dtype=object),
        parameter=np.array([copy.parameter for copy, *_ in found], dtype=object),
        source=np.array([source for *_, source, _ in found], dtype=np.int64),
        base=np.array([base for *_, base in found], dtype=np.int64),
        asked=per_kind,
    )


def hide(synthetic: ImageStore, plants: Plants, seed: int) -> HiddenSet:
    """Put the plants at random places among the synthetic images.

    Args:
        synthetic: The set.
        plants: Of `draw_plants`.
        seed: Of the places.
    """
    n = len(synthetic.images)
    order = np.random.default_rng([_STREAM, seed, _PLACES]).permutation(n + plants.n) if plants.n else np.arange(n)
    place = np.argsort(order)
    hashes = [*synthetic.pixel_hashes, *(hash_pixels(image) for image in plants.pixels)]
    names = [str(i) for i in range(len(order))]
    table = pd.DataFrame({"image": names, "path": "", "label": "", "group": names}, dtype=object)
    store = replace(
        synthetic,
        images=cast(np.ndarray, StackedImages([synthetic.images, plants.pixels], order)),
        manifest=Manifest(table=table, root=None, name="the synthetic set"),
        pixel_hashes=np.array(hashes, dtype=object)[order],
    )
    return HiddenSet(store, place[:n], place[n:])


def _copy(
    kind: PlantKind, train: ImageStore, synthetic: ImageStore, rows: np.ndarray, rng: np.random.Generator
) -> tuple[Copy, str, int, int] | None:
    """A copy of the first of some images that its kind can copy; with its kind, its row and what it is pasted into."""
    for row in rows:
        base = int(rng.integers(len(synthetic.images)))
        copy = plant_copy(kind, np.asarray(train.images[row]), np.asarray(synthetic.images[base]), rng)
        if copy is not None:
            return copy, kind.name, int(row), base if kind.name == "pasted" else -1
    return None
