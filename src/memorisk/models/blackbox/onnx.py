"""ONNX files: checked as data, then run through onnxruntime.

`check_onnx` looks for damage, unknown operators and opsets, and data outside the file's folder before onnxruntime sees
the file. `open_onnx` runs it: one image input, one [n, classes] output, on the processor or a GPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from memorisk.models.blackbox.predictors import BatchFunction, BlackBoxModel, predict_in_batches
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.errors import InputError, MissingExtraError, one_line
from memorisk.runs.files import file_fingerprint

BUILT_IN = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""Domains whose operators onnxruntime brings along."""

_LISTED = 5
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


def check_onnx(file: Path) -> Any:
    """Read a file's graph, without its external data, and refuse what should not or cannot be run.

    onnxruntime itself checks the graph when it loads it; onnx's checker would refuse files that run, as those that do
    not state the shapes of their outputs.

    Args:
        file: The ONNX file.

    Returns:
        The ``onnx.ModelProto``.

    Raises:
        MissingExtraError: onnx is not installed.
        InputError: A damaged file, custom operators, a newer opset than is known, or external data that are missing,
            too short or outside the file's folder.
    """
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("onnx", "onnx", "reading ONNX files") from None
    title = one_line(file.name, 80)
    try:
        model = onnx.load_model(str(file), format="protobuf", load_external_data=False)
    except Exception as error:  # protobuf raises kinds of its own
        raise InputError(f"{title} cannot be read as ONNX: {one_line(error, 120)}; export it again") from error
    if not model.graph.node or not model.graph.output:
        raise InputError(f"{title} is not an ONNX file of a network, or is damaged: it holds no graph; export it again")
    _check_operators(model, title)
    _check_opset(model, title, onnx.defs.onnx_opset_version())
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, file, title)
    return model


def external_files(model: Any) -> list[str]:
    """Return the names of the files next to an ONNX file that hold its weights, sorted; the model is checked."""
    return sorted({_entries(tensor).get("location", "") for tensor in _tensors(model) if tensor.data_location == 1})


def _check_operators(model: Any, title: str) -> None:
    local = {(function.domain, function.name) for function in model.functions}
    custom = sorted(
        {
            f"{node.domain}.{node.op_type}"
            for node in _nodes(model)
            if node.domain not in BUILT_IN and (node.domain, node.op_type) not in local
        }
    )
    if custom:
        listed = ", ".join(one_line(name, 60) for name in custom[:_LISTED])
        listed += f", ... ({len(custom)} in all)" if len(custom) > _LISTED else ""
        raise InputError(
            f"{title} needs custom operators, whose code is not in the file: {listed}; export it with ONNX's own "
            "operators, or give saved outputs"
        )


def _check_opset(model: Any, title: str, known: int) -> None:
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= known:
            raise InputError(
                f"{title} is of ONNX opset {opset.version}; the installed onnx knows 1 to {known}: export it with "
                f"opset_version={known} or lower, or upgrade onnx and onnxruntime"
            )


