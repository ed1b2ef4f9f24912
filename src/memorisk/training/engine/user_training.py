"""The user's own training functions (``--train module:function``): found by name, checked before use, run guarded.

What a function receives and returns depends on the kind of model: `training.classifiers.user_training` and
`training.generators.kinds.user_training`. For users: docs/own-training.md.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.volumes import is_volume
from memorisk.runs.errors import InputError, MemoriskError, UserCodeError, one_line, unknown_name
from memorisk.runs.steps import open_meter
from memorisk.runs.user_code.functions import load_named, read_named, source_fingerprint
from memorisk.runs.user_code.modules import user_line


@dataclass(frozen=True, kw_only=True)
class CallForm:
    """Names of the arguments that memorisk gives to the training functions of one kind of model.

    Attributes:
        arrays: Names of the arrays, passed by position. A function whose first parameter is ``dataset`` receives a
            dataset in their place.
        named: Names of the arguments that are passed by name to a function of arrays.
        dataset_named: Names of the arguments that are passed by name to a function of a dataset.
        optional: Name of the argument that a function receives only if it names it.
    """

    arrays: tuple[str, ...]
    named: tuple[str, ...]
    dataset_named: tuple[str, ...]
    optional: str

    def check(self, name: str, function: Callable[..., Any], settings: Mapping[str, str]) -> None:
        """Refuse a function that does not accept these arguments.

        Args:
            name: Name of the function, as the user typed it.
            function: Function that was found under that name.
            settings: Settings of the user.

        Raises:
            InputError: The function does not know a setting, memorisk sets it itself, or a parameter is wrong.
        """
        signature, dataset = _signature(function), wants_dataset(function)
        positional = ("dataset",) if dataset else self.arrays
        named = self.dataset_named if dataset else self.named
        if names_parameter(function, self.optional):
            named += (self.optional,)
        takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
        for setting in settings:
            if setting in (*positional, *named):
                passed = ", ".join((*positional, *named))
                raise InputError(f"--train-settings.{setting}: memorisk gives {passed} itself")
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


def load_function(
    name: str, form: CallForm, settings: Mapping[str, str], python_path: Sequence[Path] = (), source: str = ""
) -> Callable[..., Any]:
    """Import the user's training function, ``module:function``, and check its parameters.

    Args:
        name: Name of the module and of the function in it, ``module:function``.
        form: Arguments that it receives.
        settings: Settings of the user.
        python_path: Folders that are searched last.
        source: Fingerprint of the text that is to run; by default the text that the file has now.

    Raises:
        InputError: The module or function does not exist, the module fails to import, its text is another one, or the
            function does not accept the arguments.
    """
    function = load_named(name, "--train", python_path, source=source)
    form.check(name, function, settings)
    return function


def function_source(
    name: str, form: CallForm, settings: Mapping[str, str], python_path: Sequence[Path] = (), *, dry_run: bool
) -> str:
    """Check the user's training function, and return the fingerprint of its file's text.

    Args:
        name: Name of the module and of the function in it, ``module:function``.
        form: Arguments that it receives.
        settings: Settings of the user.
        python_path: Folders that are searched last.
        dry_run: Read the file and run nothing of it.

    Raises:
        InputError: As `load_function`.
    """
    if not dry_run:
        return source_fingerprint(load_function(name, form, settings, python_path))
    function, source = read_named(name, "--train", python_path)
    form.check(name, function, settings)
    return source


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


class RowDataset(torch.utils.data.Dataset):
    """Some rows of a store as tensors of whole numbers, for functions that take a ``dataset``.

    Args:
        images: Images of the store, [N, H, W, C], each returned as [c, h, w]; or volumes [N, H, W, D], as [1, d, h, w].
        rows: Rows of the dataset.
        targets: Targets of all images, each returned with its image; None for images alone.
    """

    def __init__(self, images: np.ndarray, rows: np.ndarray, targets: np.ndarray | None = None) -> None:
        self.images, self.rows, self.targets = images, rows, targets

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        image = torch.from_numpy(np.array(self.images[row].transpose(2, 0, 1), order="C"))
        image = image[None] if is_volume(self.images.shape) else image
        return image if self.targets is None else (image, self.targets[row])


def count_training() -> None:
    """Note the one step that a progress counts for a training by the user's function, which shows its end alone."""
    if (meter := open_meter()) is not None:
        meter.begin(0, 1)
        meter.end()
