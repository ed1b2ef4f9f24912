"""The archive that ``torch.export.save`` writes, read as data: a graph in JSON and raw tensors.

``torch.export.load`` cannot be given a stranger's file: it unpickles example inputs, custom objects and some tensors,
evaluates size expressions and guards as Python, and looks operators up by any dotted name. Here nothing of the file is
unpickled, evaluated or imported: pickled parts that carry weights are refused, the others are never opened.
"""

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from memorisk.runs.errors import InputError, one_line

SCHEMA = 8
"""Major version of the graph's JSON, of PyTorch 2.9 and later; a new one would change what fields mean."""

DTYPES: dict[int, torch.dtype] = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
"""Types by their number in the file."""

_GRAPH = "models/model.json"
_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"
_ALLOWED = re.compile(
    r"models/model\.json|archive_format|archive_version|byteorder|version|\.data/(version|serialization_id)"
    r"|\.format_version|\.storage_alignment|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)|data/sample_inputs/model\.pt|extra/.*"
)
_GRAPH_LIMIT = 256 << 20


@dataclass(frozen=True)
class ExportArchive:
    """What a file holds."""

    program: dict[str, Any]
    """The exported program: ``graph_module`` with its graph and signature, ``range_constraints``, versions."""

    tensors: dict[str, torch.Tensor]
    """Parameters, buffers and constants by the network's own names."""


def read_archive(file: Path) -> ExportArchive:
    """Read a ``.pt2`` file; no code of it is run and nothing of it is unpickled.

    Args:
        file: As ``torch.export.save`` writes it.

    Raises:
        InputError: Not such a file, a damaged one, one of another version, or one that holds pickled weights, custom
            objects, compiled code or more than one network.
    """
    said = one_line(file.name, 80)
    try:
        with zipfile.ZipFile(file) as archive:
            names = _names(archive, said, file.stat().st_size)
            program = _json(archive, names, _GRAPH, said)
            _check_version(program, said)
            tensors = _tensors(archive, names, _WEIGHTS, "weights", said)
            tensors |= _tensors(archive, names, _CONSTANTS, "constants", said)
            return ExportArchive(program, tensors)
    except (zipfile.BadZipFile, EOFError, OSError, UnicodeDecodeError, NotImplementedError) as error:
        raise InputError(f"{said} is no file of torch.export.save, or is damaged: {one_line(error, 120)}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as error:
        raise _damaged(said, error) from error


def _damaged(said: str, error: object) -> InputError:
    shown = f"{type(error).__name__} {one_line(error, 120)}" if isinstance(error, Exception) else one_line(error, 120)
    return InputError(f"{said} is damaged or not as torch.export.save writes it ({shown}): export it again")


def _names(archive: zipfile.ZipFile, said: str, size: int) -> dict[str, str]:
    """Entries by their name below the one folder that holds all; what does not belong there is refused."""
    entries = archive.infolist()
    names = {entry.filename.partition("/")[2]: entry.filename for entry in entries}
    if len({full.partition("/")[0] for full in names.values()}) > 1 or _GRAPH not in names:
        models = [name for name in names if name.startswith("models/")]
        held = "several networks" if len(models) > 1 else "no exported program named model"
        if any(name in names for name in ("constants.pkl", "data.pkl")):
            held = "TorchScript or pickled objects, whose loading runs code from the file"
        raise InputError(f"{said} holds {held}: export the network in evaluation mode with torch.export.save")
    strange = [name for name in names if not _ALLOWED.fullmatch(name)]
    if strange:
        listed = ", ".join(one_line(name, 60) for name in strange[:5])
        raise InputError(
            f"{said} is refused: beside the network it holds {listed}, which is pickled, compiled or custom and would "
            "run code; export it again with PyTorch 2.9 or later, plain tensors only"
        )
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if packed or len(names) < len(entries) or sum(entry.file_size for entry in entries) > size:
        raise InputError(f"{said} is not as torch.export.save writes it (doubled or packed entries): export it again")
    if "byteorder" in names and archive.read(names["byteorder"]) != b"little":
        raise InputError(f"{said} was written on a machine of another byte order: export it on this kind of machine")
    return names


def _json(archive: zipfile.ZipFile, names: dict[str, str], name: str, said: str) -> dict[str, Any]:
    if name not in names:
        raise InputError(f"{said} holds no {name}: export it again with PyTorch 2.9 or later")
    if archive.getinfo(names[name]).file_size > _GRAPH_LIMIT:
        raise InputError(f"{said}: {name} is larger than {_GRAPH_LIMIT >> 20} MiB; no network's graph is")
    content = json.loads(archive.read(names[name]))
    if not isinstance(content, dict):
        raise ValueError(f"{name} is no table")
    return content


def _check_version(program: dict[str, Any], said: str) -> None:
    major = program["schema_version"]["major"]
    if major != SCHEMA:
        raise InputError(
            f"{said} is of export schema {one_line(major, 20)} (PyTorch {one_line(program.get('torch_version'), 20)}); "
            f"{SCHEMA} is read: export it again with PyTorch 2.9 or later, or to ONNX"
        )


def _tensors(archive: zipfile.ZipFile, names: dict[str, str], folder: str, kind: str, said: str) -> dict[str, Any]:
    """Tensors by the network's names; those that share memory share it again."""
    config = _json(archive, names, f"{folder}model_{kind}_config.json", said)["config"]
    raw: dict[str, torch.Tensor] = {}
    found: dict[str, torch.Tensor] = {}
    for name, payload in config.items():
        path = payload["path_name"]
        if payload["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", path):
            raise InputError(
                f"{said} is refused: {one_line(name, 80)} is a pickled object, whose loading would run code from the "
                "file; export the network with plain tensors"
            )
        meta = payload["tensor_meta"]
        dtype = _dtype(meta["dtype"])
        if path not in raw:
            data = bytearray(archive.read(names[folder + path]))
            raw[path] = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        flat = raw[path].view(dtype)
        shape, strides = _ints(meta["sizes"]), _ints(meta["strides"])
        (offset,) = _ints([meta["storage_offset"]])
        found[name] = torch.as_strided(flat, shape, strides, offset)
    return found


def _dtype(number: int) -> torch.dtype:
    if number not in DTYPES:
        raise ValueError(f"tensors of type {number}")
    return DTYPES[number]


def _ints(values: list[Any]) -> list[int]:
    numbers = [value["as_int"] for value in values]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("sizes that are no whole numbers")
    return numbers
