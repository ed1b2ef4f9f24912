"""What the columns of a Hugging Face data set are: which hold images, which hold classes, and the classes' names.

The ``datasets`` library writes it as JSON into the schema of every Arrow and Parquet file (key ``huggingface``), into
``dataset_info.json``, and on the hub as YAML into ``README.md``. Where none of them is there, a column of structs with
exactly the fields ``bytes`` and ``path`` holds images.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from memorisk.images.columns import NO_FINDING, text
from memorisk.runs.damaged import ASTRAY
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.formats.yaml_files import parse_yaml

NOTE = b"memorisk_note"
"""Key of a sentence in a schema that a manifest's notes repeat: where the data set came from."""
_CARD_BYTES = 1 << 20
_INFO = "dataset_info.json"


@dataclass(frozen=True)
class Features:
    """Of the columns of a data set."""

    images: tuple[str, ...]
    """Columns that hold images, in the schema's order."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the classes by column; the column holds their numbers, or lists of them."""


def read_features(schema: pa.Schema, folder: Path) -> Features:
    """The features of a file.

    Args:
        schema: Of the file.
        folder: Where ``dataset_info.json`` or ``README.md`` of the data set may lie.

    Returns:
        Images and classes; a column that none of the three describes is an image by its type alone.
    """
    described = _in_schema(schema) or _in_info(folder / _INFO) or _in_card(folder / "README.md")
    images = [name for name, kind in zip(schema.names, schema.types, strict=True) if holds_images(kind)]
    named = {name for name, feature in described.items() if _kind(feature) == "Image"}
    images += [n for n in schema.names if n in named and n not in images and _is_binary(schema.field(n).type)]
    classes = {name: found for name, feature in described.items() if (found := _class_names(feature))}
    return Features(tuple(n for n in schema.names if n in images), classes)


def holds_images(kind: pa.DataType) -> bool:
    """Whether a type is that of images: a struct of ``bytes`` and ``path``."""
    return (
        pa.types.is_struct(kind)
        and {kind.field(i).name for i in range(kind.num_fields)} == {"bytes", "path"}
        and _is_binary(kind.field("bytes").type)
    )


def class_texts(values: list[Any], names: tuple[str, ...] | None, column: str, source: str) -> list[str]:
    """Labels of a column as text.

    Args:
        values: Numbers of classes or any single values; or lists of them, whose members are joined by ``|``.
        names: Of the classes, if the column has any.
        column: Its name.
        source: The data set's name.

    Returns:
        One a value: "" for a missing one and for -1 (the library's mark of an unknown class), ``none`` for an empty
        list.

    Raises:
        InputError: A number is that of no class.
    """

    def of(value: Any) -> str:
        """One class as text."""
        if names is None or not isinstance(value, int) or isinstance(value, bool):
            return text(value).strip()
        if value == -1:
            return ""
        if not 0 <= value < len(names):
            raise InputError(
                f"{one_line(source)}: column {one_line(column, 60)} holds class {value}, of {len(names)} (0 to "
                f"{len(names) - 1}); the file and its features do not belong together"
            )
        return names[value]

    return [("|".join(map(of, v)) or NO_FINDING) if isinstance(v, list) else of(v) for v in values]


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _in_schema(schema: pa.Schema) -> dict[str, Any]:
    written = (schema.metadata or {}).get(b"huggingface", b"")
    return _features(_json(written).get("info"))


def _in_info(path: Path) -> dict[str, Any]:
    try:
        return _features(_json(path.read_bytes()))
    except OSError:
        return {}


def _in_card(path: Path) -> dict[str, Any]:
    """Of ``dataset_info`` in a card's YAML, whose ``features`` are a list; of several configurations the first."""
    try:
        with path.open("rb") as file:
            _, head, _ = file.read(_CARD_BYTES).split(b"---", 2)
        info = parse_yaml(head.decode("utf-8"))["dataset_info"]
        listed = (info[0] if isinstance(info, list) else info)["features"]
        found = {}
        for feature in listed:
            kind = feature.get("dtype", feature.get("list", feature.get("sequence")))
            if kind == "image":
                found[feature["name"]] = {"_type": "Image"}
            elif isinstance(kind, dict) and "class_label" in kind:
                names = kind["class_label"]["names"]
                ordered = [names[key] for key in sorted(names, key=int)] if isinstance(names, dict) else names
                found[feature["name"]] = {"_type": "ClassLabel", "names": ordered}
        return found
    except (*ASTRAY, yaml.YAMLError):
        return {}


def _json(written: bytes) -> dict[str, Any]:
    try:
        found = json.loads(written or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _features(info: Any) -> dict[str, Any]:
    found = info.get("features") if isinstance(info, dict) else None
    return {str(name): feature for name, feature in found.items()} if isinstance(found, dict) else {}


def _kind(feature: Any) -> Any:
    return feature.get("_type") if isinstance(feature, dict) else None


def _class_names(feature: Any) -> tuple[str, ...]:
    """Names of a column of classes, or of lists of classes; empty where it is neither."""
    if isinstance(feature, list) and feature:
        return _class_names(feature[0])
    if not isinstance(feature, dict):
        return ()
    if _kind(feature) in ("Sequence", "List", "LargeList"):
        return _class_names(feature.get("feature"))
    names = feature.get("names") if _kind(feature) == "ClassLabel" else None
    return tuple(map(str, names)) if isinstance(names, list) else ()
