"""The user's own functions that a setting names as ``module:function``, with a fingerprint of their text."""

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.options import grouped
from memorisk.runs.processes import child_path
from memorisk.runs.user_code.modules import import_current, is_importable, loaded_fingerprint, text_fingerprint

NAMES_A_FUNCTION = {"names": "function"}
"""Metadata of a setting that is ``module:function``; in Python it may be the function itself."""


@grouped("training")
@dataclass(frozen=True, kw_only=True)
class FunctionOptions:
    """Options on the place of the user's own functions."""

    python_path: tuple[Path, ...] = ()
    """Folder with your own modules (module:function), whose code is run. Repeat it for several. It is searched last,
    and the current folder is never searched; by default the folder of the --config file."""

    def __post_init__(self) -> None:
        """Make the folders absolute: other processes and machines search them, too."""
        object.__setattr__(self, "python_path", python_folders(self.python_path))


def python_folders(folders: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """Return one folder, or several, as absolute paths.

    Raises:
        InputError: The value is not a folder or several.
    """
    several = (folders,) if isinstance(folders, str | Path) else folders
    try:
        return tuple(Path(folder).absolute() for folder in several)
    except TypeError:
        raise InputError(f"python_path is {one_line(repr(folders), 60)}; it must be a folder, or several") from None


def function_name(function: Callable[..., Any]) -> tuple[str, Path | None]:
    """Name a function of a file as ``module:function``, with the folder that has to be searched for the module.

    Args:
        function: Function defined in a module of a file, not inside another function.

    Returns:
        Name of the function, and the folder; None where child processes search it anyway.

    Raises:
        InputError: The value is a lambda, a nested function, one of the main script or a notebook's cell, or not a
            function.
    """
    name, module_name = getattr(function, "__qualname__", ""), getattr(function, "__module__", None) or ""
    module = sys.modules.get(module_name)
    file = getattr(module, "__file__", None)
    there = getattr(module, name, None)
    same = there is function or (inspect.isfunction(there) and not hasattr(function, "__wrapped__"))  # loaded anew
    if not inspect.isfunction(function) or module_name == "__main__" or file is None or not same:
        display_name = one_line(name or repr(function), 60)
        raise InputError(f"{display_name}: give a function of a file, as 'module:function': put it into a file")
    top = Path(file).absolute().parents[module_name.count(".") + (Path(file).name == "__init__.py")]
    return f"{module_name}:{name}", None if str(top) in child_path() else top


def load_named(
    name: str, what: str, python_path: str | Path | Sequence[str | Path] = (), *, source: str = ""
) -> Callable[..., Any]:
    """Import a function of the user's, anew where its file changed since this process imported it.

    The folders stay at the end of Python's path, since a function may import other modules of theirs when it runs.

    Args:
        name: Name of the module and the function in it, ``module:function``.
        what: Name of the value in errors: "--train", "the model".
        python_path: Folders in which the module may lie, searched after everything installed.
        source: Result of `source_fingerprint` for the text that is to run; a process that has it keeps it, whatever the
            file holds now. By default the file's text.

    Raises:
        InputError: The folder, module or function does not exist, the module fails to import, or the file has another
            text than ``source``.
    """
    module_name, _, function_name = name.partition(":")
    if not function_name or not module_name:
        raise InputError(f"{what} {one_line(name, 80)} is not of the form module:function")
    folders = python_folders(python_path)
    _append_folders(folders)
    if source:
        loaded = getattr(sys.modules.get(module_name), function_name, None)
        if callable(loaded) and source_fingerprint(loaded) == source:
            return loaded
    try:
        module = import_current(module_name, folders)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the module is the user's: anything may go wrong in it
        failed = one_line(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {one_line(error)}"
        raise InputError(
            f"{what} {one_line(name, 80)}: importing {one_line(module_name, 80)} failed ({failed}); the module must "
            "be installed, be on PYTHONPATH, or lie in a folder that python_path names; the current folder is not "
            "searched"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        public = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        module_path = module.__name__  # not imported functions; os.path calls itself posixpath
        own = [n for n in public if getattr(getattr(module, n), "__module__", "") == module_path]
        raise unknown_name(f"function in {module_name}", function_name, own)
    if source and source_fingerprint(function) != source:
        raise InputError(f"{what} {one_line(name, 80)}: its file changed while this ran: give the command again")
    return function


def read_named(name: str, what: str, python_path: Sequence[Path] = ()) -> tuple[Callable[..., Any], str]:
    """Read a function's parameters from the text of its file, without running any of it, for a plan.

    Args:
        name: Name of the module and the function in it, ``module:function``.
        what: Name of the setting, for messages.
        python_path: Folders in which the module may lie, searched after everything installed.

    Returns:
        Function that takes the same arguments and does nothing (any arguments, where the text does not define the
        function by ``def``), and the fingerprint of the text.

    Raises:
        InputError: The folder, module or function does not exist, or its file is not Python.
    """
    module_name, _, function_name = name.partition(":")
    if not function_name or not module_name:
        raise InputError(f"{what} {one_line(name, 80)} is not of the form module:function")
    *packages, last = module_name.split(".")
    roots = [Path(root, *packages) for root in (*child_path(), *python_folders(python_path))]
    files = (file for root in roots for file in (root / last / "__init__.py", root / f"{last}.py"))
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise _missing_module(name, what)
    text = file.read_bytes()
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        subject = f"{what} {one_line(name, 80)}: {one_line(file.name, 80)}"
        raise InputError(f"{subject} is no Python: {one_line(error)}") from None
    return _without_body(statements, module_name, function_name), text_fingerprint(text)


def refuse_missing_module(name: str, what: str, python_path: Sequence[Path] = ()) -> None:
    """Refuse a function of a module that is nowhere, at once: nothing is imported.

    Args:
        name: Name of the module and the function in it, ``module:function``; others are refused where they are loaded.
        what: Name of the setting, for messages.
        python_path: Folders in which the module may lie, searched after everything installed.

    Raises:
        InputError: The module is nowhere.
    """
    module_name = name.partition(":")[0]
    if all(map(str.isidentifier, module_name.split("."))) and not is_importable(module_name, python_path):
        raise _missing_module(name, what)


def _missing_module(name: str, what: str) -> InputError:
    """Return the error for a module that is nowhere."""
    return InputError(
        f"{what} {one_line(name, 80)}: module {one_line(name.partition(':')[0], 80)} is missing; it must be "
        "installed, be on PYTHONPATH, or lie in a folder that python_path names; the current folder is not searched"
    )


def _without_body(statements: Sequence[ast.stmt], module_name: str, name: str) -> Callable[..., Any]:
    """Return a function of a module with its parameters, and nothing else of it.

    Raises:
        InputError: The module does not define the name.
    """
    defined = {one.name: one for one in statements if isinstance(one, ast.FunctionDef)}
    definition = defined.get(name)
    if definition is None or definition.decorator_list:
        bound = {node.id for one in statements for node in ast.walk(one)
                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}  # fmt: skip
        bound |= {alias.asname or alias.name for one in statements if isinstance(one, ast.Import | ast.ImportFrom)
                  for alias in one.names}  # fmt: skip
        bound |= {one.name for one in statements if isinstance(one, ast.ClassDef)}
        if definition is None and name not in bound and "*" not in bound:
            raise unknown_name(f"function in {module_name}", name, [one for one in defined if not one.startswith("_")])
        return lambda *_given, **_named: None
    arguments = definition.args
    for parameter in (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ):
        if parameter is not None:
            parameter.annotation = None
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [None if one is None else ast.Constant(None) for one in arguments.kw_defaults]
    stub = ast.Expression(ast.Lambda(arguments, ast.Constant(None)))
    return eval(compile(ast.fix_missing_locations(stub), "<plan>", "eval"), {})


def _append_folders(folders: Sequence[Path]) -> None:
    """Put folders at the end of Python's path, behind every installed library.

    Raises:
        InputError: A folder does not exist.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"python_path names {one_line(folder)}, and this folder does not exist")
        if str(folder) not in child_path():
            sys.path.append(str(folder))


def source_fingerprint(function: Callable[..., Any]) -> str:
    """Return the fingerprint of the text that a function was compiled from; "unknown" where it has none.

    It is that of the running text, also where the file has changed meanwhile.
    """
    from memorisk.runs.files import file_fingerprint  # NumPy, which --help does without

    plain: Any = inspect.unwrap(function)
    while isinstance(plain, partial):
        plain = inspect.unwrap(plain.func)
    module = getattr(plain, "__module__", None) or type(plain).__module__
    if (loaded := loaded_fingerprint(module)) is not None:
        return loaded
    try:
        source = inspect.getsourcefile(plain)
        return file_fingerprint(source) if source else "unknown"
    except (TypeError, ValueError, OSError):
        return "unknown"
