"""Small photographs in their published binary form: CIFAR-10, CIFAR-100, STL-10 and SVHN, rows of one table.

CIFAR-10 and CIFAR-100 (Krizhevsky 2009), STL-10 (Coates et al. 2011) and SVHN (Netzer et al. 2011) are read as
torchvision unpacks them: ``cifar-10-batches-bin``, ``cifar-100-binary``, ``stl10_binary``, ``train_32x32.mat`` and
``test_32x32.mat``. CIFAR-10 has records in six files: ``data_batch_1.bin`` to ``data_batch_5.bin`` are the official
training part, ``test_batch.bin`` the test part, ``batches.meta.txt`` the names of the classes. The Python versions
of CIFAR-10 and CIFAR-100 are pickled and could run any code on loading: they are refused. ``image`` is
``train/00000`` (counted through the files of a part), ``split`` the official one; every image is its own group.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.draft_steps import finish_draft
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import find_root, folders_down, note_count, refuse_links_out
from memorisk.images.readers.records import count_frames, count_svhn, record_labels, svhn_matrix
from memorisk.images.readers.registry import CIFAR10_RECORDS, CIFAR100_RECORDS, STL10_RECORDS, SVHN_MATRIX, decoding
from memorisk.runs.errors import InputError, listed, one_line


@dataclass(frozen=True)
class ArraySet:
    """Published set of binary files: one row of the table of sets.

    Attributes:
        name: Name of the set, as users write it.
        member: Format of the files (`memorisk.images.readers.registry.MEMBER_FORMATS`).
        parts: Files of each official part.
        labels: Function that reads the class number of each image, from 0, from its file.
        classes: Official names of the classes, in order.
        names: File of names that takes precedence over them, where it exists.
        n_images: Official number of images.
        archive: Archive from which the set is unpacked.
        unread: File that is left out, and the note on it.
        pickled: Files of the pickled version; all files of one entry belong together.
        binary: Way to the binary version, in words.
        label_note: Meaning of the label, for the notes.
        coarse: File of the names of coarser classes, whose numbers precede the labels.
    """

    name: str
    member: str
    parts: dict[str, tuple[str, ...]]
    labels: Callable[[Path, ImageOptions], np.ndarray]
    classes: tuple[str, ...]
    n_images: int
    archive: str = ""
    names: str = ""
    unread: tuple[str, str] = ("", "")
    pickled: tuple[tuple[str, ...], ...] = ()
    binary: str = ""
    label_note: str = "the class"
    coarse: str = ""


def load_array_set(published: ArraySet, folder: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of a set of binary files.

    Raises:
        InputError: The folder has only a pickled version, a part lacks files, or a file is not one of the set's.
    """
    name, notes = published.name, []

    def holds(place: Path) -> bool:
        return any((place / file).is_file() for files in published.parts.values() for file in files)

    try:
        root = find_root(folder, name, holds, " or ".join(files[0] for files in published.parts.values()), notes)
    except InputError:
        _refuse_pickles(published, folder, holds)
        raise
    classes = _class_names(root, published)
    tables = []
    for split, files in published.parts.items():
        absent = [file for file in files if not (root / file).is_file()]
        if len(absent) == len(files):
            notes.append(f"No {listed(absent)} is there: the official {split} part is not read.")
            continue
        if absent:
            raise InputError(
                f"{name}: {one_line(root)} lacks {listed(absent)} of the five batches of the training part; unpack "
                f"{published.archive} anew"
            )
        refuse_links_out(root, [root / file for file in files], options, name)
        part = pd.concat([_file_rows(published, root, file, classes, options) for file in files], ignore_index=True)
        tables.append(part.assign(image=[f"{split}/{i:05d}" for i in range(len(part))], split=split))
    file, sentence = published.unread
    if file and (root / file).is_file():
        notes.append(sentence)
    table = pd.concat(tables, ignore_index=True).assign(dataset=name)
    draft = Draft(table, root, name, notes, kind="arrays")
    draft.notes.append(f"Label: {published.label_note}. Group: each image its own; no origin is published.")
    note_count(draft, published.n_images)
    return finish_draft(draft, options)


def _file_rows(
    published: ArraySet, root: Path, file: str, classes: tuple[str, ...], options: ImageOptions
) -> pd.DataFrame:
    """Return the rows of the manifest for one file."""
    path = root / file
    labels = _labelled(published, published.labels(path, options), classes, path)
    table = pd.DataFrame({"label": labels, "path": file, "member": published.member}, dtype=object)
    table["frame"] = pd.array(range(len(labels)), dtype="Int64")
    if published.coarse:
        coarse = _lines(root / published.coarse, 20)
        with decoding(path):
            numbers = record_labels(path, published.member, 0)
        table["coarse"] = _labelled(published, numbers, coarse, path)
    return table


def _labelled(published: ArraySet, values: np.ndarray, names: tuple[str, ...], file: Path) -> list[str]:
    """Return the labels by name, or as numbers where the set has no names.

    Raises:
        InputError: A number has no name.
    """
    strange = np.flatnonzero((values < 0) | (values >= len(names))) if names else np.zeros(0, np.int64)
    if len(strange) and published is CIFAR10:
        raise InputError(
            f"cifar10: {one_line(file)} has the label {values[strange[0]]} in record {strange[0]}; those of CIFAR-10 "
            "are 0 to 9, so this is another file, unpack cifar-10-binary.tar.gz anew"
        )
    if len(strange):
        lowest = int(values[strange].min())
        raise InputError(f"{one_line(file)}: has the label {lowest}, of {len(names)}; it is another file")
    return [names[v] if names else str(v) for v in values.tolist()]


