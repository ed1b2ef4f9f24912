"""Targets that are files of memorisk's own kinds, or folders of which one file was changed."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.packing import by_name, inside_zip
from tests.fuzz.target import Target


@cache
def made(make: Callable[[Path], Path]) -> Path:
    """A sound folder of its kind, made once and left as it is; a later run of the fuzzer finds it."""
    place = Path(tempfile.gettempdir()) / "memorisk-fuzz-made" / make.__name__
    note = place / "made"
    if not note.is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        note.write_text(str(make(place).relative_to(place)))
    return place / note.read_text()


def of_folder(
    name: str, reads: str, make: Callable[[Path], Path], files: Sequence[str], ask: Callable[[Path], Any]
) -> Target:
    """A folder of which one file was changed: which one, the first byte says."""

    def seeds(folder: Path) -> list[bytes]:
        """The files as they are."""
        sound = made(make)
        ask(sound)  # it must be: else nothing is fuzzed but one refusal
        return [bytes([k]) + (sound / file).read_bytes() for k, file in enumerate(files)]

    def changed(data: bytes, folder: Path) -> Any:
        """Ask about a copy with the changed file."""
        copy = folder / "made"
        shutil.copytree(made(make), copy)
        file = copy / files[data[0] % len(files) if data else 0]
        file.write_bytes(data[1:])
        return ask(copy)

    def repack(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
        """The file that is meant stays; it is changed as its kind asks for."""
        suffix = Path(files[data[0] % len(files) if data else 0]).suffix
        return data[:1] + by_name(suffix, data[1:], change, size - 1)

    return Target(name, reads, seeds, changed, repack)


def of_file(
    name: str, reads: str, suffixes: Sequence[str], make: Callable[[Path], list[Path]], ask: Callable[[Path], Any]
):
    """A file of its own; its suffix by the first byte."""

    def seeds(folder: Path) -> list[bytes]:
        """Sound files."""
        found = make(folder)
        for file in found:
            ask(file)
        return [bytes([suffixes.index(file.suffix)]) + file.read_bytes() for file in found]

    def changed(data: bytes, folder: Path) -> Any:
        """Ask about the changed file."""
        file = folder / f"input{suffixes[data[0] % len(suffixes) if data else 0]}"
        file.write_bytes(data[1:])
        return ask(file)

    def repack(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
        """The suffix stays; archives are changed inside."""
        return data[:1] + inside_zip(data[1:], change, size - 1)

    return Target(name, reads, seeds, changed, repack)
