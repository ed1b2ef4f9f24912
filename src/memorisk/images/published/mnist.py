"""Handwritten digits and related sets: the built-in digits, MNIST, Fashion-MNIST, and MedMNIST by name.

The built-in digits: 1,797 scans of handwritten digits, 8 x 8 pixels, made long-tailed by a fixed rule. The recipe
was fixed before anything was trained on it: digits 0, 1, 2 and 3 keep 20, 30, 45 and 60 images, in this order; the
other six classes stay whole (1,232 images in all). The scans are scikit-learn's; those kept are evenly spaced in
its order, so that they do not come from one stretch of it, where neighbours may share a writer. The writer of a digit
is not recorded: each image is its own group.

MNIST (LeCun et al. 1998) and Fashion-MNIST (Xiao et al. 2017): four idx files of the same names.
``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte``, ``t10k-labels-idx1-ubyte``,
each gzipped or not, also spelt ``train-images.idx3-ubyte`` as some programs unpack them. A part whose images are
absent is left out, with a note. The two data sets share names and sizes: where the official numbers of images are
present, the counts of the labels distinguish them (Fashion-MNIST has equally many of each class, MNIST does not).

MedMNIST (Yang et al. 2023): ``medmnist:dermamnist``, ``medmnist:dermamnist_224@FOLDER``. A file ``NAME.npz`` (28
px) or ``NAME_64``, ``_128``, ``_224.npz`` is searched for in the folder after ``@``, or else in ``$MEDMNIST_ROOT``
and then ``~/.medmnist``, where the medmnist package puts them. Nothing is downloaded. MedMNIST does not publish which
images share a patient.
"""

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import find_root, note_count, refuse_links_out
from memorisk.images.readers.arrays import open_rows, whole_array
from memorisk.images.readers.records import idx_header
from memorisk.images.readers.registry import BUILTIN_DIGITS, decoding
from memorisk.images.sources.arrays import load_arrays
from memorisk.images.sources.draft import Draft, finish_draft
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

MNIST_CLASSES = tuple("0123456789")
FASHION_MNIST_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
MNIST_SIDE = 28
MNIST_N_IMAGES = 70_000
_MNIST_OFFICIAL_PARTS = {"train": 60_000, "test": 10_000}
_MNIST_FILES = {"train": "train", "test": "t10k"}
_MNIST_DIMENSIONS = {"images": 3, "labels": 1}
_MNIST_NOTES = {
    "mnist": "Label: the digit. Group: each image its own; who wrote which digit is not in these files.",
    "fashion-mnist": "Label: the class, by its official name. Group: each image its own; no products are published.",
}


