"""Retinal OCT (Kermany et al. 2018, "OCT2017"): cross-sections of the retina, 4 classes, several of one patient.

``train/<CLASS>/<CLASS>-<patient>-<n>.jpeg``, beside ``test/`` and ``val/``. The paper uses the training folder only
(84,452 images), which is read here; another one is read when it is named itself (``retinal-oct:OCT2017/test``). Group:
the patient's number. The names give it within a class; the same number in two classes is taken as one patient, which
at worst keeps two people on the same side of a split.
"""

import re
from collections import Counter
from pathlib import Path

import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.paths import plain_stem
from memorisk.images.published.layout import OfficialFiles, draft_table, find_root, note_skipped
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, unknown_name

CLASSES = ("CNV", "DME", "DRUSEN", "NORMAL")
PAPER_IMAGES = 84_452  # paper 000, A.6
_NAME = re.compile(r"([A-Za-z]+)-([0-9]+)-([0-9]+)")


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
    root = find_root(folder, "retinal-oct", _holds, f"train/ or class folders {', '.join(CLASSES)}", notes)
    place = root / "train" if _has_classes(root / "train") else root
    draft = Draft(table=pd.DataFrame(), root=place, name="retinal-oct", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "patient's number", "get the images under their official names"
    files = OfficialFiles.below(place, options, draft.name).files
    labels = [_class(file) for file in files]
    ids = [plain_stem(file.rsplit("/", 1)[-1]) for file in files]
    patients = _patients(files, ids, labels)
    columns = {"image": ids, "path": files, "label": labels, "group": patients}
    draft_table(draft, columns | {"dataset": [draft.name] * len(ids)}, pd.DataFrame(index=range(len(ids))))
    others = [name for name in ("test", "val") if place != root and (root / name).is_dir()]
    draft.notes.append(
        (f"Images: the folder train alone, as in the paper{_not_read(others)}. " if place != root else "")
        + f"Label: the class folder. Group: the patient's number in the file's name; {_shared(labels, patients):,} "
        "numbers occur in several classes and are taken as one patient each."
    )
    if place != root and len(ids) != PAPER_IMAGES:
        draft.notes.append(f"{len(ids):,} images are here; the paper says {PAPER_IMAGES:,}.")
    note_skipped(draft)
    return finish(draft, options)


def _has_classes(folder: Path) -> bool:
    return sum((folder / name).is_dir() for name in CLASSES) >= 2


def _holds(folder: Path) -> bool:
    return _has_classes(folder / "train") or _has_classes(folder)


def _class(file: str) -> str:
    """The class of a file by its folder.

    Raises:
        InputError: The folder is no class.
    """
    own = file.split("/")[-2] if "/" in file else ""
    if own not in CLASSES:
        raise unknown_name("class folder in retinal-oct:", own, CLASSES)
    return own


def _patients(files: list[str], ids: list[str], labels: list[str]) -> list[str]:
    """The patient's number of each file.

    Raises:
        InputError: A name is not CLASS-PATIENT-NUMBER, or its class is not its folder.
    """
    found = [_NAME.fullmatch(image) for image in ids]
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


def _not_read(others: list[str]) -> str:
    return f" ({' and '.join(others)} not read)" if others else ""


def _shared(labels: list[str], patients: list[str]) -> int:
    """How many patients' numbers occur in more than one class."""
    classes = Counter(patient for patient, _ in set(zip(patients, labels, strict=True)))
    return sum(n > 1 for n in classes.values())
