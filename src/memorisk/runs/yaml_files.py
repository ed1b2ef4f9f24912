"""The one way YAML is read and written: safe types, no repeated key, and a bound on the nodes that a text expands to.

An alias repeats all that it names, so nine lines of aliases of aliases expand to a billion nodes. The nodes are
counted before any of them is made.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from memorisk.runs.errors import InputError, one_line

_MAX_BYTES = 1 << 20
"""Largest size of a file of settings: 1 MiB, which the parser reads in some ten seconds; the largest study file has
10 KB."""
_MAX_NODES = 400_000
"""Largest number of nodes with aliases written out: the number up to which Go's YAML library lets a document consist
mainly of aliases (decode.go, ``alias_ratio_range_low``)."""


class _Loader(yaml.SafeLoader):
    """Loader with safe types, ``3e-4`` as the number that it looks like, and an error for a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; a repeated key is an error, since the last would win unnoticed."""
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in keys:
                    raise yaml.YAMLError(f"{key.value!r} stands twice (line {key.start_mark.line + 1})")
                keys.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Dumper that writes text in quotes where `_Loader` would take it for a number."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def read_yaml_text(path: Path) -> str:
    """Return the text of a YAML file, or of a pipe.

    Raises:
        InputError: The file is longer than any file of settings.
        OSError: The file cannot be opened.
        UnicodeDecodeError: The file is not UTF-8.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise InputError(f"{one_line(path)}: is longer than {_MAX_BYTES:,} bytes, which no file of settings is")
    return data.decode("utf-8")


def parse_yaml(text: str) -> Any:
    """Return the content of a YAML document, in Python's own types.

    Raises:
        yaml.YAMLError: The text is not YAML, repeats a key, contains itself, or expands to too many nodes.
        ValueError: A date or number does not exist.
        RecursionError: It is nested too deeply.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count_nodes(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def dump_yaml(value: Any) -> str:
    """Return a value of Python's own types as YAML that `parse_yaml` reads back unchanged."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _count_nodes(node: yaml.Node, counts: dict[int, int]) -> int:
    """Count the nodes that a node consists of, with aliases written out.

    Raises:
        yaml.YAMLError: The nodes are too many, or the node contains itself.
    """
    count = counts.get(id(node))
    if count == 0:  # the node is still being counted
        raise yaml.YAMLError(f"an alias contains itself (line {node.start_mark.line + 1})")
    if count is None:
        counts[id(node)] = 0
        children = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
        count = counts[id(node)] = 1 + sum(_count_nodes(part, counts) for part in parts)
    if count > _MAX_NODES:
        raise yaml.YAMLError(f"its aliases expand to more than {_MAX_NODES:,} values (line {node.start_mark.line + 1})")
    return count
