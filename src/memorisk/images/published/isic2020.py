"""ISIC-2020 (Rotemberg et al. 2021) as published: dermatoscopic images, benign or malignant, several of one patient.

``ISIC_2020_Training_GroundTruth_v2.csv`` or ``ISIC_2020_Training_GroundTruth.csv`` (Kaggle: ``train.csv``), ``train/``
with ``ISIC_*.jpg`` or ``.dcm`` and ``ISIC_2020_Training_Duplicates.csv``: pairs of identical lesions, of which the
second image is left out, as paper 004's number of images implies (33,126 - 425 = 32,701). Group: ``patient_id``.
"""

from pathlib import Path

import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import (
    OfficialFiles,
    check_labels,
    column_texts,
    draft_table,
    find_root,
    leave_out,
    leave_out_missing,
    note_count,
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError

N_IMAGES = 33_126
_TABLES = ("ISIC_2020_Training_GroundTruth_v2.csv", "ISIC_2020_Training_GroundTruth.csv")
_DUPLICATES = "ISIC_2020_Training_Duplicates.csv"
_KAGGLE = "train.csv"
_USED = ("image_name", "patient_id", "benign_malignant")


def load_isic2020(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of ISIC-2020's training images without the second ones of identical lesions.

    Args:
        folder: The folder with the table and the images, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the ISIC id, ``label`` benign or malignant, ``group`` the patient; ``duplicate`` names the
        images left out for this one, and the other columns of the table are kept. There is no split: the labels of
        the test images are not published.

    Raises:
        InputError: The table or images are missing, a label is unknown, or a duplicate is no image of the table.
    """
    notes: list[str] = []
    root = find_root(folder, "isic2020", lambda place: _table(place) is not None, _TABLES[1], notes)
    path = _table(root)
    assert path is not None
    table = read_columns(path, _USED)
    draft = Draft(table=pd.DataFrame(), root=root, name="isic2020", notes=notes)
    draft.group_from, draft.group_fallback = "column patient_id", "get the table anew"
    ids, labels = column_texts(table, "image_name"), column_texts(table, "benign_malignant")
    people = column_texts(table, "patient_id")
    check_labels(labels, ("benign", "malignant"), path.name)
    files = OfficialFiles.below(root, options, draft.name, kinds=("raster", "dicom"))
    placed = _placed(files, draft, ids, path.name)
    copies = _copies(root, draft, dict(zip(ids, people, strict=True)))
    columns = {"image": ids, "path": placed, "label": labels, "group": people, "dataset": [draft.name] * len(ids)}
    extra = table.drop(columns=list(_USED))
    left_for: dict[str, list[str]] = {}
    for second, first in copies.items():
        left_for.setdefault(first, []).append(second)
    extra["duplicate"] = ["|".join(left_for.get(image, [])) for image in ids]
    draft_table(draft, columns, extra)
    leave_out(draft, [image not in copies for image in ids], f"the second image of an identical lesion ({_DUPLICATES})")
    leave_out_missing(draft, options)
    draft.notes.append(f"Label: benign_malignant of {path.name}. Group: patient_id. No split is published.")
    note_count(draft, N_IMAGES - len(copies))
    note_skipped(draft)
    return finish(draft, options)


def _table(folder: Path) -> Path | None:
    """The official table, or Kaggle's, which is known by its columns since others have a train.csv, too."""
    official = next((folder / name for name in _TABLES if (folder / name).is_file()), None)
    kaggle = folder / _KAGGLE
    if official is not None or not kaggle.is_file():
        return official
    try:
        read_columns(kaggle, _USED)
    except InputError:
        return None
    return kaggle


def _placed(files: OfficialFiles, draft: Draft, ids: list[str], table: str) -> list[str | None]:
    """The file of each image: the JPEGs where there are any (Kaggle gives both forms), else the DICOM files."""
    jpegs = [file for file in files.files if not file.lower().endswith((".dcm", ".dicom"))]
    draft.kind = "raster" if jpegs else "dicom"
    chosen = OfficialFiles.of(files.root, jpegs or files.files)
    placed = chosen.place(ids, draft.name, prefer="train*")
    chosen.skip_others(draft, table, ids, placed)
    left = len(files.files) - len(chosen.files)
    if left:
        draft.notes.append(f"{left:,} DICOM files lie beside the JPEGs, which are read.")
    return placed


def _copies(root: Path, draft: Draft, patient: dict[str, str]) -> dict[str, str]:
    """The image that goes out for each that stays: ``{left out: kept}``, from the official pairs.

    Raises:
        InputError: A pair names an image that the table has not.
    """
    path = root / _DUPLICATES
    if not path.is_file():
        draft.notes.append(
            f"{_DUPLICATES} is not in the folder: it lists 425 pairs of identical lesions, whose second images are "
            "otherwise left out; they stay here."
        )
        return {}
    table = read_columns(path, ("image_name_1", "image_name_2"))
    pairs = list(zip(column_texts(table, "image_name_1"), column_texts(table, "image_name_2"), strict=True))
    unknown = [image for pair in pairs for image in pair if image not in patient]
    if unknown:
        raise InputError(f"{_DUPLICATES}: {len(unknown):,} images are not in the table ({listed(unknown, 3)})")
    copies: dict[str, str] = {}
    for first, second in pairs:
        while first in copies:  # a pair of one that went out already: what stayed for it stays for both
            first = copies[first]
        if first != second and second not in copies:
            copies[second] = first
    apart = sum(patient[first] != patient[second] for second, first in copies.items())
    draft.notes.append(
        f"{len(copies):,} images show the same lesion as another one ({_DUPLICATES}) and are left out; the column "
        f"duplicate names them beside the image that stays. In {apart:,} of these pairs the two have different "
        "patient ids."
    )
    return copies
