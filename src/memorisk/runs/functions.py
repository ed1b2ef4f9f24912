"""A user's own function, ``module:function``: found by name, its source known by a fingerprint."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.fingerprint import file_fingerprint


def load_named(name: str, what: str, folder: str | None = None) -> Callable[..., Any]:
    """Import a function of the user's.

    Args:
        name: The module and the function in it, ``module:function``.
        what: What the user gave it as, for the errors: "--train", "the model".
        folder: Where the module may lie beside Python's own places; the current folder if not given.

    Raises:
        InputError: There is no such module or function, or the module fails to import.
    """
    module_name, _, function_name = name.partition(":")
    if not function_name or not module_name:
        raise InputError(f"{what} {one_line(name, 80)} is not of the form module:function")
    here = folder or str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file of the user's must not stand in for an installed library
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the module is the user's: anything may go wrong in it
        failed = one_line(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {one_line(error)}"
        raise InputError(
            f"{what} {one_line(name, 80)}: importing {one_line(module_name, 80)} failed ({failed}); the module must "
            "lie in the folder where memorisk is started, be installed, or be on PYTHONPATH"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        public = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        mine = module.__name__  # Path and the like are other modules'; os.path says posixpath of itself
        own = [n for n in public if getattr(getattr(module, n), "__module__", "") == mine]
        raise unknown_name(f"function in {module_name}", function_name, own)
    return function


def source_fingerprint(function: Callable[..., Any]) -> str:
    """Fingerprint of the file in which a function stands; "unknown" where there is none."""
    try:
        source = inspect.getsourcefile(inspect.unwrap(function))
        return file_fingerprint(source) if source else "unknown"
    except (TypeError, ValueError, OSError):
        return "unknown"
