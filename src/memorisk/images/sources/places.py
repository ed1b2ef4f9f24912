"""A check whether the files and folders that a user names exist. It loads nothing heavy, so that it answers at once."""

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.storage.locations import url_of

_BUILT_IN = "the built-in images are called digits"


def several_sources(source: str) -> list[str]:
    """Return the parts of a source that names several; the whole where it names one.

    A comma that belongs to a path needs that path to exist; then the whole is one source, as a caller has checked.
    """
    parts = [part.strip() for part in source.split(",")]
    return parts if len(parts) > 1 and all(parts) else [source]


def nowhere(source: str | Path, otherwise: str = _BUILT_IN) -> InputError:
    """Return the error for a path that does not exist; it names the closest name there.

    Args:
        source: Path from the user.
        otherwise: Way out that the error names where no name is close.
    """
    path, hint = Path(source), f" ({otherwise})"
    with suppress(OSError, ValueError):
        if near := get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1):
            hint = f". Did you mean {one_line(path.parent / near[0], 120)!r}?"
    return InputError(f"{one_line(source)}: the file or folder does not exist{hint}")


def refuse_missing(paths: Iterable[str | Path], otherwise: str) -> None:
    """Refuse paths that do not exist, all of them in one line; URLs are left to their readers.

    Args:
        paths: Paths from the user.
        otherwise: Way out, as for `nowhere`.

    Raises:
        InputError: A path does not exist.
    """
    missing = [path for path in dict.fromkeys(map(str, paths)) if url_of(path) is None and not Path(path).exists()]
    if len(missing) == 1:
        raise nowhere(missing[0], otherwise)
    if missing:
        raise InputError(
            f"{len(missing)} files or folders do not exist: {', '.join(one_line(path, 120) for path in missing)}"
        )


def refuse_nowhere(source: str, otherwise: str = _BUILT_IN) -> None:
    """Refuse a path that does not exist; the reader checks sources that may not be paths: digits, NAME:REST, URLs.

    Args:
        source: Path from the user.
        otherwise: Way out, as for `nowhere`.

    Raises:
        InputError: The path does not exist.
    """
    try:
        if Path(source).exists():
            return
    except (OSError, ValueError):
        return
    for part in several_sources(source):
        if part != "digits" and ":" not in part and not Path(part).exists():
            raise nowhere(part, otherwise)
