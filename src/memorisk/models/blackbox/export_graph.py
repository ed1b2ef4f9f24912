"""Files of ``torch.export.save``: the archive read as data, and its graph run by ATen's operators.

The archive holds a graph in JSON and raw tensors. ``torch.export.load`` cannot be given a stranger's file: it unpickles
example inputs, custom objects and some tensors, evaluates size expressions and guards as Python, and looks operators up
by any dotted name. Here nothing of the file is unpickled, evaluated or imported: pickled parts that carry weights are
refused, the others are never opened.

The graph is a list of calls, each naming its arguments and results; `ExportGraph` runs it node by node. Operators are
looked up in ATen alone (and in a short list for sizes); anything else is refused before the first call.
"""

import json
import operator
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
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
    """Contents of an exported file."""

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
    title = one_line(file.name, 80)
    try:
        with zipfile.ZipFile(file) as archive:
            names = _names(archive, title, file.stat().st_size)
            program = _json(archive, names, _GRAPH, title)
            _check_version(program, title)
            tensors = _tensors(archive, names, _WEIGHTS, "weights", title)
            tensors |= _tensors(archive, names, _CONSTANTS, "constants", title)
            return ExportArchive(program, tensors)
    except (zipfile.BadZipFile, EOFError, OSError, UnicodeDecodeError, NotImplementedError) as error:
        raise InputError(f"{title} is no file of torch.export.save, or is damaged: {one_line(error, 120)}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as error:
        raise _damaged(title, error) from error


def _damaged(title: str, error: object) -> InputError:
    reason = f"{type(error).__name__} {one_line(error, 120)}" if isinstance(error, Exception) else one_line(error, 120)
    return InputError(f"{title} is damaged or not as torch.export.save writes it ({reason}): export it again")


def _names(archive: zipfile.ZipFile, title: str, size: int) -> dict[str, str]:
    """Entries by their name below the one folder that holds all; what does not belong there is refused."""
    entries = archive.infolist()
    names = {entry.filename.partition("/")[2]: entry.filename for entry in entries}
    if len({full.partition("/")[0] for full in names.values()}) > 1 or _GRAPH not in names:
        models = [name for name in names if name.startswith("models/")]
        held = "several networks" if len(models) > 1 else "no exported program named model"
        if any(name in names for name in ("constants.pkl", "data.pkl")):
            held = "TorchScript or pickled objects, whose loading runs code from the file"
        raise InputError(f"{title} holds {held}: export the network in evaluation mode with torch.export.save")
    strange = [name for name in names if not _ALLOWED.fullmatch(name)]
    if strange:
        listed = ", ".join(one_line(name, 60) for name in strange[:5])
        raise InputError(
            f"{title} is refused: beside the network it holds {listed}, which is pickled, compiled or custom and would "
            "run code; export it again with PyTorch 2.9 or later, plain tensors only"
        )
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if packed or len(names) < len(entries) or sum(entry.file_size for entry in entries) > size:
        raise InputError(f"{title} is not as torch.export.save writes it (doubled or packed entries): export it again")
    if "byteorder" in names and archive.read(names["byteorder"]) != b"little":
        raise InputError(f"{title} was written on a machine of another byte order: export it on this kind of machine")
    return names


def _json(archive: zipfile.ZipFile, names: dict[str, str], name: str, title: str) -> dict[str, Any]:
    if name not in names:
        raise InputError(f"{title} holds no {name}: export it again with PyTorch 2.9 or later")
    if archive.getinfo(names[name]).file_size > _GRAPH_LIMIT:
        raise InputError(f"{title}: {name} is larger than {_GRAPH_LIMIT >> 20} MiB; no network's graph is")
    content = json.loads(archive.read(names[name]))
    if not isinstance(content, dict):
        raise ValueError(f"{name} is no table")
    return content


def _check_version(program: dict[str, Any], title: str) -> None:
    major = program["schema_version"]["major"]
    if major != SCHEMA:
        raise InputError(
            f"{title} is of export schema {one_line(major, 20)} (PyTorch "
            f"{one_line(program.get('torch_version'), 20)}); {SCHEMA} is read: "
            "export it again with PyTorch 2.9 or later, or to ONNX"
        )


def _tensors(archive: zipfile.ZipFile, names: dict[str, str], folder: str, kind: str, title: str) -> dict[str, Any]:
    """Tensors by the network's names; those that share memory share it again."""
    config = _json(archive, names, f"{folder}model_{kind}_config.json", title)["config"]
    raw: dict[str, torch.Tensor] = {}
    tensors: dict[str, torch.Tensor] = {}
    for name, payload in config.items():
        path = payload["path_name"]
        if payload["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", path):
            raise InputError(
                f"{title} is refused: {one_line(name, 80)} is a pickled object, whose loading would run code from the "
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
        tensors[name] = torch.as_strided(flat, shape, strides, offset)
    return tensors


def _dtype(number: int) -> torch.dtype:
    if number not in DTYPES:
        raise ValueError(f"tensors of type {number}")
    return DTYPES[number]


def _ints(values: list[Any]) -> list[int]:
    numbers = [value["as_int"] for value in values]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("sizes that are no whole numbers")
    return numbers


_ATEN = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)")
_REFUSED = frozenset({"from_file", "_print"})
"""ATen's operators that touch files or the terminal."""

_SIZES: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in (
        "add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "getitem",
        "and_", "or_", "not_",
    )},
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_float": float,
    "torch.sym_not": operator.not_,
    "torch.sym_sum": sum,
    "math.ceil": lambda value: -int(-value // 1),
    "math.floor": lambda value: int(value // 1),
    "math.trunc": int,
}  # fmt: skip
"""Arithmetic on sizes, by its name in the file."""

_OVERLOAD: type[Any] = type(torch.ops.aten.add.Tensor)
_LAYOUTS = {7: torch.strided}
_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
_PLAIN = frozenset({
    "as_int", "as_ints", "as_float", "as_floats", "as_string", "as_strings", "as_bool", "as_bools", "as_int_lists",
    "as_float_lists",
})  # fmt: skip
_MODES = {"training": True, "train": True}
"""Arguments of normalisation and dropout that say the network was exported in training mode."""


@dataclass(frozen=True)
class Step:
    """A call: an operator, its arguments as in the file, names of its results, and names not needed afterwards."""

    function: Callable[..., Any]
    positional: bool
    inputs: list[dict[str, Any]]
    outputs: list[str | list[str] | None]
    whole: bool
    """Whether all outputs are one list that the operator returns."""

    done: tuple[str, ...] = ()


class ExportGraph:
    """A program ready to run on a device.

    Args:
        archive: As `read_archive` gives it.
        title: The file's name for errors.
        device: Where to run; devices that the file names are not used.

    Raises:
        InputError: Operators outside ATen, nested graphs or custom objects, a network in training mode, or another
            number of inputs than one.
    """

    def __init__(self, archive: ExportArchive, title: str, device: torch.device) -> None:
        self._title = title
        self._device = device
        module = archive.program["graph_module"]
        graph, signature = module["graph"], module["signature"]
        self.held, self.image = _bind(archive, signature, title, device)
        self.outputs = _results(graph, signature, title)
        self._steps = _schedule([_step(node, title) for node in graph["nodes"]], self.outputs)
        meta = graph["tensor_values"][self.image]
        self.dtype = DTYPES.get(meta["dtype"])
        self.shape = [side.get("as_int") for side in meta["sizes"]]
        self.batch = _batch_range(meta["sizes"], archive.program.get("range_constraints", {}))

    def run(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Results for images [n, C, H, W] on the device, in the order of the file."""
        known: dict[str, Any] = {**self.held, self.image: x}
        for step in self._steps:
            values = [(item["name"], self._value(item["arg"], known)) for item in step.inputs]
            if step.positional:
                result = step.function(*(value for _, value in values))
            else:
                result = step.function(**dict(values))
            _keep(step, result, known)
            for name in step.done:
                known.pop(name, None)
        return [known[name] for name in self.outputs]

    def _value(self, argument: dict[str, Any], known: dict[str, Any]) -> Any:
        ((kind, value),) = argument.items()
        if kind in ("as_tensor", "as_optional_tensor"):
            return known[value["name"]] if "name" in value else self._optional(value, known)
        if kind in ("as_tensors", "as_optional_tensors"):
            return [known[v["name"]] if "name" in v else self._optional(v, known) for v in value]
        if kind in _PLAIN:
            return float(value) if kind == "as_float" else value
        if kind == "as_none":
            return None
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return _size(value, known)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [_size(v, known) for v in value]
        if kind == "as_device":
            return self._device
        tables: dict[str, dict[int, Any]] = {
            "as_scalar_type": DTYPES,
            "as_layout": _LAYOUTS,
            "as_memory_format": _FORMATS,
        }
        if kind in tables and value in tables[kind]:
            return tables[kind][value]
        raise InputError(f"{self._title} uses {one_line(kind, 40)}, which is not read: export it to ONNX instead")

    @staticmethod
    def _optional(value: dict[str, Any], known: dict[str, Any]) -> Any:
        return known[value["as_tensor"]["name"]] if "as_tensor" in value else None


def _bind(
    archive: ExportArchive, signature: dict[str, Any], title: str, device: torch.device
) -> tuple[dict[str, torch.Tensor], str]:
    """Weights by their names in the graph, and the name of the one image input."""
    held: dict[str, torch.Tensor] = {}
    images: list[str] = []
    for spec in signature["input_specs"]:
        ((kind, value),) = spec.items()
        if kind == "user_input" and "as_tensor" in value["arg"]:
            images.append(value["arg"]["as_tensor"]["name"])
        elif kind in ("parameter", "buffer", "tensor_constant"):
            target = value[{"tensor_constant": "tensor_constant_name"}.get(kind, f"{kind}_name")]
            held[value["arg"]["name"]] = archive.tensors[target].to(device)
        else:
            raise InputError(
                f"{title} takes {one_line(kind.replace('_', ' '), 40)} beside images: export a network whose forward "
                "takes the images alone"
            )
    if len(images) != 1:
        raise InputError(f"{title} takes {len(images)} tensors; it must take one, images [n, C, H, W]")
    return held, images[0]


def _results(graph: dict[str, Any], signature: dict[str, Any], title: str) -> list[str]:
    """Names of the tensors that the network returns."""
    names = []
    for spec, output in zip(signature["output_specs"], graph["outputs"], strict=True):
        ((kind, _),) = spec.items()
        if kind != "user_output":
            raise _in_training(title, f"it changes its own state ({one_line(kind, 40)})")
        if "as_tensor" in output:
            names.append(output["as_tensor"]["name"])
    if not names:
        raise InputError(f"{title} returns no tensor; it must return [n, classes]")
    return names


def _step(node: dict[str, Any], title: str) -> Step:
    target = node["target"]
    match = _ATEN.fullmatch(target) if isinstance(target, str) else None
    function = _SIZES.get(target) if match is None else _aten(*match.groups())
    if function is None:
        raise InputError(
            f"{title} needs {one_line(target, 100)}, which is not one of ATen's operators: its code is not in the "
            "file; export the network without custom operators and nested graphs, or to ONNX"
        )
    inputs = node["inputs"]
    for item in inputs:
        if item["name"] in _MODES and item["arg"].get("as_bool") is True and match is not None:
            raise _in_training(title, f"{match.group(1)} is exported with {item['name']}=True")
    outputs, whole = _outputs(node["outputs"])
    return Step(function, match is None, inputs, outputs, whole)


def _aten(name: str, overload: str) -> Callable[..., Any] | None:
    """An operator on tensors; None for other attributes, TorchScript's own (``aten::save``), and those refused."""
    known = f"aten::{name}" + (f".{overload}" if overload != "default" else "")
    if name in _REFUSED or not _has_kernel(known):
        return None
    function = getattr(getattr(torch.ops.aten, name), overload)
    return function if isinstance(function, _OVERLOAD) else None


@cache
def _has_kernel(operator_name: str) -> bool:
    """Return whether PyTorch has code that runs an operator on tensors, on a CPU or a GPU."""
    for device in ("CPU", "CUDA"):
        try:
            torch.library.get_kernel(operator_name, device)
        except RuntimeError:
            continue
        return True
    return False


def _outputs(outputs: list[dict[str, Any]]) -> tuple[list[Any], bool]:
    """Names to keep results under, and whether they are the items of one list."""
    names: list[Any] = []
    for output in outputs:
        ((kind, value),) = output.items()
        if kind in ("as_tensors", "as_optional_tensors") and len(outputs) == 1:
            return [v.get("name") or v.get("as_tensor", {}).get("name") for v in value], True
        if kind == "as_tensor":
            names.append(value["name"])
        elif kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            names.append(value.get("as_name"))
        elif kind in ("as_tensors", "as_optional_tensors"):
            names.append([v.get("name") or v.get("as_tensor", {}).get("name") for v in value])
        else:
            names.append(None)
    return names, False


def _keep(step: Step, result: Any, known: dict[str, Any]) -> None:
    """Store results under their names."""
    if step.whole or len(step.outputs) > 1:
        results = list(result)
        if len(results) != len(step.outputs):
            raise ValueError(f"an operator gave {len(results)} results in place of {len(step.outputs)}")
    else:
        results = [result] if step.outputs else []
    for name, value in zip(step.outputs, results, strict=True):
        if isinstance(name, list):
            known.update({n: v for n, v in zip(name, value, strict=True) if n})
        elif name is not None:
            known[name] = value


def _schedule(steps: list[Step], outputs: list[str]) -> list[Step]:
    """The same steps, each with the names that nothing needs after it, so that memory is freed."""
    needed = set(outputs)
    scheduled: list[Step] = []
    for step in reversed(steps):
        used = {name for item in step.inputs for name in _names_within(item["arg"])}
        outputs_named = {name for name in step.outputs if isinstance(name, str)}
        unneeded = tuple((used | outputs_named) - needed)
        needed |= used
        scheduled.append(Step(step.function, step.positional, step.inputs, step.outputs, step.whole, unneeded))
    return scheduled[::-1]


def _names_within(argument: Any) -> set[str]:
    """Yield every name within an argument."""
    if isinstance(argument, dict):
        own = {argument[key] for key in ("name", "as_name") if isinstance(argument.get(key), str)}
        return own.union(*(_names_within(value) for value in argument.values()))
    return set().union(*(_names_within(value) for value in argument)) if isinstance(argument, list) else set()


def _size(value: dict[str, Any], known: dict[str, Any]) -> Any:
    if "as_name" in value:
        return known[value["as_name"]]
    return next(iter(value.values()))


def _batch_range(sizes: list[dict[str, Any]], ranges: dict[str, Any]) -> tuple[int, int | None]:
    """Fewest and most images that a batch may have."""
    if not sizes or "as_int" in sizes[0]:
        fixed = sizes[0]["as_int"] if sizes else 1
        return fixed, fixed
    symbol = re.search(r"\bs\d+\b", sizes[0]["as_expr"]["expr_str"])
    bounds = ranges.get(symbol.group(), {}) if symbol else {}
    low, high = bounds.get("min_val"), bounds.get("max_val")
    return max(low or 1, 1), high if isinstance(high, int) and high < 1 << 20 else None


def _in_training(title: str, why: str) -> InputError:
    return InputError(f"{title} was exported in training mode: {why}; call model.eval() before torch.export.export")
