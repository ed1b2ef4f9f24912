"""Folders of images that somebody's own training left: one for each step, as ``step-1000`` or ``samples_2000``."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from memorisk.audits.generated.image_sets import decode_alike
from memorisk.audits.synthetic.sets import TRAIN
from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.real import RealImages
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Progress

SYNTHETIC = "drawn"
_STEP = re.compile(r"(?:.*[^0-9])?(\d{1,15})")


@dataclass(frozen=True)
class ImageFolder:
    """The images of a step."""

    folder: Path
    step: int


def image_folders(folder: Path) -> list[ImageFolder]:
    """The folders in it whose names end in a number, by that number.

    Raises:
        InputError: Two have one number.
    """
    found = [
        ImageFolder(place, step)
        for place in sorted(folder.iterdir())
        if place.is_dir() and (step := step_of(place.name)) is not None
    ]
    found.sort(key=lambda one: one.step)
    for one, other in pairwise(found):
        if one.step == other.step:
            names = f"{one_line(one.folder.name, 60)} and {one_line(other.folder.name, 60)}"
            raise InputError(f"{names} are both of step {one.step}: rename or move one of them")
    return found


def step_of(name: str) -> int | None:
    """The step of a folder of this name, or None where it is none."""
    match = None if name.startswith(".") else _STEP.fullmatch(name)
    return None if match is None else int(match[1])


def read_folder(
    place: ImageFolder, real: RealImages, options: WatchOptions, progress: Progress, *, fewest: int = 1
) -> ImageStore | None:
    """``options.images`` images of a folder, evenly over its order, decoded as the real ones are.

    Args:
        place: The folder.
        real: What they will be compared with.
        options: How images are read.
        progress: Called with (stage, done, total).
        fewest: Where there are fewer, the folder is still being written: None.

    Raises:
        InputError: They cannot be read, or differ from the real ones in size.
    """
    try:
        manifest = load_manifest(place.folder, options.of_synthetic())
        if manifest.n < fewest:
            return None
        rows = np.linspace(0, manifest.n - 1, min(manifest.n, options.images)).round().astype(np.int64)
        how = options.of_synthetic()
        given = {TRAIN: real.train, SYNTHETIC: manifest.subset(rows)}
        return decode_alike(given, {TRAIN: how, SYNTHETIC: how}, progress)[SYNTHETIC]
    except InputError:
        if fewest > 1:  # an image is half written
            return None
        raise
