"""Which URL a private copy is of, so that settings and messages name what the user named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memorisk.runs.storage.urls import url_of

TREE, ORIGIN = "tree", "origin.txt"
"""A copy lies in ``KEY/tree/NAME``, its URL in ``KEY/origin.txt``."""


def origin_of(text: str) -> str:
    """A path in a private copy as the URL that it is a copy of; other text as it is."""
    if f"/{TREE}/" not in text:
        return text
    head, at, rest = text.partition(":")  # as in detector:FOLDER
    if at and not head.startswith("/") and "/" not in head:
        return f"{head}:{origin_of(rest)}"
    for above in (Path(text), *Path(text).parents):
        told = above.parent.parent / ORIGIN
        if above.parent.name == TREE and told.is_file():
            below = Path(text).relative_to(above).as_posix()
            url = told.read_text(encoding="utf-8").strip()
            return url if below == "." else f"{url.rstrip('/')}/{below}"
    return text


def as_named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the user named them: copies are their URLs again, and URLs that a `Path` has shortened are whole."""
    return {name: _named(value) for name, value in settings.items()}


def _named(value: Any) -> Any:
    if isinstance(value, Path):
        return url_of(value) or origin_of(str(value))
    if isinstance(value, str):
        return origin_of(value)
    if isinstance(value, Mapping):
        return as_named(value)
    return [_named(v) for v in value] if isinstance(value, (list, tuple)) else value
