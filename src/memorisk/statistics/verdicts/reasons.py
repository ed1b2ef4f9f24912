"""Reasons of a verdict as data: typed fields with units, a code, and the sentences that are made from them.

A reason is a subclass of `Reason`: a frozen dataclass with a code of its own. Programs select by ``code``, ``bears_on``
and fields, and never read a sentence. ``text`` is for the engineer; ``plain`` is for the data-protection officer (no
symbol, no p, no unit of a loss); ``remedy`` names what would settle it. Each is `Words`: a template over the fields, or
a function.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar, dataclass_transform

from memorisk.runs.errors import one_line
from memorisk.statistics.verdicts.remedies import (
    Ways,
    alternatives,
    chosen_remedies,
    claim_words,
    claims_instead,
    remedy_words,
)
from memorisk.statistics.verdicts.units import GROUP_NAMES, UnitNames

REASONS: dict[str, "type[Reason]"] = {}
"""Reasons by their code."""


class Bearing(StrEnum):
    """Effect of a reason on the verdict."""

    FAIL = "fail"
    DOUBT = "doubt"
    """Keeps a pass away."""
    LIMIT = "limit"
    """Limits what the verdict says, whatever the status."""
    SUPPORT = "support"
    """Carries a pass."""


class Gravity(StrEnum):
    """Place of a reason among others of its bearing."""

    USUAL = "usual"
    FIRST = "first"
    """Must be settled before more models or patients are of use."""
    VOID = "void"
    """Leaves the audit undecided, whatever else was found."""


FAIL, DOUBT, LIMIT, SUPPORT = Bearing


class Count(int):
    """Whole number in a template: ``{n:image|images}`` counts, ``{n:|is|are}`` is the word that agrees with it."""

    def __format__(self, spec: str) -> str:
        if "|" not in spec:
            return int(self).__format__(spec)
        *alone, one, many = spec.split("|")
        word = one if self == 1 else many
        return word if alone else f"{int(self):,} {word}"


class Number(float):
    """Number in a template: ``{share:%}`` is a whole percentage, ``{share:100}`` a count out of 100, ``{p:p}`` a p."""

    def __format__(self, spec: str) -> str:
        if spec in ("%", "100"):
            return f"{100 * self:.0f}{' %' if spec == '%' else ''}"
        if spec == "p":
            return "below 0.001" if self < 0.001 else f"{float(self):.2g}"
        return float(self).__format__(spec)


_OF_UNITS = ("one", "many", "whom", "loss_unit", "change", "verb")


class _Values:
    """Names in a template: fields and properties of the reason, and those of its units that `_OF_UNITS` names."""

    def __init__(self, reason: "Reason") -> None:
        self.reason = reason

    def __getitem__(self, name: str) -> Any:
        value = getattr(self.reason.units if name in _OF_UNITS else self.reason, name)
        return {int: Count, float: Number}.get(type(value), lambda same: same)(value)


class Words:
    """Sentence of a reason, from a template or a function of the reason."""

    def __init__(self, source: str | Callable[[Any], str]) -> None:
        self.source = source

    def __get__(self, reason: "Reason | None", owner: type) -> str:
        if reason is None:  # pydoc or Sphinx reads the attribute of the class
            return self.source if isinstance(self.source, str) else ""
        if isinstance(self.source, str):
            return self.source.format_map(_Values(reason))
        return self.source(reason)


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Reason:
    """Reason of a verdict; a subclass names its code, and becomes a frozen dataclass.

    Subclasses give their own ``text``, ``plain`` and ``remedy``; what these are is documented here, once for all.
    """

    code: ClassVar[str] = ""
    """Name for machines, which stays when sentences change."""
    bears_on: ClassVar[Bearing] = DOUBT
    """Effect on the verdict."""
    gravity: ClassVar[Gravity] = Gravity.USUAL
    """Place among the reasons of the same effect."""
    units: UnitNames = GROUP_NAMES
    """Names of a group in sentences, and the scale of losses."""
    ways: tuple[Ways, ...] = ()
    """Remedies in numbers; each of them is needed."""
    text = Words("")
    """Sentence for the engineer, with the numbers and their units."""
    plain = Words("")
    """Sentence for the data-protection officer: no symbol, no p, no unit of a loss."""

    @Words
    def remedy(self) -> str:
        """Return what would settle the reason; empty where nothing is open."""
        return self.ways_in_words

    def __init_subclass__(
        cls, *, code: str = "", bears_on: Bearing | None = None, gravity: Gravity | None = None
    ) -> None:
        super().__init_subclass__()
        if REASONS.get(code, cls).__qualname__ != cls.__qualname__:
            raise ValueError(f"two reasons have the code {code}")
        cls.code, cls.bears_on, cls.gravity = code, bears_on or cls.bears_on, gravity or cls.gravity
        dataclass(frozen=True, kw_only=True)(cls)
        if code:
            REASONS[code] = cls

    @property
    def ways_in_words(self) -> str:
        """Ways in a sentence; empty without any."""
        return "; ".join(alternatives(way, self.units) for way in self.ways)

    @property
    def way_out(self) -> tuple[str | Ways, ...]:
        """Remedy, in numbers where there are any; nothing where nothing is open."""
        return self.ways or ((self.remedy,) if self.remedy else ())

    @property
    def next_step(self) -> str:
        """The cheapest remedy by itself, or the claim that these data carry in its place; empty without either."""
        steps = [remedy_words(remedy, self.units) for remedy in chosen_remedies(self.ways)]
        steps += [claim_words(claim, self.units) for claim in claims_instead(self.ways)]
        return next(iter(steps), "") if self.ways else self.remedy

    def as_record(self) -> dict[str, Any]:
        """Return the reason as ``verdict.json`` holds it: code, bearing, gravity, fields and sentences."""
        words = {"text": self.text, "plain": self.plain, "remedy": self.remedy, "next": self.next_step}
        return {"code": self.code, "bears_on": self.bears_on, "gravity": self.gravity, **asdict(self), **words}


class ClassReason(Reason):
    """Reason about a class, or about the whole audit where the label is empty."""

    label: str = ""
    """Name of the class."""

    @property
    def of_class(self) -> str:
        """Class as it begins a sentence; empty for the whole audit."""
        return f"class {one_line(self.label, 80)}" if self.label else ""


def verdict_reasons(reasons: Iterable[Reason | Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``reasons`` and ``why`` of a verdict that is written as a mapping.

    Args:
        reasons: Reasons in the order in which they are read, or records of another verdict's.
    """
    records = [reason.as_record() if isinstance(reason, Reason) else reason for reason in reasons]
    return {"reasons": records, "why": [record["text"] for record in records]}
