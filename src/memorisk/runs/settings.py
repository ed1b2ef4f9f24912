"""Settings of a command: values from Python and YAML are unchecked, so their types are tested before they are used."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.user_code.functions import NAMES_A_FUNCTION, function_name, python_folders

_TYPES = {bool: "true or false, without quotes", int: "a whole number", float: "a number", str: "text", Path: "a path"}
"""Words for the value that a setting of each type takes."""
SEEDS = 1 << 32
"""Bound that all seeds lie below."""


class _Checked(Protocol):
    def validate(self) -> None: ...


Settings = TypeVar("Settings", bound=_Checked)
Function = TypeVar("Function", bound=Callable[..., Any])


def settings_of(options: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return settings by their names as the dataclass that knows them, checked.

    Args:
        options: Dataclass of settings with ``validate``.
        values: Settings as a caller in Python named them.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    settings = options(**named_settings(options, values))
    settings.validate()
    return settings


def named_settings(options: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by name in their declared types: text becomes a path, and a single value a tuple.

    A function in place of its name becomes ``module:function``.

    Args:
        options: Dataclass of settings.
        values: Settings as a caller in Python named them.

    Raises:
        InputError: A name is unknown, a value has a type that its setting does not take, or a function has no name in
            a file.
    """
    check_names("setting", values, setting_names(options))
    for field in fields(options):
        if field.metadata == NAMES_A_FUNCTION and callable(function := values.get(field.name)):
            name, folder = function_name(function)
            folders = () if folder is None else (folder,)
            python_path = python_folders(values.get("python_path") or ())
            values = {**values, field.name: name, "python_path": (*python_path, *folders)}
    hints, defaults = _hints(options), {field.name: field.default for field in fields(options)}
    named = {name: _as_declared(value, hints[name]) for name, value in values.items()}
    for name, value in named.items():
        if value is None and hints[name] is str and defaults[name] == "":
            named[name] = ""  # nothing, in YAML and Python alike
        elif not _fits(value, hints[name]):
            raise _wrong_type(name, value, hints[name])
    return named


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type that an annotation names; its choices are checked later."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Annotated:
        return _fits(value, parts[0])
    if origin is Literal:
        kinds = {type(choice) for choice in parts}
        return isinstance(value, bool) == (kinds == {bool}) and isinstance(value, str | int | float)
    if origin is tuple:
        of = [parts[0]] * len(value) if isinstance(value, tuple) and parts[-1] is Ellipsis else parts
        return isinstance(value, tuple) and len(value) == len(of) and all(map(_fits, value, of))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    kind = origin or hint
    return isinstance(value, kind) if isinstance(kind, type) else True


def _wrong_type(name: str, value: Any, hint: Any) -> InputError:
    """Return an error for a value of a type that a setting does not take."""
    value_shown = "empty" if value is None else one_line(repr(value), 40)
    return InputError(f"{name} is {value_shown}; give {_expectation(hint)}")


def _expectation(hint: Any) -> str:
    """Describe the values that an annotation takes, in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_expectation(part) for part in parts if part is not type(None))
    if origin is Annotated:
        return _expectation(parts[0])
    if origin is Literal:
        return ", ".join(str(choice) for choice in parts if choice is not None)
    if origin is tuple:
        one = _expectation(parts[0])
        return f"{one}, or a list" if parts[-1] is Ellipsis else f"a list of {len(parts)}, each {one}"
    return _TYPES.get(hint, "settings by name" if (origin or hint) is dict else one_line(hint, 60))


def takes_settings(options: type, *left_out: str) -> Callable[[Function], Function]:
    """Show the fields of a dataclass of settings in a function's signature, in place of its ``**settings``.

    The function itself stays as it is. ``help``, IPython and notebooks read the signature of what they have loaded;
    editors read ``memorisk/__init__.pyi``, which is written from these signatures (`recipes/signatures.py`).

    Args:
        options: Dataclass that the function makes of its settings.
        *left_out: Names of fields that the function sets itself.
    """

    def place(field: Field[Any]) -> int:
        """Return the rank of a field: the class's own fields come first, then those of its bases."""
        return next(i for i, kind in enumerate(options.__mro__) if field.name in vars(kind).get("__annotations__", ()))

    def decorate(function: Function) -> Function:
        """Give a function its signature."""
        own = inspect.signature(function)
        own_parameters = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        excluded = {*own.parameters, *left_out}
        fields_shown = sorted((field for field in fields(options) if field.name not in excluded), key=place)
        function.__signature__ = own.replace(
            parameters=[*own_parameters, *(_parameter(f, options) for f in fields_shown)]
        )  # type: ignore[attr-defined]
        return function

    return decorate


def _parameter(field: Field[Any], options: type) -> inspect.Parameter:
    """Return a field as the keyword of a function."""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    default = inspect.Parameter.empty if default is MISSING else default
    hint = _given_as(_hints(options)[field.name])
    if field.metadata == NAMES_A_FUNCTION:
        hint = str | Callable[..., Any] | None
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _given_as(hint: Any) -> Any:
    """Return the type that a caller may give for a setting; `_as_declared` turns it into the declared one."""
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(_given_as(part) for part in get_args(hint))]  # noqa: UP007
    if get_origin(hint) is tuple and get_args(hint)[-1] is Ellipsis:
        item = _given_as(get_args(hint)[0])
        return item | Sequence[item]  # type: ignore[valid-type]
    return str | Path if hint is Path else hint


