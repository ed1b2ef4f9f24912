"""MIMIC-CXR (Johnson et al. 2019) as published: chest radiographs, many images of one patient, as JPEG or DICOM.

``mimic-cxr-2.0.0-metadata.csv``, ``-split.csv`` and ``-chexpert.csv`` (each also ``.csv.gz``, also of later releases)
and ``files/p10/p10000032/s50414267/<dicom_id>.jpg`` or ``.dcm``. Where the tables of MIMIC-CXR-LT are there, too
(``mimic-cxr-lt_single-label_train.csv``, ..., also in ``labels/`` or ``LongTailCXR/``), its images, classes and split
are read instead. Paper 004, table 1. Group: ``subject_id``.
"""

from pathlib import Path

import pandas as pd

from memorisk.images.columns import NO_FINDING
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.cxr_lt import lt_tables, read_lt
from memorisk.images.published.layout import (
    OfficialFiles,
    column_texts,
    draft_table,
    find_root,
    leave_out_missing,
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line

FINDINGS = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Enlarged Cardiomediastinum", "Fracture"),
    *("Lung Lesion", "Lung Opacity", "No Finding", "Pleural Effusion", "Pleural Other", "Pneumonia", "Pneumothorax"),
    "Support Devices",
)
LT_CLASSES = (
    *FINDINGS,
    *("Pneumoperitoneum", "Pneumomediastinum", "Subcutaneous Emphysema", "Tortuous Aorta"),
    "Calcification of the Aorta",
)
N_IMAGES = 377_110
PAPER_IMAGES = 119_534  # paper 004, table 1
_KEYS = ("dicom_id", "subject_id", "study_id")
_SPLITS = {"train": "train", "validate": "val", "test": "test"}
_LT = "mimic-cxr-lt"


