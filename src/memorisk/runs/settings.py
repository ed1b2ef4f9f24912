"""Settings of a command: checked types, and the user's own functions that a setting names.

What Python and YAML hand in is unchecked, so that types are tested before a value is used. A user's own function is
named ``module:function``; it is found by name, and its source is known by a fingerprint.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.options import grouped
from memorisk.runs.processes import child_path, without_current_folder


class _Checked(Protocol):
    def validate(self) -> None: ...


Settings = TypeVar("Settings", bound=_Checked)


def settings_of(options: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Settings by their names as the dataclass that knows them, checked.

    Args:
        options: A dataclass of settings with ``validate``.
        values: As a caller in Python named them.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    check_names("setting", values, setting_names(options))
    settings = options(**values)
    settings.validate()
    return settings


def written_settings(options: type, config: Mapping[str, Any]) -> dict[str, Any]:
    """Read those settings of a dataclass that a ``config.yaml`` holds: paths are paths again, lists are tuples.

    Args:
        options: A dataclass of settings.
        config: As it was parsed; what is no setting of the dataclass is left out.
    """
    hints, settings = _hints(options), dict[str, Any]()
    for name in setting_names(options):
        if name in config:
            value = config[name]
            if isinstance(value, str) and Path in get_args(hints[name]):
                value = Path(value)
            settings[name] = tuple(value) if isinstance(value, list) else value
    return settings


def setting_names(options: Any) -> list[str]:
    """The names of a dataclass of settings."""
    return [field.name for field in fields(options)]


def check_names(kind: str, names: Iterable[Any], allowed: Collection[str]) -> None:
    """Refuse names that do not exist, with a "did you mean".

    Args:
        kind: What a name names, as in "setting".
        names: Names.
        allowed: The names that exist.

    Raises:
        InputError: A name is unknown.
    """
    for name in names:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)


def check_types(options: Any) -> None:
    """Refuse values of another type than a setting's annotation names, and words that its `Literal` does not list.

    "no" is true to Python, so that a setting that shows images of patients would fail open.

    Args:
        options: A dataclass of settings; its annotations say what each may be.

    Raises:
        InputError: A value is of another type, or not among the choices.
    """
    hints = _hints(type(options))
    for field in fields(options):
        hint, value = hints[field.name], getattr(options, field.name)
        kinds = _kinds(hint)
        if not kinds & {bool, int, float} or (value is None and type(None) in get_args(hint)):
            continue
        if bool in kinds:
            good, expectation = isinstance(value, bool), "true or false, without quotes"
        elif float in kinds:
            good, expectation = isinstance(value, int | float) and not isinstance(value, bool), "a number"
        else:
            good, expectation = isinstance(value, int) and not isinstance(value, bool), "a whole number"
        if str in kinds and isinstance(value, str):
            continue
        if not good:
            value_shown = "empty" if value is None else one_line(repr(value), 40)
            raise InputError(f"{field.name} is {value_shown}; give {expectation}")
    check_choices(options)


def check_choices(options: Any, declared: type | None = None) -> None:
    """Refuse values that a setting's `Literal` does not list, with the nearest that it does.

    Args:
        options: A dataclass of settings.
        declared: Check the settings of this class alone, one that the options inherit.

    Raises:
        InputError: A value is not among the choices.
    """
    hints = _hints(type(options))
    for field in fields(declared or options):
        value = getattr(options, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            check_choice(field.name, one, hints[field.name])


def check_choice(name: str, value: Any, hint: Any) -> None:
    """Refuse a value that an annotation does not list, with the nearest that it does.

    Args:
        name: The setting's.
        value: A value, or one of several.
        hint: Such as ``Literal["a", "b"]``; an annotation that lists nothing allows everything.

    Raises:
        InputError: The value is not among the choices.
    """
    allowed = choices(hint)
    if not allowed or value in allowed:
        return
    choices_named = [choice for choice in allowed if choice is not None]
    if isinstance(value, str):
        raise unknown_name(name, value, choices_named)
    raise InputError(f"{name} is {one_line(repr(value), 40)}; allowed are {', '.join(map(str, choices_named))}")


def choices(hint: Any) -> tuple[Any, ...]:
    """The values that an annotation allows, also inside of a tuple; none where it lists none.

    Args:
        hint: An annotation such as ``Literal["a", "b"] | None`` or ``tuple[Literal["a", "b"], ...]``.
    """
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) is Annotated:
        return choices(get_args(hint)[0])
    if hint is type(None):
        return (None,)
    parts = [part for part in get_args(hint) if part is not Ellipsis]
    listed = [choices(part) for part in parts]
    return tuple(value for part in listed for value in part) if all(listed) else ()


@cache
def _hints(options: type) -> dict[str, Any]:
    return get_type_hints(options)


def _kinds(hint: Any) -> set[Any]:
    """Plain types that a hint allows; none of what stands inside a tuple or a choice, but a choice of words is text."""
    if isinstance(hint, type):
        return {hint}
    if get_origin(hint) is Literal:
        return {type(value) for value in get_args(hint)}
    if get_origin(hint) in (tuple, dict, list):
        return {tuple}
    return set().union(*(_kinds(part) for part in get_args(hint))) - {type(None)} if get_args(hint) else set()


SEEDS = 1 << 32
"""Seeds lie below this."""


def check_counts(options: Any, **least: int) -> None:
    """Refuse whole numbers that are too small; a setting that is left open (None) is not checked.

    Args:
        options: A dataclass of settings.
        least: The smallest number allowed, by setting.

    Raises:
        InputError: A number is too small.
    """
    for name, bound in least.items():
        value = getattr(options, name)
        if value is not None and value < bound:
            raise InputError(f"{name} is {value}; it must be a whole number of at least {bound}")


def check_between(options: Any, *names: str, top: float = 1, example: str = "") -> None:
    """Refuse numbers that do not lie between 0 and ``top``, both excluded.

    Raises:
        InputError: A number lies outside.
    """
    for name in names:
        if not 0 < getattr(options, name) < top:
            hint = f", as in {example}" if example else ""
            raise InputError(f"{name} is {getattr(options, name)}; it must lie between 0 and {top:g}{hint}")


def check_finite(options: Any, *names: str, zero: bool = False) -> None:
    """Refuse numbers that are not above 0, or with ``zero`` not 0 or more, and those without end.

    Raises:
        InputError: A number lies outside.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and not ((zero and value == 0) or 0 < value < float("inf")):
            raise InputError(f"{name} is {value}; it must be {'0 or more' if zero else 'above 0'}")


