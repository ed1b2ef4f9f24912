"""Black-box models in PyTorch: a user's function, or a network by name with a file of weights."""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.models.blackbox.predictors import BlackBoxModel
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.released_weights import released_sha256
from memorisk.models.weight_files import head_and_stem
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import file_fingerprint
from memorisk.runs.user_code.functions import load_named, source_fingerprint

PROPAGATED_ERRORS = (MemoryError, KeyboardInterrupt, torch.OutOfMemoryError)


def open_function(
    name: str, preprocessing: Preprocessing, device: str, threads: int | None, python_path: Sequence[str | Path] = ()
) -> BlackBoxModel:
    """Call the user's ``module:function`` once; it gives the network.

    Args:
        name: The function takes no arguments and returns a ``torch.nn.Module``, or a callable from [n, C, H, W]
            float32 to [n, K]. A callable is given a tensor on the device, or a NumPy array if it fails on that.
        preprocessing: Declared preprocessing.
        device: Device that a module runs on.
        threads: Number of threads of PyTorch's operations, only while the model answers; None leaves it as it is.
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
            "the trained classifier, or give the model as module:function or ONNX"
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
    """Run PyTorch's operations on so many threads inside, and as before outside."""
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
    """Return the type, number of parameters, and a fingerprint of all weights by name."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in model.state_dict().items():
        if isinstance(value, torch.Tensor):
            digest.update(f"{name} {value.dtype} {list(value.shape)}\0".encode())
            flat = value.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    parameters = sum(value.numel() for value in model.parameters())
    return {"network": _type_name(model), "parameters": parameters, "fingerprint": digest.hexdigest()}


def as_array(answers: Any, name: str) -> np.ndarray:
    """Return the values of a tensor or an array, half precisions as float32.

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
        """Return the answers of one pass."""
        with torch.inference_mode(), torch_threads(threads):
            return as_array(model(torch.from_numpy(x).to(where)), name)

    return ask


def _callable_ask(
    model: Callable[..., Any], title: str, preprocessing: Preprocessing, where: torch.device, threads: int | None
) -> tuple[Callable[[np.ndarray], np.ndarray], str]:
    """Ask a callable with tensors or, where it fails on one, with arrays; settled once, on two grey images."""

    def with_tensor(x: np.ndarray) -> np.ndarray:
        """Return the answers to a tensor."""
        with torch.no_grad(), torch_threads(threads):
            return as_array(model(torch.from_numpy(x).to(where)), title)

    def with_array(x: np.ndarray) -> np.ndarray:
        """Return the answers to an array."""
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
            f"weights file {one_line(weights)} does not exist; nothing is downloaded for an audit: name a file"
        )
    return file


def _type_name(model: object) -> str:
    return one_line(getattr(model, "__qualname__", type(model).__qualname__), 80)
