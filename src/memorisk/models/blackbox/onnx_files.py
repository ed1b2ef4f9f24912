"""What is checked of an ONNX file before onnxruntime sees it: damage, operators, opsets, where its data lie."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from memorisk.runs.errors import InputError, MissingExtraError, one_line

BUILT_IN = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""Domains whose operators onnxruntime brings along."""

_LISTED = 5


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
    said = one_line(file.name, 80)
    try:
        model = onnx.load_model(str(file), format="protobuf", load_external_data=False)
    except Exception as error:  # protobuf raises kinds of its own
        raise InputError(f"{said} cannot be read as ONNX: {one_line(error, 120)}; export it again") from error
    if not model.graph.node or not model.graph.output:
        raise InputError(f"{said} is no ONNX file of a network, or is damaged: it holds no graph; export it again")
    _check_operators(model, said)
    _check_opset(model, said, onnx.defs.onnx_opset_version())
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, file, said)
    return model


def external_files(model: Any) -> list[str]:
    """Names of the files beside an ONNX file that hold its weights, sorted; the model was checked before."""
    return sorted({_entries(tensor).get("location", "") for tensor in _tensors(model) if tensor.data_location == 1})


def _check_operators(model: Any, said: str) -> None:
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
            f"{said} needs custom operators, whose code is not in the file: {listed}; export it with ONNX's own "
            "operators, or give saved outputs"
        )


def _check_opset(model: Any, said: str, known: int) -> None:
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= known:
            raise InputError(
                f"{said} is of ONNX opset {opset.version}; the installed onnx knows 1 to {known}: export it with "
                f"opset_version={known} or lower, or upgrade onnx and onnxruntime"
            )


def _check_external(tensor: Any, file: Path, said: str) -> None:
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
            f"{said} keeps weights in {name or 'a file without a name'}, outside its own folder: put that file beside "
            "it and export it so, or save it as one file (external_data=False)"
        )
    beside = folder / location
    if not beside.is_file():
        raise InputError(f"{said} keeps weights in {name}, which is not beside it: put it there under that name")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", 0))
    except ValueError:
        offset, length = -1, -1
    if offset < 0 or length < 0 or offset + length > beside.stat().st_size:
        raise InputError(f"{said} keeps weights in {name}, which is too short or damaged: copy it again")


def _entries(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _graphs(model: Any) -> Iterator[Any]:
    """The graph, those within its nodes, and the bodies of functions."""
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
    """All tensors that may lie in other files: initialisers, sparse ones, and attributes of nodes."""
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
