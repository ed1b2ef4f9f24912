"""Hostile inputs and the commands that meet them: what the lists of inputs are written with."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image

from tests.images.dicom_making import dicom, save

Make = Callable[[Path], list[str]]


OUT = "OUT"
"""Stands for the folder of results in a command."""


@dataclass(frozen=True)
class HostileInput:
    """One input and the command that meets it."""

    kind: str
    """What is hostile, for tables of results."""
    name: str
    make: Make
    """Writes the files into a folder and gives the arguments of memorisk."""
    codes: tuple[int, ...] = (2,)
    """Exit codes that are right: 2 refused; 1 counted as a problem by ``images check``; 0 where it does no harm."""
    names: str = ""
    """What a refusal or a problem must name: for another reason it would say nothing about the input."""


def sound_images(root: Path, suffix: str = ".png", n: int = 6) -> Path:
    """Two classes of small sound images (or volumes), each of a patient of its own."""
    for number in range(2 * n):
        noise = np.random.default_rng(number).integers(0, 255, (8, 8, 8), np.uint8)
        path = root / "ab"[number % 2] / f"{number // 2}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if suffix == ".dcm":
            save(dicom(noise[0].astype(np.uint16), PatientID=str(number)), path)
        elif suffix.startswith(".nii"):
            nibabel.save(nibabel.Nifti1Image(noise, np.eye(4)), path)
        else:
            Image.fromarray(noise[0]).save(path)
    return root


def audit(source: object, *more: object) -> list[str]:
    return ["audit", "classifier", str(source), "--dry-run", "--size", "8", "--out", OUT, *map(str, more)]


_turn = [0]


def image(kind: str, name: str, suffix: str, data: bytes | Callable[[], bytes], *more: str) -> HostileInput:
    """A bad image among good ones; every third is met by another command."""
    _turn[0] += 1
    turn = _turn[0] % 3

    def make(folder: Path) -> list[str]:
        """Write the images."""
        of_kind = suffix if suffix in (".dcm", ".nii", ".nii.gz") else ".png"
        root = sound_images(folder / "set", of_kind)
        (root / "a" / f"bad{suffix}").write_bytes(data() if callable(data) else data)
        labels = ("--label-from", "([ab])/") if suffix == ".dcm" else ()
        if turn == 0:
            return ["images", "check", str(root), *labels, *more]
        if turn == 1 or more:
            return audit(root, *labels, *more)
        made = str(sound_images(folder / "made"))
        return ["audit", "synthetic", str(root), made, "--size", "8", "--detector", "pixels", "--out", OUT]

    return HostileInput(kind, name, make, (1, 2) if turn == 0 else (2,), "bad")


def source(kind: str, name: str, file: str, write: Callable[[Path], object], *more: str) -> HostileInput:
    """A file that is the source itself."""

    def make(folder: Path) -> list[str]:
        """Write it."""
        write(folder / file)
        return audit(folder / file, *more)

    return HostileInput(kind, name, make, names="x-" if "-" in file else file)


def source_without_labels(kind: str, name: str, file: str, write: Callable[[Path], object]) -> HostileInput:
    """As `source`, for an audit that needs no labels."""

    def make(folder: Path) -> list[str]:
        """Write it, and images that were made of it."""
        write(folder / file)
        made = sound_images(folder / "made")
        words = ("--size", "8", "--detector", "pixels", "--out", OUT)
        return ["audit", "synthetic", str(folder / file), str(made), *words]

    return HostileInput(kind, name, make, names=file)


def cuts(data: bytes, places: tuple[int, ...]) -> Iterator[tuple[int, bytes]]:
    """What is left of a file that ends at each of some places."""
    return ((place, data[:place]) for place in places if place < len(data))


def patched(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]


NO_PIXELS = {"NaN": np.nan, "infinity": np.inf, "minus infinity": -np.inf}


def gzip_of(head: bytes, zeros: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 24)
    parts = [packer.compress(head), *(packer.compress(block) for _ in range(zeros >> 24))]
    return b"".join([*parts, packer.flush()])


def table_of_images(kind: str, name: str, file: str, content: bytes | Callable[[], bytes], *more: str) -> HostileInput:
    """A table beside images ``a/0.png`` and so on; every other one joins it as labels."""
    _turn[0] += 1
    joined = _turn[0] % 2 == 0 and not more

    def make(folder: Path) -> list[str]:
        """Write it."""
        root = sound_images(folder / "set")
        table = root / file if not joined else folder / file
        table.write_bytes(content() if callable(content) else content)
        return audit(root, "--labels-csv", table) if joined else audit(table, *more)

    return HostileInput(kind, name, make, names=file.partition(".")[0])
