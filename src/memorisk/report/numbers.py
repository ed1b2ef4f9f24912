"""The numbers of an audit as frozen dataclasses, and their form in JSON; ``result.py`` of each audit defines them.

`to_json` and `from_json` are the only way between the two; `to_row` gives a row of a table. A field is a key of the
same name, in the order of the fields; a dataclass within is an object. The annotation of a field declares any
difference from that::

    @dataclass(frozen=True, kw_only=True)
    class Numbers:
        sets: Annotated[SetCounts, INLINE]  # its fields are keys of this object
        listing: Annotated[Listing | None, INLINE]  # the same; None writes each of its keys as null
        bound_share: Annotated[float, Key("copies_bound")]  # under the key of verdict.json
        promise: Annotated[str, OMITTED] = ""  # no key where it is the default

Python knows NaN, JSON does not: null is read as NaN where a field is a ``float``, and as None where None is allowed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from memorisk.runs.files import json_value

INLINE: Final = "inline"
"""Mark of a dataclass whose fields are keys of the object around it."""
OMITTED: Final = "omitted"
"""Mark of a field that has no key where its value is the default."""
Numbers = TypeVar("Numbers")


@dataclass(frozen=True)
class Key:
    """Key of a field whose name differs in JSON."""

    name: str


@dataclass(frozen=True)
class _Field:
    name: str
    key: str
    hint: Any
    default: Any
    inline: bool
    omitted: bool

    @property
    def inlined(self) -> Any:
        """Return the dataclass of an inlined field."""
        return next(kind for kind in (self.hint, *get_args(self.hint)) if is_dataclass(kind))


def to_json(numbers: Any) -> dict[str, Any]:
    """Return the object that `from_json` reads, in JSON's own types.

    Args:
        numbers: Dataclass of numbers, texts, tuples, mappings and dataclasses of these.
    """
    return {key: _plain(value) for key, value in to_row(numbers).items()}


def to_row(numbers: Any) -> dict[str, Any]:
    """Return the values of a dataclass by key, unchanged, as a row of a table holds them.

    Args:
        numbers: Dataclass of numbers.
    """
    out: dict[str, Any] = {}
    for field in _fields(type(numbers)):
        value = getattr(numbers, field.name)
        if field.inline:
            out |= dict.fromkeys(_keys(field.inlined)) if value is None else to_row(value)
        elif not (field.omitted and value == field.default):
            out[field.key] = value
    return out


def from_json(kind: type[Numbers], value: Mapping[str, Any]) -> Numbers:
    """Read an object that `to_json` of this or another version wrote.

    A key that the dataclass does not know, from a newer or an older version, is ignored: `Result.summary` and
    `Result.verdict` keep it. A key that an older version did not write takes the default of its field.

    Args:
        kind: Dataclass to return.
        value: Object to read.

    Raises:
        KeyError: A key is missing and its field has no default.
        TypeError: A value has another type than its field.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{kind.__name__} is no object but {value!r:.40}")
    values: dict[str, Any] = {}
    for field in _fields(kind):
        if field.inline:
            absent = type(None) in get_args(field.hint) and all(value.get(k) is None for k in _keys(field.inlined))
            values[field.name] = None if absent else from_json(field.inlined, value)
        elif field.key in value:
            values[field.name] = _typed(value[field.key], field.hint, field.key)
        elif field.default is MISSING:
            raise KeyError(field.key)
    return kind(**values)


def from_known(kind: type[Numbers], value: Mapping[str, Any]) -> Numbers:
    """Read as `from_json` does; a key whose value has a type unknown to the dataclass takes the default, too.

    Args:
        kind: Dataclass to return; every field has a default, or is inlined and has only such.
        value: Object to read.
    """
    return from_json(kind, {key: one for key, one in value.items() if _is_known(kind, key, one)})


def _is_known(kind: Any, key: str, value: Any) -> bool:
    try:
        from_json(kind, {key: value})
    except (KeyError, TypeError, ValueError):
        return False
    return True


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    """Return the fields of a dataclass, with the contents of their annotations."""
    hints, out = get_type_hints(kind, include_extras=True), list[_Field]()
    for field in fields(kind):
        marks = getattr(hints[field.name], "__metadata__", ())
        hint = get_args(hints[field.name])[0] if marks else hints[field.name]
        key = next((mark.name for mark in marks if isinstance(mark, Key)), field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        out.append(_Field(field.name, key, hint, default, INLINE in marks, OMITTED in marks))
    return tuple(out)


def _keys(kind: Any) -> Iterator[str]:
    """Yield the keys under which a dataclass is written."""
    for field in _fields(kind):
        if field.inline:
            yield from _keys(field.inlined)
        else:
            yield field.key


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else json_value(value)


def _typed(value: Any, hint: Any, key: str) -> Any:
    """Return a value of JSON as the type of its field.

    Raises:
        TypeError: The value has another type.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _one_of(value, parts, key)
    if hint is Any or (origin is Literal and value in parts):
        return value
    if is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value)
    if value is None and hint is float:
        return float("nan")
    if origin is tuple and isinstance(value, list):
        kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_typed(one, kind, key) for one, kind in zip(value, kinds, strict=True))
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {name: _typed(one, parts[1], key) for name, one in value.items()}
    types: tuple[Any, ...] = (int, float) if hint is float else (hint,)
    if isinstance(hint, type) and isinstance(value, types) and isinstance(value, bool) == (hint is bool):
        return value
    raise TypeError(f"{key} is {value!r:.40} and not {getattr(hint, '__name__', hint)}")


def _one_of(value: Any, kinds: tuple[Any, ...], key: str) -> Any:
    """Return a value as the first type of a union that fits it."""
    if value is None and type(None) in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not type(None))
    for kind in others:
        try:
            return _typed(value, kind, key)
        except (KeyError, TypeError):
            pass
    return _typed(value, last, key)
