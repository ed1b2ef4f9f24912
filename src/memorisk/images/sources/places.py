"""A check whether the images that a user names exist. It loads nothing heavy: a misspelt folder is refused at once."""

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from memorisk.runs.errors import InputError, one_line


def several_sources(source: str) -> list[str]:
    """Return the parts of a source that names several; the whole where it names one.

    A comma that belongs to a path needs that path to exist; then the whole is one source, as a caller has checked.
    """
    parts = [part.strip() for part in source.split(",")]
    return parts if len(parts) > 1 and all(parts) else [source]


def nowhere(source: str | Path) -> InputError:
    """Return the error for a path that does not exist; it names the closest name there, or else the built-in images."""
    path, hint = Path(source), " (the built-in images are called digits)"
    with suppress(OSError, ValueError):
        if near := get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1):
            hint = f". Did you mean {one_line(path.parent / near[0], 120)!r}?"
    return InputError(f"{one_line(source)}: the file or folder does not exist{hint}")


def refuse_nowhere(source: str) -> None:
    """Refuse a path that does not exist; the reader checks sources that may not be paths: digits, NAME:REST, URLs.

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
            raise nowhere(part)