def _class_names(root: Path, published: ArraySet) -> tuple[str, ...]:
    """Return the names of the classes from their file, or the official ones.

    Raises:
        InputError: The file has other names.
    """
    if not published.names:
        return published.classes
    if published is not CIFAR10:
        return _lines(root / published.names, 100 if published is CIFAR100 else 10) or published.classes
    path = root / published.names
    if path.is_file() and (names := _words(path, 4096)) != published.classes:
        raise InputError(
            f"cifar10: {one_line(path)} names {listed(names, 3) or 'nothing'}, not {listed(published.classes, 3)}; "
            "this is another data set, or unpack cifar-10-binary.tar.gz anew"
        )
    return published.classes


def _lines(path: Path, n: int) -> tuple[str, ...]:
    """Read the names of classes from a file of lines; empty where the file is absent.

    Raises:
        InputError: The file has another number of names.
    """
    if not path.is_file():
        return ()
    names = _words(path, 1 << 16)
    if len(names) != n:
        raise InputError(f"{one_line(path)}: names {len(names)} classes ({listed(names, 3)}), not {n}")
    return names


def _words(path: Path, most: int) -> tuple[str, ...]:
    with decoding(path), path.open("rb") as file:
        return tuple(file.read(most).decode("utf-8", errors="replace").split())


def _refuse_pickles(published: ArraySet, folder: Path, holds: Callable[[Path], bool]) -> None:
    """Refuse the Python version, which cannot be read, where the folder has no other.

    Raises:
        InputError: The folder has only the Python version.
    """
    places = folders_down(folder) if published.pickled else []
    pickled = [p for p in places if any(all((p / f).is_file() for f in files) for files in published.pickled)]
    if pickled and not any(holds(place) for place in places):
        raise InputError(
            f"{published.name}: {one_line(pickled[0])} holds the Python version, whose files are pickled and are never "
            f"loaded; get the binary version ({published.binary}, or in Python save what torchvision read "
            "(memorisk.save_dataset)"
        )


def _cifar10_labels(path: Path, options: ImageOptions) -> np.ndarray:
    with decoding(path):
        return record_labels(path)


def _cifar100_labels(path: Path, options: ImageOptions) -> np.ndarray:
    with decoding(path):
        return record_labels(path, CIFAR100_RECORDS, 1)


def _stl10_labels(path: Path, options: ImageOptions) -> np.ndarray:
    """Read the labels of a part from the file next to its images; they begin with 1 and are returned from 0."""
    file = path.with_name(path.name.replace("_X", "_y"))
    if not file.is_file():
        raise InputError(f"stl10: {one_line(path.parent)} lacks {file.name}; unpack stl10_binary.tar.gz anew")
    refuse_links_out(path.parent, [file], options, "stl10")
    with decoding(path):
        n = count_frames(path, STL10_RECORDS)
    values = np.fromfile(file, dtype=np.uint8)
    if len(values) != n:
        raise InputError(f"stl10: {file.name} has {len(values):,} labels, for {n:,} images of {path.name}")
    return values.astype(int) - 1


def _svhn_labels(path: Path, options: ImageOptions) -> np.ndarray:
    with decoding(path):
        count_svhn(path)
        return svhn_matrix(path, "y").ravel().astype(int) % 10  # the digit 0 is called 10


CIFAR10 = ArraySet(
    name="cifar10",
    member=CIFAR10_RECORDS,
    parts={"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)},
    labels=_cifar10_labels,
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    n_images=60_000,
    archive="cifar-10-binary.tar.gz",
    names="batches.meta.txt",
    pickled=(("data_batch_1",), ("test_batch",)),
    binary="cifar-10-binary.tar.gz) and give its folder cifar-10-batches-bin",
    label_note="the class, by its official name",
)
CIFAR100 = ArraySet(
    name="cifar100",
    member=CIFAR100_RECORDS,
    parts={"train": ("train.bin",), "test": ("test.bin",)},
    labels=_cifar100_labels,
    classes=(),
    n_images=60_000,
    names="fine_label_names.txt",
    pickled=(("meta", "train"),),
    binary="cifar-100-binary.tar.gz)",
    coarse="coarse_label_names.txt",
)
STL10 = ArraySet(
    name="stl10",
    member=STL10_RECORDS,
    parts={"train": ("train_X.bin",), "test": ("test_X.bin",)},
    labels=_stl10_labels,
    classes=("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"),
    n_images=13_000,
    names="class_names.txt",
    unread=("unlabeled_X.bin", "The images without labels, unlabeled_X.bin, are left out."),
)
SVHN = ArraySet(
    name="svhn",
    member=SVHN_MATRIX,
    parts={"train": ("train_32x32.mat",), "test": ("test_32x32.mat",)},
    labels=_svhn_labels,
    classes=tuple("0123456789"),
    n_images=99_289,
    unread=("extra_32x32.mat", "The further training images of extra_32x32.mat are left out."),
)
