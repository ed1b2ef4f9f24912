"""Quantities: numbers that know their title, format and unit, and one walk over a dataclass that yields them.

The annotation of a field, or of what a property returns, says what its number is::

    @dataclass(frozen=True, kw_only=True)
    class Listing:
        n_patients: int
        n_listed: Annotated[int, Quantity("{Units} listed", figure="listed", of=Units("n_patients", "{units}"))]
        recall: Annotated[Proportion | None, Quantity("Planted copies noticed", "percent")]

Facts on a page, rows in the terminal and in a notebook, and the figures of a statement are made of what `measured`
yields. Numbers of nested dataclasses follow in the order of the fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from memorisk.report.blocks import Fact
from memorisk.report.columns import FORMATS, is_missing, probability
from memorisk.report.statements.statement import Figure
from memorisk.runs.errors import one_line
from memorisk.runs.workload import Opening


@dataclass(frozen=True)
class Units:
    """Independent units behind a number."""

    field: str
    """Name of the field that counts them, in the same dataclass or anywhere in the same numbers."""
    name: str
    """Name of the units."""


@dataclass(frozen=True)
class Quantity:
    """Meaning of a number. Titles may name the units of a run in braces, as in ``{Units} listed``.

    A field that holds an estimate with limits (``estimate``, ``low``, ``high``), such as a `Proportion`, brings its own
    interval, level and number of units; of a mapping each entry is a number of its own.
    """

    title: str
    format: str = "count"
    """Name of a format in :data:`memorisk.report.columns.FORMATS`."""
    figure: str = ""
    """Name of the figure in a statement; empty for a number that no statement holds. One that ends in a slash begins
    the names of a mapping's entries."""
    of: Units = Units("", "")
    """Units behind the number."""
    p_value: str = ""
    """Name of the field with the p-value."""
    low: str = ""
    high: str = ""
    """Names of the fields with the limits."""
    level: float = 0.95
    """Level of the interval."""
    stated_alone: bool = False
    """Whether statements alone hold the number."""
    if_any: bool = False
    """Whether the number is shown only where it is known and not 0."""
    missing: str = "not known"
    """Text in place of a missing number."""
    opening: int = 0
    """Place of a plan's number among the lines that a run shows at its start; 0 where it shows none."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Value of a quantity, with what belongs to it."""

    quantity: Quantity
    title: str
    """Title, with the words of the run."""
    figure: str
    """Name in a statement; empty where it has none."""
    value: Any
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    p_value: float | None = None
    n: int | None = None
    unit: str = ""

    @property
    def text(self) -> str:
        """Value as a reader sees it; a limit alone is a bound."""
        write = FORMATS["text" if isinstance(self.value, str) else self.quantity.format]
        if not is_missing(self.value):
            return write(self.value)
        bounds = [f"{word} {write(end)}" for word, end in self._limits if not is_missing(end)]
        return bounds[0] if len(bounds) == 1 else self.quantity.missing

    @property
    def note(self) -> str:
        """Interval, number of units and p-value, as far as there are any."""
        parts = []
        if not any(is_missing(end) for end in (self.value, self.low, self.high)):
            write = FORMATS[self.quantity.format]
            parts.append(f"{write(self.low)} to {write(self.high)}")
        if self.n is not None:
            parts.append(f"of {self.n:,}")
        if not is_missing(self.p_value):
            parts.append(f"p {probability(self.p_value)}")
        return "; ".join(parts)

    @property
    def _limits(self) -> tuple[tuple[str, Any], tuple[str, Any]]:
        return ("at least", self.low), ("at most", self.high)

    def fact(self) -> Fact:
        """Return the number as a fact of a page."""
        return Fact(self.title, self.text, self.note)


def measured(numbers: Any, **words: str) -> Iterator[Measured]:
    """Yield the quantities of a dataclass: those of absent parts without a value, estimates only where one was made.

    Args:
        numbers: Dataclass of numbers with annotations.
        words: Words for the titles, such as ``units="patients"``; each also with a capital letter.
    """
    words |= {name.capitalize(): word.capitalize() for name, word in words.items()}
    yield from _walk(type(numbers), numbers, _by_name(numbers), words)


def facts(numbers: Any, **words: str) -> list[Fact]:
    """Return the titled quantities of a dataclass as facts of a page.

    Args:
        numbers: Dataclass of numbers with annotations.
        words: Words for the titles.
    """
    numbered = (one for one in measured(numbers, **words) if not one.quantity.stated_alone)
    return [one.fact() for one in numbered if one.value or not one.quantity.if_any]


def stated_figures(numbers: Any, **words: str) -> list[Figure]:
    """Return the quantities of a dataclass that a statement holds.

    Args:
        numbers: Dataclass of numbers with annotations.
        words: Words for the titles.
    """
    return [
        Figure(
            name=one.figure,
            title=one.title,
            value=one.value,
            low=one.low,
            high=one.high,
            confidence=one.confidence,
            p_value=one.p_value,
            n=one.n,
            unit=one.unit,
        )
        for one in measured(numbers, **words)
        if one.figure
    ]


