"""The user's own training functions (``--train module:function``): found by name, checked before use, run guarded.

What a function receives and returns depends on the kind of model: `training.classifiers.user_training` and
`training.generators.user_training`. For users: docs/own-training.md.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.runs.errors import InputError, MemoriskError, UserCodeError, one_line, unknown_name
from memorisk.runs.user_code.functions import load_named, read_named
from memorisk.runs.user_code.modules import user_line


def load_function(name: str, python_path: Sequence[Path] = (), source: str = "") -> Callable[..., Any]:
    """Import the user's training function, ``module:function``.

    Args:
        name: Name of the module and of the function in it, ``module:function``.
        python_path: Folders that are searched last.
        source: Fingerprint of the text that is to run; by default the text that the file has now.

    Raises:
        InputError: The module or function does not exist, the module fails to import, or its text is another one.
    """
    return load_named(name, "--train", python_path, source=source)


def read_function(name: str, python_path: Sequence[Path] = ()) -> tuple[Callable[..., Any], str]:
    """Read the parameters and the fingerprint of the user's training function, and run nothing of its file.

    Args:
        name: Name of the module and of the function in it, ``module:function``.
        python_path: Folders that are searched last.

    Raises:
        InputError: The module or function does not exist.
    """
    return read_named(name, "--train", python_path)


def wants_dataset(function: Callable[..., Any]) -> bool:
    """Return whether the function receives a dataset in place of an array: its first parameter is ``dataset``."""
    return next(iter(_signature(function).parameters), "") == "dataset"


def names_parameter(function: Callable[..., Any], name: str) -> bool:
    """Return whether the function names a parameter that is optional for it."""
    return name in _signature(function).parameters


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of the user's function.

    Raises:
        InputError: Its parameters cannot be read, as those of some functions written in C.
    """
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        name = one_line(getattr(function, "__name__", function), 80)
        raise InputError(f"--train: {name} is not a Python function with named parameters") from None


def refuse_misfit(
    name: str,
    function: Callable[..., Any],
    settings: Mapping[str, str],
    positional: Sequence[str],
    named: Sequence[str],
) -> None:
    """Refuse a function that does not accept the arguments of memorisk.

    Args:
        name: Name of the function, as the user typed it.
        function: Function that was found under that name.
        settings: Settings of the user.
        positional: Names of the arguments that are passed by position.
        named: Names of the arguments that are passed by name.

    Raises:
        InputError: The function does not know a setting, memorisk sets it itself, or a parameter is wrong.
    """
    signature = _signature(function)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for setting in settings:
        if setting in (*positional, *named):
            raise InputError(f"--train-settings.{setting}: memorisk gives {', '.join((*positional, *named))} itself")
        if setting not in signature.parameters and not takes_any:
            names = [one for one in list(signature.parameters)[len(positional) :] if one not in named]
            raise unknown_name(f"setting of {name}", setting, names)
    try:
        signature.bind(*positional, **dict.fromkeys(named), **settings)
    except TypeError as error:
        called = f"({', '.join(positional)}, *, {', '.join(named)})"
        raise InputError(
            f"--train {one_line(name, 80)} cannot be called with {called} and your settings: {one_line(error)}"
        ) from None


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Turn an error of the user's code into one line that names its file and line.

    Args:
        name: Name of the function, ``module:function``.

    Raises:
        UserCodeError: The code inside failed.
    """
    try:
        yield
    except MemoriskError as error:
        raise UserCodeError(str(error)) from error
    except (Exception, SystemExit) as error:  # the user's code: its own type and message describe it
        failure = f"{type(error).__name__}: {one_line(error)}{user_line(error)}"
        raise UserCodeError(f"{name} failed with {failure}") from error


def channels_first(image: np.ndarray) -> torch.Tensor:
    """Copy an image of a store, [h, w, c], as a tensor [c, h, w] of the same type."""
    return torch.from_numpy(np.array(image.transpose(2, 0, 1), order="C"))
