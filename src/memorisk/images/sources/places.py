"""Whether what a user names as images lies anywhere. Loads nothing heavy: a misspelt folder is refused at once."""

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from memorisk.runs.errors import InputError, one_line


def several_sources(source: str) -> list[str]:
    """The parts of a source that names several; the whole where it names one.

    A comma that belongs to a path needs that path to exist; then the whole is one source, as a caller has checked.
    """
    parts = [part.strip() for part in source.split(",")]
    return parts if len(parts) > 1 and all(parts) else [source]


def nowhere(source: str | Path) -> InputError:
    """The error that nothing lies there; it names the closest name beside it, or else the built-in images."""
    path, hint = Path(source), " (the built-in images are called digits)"
    with suppress(OSError, ValueError):
        if near := get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1):
            hint = f". Did you mean {one_line(path.parent / near[0], 120)!r}?"
    return InputError(f"{one_line(source)}: there is no such file or folder{hint}")


def refuse_nowhere(source: str) -> None:
    """Refuse a path that does not exist. What is or may be no path is left to the reader: digits, NAME:REST, URLs.

    Raises:
        InputError: Nothing lies there.
    """
    try:
        if Path(source).exists():
            return
    except (OSError, ValueError):
        return
    for part in several_sources(source):
        if part != "digits" and ":" not in part and not Path(part).exists():
            raise nowhere(part)
