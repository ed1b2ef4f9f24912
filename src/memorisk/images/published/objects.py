"""Small photographs of objects in their published binary form: CIFAR-10, CIFAR-100, STL-10 and SVHN.

CIFAR-10 and CIFAR-100 (Krizhevsky 2009), STL-10 (Coates et al. 2011) and SVHN (Netzer et al. 2011) are read as
torchvision unpacks them: ``cifar-10-batches-bin``, ``cifar-100-binary``, ``stl10_binary``, ``train_32x32.mat`` and
``test_32x32.mat``. CIFAR-10 has records in six files: ``data_batch_1.bin`` to ``data_batch_5.bin`` are the official
training part, ``test_batch.bin`` the test part, ``batches.meta.txt`` the names of the classes. The Python versions
of CIFAR-10 and CIFAR-100 are pickled, which could run anything on loading: they are refused.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import find_root, folders_down, note_count, refuse_links_out
from memorisk.images.readers.records import count_frames, count_svhn, record_labels, svhn_matrix
from memorisk.images.readers.registry import CIFAR10_RECORDS, CIFAR100_RECORDS, STL10_RECORDS, SVHN_MATRIX, decoding
from memorisk.images.sources.draft import Draft, finish_draft
from memorisk.runs.errors import InputError, listed, one_line

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_N_IMAGES = 60_000
_CIFAR10_BATCHES = {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)}
_CIFAR10_META = "batches.meta.txt"
_CIFAR10_PICKLED = ("data_batch_1", "test_batch")


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
        root = find_root(folder, name, _cifar10_holds, "data_batch_1.bin or test_batch.bin", notes)
    except InputError:
        _cifar10_refuse_pickles(folder)
        raise
    draft = Draft(table=pd.DataFrame(), root=root, name=name, notes=notes, kind="arrays")
    _cifar10_check_names(root)
    tables = []
    for split, files in _CIFAR10_BATCHES.items():
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
            tables.append(_cifar10_part(root, split, files))
    draft.table = pd.concat(tables, ignore_index=True)
    draft.table["dataset"] = name
    draft.notes.append("Label: the class, by its official name. Group: each image its own; no origin is published.")
    note_count(draft, CIFAR10_N_IMAGES)
    return finish_draft(draft, options)


def _cifar10_holds(folder: Path) -> bool:
    return any((folder / file).is_file() for files in _CIFAR10_BATCHES.values() for file in files)


def _cifar10_refuse_pickles(folder: Path) -> None:
    """Say that the Python version cannot be read, where it is all that is there.

    Raises:
        InputError: It is.
    """
    places = folders_down(folder)
    pickled = [place for place in places if any((place / file).is_file() for file in _CIFAR10_PICKLED)]
    if pickled and not any(_cifar10_holds(place) for place in places):
        raise InputError(
            f"cifar10: {one_line(pickled[0])} holds the Python version, whose files are pickled and are never loaded; "
            "get the binary version (cifar-10-binary.tar.gz) and give its folder cifar-10-batches-bin, or in Python "
            "save what torchvision read (memorisk.save_dataset)"
        )


def _cifar10_check_names(root: Path) -> None:
    """Refuse a table of names that are not CIFAR-10's; without one the official names are taken.

    Raises:
        InputError: The names or their order differ.
    """
    path = root / _CIFAR10_META
    if not path.is_file():
        return
    with decoding(path), path.open("rb") as file:
        names = file.read(4096).decode("utf-8", errors="replace").split()
    if names != list(CIFAR10_CLASSES):
        raise InputError(
            f"cifar10: {one_line(path)} names {listed(names, 3) or 'nothing'}, not {listed(CIFAR10_CLASSES, 3)}; this "
            "is another data set, or unpack cifar-10-binary.tar.gz anew"
        )


def _cifar10_part(root: Path, split: str, files: tuple[str, ...]) -> pd.DataFrame:
    """A part's rows of the manifest, batch after batch.

    Raises:
        InputError: A file is no whole number of records, or has a label above 9.
    """
    tables = []
    for file in files:
        with decoding(root / file):
            labels = record_labels(root / file)
        strange = np.flatnonzero(labels >= len(CIFAR10_CLASSES))
        if len(strange):
            raise InputError(
                f"cifar10: {one_line(root / file)} has the label {labels[strange[0]]} in record {strange[0]}; those of "
                "CIFAR-10 are 0 to 9, so this is another file, unpack cifar-10-binary.tar.gz anew"
            )
        table = pd.DataFrame({"label": [CIFAR10_CLASSES[value] for value in labels.tolist()]}, dtype=object)
        table["path"], table["member"], table["split"] = file, CIFAR10_RECORDS, split
        table["frame"] = pd.array(range(len(labels)), dtype="Int64")
        tables.append(table)
    part = pd.concat(tables, ignore_index=True)
    part["image"] = [f"{split}/{i:05d}" for i in range(len(part))]
    return part


_STL_CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")


def load_cifar100(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of CIFAR-100's binary version: the label is the fine class, the coarse one is a column.

    Raises:
        InputError: Only the Python version is there, or a file is not one of CIFAR-100's.
    """
    name, files, notes = "cifar100", {"train": "train.bin", "test": "test.bin"}, []
    try:
        root = find_root(folder, name, lambda place: _holds_any(place, files), "train.bin or test.bin", notes)
    except InputError:
        _refuse_cifar100_pickles(folder)
        raise
    fine, coarse = _class_names(root, "fine_label_names.txt", 100), _class_names(root, "coarse_label_names.txt", 20)
    tables = []
    for split, file in _present(root, files, options, name, notes):
        with decoding(root / file):
            numbers = record_labels(root / file, CIFAR100_RECORDS, 1), record_labels(root / file, CIFAR100_RECORDS, 0)
        labels = [_labelled(v, n, root / file) for v, n in zip(numbers, (fine, coarse), strict=True)]
        tables.append(_table(split, file, CIFAR100_RECORDS, labels[0]).assign(coarse=labels[1]))
    return _finish(Draft(pd.concat(tables), root, name, notes, kind="arrays"), options, 60_000)


