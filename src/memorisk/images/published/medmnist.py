"""MedMNIST (Yang et al. 2023) by name: ``medmnist:dermamnist``, ``medmnist:dermamnist_224@FOLDER``.

A file ``NAME.npz`` (28 px) or ``NAME_64``, ``_128``, ``_224.npz`` is looked for in the folder after ``@``, or else in
``$MEDMNIST_ROOT`` and then ``~/.medmnist``, where the medmnist package puts them. Nothing is downloaded. Which images
share a patient was not published.
"""

import os
from dataclasses import replace
from pathlib import Path

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.arrays import load_arrays
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line, unknown_name

FLAT = (
    *("pathmnist", "chestmnist", "dermamnist", "octmnist", "pneumoniamnist", "retinamnist", "breastmnist"),
    *("bloodmnist", "tissuemnist", "organamnist", "organcmnist", "organsmnist"),
)
SOLID = (*("organmnist3d", "nodulemnist3d", "adrenalmnist3d", "fracturemnist3d", "vesselmnist3d", "synapsemnist3d"),)
SIZES = ("", "_64", "_128", "_224")


def load_medmnist(rest: str, options: ImageOptions) -> Manifest:
    """The manifest of a MedMNIST data set that lies on the disk.

    Args:
        rest: ``NAME`` or ``NAME_SIZE``, and ``@FOLDER`` where the file is not in a usual place. Without a size the
            28 px file is meant; where it is absent, the only other one.
        options: As for a file of arrays (``images.sources.arrays.load_arrays``).

    Returns:
        The manifest; ``split`` is the official one.

    Raises:
        InputError: The name is unknown or three-dimensional, or the file is in none of the places.
    """
    given, at, folder = rest.partition("@")
    name = given.strip().lower().removesuffix(".npz")
    base, _, size = name.partition("_")
    if base in SOLID:
        raise InputError(
            f"medmnist: {base} holds volumes, and images are two-dimensional here; choose among {listed(FLAT, 12)}"
        )
    if base not in FLAT:
        raise unknown_name("MedMNIST data set", given, FLAT)
    if size and f"_{size}" not in SIZES:
        raise unknown_name(f"size of {base}:", size, [s[1:] for s in SIZES[1:]])
    if at and not folder:
        raise InputError(f"medmnist: no folder after '@'; give medmnist:{name}@FOLDER, or leave '@' out")
    path, others = _find(name, [Path(folder).expanduser()] if folder else _usual_places())
    manifest = load_arrays(path, options)
    notes = [f"MedMNIST: {one_line(path.name)}; its labels are numbers, and no patients are published."]
    if others:
        notes.append(f"Other sizes are there, too ({listed(others)}): name one to read it.")
    return replace(manifest, notes=(*manifest.notes, *notes))


def _usual_places() -> list[Path]:
    root = os.environ.get("MEDMNIST_ROOT")
    return [*([Path(root).expanduser()] if root else []), Path.home() / ".medmnist"]


def _find(name: str, places: list[Path]) -> tuple[Path, list[str]]:
    """The file of a name in the first place that has one, and the other sizes beside it.

    Raises:
        InputError: It is nowhere, or several sizes are there and none is the plain one.
    """
    base = name.partition("_")[0]
    for place in places:
        there = [f"{base}{size}.npz" for size in SIZES if (place / f"{base}{size}.npz").is_file()]
        if f"{name}.npz" in there:
            return place / f"{name}.npz", [other for other in there if other != f"{name}.npz"]
        if name == base and len(there) > 1:
            raise InputError(
                f"medmnist: {listed(there)} are in {one_line(place)}; name one, as medmnist:{there[-1][:-4]}"
            )
        if name == base and there:
            return place / there[0], []
    looked = " and ".join(one_line(place) for place in places)
    known = [f"{flat}{size}.npz" for flat in FLAT for size in SIZES]
    found = [file for place in places for file in known if (place / file).is_file()]
    held = f"; there are {listed(found)}" if found else ""
    raise InputError(
        f"medmnist: no file {name}.npz in {looked}{held}; get it from medmnist.com (nothing is downloaded here), then "
        f"put it there, set MEDMNIST_ROOT, or give medmnist:{name}@FOLDER"
    )
