"""Folder of a cell of a study: it holds named arrays, and whether the cell is done or why it failed.

A file of arrays is written once, never pickled; the same arrays give the same bytes. ``cell.json`` is written last
and marks the cell as done. ``failed.json`` holds the reason why a cell failed until the cell runs through.
"""

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.runs.checksums import is_intact, refuse_damaged
from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.files import atomic_path, read_json, write_json

_DONE, _FAILED = "cell.json", "failed.json"


CELLS = "cells"
"""Folder of a study that holds the folders of its cells."""


class CellFolder(ABC):
    """A cell of a study by its folder, which holds one file of arrays for each of its parts."""

    # Fields of some cells, properties of others: pyright takes either for an annotation of `Any` alone.
    out: Any
    """Path of the folder of the study."""
    key: Any
    """Key of everything that decides its results, a text."""
    parts: Any
    """Names of the results that the cell leaves, a sequence of texts."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name the cell in words, on one line."""

    @property
    def folder(self) -> Path:
        """Return the folder of its results."""
        return self.out / CELLS / self.key

    def file(self, part: str) -> Path:
        """Return the file of one result."""
        return self.folder / f"{part}.npz"

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the names of the results that are not there yet."""
        return tuple(part for part in self.parts if not is_intact(self.file(part)))

    def write(self, part: str, arrays: "Arrays") -> None:
        """Write a result."""
        write_result(self.file(part), arrays)

    def read(self, part: str) -> "Arrays":
        """Read a result."""
        return read_result(self.file(part))

    @property
    def done(self) -> bool:
        """Return whether all results are there."""
        return is_intact(self.folder / _DONE) and not self.missing

    @property
    def failure(self) -> str:
        """Return why the cell failed at its last trial; empty where it did not fail or was not tried."""
        file = self.folder / _FAILED
        return "" if self.done or not file.is_file() else str(read_json(file)["why"])

    @property
    def described(self) -> dict[str, Any]:
        """Describe the cell once it is done."""
        return read_json(self.folder / _DONE)

    def make_folder(self) -> None:
        """Make its folder, which only its owner can read."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def finish(self, described: Mapping[str, Any]) -> None:
        """Mark the cell as done, with its description."""
        write_json(self.folder / _DONE, described, recorded=True)
        (self.folder / _FAILED).unlink(missing_ok=True)

    def fail(self, why: str) -> None:
        """Note why the cell failed, for the tables."""
        self.make_folder()
        write_json(self.folder / _FAILED, {"cell": self.name, "why": why})

    def row(self, **columns: object) -> dict[str, object]:
        """Describe in a table's row what was run: the encoder of a cell that is done, or why it failed.

        Args:
            **columns: Further columns, behind the state.
        """
        row: dict[str, object] = {"detector": self.name, "state": "measured" if self.done else "not run", **columns}
        if self.done:
            described = self.described
            row |= {name: described.get(name) for name in ("dimension", "weights", "preprocessing")}
            row["notes"] = " ".join(described.get("notes") or [])
        elif self.failure:
            row |= {"state": "failed", "notes": self.failure}
        return row


def failures(cells: Sequence[CellFolder]) -> dict[str, str]:
    """Return why cells are not there, by name."""
    return {cell.name: cell.failure or "not run" for cell in cells if not cell.done}


Arrays = dict[str, np.ndarray]


def write_result(path: Path, arrays: Arrays) -> None:
    """Write arrays atomically; the same arrays give the same bytes."""
    with atomic_path(path, recorded=True) as temporary, temporary.open("wb") as file:
        np.savez(file, **{name: np.asarray(value, order="C") for name, value in sorted(arrays.items())})  # pyright: ignore


def read_result(path: Path) -> Arrays:
    """Read the arrays of a file that `write_result` wrote.

    Raises:
        MemoriskError: The file is damaged.
    """
    refuse_damaged(path, "remove it and run the study again")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise MemoriskError(f"{one_line(path.name)} is damaged: remove it and run the study again") from error
