"""What must be said of the images and patients that a generator's training was given: few held out, mixed kinds."""

import numpy as np

from memorisk.images.decoding.headers import image_header
from memorisk.images.options import ImageOptions
from memorisk.images.resize import is_grey
from memorisk.images.store import ImageStore
from memorisk.runs.errors import several
from memorisk.training.detectors.contrastive.parts import Division

FEWEST = 19
"""Patients without whom there is no share at the usual nominal rate of 1 in 20."""
MOST_LOOKED_AT = 512
_RESIZED = {
    "squash": "squashed to a square, which changes their proportions",
    "crop": "cropped to the middle square",
    "pad": "padded with black to a square",
}


def notes_on_inputs(store: ImageStore, parts: Division, options: ImageOptions) -> tuple[str, ...]:
    """A sentence each; of more than 512 training images that many, evenly spread, are looked at.

    Args:
        store: The images.
        parts: How their patients are divided.
        options: How they were read.
    """
    rows = parts.rows["training"]
    looked = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_LOOKED_AT)).astype(int))]
    told = several(len(looked), "training image", "training images") + (" looked at" if len(looked) < len(rows) else "")
    return (*_few(parts), *_shapes(store, looked, told, options), *_colours(store, looked, told))


def _few(parts: Division) -> list[str]:
    """Of parts that are too small for what they are held out for."""
    wants = {
        "validation": "No memorized share is possible while it trains",
        "test": "No final audit with held-out patients is possible",
    }
    said, counts = [], parts.counts
    for name, what in wants.items():
        if (n := counts[name]["patients"]) < FEWEST:
            said.append(f"{what} with {several(n, f'{name} patient', f'{name} patients')}: it needs {FEWEST}.")
    return said


def _shapes(store: ImageStore, rows: np.ndarray, told: str, options: ImageOptions) -> list[str]:
    """Of files of another shape than a square, and of several depths, by the headers of those that have one."""
    member = store.manifest.table.get("member")
    files = [(store.manifest.file(row), "" if member is None else str(member.iloc[row] or "")) for row in rows.tolist()]
    read = {one: image_header(*one) for one in dict.fromkeys(files)}  # many images share a file
    headers = [header for one in files if (header := read[one]) is not None]
    oblong = sum(header.width != header.height for header in headers)
    deep, known = sum(header.deep for header in headers), len(headers)
    said = []
    if oblong and options.size is not None:
        are = "is no square and was" if oblong == 1 else "are no squares and were"
        said.append(f"{oblong:,} of {told} {are} {_RESIZED[options.resize]} (resize {options.resize}).")
    if 0 < deep < known:
        said.append(f"Depths are mixed: {deep:,} of {told} have more than 8 bits a pixel, {known - deep:,} have 8.")
    return said


def _colours(store: ImageStore, rows: np.ndarray, told: str) -> list[str]:
    """Of grey images among coloured ones."""
    if store.images.shape[-1] != 3:
        return []
    grey = sum(is_grey(store.images[row]) for row in rows.tolist())
    if not 0 < grey < len(rows):
        return []
    return [f"Of {told} {grey:,} are grey and {len(rows) - grey:,} coloured: the generator draws RGB."]
