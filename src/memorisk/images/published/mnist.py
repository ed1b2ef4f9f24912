"""MNIST (LeCun et al. 1998) and Fashion-MNIST (Xiao et al. 2017): four idx files of the same names.

``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte``, ``t10k-labels-idx1-ubyte``,
each gzipped or not, also spelt ``train-images.idx3-ubyte`` as some programs unpack them. A part whose images are
absent is left out, with a note. The two data sets share names and sizes: where the official numbers of images are
present, the counts of the labels distinguish them (Fashion-MNIST has equally many of each class, MNIST does not).
"""

from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.draft_steps import finish_draft
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import find_root, note_count, refuse_links_out
from memorisk.images.readers.arrays import open_rows, whole_array
from memorisk.images.readers.idx import idx_header
from memorisk.images.readers.registry import decoding
from memorisk.runs.errors import InputError, one_line

MNIST_CLASSES = tuple("0123456789")
FASHION_MNIST_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_SIDE = 28
_N_IMAGES = 70_000
_OFFICIAL_PARTS = {"train": 60_000, "test": 10_000}
_FILES = {"train": "train", "test": "t10k"}
_DIMENSIONS = {"images": 3, "labels": 1}
_NOTES = {
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
    expected = f"{_plain('train', 'images')}(.gz) or {_plain('test', 'images')}(.gz)"
    root = find_root(folder, name, _holds, expected, notes)
    draft = Draft(table=pd.DataFrame(), root=root, name=name, notes=notes, kind="arrays")
    tables, read = [], []
    for split in _FILES:
        images, labels = _file(root, split, "images"), _file(root, split, "labels")
        if images is None:
            alone = f"; {labels.name} lies there without them" if labels else ""
            notes.append(f"No {_plain(split, 'images')} is there{alone}: the official {split} part is not read.")
            continue
        if labels is None:
            raise InputError(
                f"{name}: {one_line(images.name)} has no labels next to it; put {_plain(split, 'labels')}(.gz) "
                "there, or move the images away to read the other part alone"
            )
        refuse_links_out(root, (images, labels), options, name)
        values = _part_labels(name, split, images, labels)
        read += [images.name, labels.name]
        tables.append(_rows(split, images.name, [classes[value] for value in values.tolist()]))
    draft.table = pd.concat(tables, ignore_index=True)
    draft.table["dataset"] = name
    draft.notes.append(_NOTES[name])
    draft.notes.append(f"Read: {', '.join(one_line(file) for file in read)}.")
    note_count(draft, _N_IMAGES)
    return finish_draft(draft, options)


def _holds(folder: Path) -> bool:
    return any(_file(folder, split, "images") for split in _FILES)


def _plain(split: str, kind: str) -> str:
    return f"{_FILES[split]}-{kind}-idx{_DIMENSIONS[kind]}-ubyte"


def _file(folder: Path, split: str, kind: str) -> Path | None:
    """Return the file of a part in any of its spellings, the unpacked one first."""
    plain = _plain(split, kind)
    dotted = plain.replace("-idx", ".idx")
    spellings = (plain, dotted, f"{plain}.gz", f"{dotted}.gz")
    return next((folder / spelling for spelling in spellings if (folder / spelling).is_file()), None)


def _part_labels(name: str, split: str, images: Path, labels: Path) -> np.ndarray:
    """Return the labels of a part, whole numbers [n], after a check of both its files.

    Raises:
        InputError: A file has another form than its name implies, the two do not match, or the labels are those of the
            other data set.
    """
    with decoding(images):
        n, *sides = _checked_shape(name, images, "images")
        if sides != [_SIDE, _SIDE]:
            raise InputError(f"{name}: {one_line(images)} holds images of {sides[0]} x {sides[1]} pixels, not 28 x 28")
        open_rows(images, None)
    with decoding(labels):
        (n_labels,) = _checked_shape(name, labels, "labels")
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
    if n == _OFFICIAL_PARTS[split] and balanced != (name == "fashion-mnist"):
        other, has = ("fashion-mnist", "equally many") if balanced else ("mnist", "unequal numbers")
        raise InputError(
            f"{name}: {one_line(labels)} has {has} of each class, as {other} and not {name} has; give {other}:FOLDER "
            "if that is meant, the files of both have the same names"
        )
    return values


def _checked_shape(name: str, path: Path, kind: str) -> tuple[int, ...]:
    """Return the dimensions that an idx file declares.

    Raises:
        InputError: Its header does not declare bytes in the number of dimensions of its name.
    """
    header = idx_header(path)
    dimensions = _DIMENSIONS[kind]
    if header.dtype != np.uint8 or len(header.shape) != dimensions:
        raise InputError(
            f"{name}: {one_line(path)} declares {len(header.shape)} dimensions of {header.dtype.name}, not the "
            f"{dimensions} of uint8 (magic number {2048 + dimensions}) of {kind}; it is another file, get it anew"
        )
    return header.shape


def _rows(split: str, file: str, labels: list[str]) -> pd.DataFrame:
    """Return a part's rows of the manifest, in the order of its files."""
    table = pd.DataFrame({"image": [f"{split}/{i:05d}" for i in range(len(labels))]}, dtype=object)
    table["path"], table["member"], table["split"] = file, "", split
    table["label"] = labels
    table["frame"] = pd.array(range(len(labels)), dtype="Int64")
    return table
