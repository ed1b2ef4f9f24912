"""Kinds of planted copies, by name, as `images.alterations.transformations` has them."""

from collections.abc import Mapping, Sequence

from memorisk.images.alterations.transformations import TRANSFORMATIONS, PlantKind, by_name
from memorisk.runs.errors import InputError, listed, unknown_name

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


def planted_kinds(names: Sequence[str], *, of_volumes: bool = False) -> tuple[str, ...]:
    """Return the named kinds in the order of `ALL_KINDS`; those of `PLANT_KINDS` where no kind is named.

    Args:
        names: Names of kinds.
        of_volumes: Whether volumes are copied: of `PLANT_KINDS` those are returned that are defined for them.

    Raises:
        InputError: A given name is not the name of a kind, or of one that is not defined for volumes.
    """
    chosen = {find_plant_kind(name).name for name in names}
    defined = [name for name, kind in ALL_KINDS.items() if kind.of_volumes or not of_volumes]
    if other := chosen.difference(defined):
        raise InputError(
            f"plant_kinds: {listed(sorted(other))} of a volume is not defined; the kinds for volumes are "
            f"{listed(defined, len(defined))}"
        )
    return tuple(name for name in defined if name in (chosen or PLANT_KINDS))
