"""Checks that the files of all studies share, made before anything is run."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line, unknown_name
from memorisk.runs.settings import check_names, setting_names

StudyProtocol = Literal["paper", "corrected"]
_PATHS = ("image_root", "labels_csv", "store")
_OWN_NAMES = ("architectures", "datasets", "defences", "arms", "training", "bases")
"""Sections whose keys are names of the user or of networks, which may hold a hyphen, and no settings."""


def underscored(config: Mapping[str, Any], what: str = "the study") -> dict[str, Any]:
    """Return a study's file with an underscore in place of each hyphen in the names of its settings.

    Settings are flags of other commands, too, so that users write `group-from` as they write `--group-from`.

    Args:
        config: Contents of the file, or of a part of it.
        what: Part of the file, for the message.

    Raises:
        InputError: A setting is there in both spellings.
    """
    settings: dict[str, Any] = {}
    for key, value in config.items():
        name = str(key).replace("-", "_")
        if name in settings:
            raise InputError(f"{name} of {one_line(what, 60)} is there twice, with a hyphen and with an underscore")
        settings[name] = value
        if isinstance(value, Mapping) and name in _OWN_NAMES:
            settings[name] = {
                own: underscored(inner, str(own)) if isinstance(inner, Mapping) else inner
                for own, inner in value.items()
            }
        elif isinstance(value, Mapping):
            settings[name] = underscored(value, name)
    return settings


def read_protocol(config: Mapping[str, Any], keys: Collection[str]) -> StudyProtocol:
    """Return the protocol that a study's file names; its keys are checked.

    Args:
        config: Contents of the file.
        keys: Keys that the file may have.

    Raises:
        InputError: A key or the protocol is unknown.
    """
    check_keys("the study", config, keys)
    protocol = config.get("protocol", "corrected")
    if protocol not in get_args(StudyProtocol):
        raise unknown_name("protocol", protocol, get_args(StudyProtocol))
    return protocol


@contextmanager
def reading_study() -> Iterator[None]:
    """Check a study's file while the context is open; YAML may hold a value of any kind at any place.

    Raises:
        InputError: A value is of a kind that no check foresaw. The error that it led to is kept as the cause.
    """
    try:
        yield
    except CONTENT_ERRORS as error:
        what = f"{type(error).__name__} {one_line(error, 100)}".strip()
        raise InputError(
            f"the study cannot be read ({what}): a value is of another kind than its setting takes; compare it with "
            "the files in recipes"
        ) from error


def check_keys(what: str, settings: Any, allowed: Collection[str]) -> None:
    """Refuse settings without keys, and keys that do not exist.

    Args:
        what: The part of the file, as in "the study".
        settings: Settings in this part.
        allowed: Keys that exist.

    Raises:
        InputError: The settings have no keys, or a key does not exist.
    """
    if not isinstance(settings, Mapping):
        raise InputError(f"{what} needs settings by name, not {one_line(settings, 60)}")
    check_names(f"key of {what}", settings, allowed)


def read_section(config: Mapping[str, Any], name: str, *, needed: bool = True) -> dict[str, dict[str, Any]]:
    """Return one section of the file: names, each with settings.

    Args:
        config: Contents of the file.
        name: Name of the section.
        needed: Whether a study without it is refused.

    Raises:
        InputError: The section has no names, or a name has no settings.
    """
    section = config.get(name) or {}
    if not isinstance(section, Mapping) or (needed and not section):
        raise InputError(f"the study needs {name}: names, each with its settings below it")
    for inner, settings in section.items():
        if not isinstance(settings or {}, Mapping):
            raise InputError(f"{name}: {one_line(inner, 60)} needs settings below it, not {one_line(settings, 60)}")
    return {str(inner): dict(settings or {}) for inner, settings in section.items()}


def read_image_set(title: str, values: Any, keys: Collection[str], sources: Collection[str]) -> ImageOptions:
    """Check the settings of a data set, and return the options for reading its images.

    Args:
        title: Name of the data set, on one line.
        values: Settings of the data set.
        keys: Keys that it may have, besides the options for reading.
        sources: Keys that must name images.

    Raises:
        InputError: Something is missing, unknown or not allowed.
    """
    reading = setting_names(ImageOptions)
    check_keys(f"data set {title}", values, [*keys, *reading])
    for needed in sources:
        if not isinstance(values.get(needed), str) or not values[needed]:
            raise InputError(f"data set {title} names no {needed}: a folder, a table, mnist:FOLDER, cifar10:FOLDER")
    settings: dict[str, Any] = {k: Path(v) if k in _PATHS and v else v for k, v in values.items() if k in reading}
    options = ImageOptions(**settings)
    options.validate()
    return options


def read_names(title: str, value: Any) -> tuple[str, ...]:
    """Return names of the file, each once: a list of them, or a single one.

    Args:
        title: Title of the setting that holds the names, as in "settings: detectors".
        value: Value in the file.

    Raises:
        InputError: The value is something else.
    """
    names = list(value) if isinstance(value, list | tuple) else [value]
    if not names or not all(isinstance(one, str) for one in names):
        raise InputError(f"{title} is {one_line(value, 60)}; give names, as in [a, b]")
    return tuple(dict.fromkeys(names))


def refuse_value(allowed: object, title: str, name: str, value: Any, hint: str) -> None:
    """Refuse a value of the file that is not allowed.

    Args:
        allowed: Whether the value is allowed.
        title: Part of the file.
        name: Name of the setting.
        value: Value in the file.
        hint: Instruction on what to give in its place.

    Raises:
        InputError: The value is not allowed.
    """
    if not allowed:
        raise InputError(f"{title}: {name} is {one_line(value, 60)}; {hint}")
