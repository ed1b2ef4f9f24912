"""CIFAR-10 (Krizhevsky 2009) as published in its binary version: ``cifar-10-batches-bin``, records in six files.

``data_batch_1.bin`` to ``data_batch_5.bin`` are the official training part, ``test_batch.bin`` the test part,
``batches.meta.txt`` the names of the classes. The Python version of the data set is pickled, which could run anything
on loading: it is refused.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.decoding.formats import CIFAR10_RECORDS
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import find_root, folders_down, note_count, refuse_links_out
from memorisk.images.readers.records import record_labels
from memorisk.images.readers.registry import decoding
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
N_IMAGES = 60_000
_BATCHES = {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)}
_META = "batches.meta.txt"
_PICKLED = ("data_batch_1", "test_batch")


def load_cifar10(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of CIFAR-10's binary version.

    Args:
        folder: The folder with the ``.bin`` files, or one above it.
        options: How images are read later.

    Returns:
        ``image`` is ``train/00000`` (counted through the five batches) or ``test/00000``, ``label`` the name of the
        class, ``split`` the official one; every image is its own group.

    Raises:
        InputError: Only the Python version is there, a batch is missing, or a file is not one of CIFAR-10's.
    """
    name, notes = "cifar10", []
    try:
        root = find_root(folder, name, _holds, "data_batch_1.bin or test_batch.bin", notes)
    except InputError:
        _refuse_pickles(folder)
        raise
    draft = Draft(table=pd.DataFrame(), root=root, name=name, notes=notes, kind="arrays")
    _check_names(root)
    tables = []
    for split, files in _BATCHES.items():
        absent = [file for file in files if not (root / file).is_file()]
        if len(absent) == len(files):
            notes.append(f"No {listed(absent)} is there: the official {split} part is not read.")
        elif absent:
            raise InputError(
                f"{name}: {one_line(root)} lacks {listed(absent)} of the five batches of the training part; unpack "
                "cifar-10-binary.tar.gz anew"
            )
        else:
            refuse_links_out(root, [root / file for file in files], options, name)
            tables.append(_part(root, split, files))
    draft.table = pd.concat(tables, ignore_index=True)
    draft.table["dataset"] = name
    draft.notes.append("Label: the class, by its official name. Group: each image its own; no origin is published.")
    note_count(draft, N_IMAGES)
    return finish(draft, options)


def _holds(folder: Path) -> bool:
    return any((folder / file).is_file() for files in _BATCHES.values() for file in files)


def _refuse_pickles(folder: Path) -> None:
    """Say that the Python version cannot be read, where it is all that is there.

    Raises:
        InputError: It is.
    """
    places = folders_down(folder)
    pickled = [place for place in places if any((place / file).is_file() for file in _PICKLED)]
    if pickled and not any(_holds(place) for place in places):
        raise InputError(
            f"cifar10: {one_line(pickled[0])} holds the Python version, whose files are pickled and are never loaded; "
            "get the binary version (cifar-10-binary.tar.gz) and give its folder cifar-10-batches-bin, or in Python "
            "save what torchvision read (memorisk.save_dataset)"
        )


def _check_names(root: Path) -> None:
    """Refuse a table of names that are not CIFAR-10's; without one the official names are taken.

    Raises:
        InputError: The names or their order differ.
    """
    path = root / _META
    if not path.is_file():
        return
    with decoding(path), path.open("rb") as file:
        names = file.read(4096).decode("utf-8", errors="replace").split()
    if names != list(CLASSES):
        raise InputError(
            f"cifar10: {one_line(path)} names {listed(names, 3) or 'nothing'}, not {listed(CLASSES, 3)}; this is "
            "another data set, or unpack cifar-10-binary.tar.gz anew"
        )


def _part(root: Path, split: str, files: tuple[str, ...]) -> pd.DataFrame:
    """A part's rows of the manifest, batch after batch.

    Raises:
        InputError: A file is no whole number of records, or has a label above 9.
    """
    tables = []
    for file in files:
        with decoding(root / file):
            labels = record_labels(root / file)
        strange = np.flatnonzero(labels >= len(CLASSES))
        if len(strange):
            raise InputError(
                f"cifar10: {one_line(root / file)} has the label {labels[strange[0]]} in record {strange[0]}; those of "
                "CIFAR-10 are 0 to 9, so this is another file, unpack cifar-10-binary.tar.gz anew"
            )
        table = pd.DataFrame({"label": [CLASSES[value] for value in labels.tolist()]}, dtype=object)
        table["path"], table["member"], table["split"] = file, CIFAR10_RECORDS, split
        table["frame"] = pd.array(range(len(labels)), dtype="Int64")
        tables.append(table)
    part = pd.concat(tables, ignore_index=True)
    part["image"] = [f"{split}/{i:05d}" for i in range(len(part))]
    return part