def opening(plan: Any) -> Opening:
    """Return what a run shows at its start: the rows of its plan that have a place in it, in a few lines.

    Args:
        plan: Dataclass of a plan with annotations.
    """
    placed = [(one.opening, one, getattr(plan, name)) for name, one, _ in _members(type(plan)) if one and one.opening]
    lines = [
        one_line(f"{quantity.title}: {text}", 300)
        for _, quantity, value in sorted(placed, key=lambda row: row[0])
        for text in _opening_texts(value, quantity)
    ]
    return Opening.of(lines)


def plan_rows(plan: Any, **words: str) -> list[tuple[str, str]]:
    """Return the titled fields of a plan as names with values: lists in a row each, costs as they list themselves.

    Args:
        plan: Dataclass of a plan with annotations.
        words: Words for the titles.
    """
    rows = list[tuple[str, str]]()
    for field, quantity, inner in _members(type(plan)):
        value = getattr(plan, field)
        if hasattr(value, "rows"):
            rows += value.rows()
        elif quantity is None and inner is not None and value is not None:
            rows += plan_rows(value, **words)
        elif quantity is not None:
            title = quantity.title.format(**words)
            rows += ((title, text) for text in _texts(value, quantity))
    return rows


def _opening_texts(value: Any, quantity: Quantity) -> Iterator[str]:
    """Yield the texts of a value; of a cost one."""
    if hasattr(value, "in_short"):
        yield value.in_short()
    else:
        yield from _texts(value, quantity)


def _texts(value: Any, quantity: Quantity) -> Iterator[str]:
    """Yield the texts of a plan's value; none of an empty one."""
    write = FORMATS[quantity.format]
    if isinstance(value, Mapping):
        if value:
            yield ", ".join(f"{name} {write(one)}" for name, one in value.items())
    elif isinstance(value, list | tuple) and all(isinstance(one, int) for one in value):
        if value:
            yield ", ".join(map(write, value))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one, quantity)
    elif hasattr(value, "estimate"):
        yield f"{write(value.estimate)} ({write(value.low)} to {write(value.high)})"
    elif value != "" and not (quantity.if_any and not value):
        value = getattr(value, "words", value)
        yield quantity.missing if is_missing(value) else value if isinstance(value, str) else write(value)


def _walk(kind: Any, owner: Any, by_name: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[Measured]:
    for name, quantity, inner in _members(kind):
        value = None if owner is None else getattr(owner, name)
        if quantity is not None and not (value is None and inner is not None):
            yield from _entries(quantity, value, owner, by_name, words)
        elif inner is not None:
            yield from _walk(inner, value, by_name, words)


def _entries(
    quantity: Quantity, value: Any, owner: Any, by_name: Mapping[str, Any], words: Mapping[str, str]
) -> Iterator[Measured]:
    """Yield a quantity; of a mapping one for each entry, named by its key."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield _measured(quantity, entry, owner, by_name, words, key)
    elif not quantity.figure.endswith("/"):
        yield _measured(quantity, value, owner, by_name, words)


def _measured(
    quantity: Quantity, value: Any, owner: Any, by_name: Mapping[str, Any], words: Mapping[str, str], key: str = ""
) -> Measured:
    def at(name: str) -> Any:
        """Return the number that the annotation names, first of the same dataclass."""
        return None if not name else getattr(owner, name) if hasattr(owner, name) else by_name.get(name)

    low, high, level, n = at(quantity.low), at(quantity.high), quantity.level, at(quantity.of.field)
    if hasattr(value, "estimate"):
        low, high, level, n = value.low, value.high, getattr(value, "level", level), getattr(value, "trials", n)
        value = value.estimate
    return Measured(
        quantity=quantity,
        title=quantity.title.format(**words) + (f": {key}" if key else ""),
        figure=f"{quantity.figure}{key}",
        value=value,
        low=low,
        high=high,
        confidence=None if is_missing(low) and is_missing(high) else level,
        p_value=at(quantity.p_value),
        n=n,
        unit=quantity.of.name.format(**words),
    )


def _by_name(numbers: Any) -> dict[str, Any]:
    """Return the values of all fields of a dataclass and of those in it; an outer one hides an inner one's name."""
    own = {field.name: getattr(numbers, field.name) for field in fields(numbers)}
    inner = dict[str, Any]()
    for value in own.values():
        if is_dataclass(value):
            inner |= _by_name(value)
    return inner | own


@cache
def _members(kind: Any) -> tuple[tuple[str, Quantity | None, Any], ...]:
    """Return the fields of a dataclass, then its annotated properties: name, quantity, and dataclass within."""
    hints, members = get_type_hints(kind, include_extras=True), list[tuple[str, Quantity | None, Any]]()
    for field in fields(kind):
        quantity, hint = _annotation(hints[field.name])
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        inner = next((one for one in kinds if isinstance(one, type) and is_dataclass(one)), None)
        members.append((field.name, quantity, inner))
    properties = {name: member for one in reversed(kind.__mro__) for name, member in vars(one).items()}
    for name, member in properties.items():
        if isinstance(member, property):
            quantity, _ = _annotation(get_type_hints(member.fget, include_extras=True).get("return"))
            if quantity is not None:
                members.append((name, quantity, None))
    return tuple(members)


def _annotation(hint: Any) -> tuple[Quantity | None, Any]:
    """Return the quantity that an annotation declares, and the type that it annotates."""
    if get_origin(hint) is not Annotated:
        return None, hint
    kind, *marks = get_args(hint)
    return next((mark for mark in marks if isinstance(mark, Quantity)), None), kind