def load_stl10(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of STL-10's labelled images; the 100,000 without a label are left out.

    Raises:
        InputError: A file is absent or not one of STL-10's.
    """
    name, files, notes = "stl10", {"train": "train_X.bin", "test": "test_X.bin"}, []
    root = find_root(folder, name, lambda place: _holds_any(place, files), "train_X.bin or test_X.bin", notes)
    classes = _class_names(root, "class_names.txt", 10) or list(_STL_CLASSES)
    tables = []
    for split, file in _present(root, files, options, name, notes):
        labels = root / file.replace("_X", "_y")
        if not labels.is_file():
            raise InputError(f"{name}: {one_line(root)} lacks {labels.name}; unpack stl10_binary.tar.gz anew")
        refuse_links_out(root, [labels], options, name)
        with decoding(root / file):
            n = count_frames(root / file, STL10_RECORDS)
        values = np.fromfile(labels, dtype=np.uint8)
        if len(values) != n:
            raise InputError(f"{name}: {labels.name} has {len(values):,} labels, for {n:,} images of {file}")
        tables.append(_table(split, file, STL10_RECORDS, _labelled(values.astype(int) - 1, classes, labels)))
    if (root / "unlabeled_X.bin").is_file():
        notes.append("The images without labels, unlabeled_X.bin, are left out.")
    return _finish(Draft(pd.concat(tables), root, name, notes, kind="arrays"), options, 13_000)


def load_svhn(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of SVHN's cropped digits, training and test part; ``extra_32x32.mat`` is left out.

    Raises:
        InputError: A file is not one of SVHN's.
    """
    name, files, notes = "svhn", {"train": "train_32x32.mat", "test": "test_32x32.mat"}, []
    root = find_root(folder, name, lambda place: _holds_any(place, files), "train_32x32.mat or test_32x32.mat", notes)
    tables = []
    for split, file in _present(root, files, options, name, notes):
        with decoding(root / file):
            count_svhn(root / file)
            values = svhn_matrix(root / file, "y").ravel().astype(int) % 10  # the digit 0 is called 10
        tables.append(_table(split, file, SVHN_MATRIX, _labelled(values, [str(d) for d in range(10)], root / file)))
    if (root / "extra_32x32.mat").is_file():
        notes.append("The further training images of extra_32x32.mat are left out.")
    return _finish(Draft(pd.concat(tables), root, name, notes, kind="arrays"), options, 99_289)


def _holds_any(folder: Path, files: dict[str, str]) -> bool:
    return any((folder / file).is_file() for file in files.values())


def _present(
    root: Path, files: dict[str, str], options: ImageOptions, name: str, notes: list[str]
) -> list[tuple[str, str]]:
    """Split and file of the parts that are there; the absent one is noted."""
    there = [(split, file) for split, file in files.items() if (root / file).is_file()]
    refuse_links_out(root, [root / file for _, file in there], options, name)
    for split, file in files.items():
        if (split, file) not in there:
            notes.append(f"No {file} is there: the official {split} part is not read.")
    return there


def _class_names(root: Path, file: str, n: int) -> list[str]:
    """Names of the classes from a file of lines; none where it is absent.

    Raises:
        InputError: It has another number of names.
    """
    if not (root / file).is_file():
        return []
    with decoding(root / file), (root / file).open("rb") as stream:
        names = stream.read(1 << 16).decode("utf-8", errors="replace").split()
    if len(names) != n:
        raise InputError(f"{one_line(root / file)}: names {len(names)} classes ({listed(names, 3)}), not {n}")
    return names


def _labelled(values: np.ndarray, names: list[str], file: Path) -> list[str]:
    """Labels by name, or as numbers where no names are there.

    Raises:
        InputError: One has no name.
    """
    strange = [int(v) for v in np.unique(values) if names and not 0 <= v < len(names)]
    if strange:
        raise InputError(f"{one_line(file)}: has the label {strange[0]}, of {len(names)}; it is another file")
    return [names[v] if names else str(v) for v in values.tolist()]


def _table(split: str, file: str, member: str, labels: list[str]) -> pd.DataFrame:
    table = pd.DataFrame({"image": [f"{split}/{i:05d}" for i in range(len(labels))], "label": labels}, dtype=object)
    table["path"], table["member"], table["split"] = file, member, split
    table["frame"] = pd.array(range(len(labels)), dtype="Int64")
    return table


def _finish(draft: Draft, options: ImageOptions, official: int) -> Manifest:
    draft.table = draft.table.reset_index(drop=True).assign(dataset=draft.name)
    draft.notes.append("Label: the class. Group: each image its own; no origin is published.")
    note_count(draft, official)
    return finish_draft(draft, options)


def _refuse_cifar100_pickles(folder: Path) -> None:
    """Say that the Python version cannot be read, where it is all that is there.

    Raises:
        InputError: It is.
    """
    for place in folders_down(folder):
        if (place / "meta").is_file() and (place / "train").is_file():
            raise InputError(
                f"cifar100: {one_line(place)} holds the Python version, whose files are pickled and are never loaded; "
                "get the binary version (cifar-100-binary.tar.gz), or in Python save what torchvision read "
                "(memorisk.save_dataset)"
            )
