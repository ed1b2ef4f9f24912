"""Black-box models in PyTorch: a user's function, a network by name with a file of weights, or an exported program.

Exported programs (``torch.export.save``) are run by ATen's operators; nothing of them is loaded as code.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.models.blackbox.export_graph import ExportGraph, read_archive
from memorisk.models.blackbox.predictors import BlackBoxModel, predict_in_batches
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.released_weights import released_sha256
from memorisk.models.weight_files import head_and_stem
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import file_fingerprint
from memorisk.runs.user_functions import load_named, source_fingerprint

PROPAGATED_ERRORS = (MemoryError, KeyboardInterrupt, torch.OutOfMemoryError)


def open_function(
    name: str, preprocessing: Preprocessing, device: str, threads: int | None, python_path: Sequence[str | Path] = ()
) -> BlackBoxModel:
    """Call the user's ``module:function`` once; it gives the network.

    Args:
        name: The function takes no arguments and returns a ``torch.nn.Module``, or a callable from [n, C, H, W]
            float32 to [n, K]. A callable is given a tensor on the device, or a NumPy array if it fails on that.
        preprocessing: As declared.
        device: Where a module runs.
        threads: For PyTorch's own operations, only while the model is asked; None leaves them.
        python_path: Folders in which the module is looked for, after everything installed.

    Raises:
        InputError: No such function, one that takes arguments or fails, or one that returns nothing callable.
    """
    where = check_device(device)
    function = load_named(name, "the model", python_path)
    title = one_line(name, 80)
    model = _call(function, title)
    facts: dict[str, Any] = {"kind": "function", "source": source_fingerprint(function), "device": str(where)}
    if isinstance(model, nn.Module):
        facts |= module_facts(model)
        return BlackBoxModel(name, _module_ask(model, where, threads), facts, PROPAGATED_ERRORS)
    if not callable(model):
        raise InputError(
            f"the model {title} returned {one_line(type(model).__name__, 60)}; it must return a torch.nn.Module or a "
            "callable from images [n, C, H, W] to [n, classes]"
        )
    ask, form = _callable_ask(model, title, preprocessing, where, threads)
    return BlackBoxModel(name, ask, {**facts, "network": _type_name(model), "given": form}, PROPAGATED_ERRORS)


def open_named(
    name: str,
    preprocessing: Preprocessing,
    weights: str | Path | None,
    num_classes: int | None,
    device: str,
    threads: int | None,
) -> BlackBoxModel:
    """Build a network of the zoo and load its file of weights, head and all.

    Raises:
        InputError: An unknown name, no file, a file without this network's head or with another number of classes or
            channels, or one that `load_weights` refuses.
    """
    where = check_device(device)
    model_spec(name)  # an unknown name is refused before its weights are checked
    file = _weights_file(name, weights)
    sized: dict[str, Any] = {"in_chans": preprocessing.channels, "image_size": max(preprocessing.size), "seed": 0}
    bare = create_model(name, num_classes=num_classes or 2, weights="none", **sized)
    outputs, channels = head_and_stem(bare, file)
    if channels is not None and channels != preprocessing.channels:
        raise InputError(
            f"weights file {one_line(file.name)} is of a network for {channels} channels; the preprocessing declares "
            f"{preprocessing.channels}"
        )
    if outputs is None:
        raise InputError(
            f"weights file {one_line(file.name)} holds no classifier head of {one_line(name, 80)}: name the file of "
            "the trained classifier, or give the model as module:function, ONNX or a torch export"
        )
    if num_classes is not None and outputs != num_classes:
        raise InputError(f"weights file {one_line(file.name)} has a head of {outputs} classes, not {num_classes}")
    notes: list[str] = []
    model = create_model(name, num_classes=outputs, weights=file, on_note=notes.append, trained=True, **sized)
    facts: dict[str, Any] = {"kind": "network", "network": one_line(name, 80), "file": one_line(file.name, 120)}
    facts |= {"fingerprint": file_fingerprint(file), "notes": notes, "device": str(where)}
    facts["tensors_sha256"] = released_sha256(model)
    return BlackBoxModel(name, _module_ask(model, where, threads), facts, PROPAGATED_ERRORS)


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """PyTorch's operations on so many threads inside, and as before outside."""
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def module_facts(model: nn.Module) -> dict[str, Any]:
    """Type, number of parameters, and a fingerprint of all weights by name."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in model.state_dict().items():
        if isinstance(value, torch.Tensor):
            digest.update(f"{name} {value.dtype} {list(value.shape)}\0".encode())
            flat = value.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    parameters = sum(value.numel() for value in model.parameters())
    return {"network": _type_name(model), "parameters": parameters, "fingerprint": digest.hexdigest()}


def as_array(answers: Any, name: str) -> np.ndarray:
    """A tensor's or an array's values, half precisions as float32.

    Raises:
        InputError: It is neither.
    """
    if isinstance(answers, torch.Tensor):
        answers = answers.detach()
        return (answers.float() if answers.dtype in (torch.bfloat16, torch.float16) else answers).cpu().numpy()
    if isinstance(answers, np.ndarray):
        return answers
    raise InputError(
        f"{one_line(name, 80)} gives {one_line(type(answers).__name__, 60)} in place of a tensor or array [n, "
        "classes]: return that one alone"
    )


def _call(function: Callable[..., Any], title: str) -> Any:
    try:
        inspect.signature(function).bind()
    except TypeError:
        raise InputError(
            f"the model {title} takes arguments; it must take none and return the network, loaded once"
        ) from None
    except ValueError:
        pass  # a function written in C tells nothing of its parameters
    try:
        return function()
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the function is the user's: anything may go wrong in it
        raise InputError(f"the model {title} failed: {type(error).__name__}: {one_line(error, 200)}") from error


def _module_ask(model: nn.Module, where: torch.device, threads: int | None) -> Callable[[np.ndarray], np.ndarray]:
    model.to(where).eval().requires_grad_(False)
    name = _type_name(model)

    def ask(x: np.ndarray) -> np.ndarray:
        """Answers of one pass."""
        with torch.inference_mode(), torch_threads(threads):
            return as_array(model(torch.from_numpy(x).to(where)), name)

    return ask


def _callable_ask(
    model: Callable[..., Any], title: str, preprocessing: Preprocessing, where: torch.device, threads: int | None
) -> tuple[Callable[[np.ndarray], np.ndarray], str]:
    """Ask a callable with tensors or, where it fails on one, with arrays; settled once, on two grey images."""

    def with_tensor(x: np.ndarray) -> np.ndarray:
        """Answers to a tensor."""
        with torch.no_grad(), torch_threads(threads):
            return as_array(model(torch.from_numpy(x).to(where)), title)

    def with_array(x: np.ndarray) -> np.ndarray:
        """Answers to an array."""
        with torch.no_grad(), torch_threads(threads):
            return as_array(model(x), title)

    grey = preprocessing.apply(np.full((2, *preprocessing.size, preprocessing.channels), 0.5, np.float32))
    failures = []
    for form, ask in (("tensor", with_tensor), ("array", with_array)):
        try:
            ask(grey)
            return ask, form
        except (InputError, *PROPAGATED_ERRORS):
            raise
        except (Exception, SystemExit) as error:  # the callable is the user's: anything may go wrong in it
            failures.append(f"given a {form}, {type(error).__name__}: {one_line(error, 120)}")
    raise InputError(f"the model {title} failed on float32 {list(grey.shape)}: {'; '.join(failures)}")


def _weights_file(name: str, weights: str | Path | None) -> Path:
    if weights is None or str(weights) in ("", "none", "default"):
        raise InputError(
            f"{one_line(name, 80)} names a network without weights: name their file, as in --weights model.safetensors"
        )
    file = Path(weights)
    if not file.is_file():
        raise InputError(
            f"there is no weights file {one_line(weights)}; nothing is downloaded for an audit: name a file"
        )
    return file


def _type_name(model: object) -> str:
    return one_line(getattr(model, "__qualname__", type(model).__qualname__), 80)


def open_export(file: Path, preprocessing: Preprocessing, device: str, threads: int | None) -> BlackBoxModel:
    """Read a ``.pt2`` file and prepare its graph.

    Args:
        file: As ``torch.export.save`` writes it, from PyTorch 2.9 on.
        preprocessing: As declared; the graph's input must fit it.
        device: Where to run, whatever device it was exported on.
        threads: For PyTorch's operations, only while the model is asked; None leaves them.

    Raises:
        InputError: As `read_archive` and `ExportGraph`; an input of another shape or type than declared, no output
            [n, classes], or a graph that changes its own weights.
    """
    where = check_device(device)
    title = one_line(file.name, 80)
    archive = read_archive(file)
    try:
        graph = ExportGraph(archive, title, where)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise InputError(
            f"{title} is damaged or not as torch.export.save writes it ({type(error).__name__} "
            f"{one_line(error, 120)}): export it again"
        ) from error
    notes: list[str] = []
    _check_input(graph, title, preprocessing, notes)
    grey = np.full((2, *preprocessing.size, preprocessing.channels), 0.5, np.float32)
    position = _choose(graph, title, preprocessing.apply(grey), where, threads, notes)
    low, high = graph.batch

    def once(x: np.ndarray) -> np.ndarray:
        """Answers of one pass."""
        with torch.no_grad(), torch_threads(threads):
            return as_array(graph.run(torch.from_numpy(x).to(where, graph.dtype))[position], title)

    facts: dict[str, Any] = {
        "kind": "export",
        "file": title,
        "fingerprint": file_fingerprint(file),
        "exported_by": f"PyTorch {one_line(archive.program.get('torch_version', 'unknown'), 40)}",
        "parameters": sum(value.numel() for value in archive.tensors.values()),
        "device": str(where),
        "notes": notes,
    }
    return BlackBoxModel(file.name, lambda x: predict_in_batches(once, x, low, high), facts, PROPAGATED_ERRORS)


def _check_input(graph: ExportGraph, title: str, preprocessing: Preprocessing, notes: list[str]) -> None:
    declared = (preprocessing.channels, *preprocessing.size)
    shape = ", ".join("any" if side is None else str(side) for side in graph.shape)
    if len(graph.shape) != 4:
        raise InputError(f"{title} must take images of rank 4, [n, C, H, W]; it takes [{shape}]")
    if any(side not in (None, want) for side, want in zip(graph.shape[1:], declared, strict=True)):
        raise InputError(
            f"{title} takes images [{shape}]; the preprocessing declares [n, {', '.join(map(str, declared))}]: declare "
            "the file's size and channels"
        )
    if graph.dtype is None or not graph.dtype.is_floating_point:
        raise InputError(f"{title} takes {graph.dtype}; it must take floating-point images, normalised as declared")
    low, high = graph.batch
    if low == high:
        notes.append(f"the file takes {low} images at a time: the last batch is filled up")
    if graph.dtype != torch.float32:
        notes.append(f"the file takes {str(graph.dtype).removeprefix('torch.')}: images are cast for it")


def _choose(
    graph: ExportGraph, title: str, grey: np.ndarray, where: torch.device, threads: int | None, notes: list[str]
) -> int:
    """Return which of the network's results is [n, classes]; the first such one."""
    size = min(max(len(grey), graph.batch[0]), graph.batch[1] or len(grey))
    x = torch.from_numpy(np.repeat(grey[:1], size, axis=0)).to(where, graph.dtype)
    versions = {name: value._version for name, value in graph.held.items()}
    try:
        with torch.no_grad(), torch_threads(threads):
            results = graph.run(x)
    except (InputError, *PROPAGATED_ERRORS):
        raise
    except Exception as error:  # an operator may refuse what the file gives it
        raise InputError(
            f"{title} failed on images {list(x.shape)}, as the preprocessing declares them: {type(error).__name__}: "
            f"{one_line(error, 160)}"
        ) from error
    if any(value._version != versions[name] for name, value in graph.held.items()):
        raise InputError(f"{title} changes its own weights or buffers when asked: export it after model.eval()")
    fit = [i for i, result in enumerate(results) if isinstance(result, torch.Tensor) and result.ndim == 2]
    if not fit:
        shapes = ", ".join(str(list(getattr(result, "shape", ()))) for result in results[:5])
        raise InputError(f"{title} returns no [n, classes]; it returns {shapes}")
    if len(results) > 1:
        notes.append(f"of {len(results)} outputs the one at place {fit[0] + 1} is read: the first of rank 2")
    return fit[0]