def check_seeds(options: Any, *names: str, below: int = SEEDS) -> None:
    """Refuse seeds that the random numbers do not take.

    Raises:
        InputError: A seed is negative or too large.
    """
    for name in names:
        if not 0 <= getattr(options, name) < below:
            raise InputError(f"{name} is {getattr(options, name)}; it must lie between 0 and {below - 1}")


@grouped("training")
@dataclass(frozen=True, kw_only=True)
class FunctionOptions:
    """Where the user's own functions are found."""

    python_path: tuple[Path, ...] = ()
    """Folder with your own modules (module:function), whose code is run. Repeat it for several. It is searched last,
    and the current folder is never searched; by default the folder of the --config file."""

    def __post_init__(self) -> None:
        """Make the folders absolute: other processes and machines search them, too."""
        object.__setattr__(self, "python_path", python_folders(self.python_path))


def python_folders(folders: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """Return one folder, or several, as absolute paths.

    Raises:
        InputError: Something else is given.
    """
    several = (folders,) if isinstance(folders, str | Path) else folders
    try:
        return tuple(Path(folder).absolute() for folder in several)
    except TypeError:
        raise InputError(f"python_path is {one_line(repr(folders), 60)}; it must be a folder, or several") from None


def load_named(name: str, what: str, python_path: str | Path | Sequence[str | Path] = ()) -> Callable[..., Any]:
    """Import a function of the user's.

    The folders stay at the end of Python's path, since a function may import other modules of theirs when it runs.

    Args:
        name: The module and the function in it, ``module:function``.
        what: What the user gave it as, for the errors: "--train", "the model".
        python_path: Folders in which the module may lie, searched after everything installed.

    Raises:
        InputError: There is no such folder, module or function, or the module fails to import.
    """
    module_name, _, function_name = name.partition(":")
    if not function_name or not module_name:
        raise InputError(f"{what} {one_line(name, 80)} is not of the form module:function")
    _append_folders(python_folders(python_path))
    try:
        module = _import(module_name)
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
    return function


def _append_folders(folders: Sequence[Path]) -> None:
    """Put folders at the end of Python's path, behind every installed library.

    Raises:
        InputError: One is not there.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"python_path names {one_line(folder)}, and there is no such folder")
        if str(folder) not in child_path():
            sys.path.append(str(folder))


def _import(name: str) -> Any:
    """Import a module from where child processes find it, too.

    Raises:
        ModuleNotFoundError: It lies in the current folder only, whether or not it was imported from there before.
    """
    top = name.partition(".")[0]
    with without_current_folder():
        finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
        if not any(f.find_spec(top, sys.path if f is PathFinder else None) for f in finders):
            raise ModuleNotFoundError(f"No module named {top!r}")
        return importlib.import_module(name)


def source_fingerprint(function: Callable[..., Any]) -> str:
    """Return the fingerprint of the file in which a function stands; "unknown" where there is none."""
    from memorisk.runs.files import file_fingerprint  # NumPy, which --help does without

    try:
        source = inspect.getsourcefile(inspect.unwrap(function))
        return file_fingerprint(source) if source else "unknown"
    except (TypeError, ValueError, OSError):
        return "unknown"
