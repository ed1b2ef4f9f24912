"""Kinds of planted copies, by name, as `images.alterations.transformations` has them."""

from collections.abc import Mapping, Sequence

from memorisk.images.alterations.transformations import TRANSFORMATIONS, PlantKind, by_name
from memorisk.runs.errors import unknown_name

ALL_KINDS: Mapping[str, PlantKind] = by_name(one.plant for one in TRANSFORMATIONS)
"""Every kind of planted copy, in the order in which kinds are drawn."""
PLANT_KINDS: Mapping[str, PlantKind] = {name: kind for name, kind in ALL_KINDS.items() if kind.required}
"""The kinds that a pass covers unless the user names kinds (METHODS section 5)."""
IN_WORDS: Mapping[str, str] = {one.plant.name: one.words for one in TRANSFORMATIONS if one.plant}
"""Plain words for the copies of each kind."""


def find_plant_kind(name: str) -> PlantKind:
    """Return a kind by its name.

    Raises:
        InputError: No kind has that name.
    """
    if name not in ALL_KINDS:
        raise unknown_name("kind of copy", name, ALL_KINDS)
    return ALL_KINDS[name]


def planted_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Return the named kinds in the order of `ALL_KINDS`; those of `PLANT_KINDS` where no kind is named.

    Raises:
        InputError: A given name is not the name of a kind.
    """
    chosen = {find_plant_kind(name).name for name in names}
    return tuple(name for name in ALL_KINDS if name in (chosen or PLANT_KINDS))
