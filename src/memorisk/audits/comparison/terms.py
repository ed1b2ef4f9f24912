"""Names of a group in sentences; shares, p-values and training images that were not read, in words."""

from dataclasses import dataclass

from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.reasons import Number, Reason, Words
from memorisk.statistics.verdicts.units import UnitNames

SAME_IDENTITY, TWO_IDENTITIES, SET_TO_TRAINING = "same identity", "two identities", "synthetic, training"
"""Kinds of pairs whose logits are counted."""


@dataclass(frozen=True)
class Terms:
    """Words for a group: a patient, or an image where no patients are given."""

    units: str
    """Name of several groups, "patients" or "images"."""

    @property
    def unit(self) -> str:
        """Return the name of one group."""
        return self.units.removesuffix("s")

    @property
    def names(self) -> UnitNames:
        """Return the names in sentences of checks."""
        return UnitNames(self.unit, self.units)

    @property
    def a_unit(self) -> str:
        """Return the name of one group with its article."""
        return f"{'an' if self.unit[0] in 'aeiou' else 'a'} {self.unit}"

    @property
    def whom(self) -> str:
        """Return the pronoun of the groups."""
        return "whom" if self.units == "patients" else "which"

    @property
    def of_one(self) -> str:
        """Return the words for an image of one group."""
        return "an image of a training patient" if self.units == "patients" else "a training image"

    def fill(self, text: str, **more: object) -> str:
        """Fill the terms into a text."""
        terms = {name: getattr(self, name) for name in ("units", "unit", "a_unit", "whom", "of_one")}
        return text.format(**terms, Units=self.units.capitalize(), Unit=self.unit.capitalize(), **more)

    def counted(self, n: int, which: str = "") -> str:
        """Count groups in words, perhaps of one part."""
        return f"{n:,} {which} {self.unit if n == 1 else self.units}".replace("  ", " ")


def share(value: float) -> str:
    """Word a share as a whole percentage."""
    return f"{Number(value):%}"


def p_words(p: float) -> str:
    """Word a p-value in a sentence."""
    return f"{Number(p):p}"


def missing_patients(n: int) -> str:
    """Say that no image has a patient id, or, where others have one, how many have none: ``n``, above 0."""
    return f"{plural(n, 'image has', 'images have')} no patient id" if n else "no patient ids were given"


class TrainingUnread(Reason, code="training-unread"):
    """Files of the training set that were not read."""

    n_files: int
    text = Words(
        "{n_files:file or image|files or images} of the training set {n_files:|was|were} not read: copies of these are "
        "not found"
    )
    plain = Words("{n_files:training file was|training files were} not read, so that copies of them are not found")
    remedy = Words("training images that can be read, or a folder without these files if nothing was trained on them")
