"""Paths that a run folder names by a keyed hash only, and what they are, in the user's own configuration folder.

A folder may be called by a patient's name. A pseudonymised run therefore holds ``path-`` and a hash in place of every
path. Which path that is stands beside the pseudonym key, outside of all run folders, so that commands that go back to
a run's images find them for this user on this machine, and for nobody else.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

HIDDEN = "path-"
_BOOK = "hidden-paths.jsonl"


def user_folder() -> Path:
    """The folder of memorisk in the user's configuration folder; it need not exist."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "memorisk"


def is_hidden(value: object) -> bool:
    """Tell whether a setting is a hash in place of a path."""
    return str(value).startswith(HIDDEN)


def note_hidden(paths: Mapping[str, str]) -> None:
    """Note which paths stand behind hashes; where the user's folder cannot be written to, nobody knows them later.

    Args:
        paths: Path by hash.
    """
    known = _known()
    lines = "".join(json.dumps([name, path]) + "\n" for name, path in paths.items() if name not in known)
    with suppress(OSError):
        user_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(user_folder() / _BOOK, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as book:
            book.write(lines)


def shown_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put the paths that this user knows in place of their hashes, in settings and in lists of them."""
    known = _known()

    def shown(value: Any) -> Any:
        """A path for its hash, anything else as it is."""
        return known.get(value, value) if isinstance(value, str) else value

    return {k: [shown(inner) for inner in v] if isinstance(v, list) else shown(v) for k, v in settings.items()}


def _known() -> dict[str, str]:
    """Path by hash; a line that a kill cut short is passed over."""
    known: dict[str, str] = {}
    with suppress(OSError):
        for line in (user_folder() / _BOOK).read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, RecursionError):
                name, path = json.loads(line)
                known[str(name)] = str(path)
    return known
