"""Published sets in class folders: Kvasir-Capsule, Retinal OCT.

Kvasir-Capsule (Smedsrud et al. 2021): frames of capsule videos, 14 classes, 43 videos.
``labelled_images/<Class>/<video>_<frame>.jpg``; folders are known in the archive's spelling (``Blood - fresh``) and
in that of its parts (``blood_fresh``). Group: the video. ``official_splits/split_0.csv`` and ``split_1.csv``
(``filename,label``) are the two official folds, of 11 classes; only their file names are used, since they call some
classes otherwise.

Retinal OCT (Kermany et al. 2018, "OCT2017"): cross-sections of the retina, 4 classes, several of one patient.
``train/<CLASS>/<CLASS>-<patient>-<n>.jpeg``, beside ``test/`` and ``val/``. The paper uses the training folder only
(84,452 images), which is read here; another one is read when it is named itself (``retinal-oct:OCT2017/test``).
Group: the patient's number. The names give it within a class; the same number in two classes is taken as one
patient, which at worst keeps two people on the same side of a split.
"""

import re
from collections import Counter
from pathlib import Path

import pandas as pd

from memorisk.images.columns import plain_name
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import (
    OfficialFiles,
    column_texts,
    draft_table,
    find_root,
    note_count,
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish_draft
from memorisk.images.sources.files import plain_stem
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

KVASIR_CLASSES = (
    *("Ampulla of Vater", "Angiectasia", "Blood - fresh", "Blood - hematin", "Erosion", "Erythema", "Foreign body"),
    *(
        "Ileocecal valve",
        "Lymphangiectasia",
        "Normal clean mucosa",
        "Polyp",
        "Pylorus",
        "Reduced mucosal view",
        "Ulcer",
    ),
)
KVASIR_N_IMAGES = 47_238
_KVASIR_IMAGES = "labelled_images"
_KVASIR_FOLDS = {"split_0.csv": "train", "split_1.csv": "test"}
_KVASIR_CLASS_OF_PLAIN_NAME = {plain_name(name): name for name in KVASIR_CLASSES}


def load_kvasir_capsule(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of Kvasir-Capsule's labelled images.

    Args:
        folder: The folder with ``labelled_images``, that folder itself, or one above.
        options: How images are read later.

    Returns:
        ``image`` is the file's name without suffix, ``label`` the class as in ``KVASIR_CLASSES``, ``group`` the video,
        ``split`` the official fold (0 is train, 1 is test) where both files are there.

    Raises:
        InputError: A folder is no class, a name has no video, or an image is in two classes.
    """
    notes: list[str] = []
    root = find_root(folder, "kvasir-capsule", _kvasir_holds, f"{_KVASIR_IMAGES}/<Class>", notes)
    place = root / _KVASIR_IMAGES if (root / _KVASIR_IMAGES).is_dir() else root
    draft = Draft(table=pd.DataFrame(), root=place, name="kvasir-capsule", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "video in the file names", "get the images under their official names"
    files = OfficialFiles.below(place, options, draft.name).files
    ids = [plain_stem(file.rsplit("/", 1)[-1]) for file in files]
    unnamed = [file for file, image in zip(files, ids, strict=True) if not image.partition("_")[0] or "_" not in image]
    if unnamed:
        raise InputError(
            f"{draft.name}: {len(unnamed):,} files have no video in their name ({listed(unnamed)}); official names are "
            "<video>_<frame>.jpg"
        )
    columns = {"image": ids, "path": files, "label": [_kvasir_class(file) for file in files]}
    columns |= {"group": [image.partition("_")[0] for image in ids], "dataset": [draft.name] * len(ids)}
    splits = _kvasir_splits(root, draft, ids)
    draft_table(draft, columns | ({"split": splits} if splits else {}), pd.DataFrame(index=range(len(ids))))
    draft.notes.append("Label: the class folder. Group: the video, the file's name up to the first underscore.")
    absent = [name for name in KVASIR_CLASSES if name not in set(columns["label"])]
    if absent:
        draft.notes.append(f"{len(absent)} of the 14 classes have no image here: {listed(absent, 14)}.")
    note_count(draft, KVASIR_N_IMAGES)
    note_skipped(draft)
    return finish_draft(draft, options)


def _kvasir_holds(folder: Path) -> bool:
    """Whether a folder has labelled_images, or two class folders."""
    if (folder / _KVASIR_IMAGES).is_dir():
        return True
    try:
        return sum(plain_name(p.name) in _KVASIR_CLASS_OF_PLAIN_NAME and p.is_dir() for p in folder.iterdir()) >= 2
    except OSError:
        return False


def _kvasir_class(file: str) -> str:
    """The class of a file by its folder.

    Raises:
        InputError: The folder is no class.
    """
    own = file.split("/")[-2] if "/" in file else ""
    if plain_name(own) not in _KVASIR_CLASS_OF_PLAIN_NAME:
        where = f"class folder of {one_line(file, 120)} in kvasir-capsule:"
        raise unknown_name(where, own, KVASIR_CLASSES)
    return _KVASIR_CLASS_OF_PLAIN_NAME[plain_name(own)]


def _kvasir_splits(root: Path, draft: Draft, ids: list[str]) -> list[str]:
    """The official fold of each image, empty where it is in neither; [] where a file is absent.

    Raises:
        InputError: A file cannot be read, or an image is in both.
    """
    places = [root / "official_splits", root]
    found = {name: next((p / name for p in places if (p / name).is_file()), None) for name in _KVASIR_FOLDS}
    if not all(found.values()):
        draft.notes.append(f"No official split: {' and '.join(_KVASIR_FOLDS)} are not both in the folder.")
        return []
    of_image: dict[str, str] = {}
    for name, path in found.items():
        assert path is not None
        for value in column_texts(read_columns(path, ("filename",)), "filename"):
            image = plain_stem(value.rsplit("/", 1)[-1])
            if of_image.setdefault(image, _KVASIR_FOLDS[name]) != _KVASIR_FOLDS[name]:
                raise InputError(
                    f"{draft.name}: {one_line(image)} is in both {' and '.join(_KVASIR_FOLDS)}; get them anew"
                )
    splits = [of_image.get(image, "") for image in ids]
    draft.notes.append(
        f"Split: split_0.csv is train, split_1.csv is test, the two official folds; {splits.count(''):,} images are in "
        "neither (the official files leave out the three rarest classes)."
    )
    return splits


OCT_CLASSES = ("CNV", "DME", "DRUSEN", "NORMAL")
OCT_PAPER_IMAGES = 84_452  # paper 000, A.6
_OCT_NAME = re.compile(r"([A-Za-z]+)-([0-9]+)-([0-9]+)")


def load_retinal_oct(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of the training images of OCT2017, or of the folder of classes that is named.

    Args:
        folder: The folder with ``train``, a folder with the four classes, or one above.
        options: How images are read later.

    Returns:
        ``image`` is the file's name without suffix, ``label`` its class folder, ``group`` the patient's number.

    Raises:
        InputError: A folder is no class, a file's name has no patient or another class than its folder.
    """
    notes: list[str] = []
    root = find_root(folder, "retinal-oct", _oct_holds, f"train/ or class folders {', '.join(OCT_CLASSES)}", notes)
    place = root / "train" if _oct_has_classes(root / "train") else root
    draft = Draft(table=pd.DataFrame(), root=place, name="retinal-oct", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "patient's number", "get the images under their official names"
    files = OfficialFiles.below(place, options, draft.name).files
    labels = [_oct_class(file) for file in files]
    ids = [plain_stem(file.rsplit("/", 1)[-1]) for file in files]
    patients = _oct_patients(files, ids, labels)
    columns = {"image": ids, "path": files, "label": labels, "group": patients}
    draft_table(draft, columns | {"dataset": [draft.name] * len(ids)}, pd.DataFrame(index=range(len(ids))))
    others = [name for name in ("test", "val") if place != root and (root / name).is_dir()]
    draft.notes.append(
        (f"Images: the folder train alone, as in the paper{_oct_unread_folders(others)}. " if place != root else "")
        + "Label: the class folder. Group: the patient's number in the file's name; "
        f"{_oct_shared_numbers(labels, patients):,} "
        "numbers occur in several classes and are taken as one patient each."
    )
    if place != root and len(ids) != OCT_PAPER_IMAGES:
        draft.notes.append(f"{len(ids):,} images are here; the paper says {OCT_PAPER_IMAGES:,}.")
    note_skipped(draft)
    return finish_draft(draft, options)


def _oct_has_classes(folder: Path) -> bool:
    return sum((folder / name).is_dir() for name in OCT_CLASSES) >= 2


def _oct_holds(folder: Path) -> bool:
    return _oct_has_classes(folder / "train") or _oct_has_classes(folder)


def _oct_class(file: str) -> str:
    """The class of a file by its folder.

    Raises:
        InputError: The folder is no class.
    """
    own = file.split("/")[-2] if "/" in file else ""
    if own not in OCT_CLASSES:
        raise unknown_name("class folder in retinal-oct:", own, OCT_CLASSES)
    return own


def _oct_patients(files: list[str], ids: list[str], labels: list[str]) -> list[str]:
    """The patient's number of each file.

    Raises:
        InputError: A name is not CLASS-PATIENT-NUMBER, or its class is not its folder.
    """
    found = [_OCT_NAME.fullmatch(image) for image in ids]
    strange = [file for file, m in zip(files, found, strict=True) if m is None]
    if strange:
        raise InputError(
            f"retinal-oct: {len(strange):,} files have no patient in their name ({listed(strange)}); official names "
            "are CLASS-PATIENT-NUMBER.jpeg"
        )
    parts = [m.groups() for m in found if m is not None]
    moved = [f for f, p, label in zip(files, parts, labels, strict=True) if p[0].upper() != label]
    if moved:
        raise InputError(f"retinal-oct: {len(moved):,} files lie in another class than they say ({listed(moved)})")
    return [patient for _, patient, _ in parts]


def _oct_unread_folders(others: list[str]) -> str:
    return f" ({' and '.join(others)} not read)" if others else ""


def _oct_shared_numbers(labels: list[str], patients: list[str]) -> int:
    """How many patients' numbers occur in more than one class."""
    classes = Counter(patient for patient, _ in set(zip(patients, labels, strict=True)))
    return sum(n > 1 for n in classes.values())