def _check_external(tensor: Any, file: Path, title: str) -> None:
    """Refuse data outside the ONNX file's own folder, by name and after links are followed."""
    entries = _entries(tensor)
    location = entries.get("location", "")
    name = one_line(location, 120)
    parts = PurePosixPath(location.replace("\\", "/")).parts
    outside = (
        not location
        or "\0" in location
        or location.startswith("*")  # onnxruntime's own mark for an address in memory
        or PurePosixPath(location).is_absolute()
        or bool(PureWindowsPath(location).anchor)
        or ".." in parts
    )
    folder = file.parent
    if outside or not (folder / location).resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{title} keeps weights in {name or 'a file without a name'}, outside its own folder: put that file next "
            "to it and export it so, or save it as one file (external_data=False)"
        )
    beside = folder / location
    if not beside.is_file():
        raise InputError(
            f"{title} keeps weights in {name}, which is not in the same folder: put it there under that name"
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", 0))
    except ValueError:
        offset, length = -1, -1
    if offset < 0 or length < 0 or offset + length > beside.stat().st_size:
        raise InputError(f"{title} keeps weights in {name}, which is too short or damaged: copy it again")


def _entries(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _graphs(model: Any) -> Iterator[Any]:
    """Yield the graph, those within its nodes, and the bodies of functions."""
    waiting = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                waiting.extend([attribute.g] if attribute.HasField("g") else [])
                waiting.extend(attribute.graphs)


def _nodes(model: Any) -> Iterator[Any]:
    for graph in _graphs(model):
        yield from graph.node


def _tensors(model: Any) -> Iterator[Any]:
    """Yield all tensors that may lie in other files: initialisers, sparse ones, and attributes of nodes."""
    for graph in _graphs(model):
        if hasattr(graph, "initializer"):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        attributes = [attribute for node in graph.node for attribute in node.attribute]
        for attribute in [*attributes, *getattr(graph, "attribute_proto", ())]:
            yield from [attribute.t] if attribute.HasField("t") else []
            yield from attribute.tensors
            for sparse in [*([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                           *attribute.sparse_tensors]:  # fmt: skip
                yield from (sparse.values, sparse.indices)


@dataclass(frozen=True)
class ImageInput:
    """The input that takes the images."""

    name: str
    dtype: type
    """Type of the numbers it takes; they are cast from float32."""

    batch: int | None
    """Number of images in a batch, where the file fixes it."""

    channels_last: bool
    """Whether it takes [n, H, W, C]."""


def open_onnx(file: Path, preprocessing: Preprocessing, device: str, threads: int | None) -> BlackBoxModel:
    """Check and load an ONNX file; nothing is written, and only the file and its external data are read.

    Args:
        file: The ONNX file.
        preprocessing: Declared preprocessing; the file's input must fit it.
        device: "cuda" selects onnxruntime's CUDA provider; without one the processor is used, and a note says so.
        threads: Number of threads of one operation; None for onnxruntime's own number.

    Raises:
        MissingExtraError: onnx or onnxruntime is not installed.
        InputError: As `check_onnx`; no single image input, one of another shape or type than declared, or no
            output [n, classes].
    """
    title = one_line(file.name, 80)
    try:
        return _open(file, title, preprocessing, device, threads)
    except UnicodeDecodeError as error:  # names are read where they are needed, by two libraries
        raise InputError(f"{title} is damaged: it holds names that are not text; export it again") from error


def _open(file: Path, title: str, preprocessing: Preprocessing, device: str, threads: int | None) -> BlackBoxModel:
    proto = check_onnx(file)
    notes: list[str] = []
    session = _session(file, title, device, threads, notes)
    image = _image_input(session, title, preprocessing)
    if image.channels_last:
        notes.append("the file takes channels last: images are transposed for it")
    if image.batch:
        notes.append(f"the file takes {image.batch} images at a time: the last batch is filled up")
    if image.dtype is not np.float32:
        notes.append(f"the file takes {np.dtype(image.dtype).name}: images are cast for it")
    grey = np.full((2, *preprocessing.size, preprocessing.channels), 0.5, np.float32)
    output = _output(session, image, title, preprocessing.apply(grey), notes)
    beside = external_files(proto)
    facts: dict[str, Any] = {
        "kind": "onnx",
        "file": title,
        "fingerprint": file_fingerprint(file),
        "data": {one_line(name, 120): file_fingerprint(file.parent / name) for name in beside},
        "network": one_line(proto.graph.name, 80),
        "producer": one_line(f"{proto.producer_name} {proto.producer_version}".strip(), 80),
        "output_name": one_line(output, 80),
        "device": "cuda" if "CUDAExecutionProvider" in session.get_providers() else "cpu",
        "notes": notes,
    }
    return BlackBoxModel(file.name, _ask(session, image, output), facts)


def _session(file: Path, title: str, device: str, threads: int | None, notes: list[str]) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "onnx", "running ONNX files") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its warnings bypass Python; errors are raised in any case
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    providers: list[Any] = ["CPUExecutionProvider"]
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda", "mps") or not (index.isdigit() or not index):
        raise InputError(f"device is {one_line(device, 40)!r}; it must be cpu, cuda or cuda:1")
    if kind == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": int(index or 0)}))
    try:  # without its fallback, which prints
        session = onnxruntime.InferenceSession(str(file), options, providers=providers, enable_fallback=0)
    except Exception as error:  # onnxruntime has a dozen kinds of its own
        why = str(error).replace(str(file), file.name)  # no absolute paths in reports
        raise InputError(
            f"{title} cannot be loaded by onnxruntime {onnxruntime.__version__}: {one_line(why, 240)}; export it again"
        ) from error
    if kind != "cpu" and "CUDAExecutionProvider" not in session.get_providers():
        notes.append(f"{one_line(device, 40)} was requested; the installed onnxruntime has none: on the processor")
    return session


def _image_input(session: Any, title: str, preprocessing: Preprocessing) -> ImageInput:
    """Return the one input, compared with the declared preprocessing."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        listed = "; ".join(f"{one_line(i.name, 40)} {i.type} {_shape(i.shape)}" for i in inputs[:5]) or "none"
        raise InputError(f"{title} must have one input, images of rank 4; its inputs: {listed}")
    only = inputs[0]
    if only.type not in _TYPES:
        raise InputError(
            f"{title} takes {one_line(only.type, 40)}; it must take floating-point images, normalised as declared: "
            "export it without the preprocessing"
        )
    batch, *rest = only.shape
    channels, (height, width) = preprocessing.channels, preprocessing.size
    first = _fits(rest, (channels, height, width))
    last = not first and _fits(rest, (height, width, channels))
    if not first and not last:
        raise InputError(
            f"{title} takes images {_shape(only.shape)}; the preprocessing declares [n, {channels}, {height}, "
            f"{width}]: give --size and --channels as the file has them"
        )
    return ImageInput(only.name, _TYPES[only.type], batch if isinstance(batch, int) else None, last)


def _output(session: Any, image: ImageInput, title: str, x: np.ndarray, notes: list[str]) -> str:
    """Name of the first output of rank 2, found on an answer, since files need not state shapes."""
    names = [output.name for output in session.get_outputs()]
    part = x[: image.batch] if image.batch else x
    if image.batch and len(part) < image.batch:
        part = np.repeat(x[:1], image.batch, axis=0)
    try:
        answers = session.run(names, {image.name: _fed(part, image)})
    except Exception as error:  # onnxruntime has a dozen kinds of its own
        raise InputError(
            f"{title} failed on images {list(part.shape)}, as the preprocessing declares them: {one_line(error, 200)}"
        ) from error
    fit = [n for n, a in zip(names, answers, strict=True) if isinstance(a, np.ndarray) and a.ndim == 2]
    if not fit:
        shapes = [
            f"{one_line(n, 40)} {list(a.shape) if isinstance(a, np.ndarray) else type(a).__name__}"
            for n, a in zip(names, answers, strict=True)
        ]
        raise InputError(f"{title} has no output [n, classes]; its outputs: {', '.join(shapes[:5])}")
    if len(names) > 1:
        listed = ", ".join(one_line(name, 40) for name in names[:5])
        notes.append(f"of the outputs {listed}, {one_line(fit[0], 40)} is read: the first of rank 2")
    return fit[0]


def _ask(session: Any, image: ImageInput, output: str) -> BatchFunction:
    def once(x: np.ndarray) -> np.ndarray:
        """Return the answers of one pass."""
        answers = session.run([output], {image.name: _fed(x, image)})[0]
        return answers.astype(np.float32) if answers.dtype == np.float16 else answers

    if image.batch is None:
        return once
    size = image.batch
    return lambda x: predict_in_batches(once, x, size)


def _fed(x: np.ndarray, image: ImageInput) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1) if image.channels_last else x, dtype=image.dtype)


def _fits(sides: list[Any], declared: tuple[int, ...]) -> bool:
    return all(not isinstance(side, int) or side == want for side, want in zip(sides, declared, strict=True))


def _shape(shape: list[Any]) -> str:
    return "[" + ", ".join("any" if side is None else one_line(side, 20) for side in shape) + "]"