def load_mimic_cxr(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of MIMIC-CXR, or of MIMIC-CXR-LT where its tables are there.

    Args:
        folder: The folder with the tables and ``files``, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the ``dicom_id``, ``group`` the ``subject_id``; ``label`` the findings that CheXpert's labeller
        calls positive, joined by ``|`` (of the LT tables: the one class), ``split`` the official one; the other
        columns of the table are kept.

    Raises:
        InputError: A table or images are missing, or two tables disagree.
    """
    notes: list[str] = []
    root = find_root(folder, "mimic-cxr", _holds, "mimic-cxr-2.0.0-metadata.csv or .csv.gz", notes)
    draft = Draft(table=pd.DataFrame(), root=root, name="mimic-cxr", notes=notes)
    draft.group_from, draft.group_fallback = "column subject_id", "get the tables anew"
    table = _long_tailed(root, draft) if lt_tables(root, _LT) else _whole(root, draft)
    ids = column_texts(table, "dicom_id")
    files = OfficialFiles.below(root, options, draft.name, kinds=("raster", "dicom"))
    placed = _placed(files, table, ids)
    draft.kind = "dicom" if any(path and path.endswith(".dcm") for path in placed) else "raster"
    others = len(files.files) - sum(path is not None for path in placed)
    columns = {"image": ids, "path": placed, "group": column_texts(table, "subject_id")}
    columns |= {name: table[name].tolist() for name in ("label", "split") if name in table}
    used = [name for name in ("dicom_id", "subject_id", "label", "split", "path") if name in table]
    draft_table(draft, columns | {"dataset": [draft.name] * len(ids)}, table.drop(columns=used))
    leave_out_missing(draft, options)
    if others:
        draft.notes.append(f"{others:,} other image files are not listed, or the same images in the other format.")
    note_skipped(draft)
    return finish(draft, options)


def _holds(folder: Path) -> bool:
    return _table(folder, "metadata") is not None or "train" in lt_tables(folder, _LT)


def _table(folder: Path, what: str) -> Path | None:
    """An official table by its last word, of any release, packed or not."""
    found = sorted((*folder.glob(f"mimic-cxr-*-{what}.csv"), *folder.glob(f"mimic-cxr-*-{what}.csv.gz")))
    return found[-1] if found else None


def _whole(root: Path, draft: Draft) -> pd.DataFrame:
    """All images of the metadata, with split and findings where those tables are there."""
    path = _table(root, "metadata")
    assert path is not None
    table = read_columns(path, _KEYS)
    draft.notes.append(f"Images: {path.name}. Group: subject_id, the patient.")
    if len(table) != N_IMAGES:
        draft.notes.append(f"{path.name} lists {len(table):,} images; the official release has {N_IMAGES:,}.")
    _add_labels(root, draft, table)
    _add_split(root, draft, table)
    return table


def _add_labels(root: Path, draft: Draft, table: pd.DataFrame) -> None:
    """The findings of each image's study that are positive."""
    path = _table(root, "chexpert")
    if path is None:
        draft.notes.append("Label: none, mimic-cxr-2.0.0-chexpert.csv is not in the folder.")
        return
    studies = read_columns(path, ("study_id", *FINDINGS))
    marks = studies[list(FINDINGS)].isin(("1", "1.0")).to_numpy().tolist()
    labels = ["|".join(f for f, one in zip(FINDINGS, row, strict=True) if one) or NO_FINDING for row in marks]
    of_study = dict(zip(column_texts(studies, "study_id"), labels, strict=True))
    table["label"] = [of_study.get(study, "") for study in column_texts(table, "study_id")]
    draft.notes.append(
        f"Label: the findings that are 1 in {path.name}, the study's, joined by | (uncertain ones, -1, do not count; "
        f"{NO_FINDING} where none is 1); {table['label'].eq('').sum():,} images have no row there."
    )


def _add_split(root: Path, draft: Draft, table: pd.DataFrame) -> None:
    """The official split of each image.

    Raises:
        InputError: A part is none of the three.
    """
    path = _table(root, "split")
    if path is None:
        draft.notes.append("No official split: mimic-cxr-2.0.0-split.csv is not in the folder.")
        return
    parts = read_columns(path, ("dicom_id", "split"))
    if strange := sorted(set(column_texts(parts, "split")) - set(_SPLITS)):
        raise InputError(f"{path.name}: a split is {one_line(strange[0], 40)!r}, not one of {', '.join(_SPLITS)}")
    of_image = dict(zip(column_texts(parts, "dicom_id"), column_texts(parts, "split"), strict=True))
    table["split"] = [_SPLITS.get(of_image.get(image, ""), "") for image in column_texts(table, "dicom_id")]
    draft.notes.append(f"Split: {path.name}, the official one, by patient; validate is val.")


def _long_tailed(root: Path, draft: Draft) -> pd.DataFrame:
    """The images of the long-tailed benchmark."""
    table, said = read_lt(lt_tables(root, _LT), "dicom_id", LT_CLASSES)
    draft.notes.append(
        "Images: the tables of MIMIC-CXR-LT, which lie in the folder (take them away to read all of MIMIC-CXR). "
        "Label: the one class. Group: subject_id, the patient."
    )
    draft.notes += said
    if len(table) != PAPER_IMAGES:
        draft.notes.append(f"{len(table):,} images are listed; paper 004 says {PAPER_IMAGES:,}.")
    return table


def _placed(files: OfficialFiles, table: pd.DataFrame, ids: list[str]) -> list[str | None]:
    """The file of each image by the official path ``p10/p10000032/s50414267/<id>``, JPEG before DICOM.

    Raises:
        InputError: A table's study or patient is another than that of the file's folder.
    """
    by_name: dict[str, list[str]] = {}
    for file in files.files:
        by_name.setdefault(file.rsplit("/", 1)[-1].rpartition(".")[0], []).append(file)
    chosen: list[str | None] = []
    moved = []
    people, studies = column_texts(table, "subject_id"), column_texts(table, "study_id")
    for image, person, study in zip(ids, people, studies, strict=True):
        below = f"p{person[:2]}/p{person}/s{study}/"
        here = sorted(
            (f for f in by_name.get(image, []) if f"/{f}".endswith(f"/{below}{f.rsplit('/', 1)[-1]}")), key=_kind
        )
        if not here and by_name.get(image):
            moved.append(by_name[image][0])
        chosen.append(here[0] if here else None)
    if moved:
        raise InputError(
            f"mimic-cxr: {len(moved):,} images lie elsewhere than pXX/pSUBJECT/sSTUDY of the table says "
            f"({listed(moved, 2)}); unpack the release as it is"
        )
    return chosen


def _kind(file: str) -> tuple[bool, str]:
    return file.lower().endswith((".dcm", ".dicom")), file
