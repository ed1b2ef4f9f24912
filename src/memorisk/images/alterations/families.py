"""Families of copies, by name, as `images.alterations.transformations` has them."""

from collections.abc import Mapping
from types import MappingProxyType

from memorisk.images.alterations.transformations import TRANSFORMATIONS, CopyFamily

ALL_FAMILIES: Mapping[str, CopyFamily] = MappingProxyType(
    {
        family.name: family
        for family in sorted((one.family for one in TRANSFORMATIONS if one.family), key=lambda family: family.stream)
    }
)
"""Every family that a filter can promise to leave out, by its name."""
FAMILIES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {name: one.strengths for name, one in ALL_FAMILIES.items() if one.strengths}
)
"""Strengths of each family that has some, from the weakest to the strongest."""
PLANTED = tuple(name for name, one in ALL_FAMILIES.items() if not one.strengths)
"""Families whose copies are drawn as planted ones are."""
WITHOUT_FAMILY = tuple(
    one.plant.name
    for one in TRANSFORMATIONS
    if one.plant and one.plant.required and not one.family and one.plant.name != "exact"
)
"""Required kinds of planted copies that no family makes; exact copies are left out without a guarantee."""