def _as_declared(value: Any, hint: Any) -> Any:
    """Convert a value to a setting's type: text and paths to one another, one value or a list to a tuple.

    Numbers among several texts are text, too: YAML makes numbers of classes that are called 0, 1 and 2. Scalars and
    columns of NumPy, pandas and torch are Python's own values.
    """
    if getattr(value, "ndim", None) in (0, 1) and hasattr(value, "tolist"):
        value = value.tolist()
    kinds = {hint} if get_origin(hint) is not Union and not isinstance(hint, UnionType) else {*get_args(hint)}
    several = next((kind for kind in kinds if get_origin(kind) is tuple), None)
    if several is not None:
        if value is None:
            return None if type(None) in kinds else ()
        if not isinstance(value, list | tuple):
            if len(kinds - {several, type(None)}):
                return value
            value = (value,)
        of = get_args(several)
        items = [of[0]] * len(value) if of[-1] is Ellipsis else [*of, *[Any] * len(value)]
        numbers = (int, float)
        plain = [str(v) if h is str and isinstance(v, numbers) else v for v, h in zip(value, items, strict=False)]
        return tuple(_as_declared(v, h) for v, h in zip(plain, items, strict=False))
    if isinstance(value, str) and Path in kinds and str not in kinds:
        return Path(value)
    return str(value) if isinstance(value, Path) and str in kinds and Path not in kinds else value


def written_settings(options: type, config: Mapping[str, Any]) -> dict[str, Any]:
    """Read those settings of a dataclass that a ``config.yaml`` holds; paths become paths again, and lists tuples.

    Args:
        options: Dataclass of settings.
        config: Settings as parsed; entries that are not settings of the dataclass are left out.
    """
    hints, settings = _hints(options), dict[str, Any]()
    for name in setting_names(options):
        if name in config:
            settings[name] = _as_declared(config[name], hints[name])
    return settings


def fields_of(kind: type, settings: Any) -> dict[str, Any]:
    """Return the values that settings have for the fields of a dataclass, by name.

    Args:
        kind: The dataclass.
        settings: Settings with all of its fields, and perhaps more.
    """
    return {field.name: getattr(settings, field.name) for field in fields(kind)}


def setting_names(options: Any) -> list[str]:
    """Return the names of the fields of a dataclass of settings."""
    return [field.name for field in fields(options)]


def check_names(kind: str, names: Iterable[Any], allowed: Collection[str]) -> None:
    """Refuse names that do not exist, with a "did you mean".

    Args:
        kind: Kind of the named things, as in "setting".
        names: Names to check.
        allowed: Names that exist.

    Raises:
        InputError: A name is unknown.
    """
    for name in names:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)


def check_types(options: Any, declared: type | None = None) -> None:
    """Refuse values of another type than a setting's annotation names, and words that its `Literal` does not list.

    Python takes "no" for true, so a setting that shows images of patients would fail open.

    Args:
        options: Dataclass of settings; its annotations define the allowed values.
        declared: Class whose settings alone are checked, one that the options inherit.

    Raises:
        InputError: A value has another type, or is not among the choices.
    """
    hints = _hints(type(options))
    for field in fields(declared or options):
        hint, value = hints[field.name], getattr(options, field.name)
        kinds = _kinds(hint)
        if not kinds & {bool, int, float} or (value is None and type(None) in get_args(hint)):
            continue
        if bool in kinds:
            kind: type = bool
        else:
            kind = float if float in kinds else int
        if str in kinds and isinstance(value, str):
            continue
        good = _fits(value, kind)
        if not good:
            raise _wrong_type(field.name, value, kind)
    check_choices(options, declared)


def check_choices(options: Any, declared: type | None = None) -> None:
    """Refuse values that a setting's `Literal` does not list, with the nearest that it does.

    Args:
        options: Dataclass of settings.
        declared: Class whose settings alone are checked, one that the options inherit.

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
        name: Name of the setting.
        value: Value, or one of several.
        hint: Annotation such as ``Literal["a", "b"]``; one that lists nothing allows everything.

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
    """Return the values that an annotation allows, also inside of a tuple; empty where it lists none.

    Args:
        hint: Annotation such as ``Literal["a", "b"] | None`` or ``tuple[Literal["a", "b"], ...]``.
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
    """Return the plain types that a hint allows, without those inside a tuple; a choice of words is text."""
    if isinstance(hint, type):
        return {hint}
    if get_origin(hint) is Literal:
        return {type(value) for value in get_args(hint)}
    if get_origin(hint) in (tuple, dict, list):
        return {tuple}
    return set().union(*(_kinds(part) for part in get_args(hint))) - {type(None)} if get_args(hint) else set()


def check_counts(options: Any, **least: int) -> None:
    """Refuse whole numbers that are too small; a setting that is left open (None) is not checked.

    Args:
        options: Dataclass of settings.
        least: Smallest number allowed, by setting.

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
