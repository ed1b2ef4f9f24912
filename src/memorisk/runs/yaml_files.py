"""The one way YAML is read and written: safe types, no key twice, and no more nodes than the text can mean.

An alias stands for all of what it names, so that nine lines of aliases of aliases mean a billion nodes. They are
counted before any of them is made.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from memorisk.runs.errors import InputError, one_line

_MAX_BYTES = 1 << 20
"""Of a file of settings: 1 MiB, which the parser reads in some ten seconds; the largest study file has 10 KB."""
_MAX_NODES = 400_000
"""With aliases written out: what Go's YAML library lets a document consist of mainly aliases (decode.go,
``alias_ratio_range_low``)."""


class _Loader(yaml.SafeLoader):
    """Safe types, ``3e-4`` as the number that it looks like, and no key twice: the last would win unnoticed."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping; a key that stands twice is an error."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.YAMLError(f"{key.value!r} stands twice (line {key.start_mark.line + 1})")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes text that `_Loader` would take for a number in quotes."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def read_yaml_text(path: Path) -> str:
    """The text of a YAML file, or of a pipe.

    Raises:
        InputError: It is longer than any file of settings.
        OSError: It cannot be opened.
        UnicodeDecodeError: It is no UTF-8.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise InputError(f"{one_line(path)}: is longer than {_MAX_BYTES:,} bytes, which no file of settings is")
    return data.decode("utf-8")


def parse_yaml(text: str) -> Any:
    """The content of a YAML document, in Python's own types.

    Raises:
        yaml.YAMLError: It is not YAML, has a key twice, contains itself, or means more nodes than any settings.
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
    """A value of Python's own types as YAML that `parse_yaml` reads back as it was."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _count_nodes(node: yaml.Node, known: dict[int, int]) -> int:
    """Nodes that a node consists of, aliases written out.

    Raises:
        yaml.YAMLError: They are too many, or the node contains itself.
    """
    count = known.get(id(node))
    if count == 0:  # it is still being counted
        raise yaml.YAMLError(f"an alias contains itself (line {node.start_mark.line + 1})")
    if count is None:
        known[id(node)] = 0
        children = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
        count = known[id(node)] = 1 + sum(_count_nodes(part, known) for part in parts)
    if count > _MAX_NODES:
        raise yaml.YAMLError(f"its aliases stand for more than {_MAX_NODES:,} values (line {node.start_mark.line + 1})")
    return count
