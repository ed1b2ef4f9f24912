"""Strict JSON for documents that are signed: every reader must see the same value in the same bytes."""

import json
import math
from typing import Any

from memorisk.runs.errors import InputError, one_line


def parse_json(data: bytes, name: str) -> Any:
    """Parse JSON in UTF-8. Repeated members and numbers that JSON does not have are errors.

    Python's parser keeps the last of two members of the same name, other parsers the first. A document with both
    could be approved by one tool and mean something else to the next.

    Args:
        data: The bytes of the document.
        name: What messages call it.

    Raises:
        InputError: It is not JSON, repeats a member, or holds NaN or a number beyond the range of a float.
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
