"""What the guarantee is about: kinds of copies, and one random positive pair of each calibration identity for each.

METHODS section 4, "Guarantee". ``re-identification`` pairs two different images of one identity; every family of
`memorisk.training.detectors.lcmem.augmentations` pairs an image with a copy of it, its strength drawn evenly from the
family's; ``flipped`` and ``cropped`` pair it with a copy that the audit of a synthetic set plants under that name
(`memorisk.images.copies.planting`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from memorisk.images.copies.planting import find_kind, plant_copy
from memorisk.images.decoding.decoding import hash_pixels
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, unknown_name
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.pairs.identity_pairs import one_positive_each
from memorisk.training.detectors.lcmem.augmentations import FAMILIES, augmented

PLANTED = ("flipped", "cropped")
"""Families that are kinds of copies of `images.copies.planting`; what is done is drawn there."""
WITHOUT_FAMILY = ("pasted",)
"""Kinds of copies that no family makes."""
REIDENTIFICATION, COPIES = "re-identification", "copies"
_STREAM = 61  # keeps these draws apart from others of the same seed


@dataclass(frozen=True)
class Family:
    """A kind of positive pair."""

    name: str
    """"re-identification", or a family of augmentations."""
    strengths: tuple[float, ...] = ()
    """Drawn from, evenly; none for re-identification and planted kinds."""

    @property
    def copied(self) -> bool:
        """Whether a pair is an image and a copy of it, not two images."""
        return self.name != REIDENTIFICATION

    @property
    def words(self) -> str:
        """As a guarantee names it."""
        if self.name in PLANTED:
            return f"{self.name} ({find_kind(self.name).description})"
        if not self.copied:
            return f"{self.name} (another image of the person)"
        return f"{self.name} ({', '.join(f'{strength:g}' for strength in self.strengths)})"


@dataclass(frozen=True, eq=False)
class PositivePairs:
    """One random positive pair of each identity that has one."""

    family: Family
    first: np.ndarray
    """[n] rows of the calibration images."""
    second: np.ndarray
    """[n] rows of them, or of the copies where there are copies."""
    copies: ImageStore | None
    """[n] copies; None for re-identification."""
    strength: np.ndarray
    """[n]; NaN for re-identification and planted kinds."""

    def __len__(self) -> int:
        return len(self.first)


def parse_families(texts: tuple[str, ...]) -> tuple[Family, ...]:
    """Families by what a user names.

    Args:
        texts: ``re-identification``, ``copies`` (all families of augmentations), ``flipped``, ``cropped``, ``NAME``, or
            ``NAME:STRENGTH`` for its strengths up to that one.

    Raises:
        InputError: There is no such family or strength, or one stands twice.
    """
    found: list[Family] = []
    for text in texts:
        name, colon, most = text.partition(":")
        if name == COPIES and not colon:
            found += [Family(each, strengths) for each, strengths in FAMILIES.items()]
        elif (name == REIDENTIFICATION and not colon) or (name in PLANTED and not colon):
            found.append(Family(name))
        elif name in FAMILIES:
            found.append(Family(name, _up_to(name, most) if colon else FAMILIES[name]))
        else:
            raise unknown_name("family of copies", text, (REIDENTIFICATION, COPIES, *FAMILIES, *PLANTED))
    names = [family.name for family in found]
    if len(set(names)) != len(names):
        raise InputError(f"families name {next(n for n in names if names.count(n) > 1)} twice")
    return tuple(found)


def not_promised(families: Sequence[Family]) -> list[str]:
    """Kinds of copies of which a guarantee for some families says nothing, weakest named strength first.

    Args:
        families: What it is about.
    """
    said = {family.name: family for family in families}
    left = [name for name in FAMILIES if name not in said]
    for name, strengths in FAMILIES.items():
        if name in said and said[name].strengths != strengths:
            left.append(f"{name} stronger than {said[name].strengths[-1]:g}")
    return [*left, *(name for name in PLANTED if name not in said), *WITHOUT_FAMILY]


def identities(family: Family, store: ImageStore | None) -> np.ndarray:
    """[n] ids of those who give a pair of a family, sorted.

    Args:
        family: The kind.
        store: Of the calibration; None for none.
    """
    if store is None:
        return np.empty(0, dtype=str)
    ids, counts = np.unique(store.manifest.groups.astype(str), return_counts=True)
    return ids if family.copied else ids[counts > 1]


def draw_pairs(family: Family, store: ImageStore, seed: int) -> PositivePairs:
    """One random positive pair of each identity, drawn by the seed and the family alone.

    Args:
        family: The kind.
        store: Of the calibration.
        seed: Of pairs, sources, strengths and copies.

    Raises:
        InputError: Images that cannot be augmented.
    """
    place = [REIDENTIFICATION, *FAMILIES, *PLANTED].index(family.name)
    rng = np.random.default_rng([_STREAM, seed, place])
    groups = store.manifest.groups.astype(str)
    first_seed, second_seed = (int(value) for value in rng.integers(1 << 32, size=2))
    if not family.copied:
        pairs = one_positive_each(groups, seed=first_seed)
        return PositivePairs(family, pairs.first, pairs.second, None, np.full(len(pairs), np.nan))
    rows = one_per_group(groups, seed=first_seed)
    if family.name in PLANTED:
        made = _planted(family, store, rows, second_seed)
        return PositivePairs(
            family, rows, np.arange(len(rows)), store_of_copies(store, made), np.full(len(rows), np.nan)
        )
    strength = np.array(family.strengths)[rng.integers(len(family.strengths), size=len(rows))]
    made = np.empty((len(rows), *store.images.shape[1:]), store.images.dtype)
    for value in family.strengths:
        here = strength == value
        if here.any():
            made[here] = augmented(store.images, rows[here], family.name, value, seed=second_seed)
    return PositivePairs(family, rows, np.arange(len(rows)), store_of_copies(store, made), strength)


def store_of_copies(store: ImageStore, pixels: np.ndarray) -> ImageStore:
    """Pixels as a store beside another, under numbers for names.

    Args:
        store: The originals'.
        pixels: [n, H, W, C].
    """
    names = [str(i) for i in range(len(pixels))]
    table = pd.DataFrame({"image": names, "path": "", "label": "", "group": names}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in pixels], dtype=object)
    return replace(store, images=pixels, manifest=Manifest(table, None, "calibration copies"), pixel_hashes=hashes)


def _planted(family: Family, store: ImageStore, rows: np.ndarray, seed: int) -> np.ndarray:
    """[n, H, W, C] copies as the audit plants them; an image that its kind leaves as it is, is its own copy."""
    kind = find_kind(family.name)
    made = np.empty((len(rows), *store.images.shape[1:]), store.images.dtype)
    for place, row in enumerate(rows):
        image = np.asarray(store.images[row])
        copy = plant_copy(kind, image, image, np.random.default_rng([_STREAM, seed, int(row)]))
        made[place] = image if copy is None else copy.pixels
    return made


def _up_to(name: str, most: str) -> tuple[float, ...]:
    """Strengths of a family from the weakest to one that is named.

    Raises:
        InputError: It has no such strength.
    """
    strengths = FAMILIES[name]
    known = [f"{strength:g}" for strength in strengths]
    try:
        place = strengths.index(float(most))
    except ValueError:
        raise unknown_name(f"strength of {name}", most, known) from None
    return strengths[: place + 1]
