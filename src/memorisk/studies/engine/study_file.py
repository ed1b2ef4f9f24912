"""Checks that the files of all studies share, made before anything is run."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line, unknown_name
from memorisk.runs.settings import check_names

StudyProtocol = Literal["paper", "corrected"]


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
