"""Families of copies, by name, as `images.alterations.transformations` has them."""

from collections.abc import Mapping

from memorisk.images.alterations.transformations import TRANSFORMATIONS, CopyFamily, by_name

ALL_FAMILIES: Mapping[str, CopyFamily] = by_name(one.family for one in TRANSFORMATIONS)
"""Every family that a filter can promise to leave out."""
FAMILIES: Mapping[str, tuple[float, ...]] = {n: one.strengths for n, one in ALL_FAMILIES.items() if one.strengths}
"""Strengths of each family that has some, from the weakest to the strongest."""
PLANTED = tuple(name for name in ALL_FAMILIES if name not in FAMILIES)
"""Families whose copies are drawn as planted ones are."""
_ALONE = [one.plant for one in TRANSFORMATIONS if one.plant and one.plant.required and not one.family]
WITHOUT_FAMILY = tuple(kind.name for kind in _ALONE if kind.name != "exact")
"""Required kinds of planted copies that no family makes; exact copies are left out without a guarantee."""
