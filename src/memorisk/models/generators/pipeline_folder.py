"""What folders of pipelines of diffusers must not hold: code, classes of their own, pickled weights.

No code of a folder is run. A folder that holds Python files, or whose configurations name code or classes that memorisk
does not read, is refused in one line.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memorisk.models.hub import WEIGHTS, weight_files
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line
from memorisk.runs.files import read_json

INDEX = "model_index.json"
_CODE = ("*.py", "*/*.py")


def read_index(folder: Path, name: str) -> dict[str, Any]:
    """Read the index of a pipeline's folder, and refuse a folder with Python files.

    Args:
        folder: Folder of the pipeline.
        name: Name of the pipeline in messages.

    Returns:
        Content of ``model_index.json``; empty where there is none.

    Raises:
        InputError: The folder holds code, or its index names some.
    """
    code = next((file for pattern in _CODE for file in sorted(folder.glob(pattern))), None)
    if code is not None:
        raise InputError(f"{name} holds code ({one_line(code.name, 60)}), and no code of a folder is run: remove it")
    return read_config(folder / INDEX, name) if (folder / INDEX).is_file() else {}


def read_config(file: Path, name: str) -> dict[str, Any]:
    """Read a configuration, which names no code.

    Args:
        file: File of the configuration.
        name: Name of the pipeline in messages.

    Raises:
        InputError: It is missing, is not a JSON object, or names code.
    """
    try:
        config = read_json(file)
    except CONTENT_ERRORS as error:
        raise InputError(f"{name}: {file.name} cannot be read: {one_line(error, 120)}") from None
    if not isinstance(config, dict):
        raise InputError(f"{name}: {file.name} is not a JSON object")
    if "auto_map" in config:
        raise InputError(f"{name}: {file.name} names code of its folder (auto_map), which is not run: remove it")
    return config


def refuse_class(config: Mapping[str, Any], part: str, known: Sequence[str], name: str) -> None:
    """Refuse a part of another class than memorisk reads.

    Args:
        config: Configuration of the part.
        part: Name of the part in words.
        known: Classes that are read.
        name: Name of the pipeline in messages.

    Raises:
        InputError: The class is unknown.
    """
    if config.get("_class_name") not in known:
        name_of_class = one_line(config.get("_class_name"), 60)
        raise InputError(f"{name}: its {part} is of class {name_of_class}, and memorisk reads {' and '.join(known)}")


def refuse_pickled(folder: Path, title: str) -> None:
    """Refuse a network of diffusers whose weights are not safetensors.

    Args:
        folder: Folder of the network.
        title: Name of the network in messages.

    Raises:
        InputError: The folder has none.
    """
    if not any(file.suffix == ".safetensors" for file in weight_files(folder)):
        raise InputError(
            f"{title} has no {WEIGHTS}, and pickled weights are not read: save it once more by diffusers, with "
            "safe_serialization"
        )
