"""MedMNIST (Yang et al. 2023) by name: ``medmnist:dermamnist``, ``medmnist:dermamnist_224@FOLDER``.

A file ``NAME.npz`` (28 px) or ``NAME_64``, ``_128``, ``_224.npz`` is searched for in the folder after ``@``, or else in
``$MEDMNIST_ROOT`` and then ``~/.medmnist``, where the medmnist package puts them. Nothing is downloaded. MedMNIST does
not publish which images share a patient.
"""

import os
from dataclasses import replace
from pathlib import Path

from memorisk.images.layouts.arrays import load_arrays
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

MEDMNIST_2D = (
    *("pathmnist", "chestmnist", "dermamnist", "octmnist", "pneumoniamnist", "retinamnist", "breastmnist"),
    *("bloodmnist", "tissuemnist", "organamnist", "organcmnist", "organsmnist"),
)
MEDMNIST_3D = (
    *("organmnist3d", "nodulemnist3d", "adrenalmnist3d", "fracturemnist3d", "vesselmnist3d", "synapsemnist3d"),
)
MEDMNIST_SIZES = ("", "_64", "_128", "_224")


def load_medmnist(rest: str, options: ImageOptions) -> Manifest:
    """Return the manifest of a MedMNIST data set that lies on the disk.

    Args:
        rest: Text ``NAME`` or ``NAME_SIZE``, and ``@FOLDER`` where the file is not in a usual place. Without a size the
            28 px file is read; where it is absent, the only other one.
        options: Options as for a file of arrays (``images.layouts.arrays.load_arrays``).

    Returns:
        Manifest of the data set; ``split`` is the official one.

    Raises:
        InputError: The name is unknown or three-dimensional, or none of the places has the file.
    """
    requested, at, folder = rest.partition("@")
    name = requested.strip().lower().removesuffix(".npz")
    base, _, size = name.partition("_")
    if base in MEDMNIST_3D:
        raise InputError(
            f"medmnist: {base} holds volumes, and images are two-dimensional here; choose among "
            f"{listed(MEDMNIST_2D, 12)}"
        )
    if base not in MEDMNIST_2D:
        raise unknown_name("MedMNIST data set", requested, MEDMNIST_2D)
    if size and f"_{size}" not in MEDMNIST_SIZES:
        raise unknown_name(f"size of {base}:", size, [s[1:] for s in MEDMNIST_SIZES[1:]])
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
    """Return the file of a name in the first place that has one, and the other sizes in the same folder.

    Raises:
        InputError: No place has the file, or a place has several sizes but not the plain one.
    """
    base = name.partition("_")[0]
    for place in places:
        available = [f"{base}{size}.npz" for size in MEDMNIST_SIZES if (place / f"{base}{size}.npz").is_file()]
        if f"{name}.npz" in available:
            return place / f"{name}.npz", [other for other in available if other != f"{name}.npz"]
        if name == base and len(available) > 1:
            raise InputError(
                f"medmnist: {listed(available)} are in {one_line(place)}; name one, as medmnist:{available[-1][:-4]}"
            )
        if name == base and available:
            return place / available[0], []
    places_shown = " and ".join(one_line(place) for place in places)
    names = [f"{flat}{size}.npz" for flat in MEDMNIST_2D for size in MEDMNIST_SIZES]
    files = [file for place in places for file in names if (place / file).is_file()]
    held = f"; there are {listed(files)}" if files else ""
    raise InputError(
        f"medmnist: no file {name}.npz in {places_shown}{held}; get it from medmnist.com (nothing is downloaded here), "
        f"then put it there, set MEDMNIST_ROOT, or give medmnist:{name}@FOLDER"
    )