def load_mnist(folder: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of MNIST.

    Args:
        folder: Folder with the idx files, or one above it.
        options: Options by which images are read later.

    Returns:
        Manifest: ``image`` is ``train/00000`` or ``test/00000`` by the order in the file, ``label`` the digit,
        ``split`` the official one; every image is its own group.

    Raises:
        InputError: The folder has no images, a part has no labels, or a file has another form than its name implies.
    """
    return _load_idx_set("mnist", MNIST_CLASSES, folder, options)


def load_fashion_mnist(folder: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of Fashion-MNIST, like :func:`load_mnist`; labels are the official names of the classes.

    Raises:
        InputError: The same errors as :func:`load_mnist`.
    """
    return _load_idx_set("fashion-mnist", FASHION_MNIST_CLASSES, folder, options)


def _load_idx_set(name: str, classes: tuple[str, ...], folder: Path, options: ImageOptions) -> Manifest:
    notes: list[str] = []
    expected = f"{_mnist_plain('train', 'images')}(.gz) or {_mnist_plain('test', 'images')}(.gz)"
    root = find_root(folder, name, _mnist_holds, expected, notes)
    draft = Draft(table=pd.DataFrame(), root=root, name=name, notes=notes, kind="arrays")
    tables, read = [], []
    for split in _MNIST_FILES:
        images, labels = _mnist_file(root, split, "images"), _mnist_file(root, split, "labels")
        if images is None:
            alone = f"; {labels.name} lies there without them" if labels else ""
            notes.append(f"No {_mnist_plain(split, 'images')} is there{alone}: the official {split} part is not read.")
            continue
        if labels is None:
            raise InputError(
                f"{name}: {one_line(images.name)} has no labels beside it; put {_mnist_plain(split, 'labels')}(.gz) "
                "there, or move the images away to read the other part alone"
            )
        refuse_links_out(root, (images, labels), options, name)
        values = _mnist_part_labels(name, split, images, labels)
        read += [images.name, labels.name]
        tables.append(_mnist_rows(split, images.name, [classes[value] for value in values.tolist()]))
    draft.table = pd.concat(tables, ignore_index=True)
    draft.table["dataset"] = name
    draft.notes.append(_MNIST_NOTES[name])
    draft.notes.append(f"Read: {', '.join(one_line(file) for file in read)}.")
    note_count(draft, MNIST_N_IMAGES)
    return finish_draft(draft, options)


def _mnist_holds(folder: Path) -> bool:
    return any(_mnist_file(folder, split, "images") for split in _MNIST_FILES)


def _mnist_plain(split: str, kind: str) -> str:
    return f"{_MNIST_FILES[split]}-{kind}-idx{_MNIST_DIMENSIONS[kind]}-ubyte"


def _mnist_file(folder: Path, split: str, kind: str) -> Path | None:
    """Return the file of a part in any of its spellings, the unpacked one first."""
    plain = _mnist_plain(split, kind)
    dotted = plain.replace("-idx", ".idx")
    spellings = (plain, dotted, f"{plain}.gz", f"{dotted}.gz")
    return next((folder / spelling for spelling in spellings if (folder / spelling).is_file()), None)


def _mnist_part_labels(name: str, split: str, images: Path, labels: Path) -> np.ndarray:
    """Return the labels of a part, whole numbers [n], after a check of both its files.

    Raises:
        InputError: A file has another form than its name implies, the two do not match, or the labels are those of the
            other data set.
    """
    with decoding(images):
        n, *sides = _mnist_checked_shape(name, images, "images")
        if sides != [MNIST_SIDE, MNIST_SIDE]:
            raise InputError(f"{name}: {one_line(images)} holds images of {sides[0]} x {sides[1]} pixels, not 28 x 28")
        open_rows(images, None)
    with decoding(labels):
        (n_labels,) = _mnist_checked_shape(name, labels, "labels")
        if n_labels != n:
            raise InputError(
                f"{name}: {one_line(labels)} has {n_labels:,} labels for the {n:,} images of {one_line(images.name)}; "
                "get both from the same place"
            )
        values = whole_array(labels, None)
    strange = np.flatnonzero(values > 9)
    if len(strange):
        raise InputError(
            f"{name}: {one_line(labels)} has the label {values[strange[0]]} for image {strange[0]}; those of {name} "
            "are 0 to 9, so this is another data set"
        )
    balanced = len(set(np.bincount(values, minlength=10).tolist())) == 1
    if n == _MNIST_OFFICIAL_PARTS[split] and balanced != (name == "fashion-mnist"):
        other, has = ("fashion-mnist", "equally many") if balanced else ("mnist", "unequal numbers")
        raise InputError(
            f"{name}: {one_line(labels)} has {has} of each class, as {other} and not {name} has; give {other}:FOLDER "
            "if that is meant, the files of both have the same names"
        )
    return values


def _mnist_checked_shape(name: str, path: Path, kind: str) -> tuple[int, ...]:
    """Return the dimensions that an idx file declares.

    Raises:
        InputError: Its header does not declare bytes in the number of dimensions of its name.
    """
    header = idx_header(path)
    dimensions = _MNIST_DIMENSIONS[kind]
    if header.dtype != np.uint8 or len(header.shape) != dimensions:
        raise InputError(
            f"{name}: {one_line(path)} declares {len(header.shape)} dimensions of {header.dtype.name}, not the "
            f"{dimensions} of uint8 (magic number {2048 + dimensions}) of {kind}; it is another file, get it anew"
        )
    return header.shape


def _mnist_rows(split: str, file: str, labels: list[str]) -> pd.DataFrame:
    """Return a part's rows of the manifest, in the order of its files."""
    table = pd.DataFrame({"image": [f"{split}/{i:05d}" for i in range(len(labels))]}, dtype=object)
    table["path"], table["member"], table["split"] = file, "", split
    table["label"] = labels
    table["frame"] = pd.array(range(len(labels)), dtype="Int64")
    return table


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
        options: Options as for a file of arrays (``images.sources.arrays.load_arrays``).

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
    path, others = _medmnist_find(name, [Path(folder).expanduser()] if folder else _medmnist_usual_places())
    manifest = load_arrays(path, options)
    notes = [f"MedMNIST: {one_line(path.name)}; its labels are numbers, and no patients are published."]
    if others:
        notes.append(f"Other sizes are there, too ({listed(others)}): name one to read it.")
    return replace(manifest, notes=(*manifest.notes, *notes))


def _medmnist_usual_places() -> list[Path]:
    root = os.environ.get("MEDMNIST_ROOT")
    return [*([Path(root).expanduser()] if root else []), Path.home() / ".medmnist"]


def _medmnist_find(name: str, places: list[Path]) -> tuple[Path, list[str]]:
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
    known = [f"{flat}{size}.npz" for flat in MEDMNIST_2D for size in MEDMNIST_SIZES]
    files = [file for place in places for file in known if (place / file).is_file()]
    held = f"; there are {listed(files)}" if files else ""
    raise InputError(
        f"medmnist: no file {name}.npz in {places_shown}{held}; get it from medmnist.com (nothing is downloaded here), "
        f"then put it there, set MEDMNIST_ROOT, or give medmnist:{name}@FOLDER"
    )


IMAGES_PER_DIGIT = {0: 20, 1: 30, 2: 45, 3: 60}


@lru_cache(maxsize=1)
def _digit_scans() -> tuple[np.ndarray, np.ndarray]:
    """Return all scans as uint8 [1797, 8, 8, 1] (17 greys 0..16 spread over 0..255) and their digits [1797]."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)  # [1797, 64], [1797]
    greys = np.rint(np.asarray(pixels) * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    greys.flags.writeable = False
    return greys, np.asarray(digits)


def digits_rows() -> np.ndarray:
    """Return the indices in scikit-learn's order of the images that the recipe keeps, ascending, [1232]."""
    _, digits = _digit_scans()
    rows = []
    for digit in range(10):
        of_class = np.flatnonzero(digits == digit)
        n = IMAGES_PER_DIGIT.get(digit, len(of_class))
        rows.append(of_class[np.arange(n) * len(of_class) // n])
    return np.sort(np.concatenate(rows))


def digits_manifest() -> Manifest:
    """Return the built-in manifest: ``digit-0000`` to ``digit-1796`` by scikit-learn's order, labels ``0`` to ``9``."""
    _, digits = _digit_scans()
    rows = digits_rows()
    names = [f"digit-{row:04d}" for row in rows]
    table = pd.DataFrame(
        {
            "image": names,
            "path": BUILTIN_DIGITS,
            "label": [str(digits[row]) for row in rows],
            "group": names,
            "dataset": "digits",
            "frame": pd.array(rows, dtype="Int64"),
        }
    )
    return Manifest(table=table, root=None, name="digits")


def read_digit(frame: int | None) -> np.ndarray:
    """Return one scan by its index in scikit-learn's order, uint8 [8, 8, 1].

    Raises:
        InputError: No scan has that index.
    """
    scans, _ = _digit_scans()
    if frame is None or not 0 <= frame < len(scans):
        raise InputError(f"the built-in digits have frames 0 to {len(scans) - 1}, not {frame}")
    return scans[frame].copy()
