"""Families of copies that a guarantee covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from memorisk.images.alterations.families import FAMILIES, PLANTED, WITHOUT_FAMILY
from memorisk.images.alterations.plants import find_plant_kind
from memorisk.runs.errors import InputError, unknown_name

REIDENTIFICATION, COPIES = "re-identification", "copies"


@dataclass(frozen=True)
class Family:
    """Kind of positive pairs."""

    name: str
    """"re-identification", or a family of `images.alterations.families`."""
    strengths: tuple[float, ...] = ()
    """Strengths that are drawn from, evenly; none for re-identification and for copies drawn as planted ones."""

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
        texts: Names: ``re-identification``; a family of copies, or ``NAME:STRENGTH`` for its strengths up to that one;
            ``copies`` for all families that have strengths.

    Raises:
        InputError: A family or a strength does not exist, or a family occurs twice.
    """
    families: list[Family] = []
    for text in texts:
        name, colon, most = text.partition(":")
        if name == COPIES and not colon:
            families += [Family(each, strengths) for each, strengths in FAMILIES.items()]
        elif (name == REIDENTIFICATION and not colon) or (name in PLANTED and not colon):
            families.append(Family(name))
        elif name in FAMILIES:
            families.append(Family(name, _strengths_to(name, most) if colon else FAMILIES[name]))
        else:
            raise unknown_name("family of copies", text, (REIDENTIFICATION, COPIES, *FAMILIES, *PLANTED))
    names = [family.name for family in families]
    if len(set(names)) != len(names):
        raise InputError(f"families name {next(n for n in names if names.count(n) > 1)} twice")
    return tuple(families)


def not_promised(families: Sequence[Family]) -> list[str]:
    """List the kinds of copies that a guarantee does not cover; of a family covered in part, the stronger copies.

    Args:
        families: Families that the guarantee covers.
    """
    strengths = {family.name: family.strengths for family in families}
    partly = [name for name in FAMILIES if name in strengths and strengths[name] != FAMILIES[name]]
    return [
        *(name for name in FAMILIES if name not in strengths),
        *(f"{name} stronger than {strengths[name][-1]:g}" for name in partly),
        *(name for name in PLANTED if name not in strengths),
        *WITHOUT_FAMILY,
    ]


def _strengths_to(name: str, most: str) -> tuple[float, ...]:
    """Return the strengths of a family up to one that is named.

    Raises:
        InputError: The family has no such strength.
    """
    strengths = FAMILIES[name]
    try:
        place = strengths.index(float(most))
    except ValueError:
        raise unknown_name(f"strength of {name}", most, [f"{strength:g}" for strength in strengths]) from None
    return strengths[: place + 1]
