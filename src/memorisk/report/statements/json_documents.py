"""JSON documents that are signed: strict reading, and their check against a schema without a library.

Every reader must see the same value in the same bytes, so `parse_json` refuses repeated members and numbers
that JSON does not have.

`violations` knows the part of JSON Schema 2020-12 that memorisk's own schemas use: ``type``, ``const``, ``enum``,
``properties``, ``required``, ``additionalProperties``, ``items``, ``minItems``, ``minimum``, ``pattern`` and
``$ref`` within the schema. Any other word in a schema is an error of the schema, not ignored; tests compare the
answers with those of the library ``jsonschema``. Only Python's standard library is needed.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memorisk.runs.errors import InputError, one_line

SCHEMAS = Path(__file__).with_name("schemas")
_TYPE_WORDS = frozenset(("$schema", "$id", "$defs", "title", "description"))
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema of the package.

    Args:
        name: Name of its file without ``.json``, as in ``privacy-statement-1``.
    """
    return json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


def violations(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Return the places where a value violates a schema, one line each; none for a valid one.

    Args:
        value: Value of JSON's own types.
        schema: Schema to check against.

    Raises:
        ValueError: The schema has an unknown word.
    """
    return _check(value, schema, schema, "")


def _check(value: Any, part: Any, root: dict[str, Any], place: str) -> Iterator[str]:
    """Check one value by one part of a schema."""
    where = place or "the document"
    for word, rule in part.items():
        if word in _TYPE_WORDS:
            continue
        elif word == "$ref":
            yield from _check(value, _referenced(root, rule), root, place)
        elif word == "type":
            names = [rule] if isinstance(rule, str) else rule
            if not any(_has_type(value, name) for name in names):
                yield f"{where} must be {' or '.join(names)}"
        elif word == "const":
            if not _same(value, rule):
                yield f"{where} must be {rule!r}"
        elif word == "enum":
            if not any(_same(value, one) for one in rule):
                yield f"{where} must be one of {', '.join(map(repr, rule))}"
        elif word in _BY_TYPE:
            yield from _BY_TYPE[word](value, rule, part, root, place)
        else:
            raise ValueError(f"the schema says {word!r}, which is not known here")


def _referenced(root: dict[str, Any], reference: str) -> dict[str, Any]:
    """Return the part of the schema that ``#/$defs/NAME`` refers to."""
    node: Any = root
    for name in reference.removeprefix("#/").split("/"):
        node = node[name]
    return node


def _has_type(value: Any, name: str) -> bool:
    """Return whether a value is of a type; a boolean is not a number, 3.0 is an integer."""
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _same(value: Any, other: Any) -> bool:
    """Return whether two values are equal in JSON: true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _required(value: Any, rule: list[str], part: dict, root: dict, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{place}{'.' if place else ''}{name} is missing" for name in rule if name not in value)


def _properties(value: Any, rule: dict, part: dict, root: dict, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in rule.items():
            if name in value:
                yield from _check(value[name], inner, root, f"{place}{'.' if place else ''}{name}")


def _additional(value: Any, rule: Any, part: dict, root: dict, place: str) -> Iterator[str]:
    for name in value if isinstance(value, dict) else ():
        if name in part.get("properties", {}):
            continue
        inner = f"{place}{'.' if place else ''}{name}"
        if rule is False:
            yield f"{inner} is not known"
        else:
            yield from _check(value[name], rule, root, inner)


def _items(value: Any, rule: dict, part: dict, root: dict, place: str) -> Iterator[str]:
    for number, one in enumerate(value if isinstance(value, list) else ()):
        yield from _check(one, rule, root, f"{place}[{number}]")


def _fewest(value: Any, rule: int, part: dict, root: dict, place: str) -> Iterator[str]:
    if isinstance(value, list) and len(value) < rule:
        yield f"{place or 'the document'} must hold at least {rule}"


def _minimum(value: Any, rule: float, part: dict, root: dict, place: str) -> Iterator[str]:
    if _has_type(value, "number") and value < rule:
        yield f"{place or 'the document'} must be at least {rule}"


def _pattern(value: Any, rule: str, part: dict, root: dict, place: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(rule.replace("$", r"\Z"), value):
        yield f"{place or 'the document'} must be like {rule}"


_BY_TYPE = {
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "minItems": _fewest,
    "minimum": _minimum,
    "pattern": _pattern,
}


def parse_json(data: bytes, name: str) -> Any:
    """Parse JSON in UTF-8. Repeated members and numbers that JSON does not have are errors.

    Python's parser keeps the last of two members of the same name, other parsers the first. A document with both
    could be approved by one tool and mean something else to the next.

    Args:
        data: Bytes of the document.
        name: Name of the document in messages.

    Raises:
        InputError: The data are not JSON, repeat a member, or hold NaN or a number beyond the range of a float.
    """
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not valid JSON: {one_line(error, 120)}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object whose members all have different names."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the member {name!r} stands there twice")
        members[name] = value
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number
