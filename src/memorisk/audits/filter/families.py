"""Families of copies that a guarantee covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from memorisk.images.alterations.families import FAMILIES, PLANTED, WITHOUT_FAMILY
from memorisk.images.alterations.plants import find_plant_kind
from memorisk.runs.errors import InputError, unknown_name

REIDENTIFICATION, COPIES = "re-identification", "copies"


@dataclass(frozen=True)
class Family:
    """A kind of positive pair."""

    name: str
    """"re-identification", or a family of augmentations."""
    strengths: tuple[float, ...] = ()
    """Drawn from, evenly; none for re-identification and planted kinds."""

    @property
    def copied(self) -> bool:
        """Return whether a pair is an image and a copy of it, not two images."""
        return self.name != REIDENTIFICATION

    @property
    def words(self) -> str:
        """Return the words by which a guarantee names it."""
        if self.name in PLANTED:
            return f"{self.name} ({find_plant_kind(self.name).description})"
        if not self.copied:
            return f"{self.name} (another image of the person)"
        return f"{self.name} ({', '.join(f'{strength:g}' for strength in self.strengths)})"


def parse_families(texts: tuple[str, ...]) -> tuple[Family, ...]:
    """Read families from the names that a user gives.

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
            found.append(Family(name, _strengths_to(name, most) if colon else FAMILIES[name]))
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


def _strengths_to(name: str, most: str) -> tuple[float, ...]:
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
