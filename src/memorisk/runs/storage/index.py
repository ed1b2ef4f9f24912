"""What a run's files at a URL are: an index that is written before they are.

It names each file's size and hash and, of those that are being put, what they were, so that after a cut a file is known
to be the old one, the new one, or damaged. Only the last index of a run says that it is whole.
"""

import json
from dataclasses import dataclass, field

from memorisk.runs.damaged import ASTRAY
from memorisk.runs.errors import InputError
from memorisk.runs.storage.claim import CLAIM
from memorisk.runs.storage.storage import PART, Entry, Storage
from memorisk.runs.storage.urls import below, refuse_names

INDEX = ".memorisk-files.json"


@dataclass
class RunIndex:
    """What is at a URL.

    Attributes:
        files: Size and hash of each file.
        unsure: Files that are being put, with the hash that they had, or None where they were not there.
        gone: Files that are being removed.
        whole: Whether the run is finished and all of it is there.
        version: Changes with every writing.
    """

    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    unsure: dict[str, str | None] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    whole: bool = False
    version: str = ""

    @staticmethod
    def read(storage: Storage) -> "RunIndex | None":
        """The index at a URL, if there is one.

        Raises:
            InputError: It is damaged.
        """
        data = storage.read(INDEX)
        if data is None:
            return None
        try:
            found = json.loads(data)
            files = {str(n): (int(s), str(h)) for n, (s, h) in found["files"].items()}
            unsure = {str(n): h for n, h in found["unsure"].items()}
            index = RunIndex(
                files, unsure, [str(n) for n in found["gone"]], bool(found["whole"]), str(found["version"])
            )
        except ASTRAY:
            raise InputError(f"{below(storage.url, INDEX)} is damaged: restore it, or name another place") from None
        refuse_names({**index.files, **index.unsure, **dict.fromkeys(index.gone)}, storage.url)
        return index

    def write(self, storage: Storage) -> None:
        """Put the index at a URL."""
        storage.put(INDEX, json.dumps(vars(self), ensure_ascii=True).encode())


def files_there(storage: Storage) -> dict[str, Entry]:
    """The files at a URL, without what is ours to remember and what a killed push left."""
    found = _entries(storage)
    return {n: e for n, e in found.items() if n not in (CLAIM, INDEX) and not _is_unfinished(n)}


def left_unfinished(storage: Storage) -> list[str]:
    """What a killed push left at a URL of files that had no name yet."""
    return [name for name in _entries(storage) if _is_unfinished(name)]


def _entries(storage: Storage) -> dict[str, Entry]:
    try:
        return storage.entries()
    except FileNotFoundError:
        return {}


def _is_unfinished(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(PART)
