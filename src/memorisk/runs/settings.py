"""Settings of the right type: what Python and YAML hand in unchecked, before a word is taken for the truth."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

from memorisk.runs.errors import InputError, one_line, unknown_name


class _Checked(Protocol):
    def validate(self) -> None: ...


Settings = TypeVar("Settings", bound=_Checked)


def settings_of(options: type[Settings], given: Mapping[str, Any]) -> Settings:
    """Settings by their names as the dataclass that knows them, checked.

    Args:
        options: A dataclass of settings with ``validate``.
        given: As a caller in Python named them.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    check_names("setting", given, setting_names(options))
    found = options(**given)
    found.validate()
    return found


def setting_names(options: Any) -> list[str]:
    """The names of a dataclass of settings."""
    return [field.name for field in fields(options)]


def check_names(kind: str, given: Iterable[Any], allowed: Collection[str]) -> None:
    """Refuse names that do not exist, with a "did you mean".

    Args:
        kind: What a name names, as in "setting".
        given: Names.
        allowed: The names that exist.

    Raises:
        InputError: A name is unknown.
    """
    for name in given:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)


def check_types(options: Any) -> None:
    """Refuse text where true or false belongs, fractions where whole numbers do, and the like.

    "no" is true to Python, so that a setting that shows images of patients would fail open.

    Args:
        options: A dataclass of settings; its annotations say what each may be.

    Raises:
        InputError: A value is of another type.
    """
    hints = get_type_hints(type(options))
    for field in fields(options):
        value, kinds = getattr(options, field.name), _kinds(hints[field.name])
        if not kinds & {bool, int, float} or (value is None and type(None) in get_args(hints[field.name])):
            continue
        if bool in kinds:
            good, wanted = isinstance(value, bool), "true or false, without quotes"
        elif float in kinds:
            good, wanted = isinstance(value, int | float) and not isinstance(value, bool), "a number"
        else:
            good, wanted = isinstance(value, int) and not isinstance(value, bool), "a whole number"
        if str in kinds and isinstance(value, str):
            continue
        if not good:
            shown = "empty" if value is None else one_line(repr(value), 40)
            raise InputError(f"{field.name} is {shown}; give {wanted}")


def _kinds(hint: Any) -> set[Any]:
    """Plain types that a hint allows; none of what stands inside a tuple or a choice, but a choice of words is text."""
    if isinstance(hint, type):
        return {hint}
    name = getattr(hint, "__name__", "") or str(hint)
    if "Literal" in str(name) or "Literal" in str(hint).split("[", 1)[0]:
        return {type(value) for value in get_args(hint)}
    if str(hint).startswith(("tuple", "dict", "list")):
        return {tuple}
    return set().union(*(_kinds(part) for part in get_args(hint))) - {type(None)} if get_args(hint) else set()
