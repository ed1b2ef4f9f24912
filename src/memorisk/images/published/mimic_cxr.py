"""Chest X-rays: MIMIC-CXR, and the long-tailed benchmark NIH-CXR-LT and MIMIC-CXR-LT (paper 004, table 1).

The tables of the benchmark (Holste et al. 2022) are ``<name>_single-label_train.csv``, ``_balanced-val.csv``,
``_balanced-test.csv`` and ``_test.csv``: one row per image, and one column of 0 and 1 per class, of which exactly one
is 1. The small balanced test part also counts as test.

NIH-CXR-LT: ChestX-ray14's images with 20 single labels, long-tailed, and its own split. The tables (also in
``LongTailCXR/``) lie next to ChestX-ray14's images (``images/`` or ``images_001/images/`` to
``images_012/images/``). Group: the patient, the first part of the file's name (``00000001_000.png``).

MIMIC-CXR (Johnson et al. 2019): chest radiographs, many images of one patient, as JPEG or DICOM.
``mimic-cxr-2.0.0-metadata.csv``, ``-split.csv`` and ``-chexpert.csv`` (each also ``.csv.gz``, also of later
releases) and ``files/p10/p10000032/s50414267/<dicom_id>.jpg`` or ``.dcm``. Where the folder also has the tables of
MIMIC-CXR-LT (``mimic-cxr-lt_single-label_train.csv``, ..., also in ``labels/`` or ``LongTailCXR/``), its images,
classes and split are read instead. Group: ``subject_id``.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from memorisk.images.columns import NO_FINDING
from memorisk.images.layouts.draft import Draft
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import OfficialFiles, PublishedSet, Rows, column_texts, read_columns
from memorisk.runs.errors import InputError, listed, one_line

_LT_PARTS = {"train": "train", "balanced-val": "val", "balanced-test": "test", "test": "test"}
_LT_FOLDERS = ("", "LongTailCXR", "labels")
NIH_CXR_LT_CLASSES = (
    *("No Finding", "Infiltration", "Atelectasis", "Effusion", "Nodule", "Mass", "Pneumothorax", "Consolidation"),
    *("Pleural_Thickening", "Cardiomegaly", "Fibrosis", "Edema", "Tortuous Aorta", "Emphysema", "Pneumonia"),
    *("Calcification of the Aorta", "Pneumoperitoneum", "Hernia", "Subcutaneous Emphysema", "Pneumomediastinum"),
)
_NIH_CXR_LT_NAME = re.compile(r"([0-9]{8})_[0-9]{3,}(\.[A-Za-z]+)?")
MIMIC_FINDINGS = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Enlarged Cardiomediastinum", "Fracture"),
    *("Lung Lesion", "Lung Opacity", "No Finding", "Pleural Effusion", "Pleural Other", "Pneumonia", "Pneumothorax"),
    "Support Devices",
)
MIMIC_LT_CLASSES = (
    *MIMIC_FINDINGS,
    *("Pneumoperitoneum", "Pneumomediastinum", "Subcutaneous Emphysema", "Tortuous Aorta"),
    "Calcification of the Aorta",
)
MIMIC_N_IMAGES = 377_110
MIMIC_PAPER_IMAGES = 119_534  # paper 004, table 1
_MIMIC_KEYS = ("dicom_id", "subject_id", "study_id")
_MIMIC_SPLITS = {"train": "train", "validate": "val", "test": "test"}
_MIMIC_LT = "mimic-cxr-lt"


def lt_tables(folder: Path, name: str) -> dict[str, Path]:
    """Return the tables of a benchmark by part, in the folder or in ``LongTailCXR`` or ``labels`` below it."""
    tables = {}
    for part in _LT_PARTS:
        places = (folder / below / f"{name}_single-label_{part}.csv" for below in _LT_FOLDERS)
        if (place := next((place for place in places if place.is_file()), None)) is not None:
            tables[part] = place
    return tables


def read_lt(tables: dict[str, Path], key: str, classes: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Read the images of the tables, each once.

    Args:
        tables: Tables by part, from :func:`lt_tables`.
        key: Name of the column that names the image.
        classes: Names of the columns of 0 and 1.

    Returns:
        Rows (columns of the tables without the classes, and ``label``, ``split``, ``part``), and notes. An image
        that is both in balanced-test and in test is one row; its ``part`` names both.

    Raises:
        InputError: A table lacks a column, a row does not have exactly one class, or an image is in two splits.
    """
    rows = pd.concat([_read_lt_part(path, part, key, classes) for part, path in tables.items()], ignore_index=True)
    images, parts = column_texts(rows, key), rows["part"].tolist()
    kinds = list(zip(rows["split"].tolist(), rows["label"].tolist(), strict=True))
    first: dict[str, int] = {}
    torn, listing = [], {}
    for row, (image, part) in enumerate(zip(images, parts, strict=True)):
        at = first.setdefault(image, row)
        listing.setdefault(image, {})[part] = None
        if kinds[at] != kinds[row]:
            torn.append(image)
    if torn:
        raise InputError(f"{len(torn):,} images are in two splits or classes ({listed(torn, 3)}); get the tables anew")
    once = rows.iloc[list(first.values())].reset_index(drop=True)
    once["part"] = ["|".join(listing[image]) for image in first]
    absent = [part for part in _LT_PARTS if part not in tables]
    notes = ["Split: the parts of the benchmark; balanced-val is val, balanced-test and test are test."]
    notes += [f"The tables of {', '.join(absent)} are not in the folder; their images are left out."] if absent else []
    return once, notes


def _read_lt_part(path: Path, part: str, key: str, classes: Sequence[str]) -> pd.DataFrame:
    """Read one table, with its classes as a label.

    Raises:
        InputError: The table lacks a column, or a row does not have exactly one class.
    """
    table = read_columns(path, (key, *classes))
    marks = zip(*(column_texts(table, name) for name in classes), strict=True)
    ones = [[name for name, mark in zip(classes, row, strict=True) if mark in ("1", "1.0")] for row in marks]
    wrong = [image for image, names in zip(column_texts(table, key), ones, strict=True) if len(names) != 1]
    if wrong:
        raise InputError(f"{path.name}: {len(wrong):,} images have not exactly one class ({listed(wrong, 3)})")
    reserved = [c for c in table.columns if c in ("label", "split", "part")]
    if reserved:
        raise InputError(f"{path.name}: has a column {listed(reserved)}, which the official table has not")
    table = table.drop(columns=[c for c in table.columns if c in classes or str(c).startswith("Unnamed")])
    return table.assign(label=[names[0] for names in ones], split=_LT_PARTS[part], part=part)


def _nih_cxr_lt(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the rows of the tables, each image once; ``part`` names the tables that list it."""
    table, notes = read_lt(lt_tables(root, "nih-cxr-lt"), "id", NIH_CXR_LT_CLASSES)
    ids = column_texts(table, "id")
    rows = Rows(ids, "the tables", table["label"].tolist(), _nih_cxr_lt_patients(ids), table["split"].tolist())
    rows.extra = table.drop(columns=["id", "label", "split"])
    rule = "Label: the one class of the tables. Group: the patient, the first part of the file's name."
    rows.notes = [rule, *notes]
    return rows


def _nih_cxr_lt_patients(ids: list[str]) -> list[str]:
    """Return the patient's number of each image, without leading zeros, as ChestX-ray14's own table has it.

    Raises:
        InputError: A name is not PATIENT_NUMBER.
    """
    matches = [_NIH_CXR_LT_NAME.fullmatch(image) for image in ids]
    strange = [image for image, m in zip(ids, matches, strict=True) if m is None]
    if strange:
        raise InputError(
            f"nih-cxr-lt: {len(strange):,} ids have no patient in them ({listed(strange, 3)}); official ones are such "
            "as 00000001_000.png"
        )
    return [str(int(m.group(1))) for m in matches if m is not None]


NIH_CXR_LT = PublishedSet(
    name="nih-cxr-lt",
    expected="nih-cxr-lt_single-label_train.csv",
    group_from="patient in the file names",
    group_fallback="get the tables anew",
    holds=lambda folder: "train" in lt_tables(folder, "nih-cxr-lt"),
    rows=_nih_cxr_lt,
    n_images=84_158,  # paper 004, table 1
    count_note="paper 004 says {n:,}",
)


def _mimic_cxr(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return all images of MIMIC-CXR, or those of MIMIC-CXR-LT where its tables exist.

    The label is the findings that CheXpert's labeller calls positive, joined by ``|``; in the LT tables the one class.

    Raises:
        InputError: Two tables disagree, or an image lies elsewhere than they state.
    """
    table = _mimic_long_tailed(root, draft) if lt_tables(root, _MIMIC_LT) else _mimic_full_release(root, draft)
    ids = column_texts(table, "dicom_id")
    files = OfficialFiles.below(root, options, draft.name, kinds=("raster", "dicom"))
    placed = _mimic_placed(files, table, ids)
    draft.kind = "dicom" if any(path and path.endswith(".dcm") for path in placed) else "raster"
    rows = Rows(ids, groups=column_texts(table, "subject_id"), placed=placed)
    rows.labels, rows.split = (table[name].tolist() if name in table else None for name in ("label", "split"))
    used = [name for name in ("dicom_id", "subject_id", "label", "split", "path") if name in table]
    rows.extra = table.drop(columns=used)
    if others := len(files.files) - sum(path is not None for path in placed):
        rows.notes = [f"{others:,} other image files are not listed, or the same images in the other format."]
    return rows


def _mimic_holds(folder: Path) -> bool:
    return _mimic_table(folder, "metadata") is not None or "train" in lt_tables(folder, _MIMIC_LT)


def _mimic_table(folder: Path, what: str) -> Path | None:
    """Return an official table by its last word, of any release, packed or not."""
    tables = sorted((*folder.glob(f"mimic-cxr-*-{what}.csv"), *folder.glob(f"mimic-cxr-*-{what}.csv.gz")))
    return tables[-1] if tables else None


def _mimic_full_release(root: Path, draft: Draft) -> pd.DataFrame:
    """Return all images of the metadata, with split and findings where those tables exist."""
    path = _mimic_table(root, "metadata")
    assert path is not None
    table = read_columns(path, _MIMIC_KEYS)
    draft.notes.append(f"Images: {path.name}. Group: subject_id, the patient.")
    if len(table) != MIMIC_N_IMAGES:
        draft.notes.append(f"{path.name} lists {len(table):,} images; the official release has {MIMIC_N_IMAGES:,}.")
    _mimic_add_labels(root, draft, table)
    _mimic_add_split(root, draft, table)
    return table


def _mimic_add_labels(root: Path, draft: Draft, table: pd.DataFrame) -> None:
    """Add the positive findings of each image's study."""
    path = _mimic_table(root, "chexpert")
    if path is None:
        draft.notes.append("Label: none, mimic-cxr-2.0.0-chexpert.csv is not in the folder.")
        return
    studies = read_columns(path, ("study_id", *MIMIC_FINDINGS))
    marks = studies[list(MIMIC_FINDINGS)].isin(("1", "1.0")).to_numpy().tolist()
    labels = ["|".join(f for f, one in zip(MIMIC_FINDINGS, row, strict=True) if one) or NO_FINDING for row in marks]
    of_study = dict(zip(column_texts(studies, "study_id"), labels, strict=True))
    table["label"] = [of_study.get(study, "") for study in column_texts(table, "study_id")]
    draft.notes.append(
        f"Label: the findings that are 1 in {path.name}, the study's, joined by | (uncertain ones, -1, do not count; "
        f"{NO_FINDING} where none is 1); {table['label'].eq('').sum():,} images have no row there."
    )


def _mimic_add_split(root: Path, draft: Draft, table: pd.DataFrame) -> None:
    """Add the official split of each image.

    Raises:
        InputError: A part is not one of the three.
    """
    path = _mimic_table(root, "split")
    if path is None:
        draft.notes.append("No official split: mimic-cxr-2.0.0-split.csv is not in the folder.")
        return
    parts = read_columns(path, ("dicom_id", "split"))
    if strange := sorted(set(column_texts(parts, "split")) - set(_MIMIC_SPLITS)):
        raise InputError(f"{path.name}: a split is {one_line(strange[0], 40)!r}, not one of {', '.join(_MIMIC_SPLITS)}")
    of_image = dict(zip(column_texts(parts, "dicom_id"), column_texts(parts, "split"), strict=True))
    table["split"] = [_MIMIC_SPLITS.get(of_image.get(image, ""), "") for image in column_texts(table, "dicom_id")]
    draft.notes.append(f"Split: {path.name}, the official one, by patient; validate is val.")


def _mimic_long_tailed(root: Path, draft: Draft) -> pd.DataFrame:
    """Return the images of the long-tailed benchmark."""
    table, notes = read_lt(lt_tables(root, _MIMIC_LT), "dicom_id", MIMIC_LT_CLASSES)
    draft.notes.append(
        "Images: the tables of MIMIC-CXR-LT, which lie in the folder (take them away to read all of MIMIC-CXR). "
        "Label: the one class. Group: subject_id, the patient."
    )
    draft.notes += notes
    if len(table) != MIMIC_PAPER_IMAGES:
        draft.notes.append(f"{len(table):,} images are listed; paper 004 says {MIMIC_PAPER_IMAGES:,}.")
    return table


def _mimic_placed(files: OfficialFiles, table: pd.DataFrame, ids: list[str]) -> list[str | None]:
    """Return the file of each image by its official path ``p10/p10000032/s50414267/<id>``, JPEG before DICOM.

    Raises:
        InputError: A table's study or patient differs from that of the file's folder.
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
            (f for f in by_name.get(image, []) if f"/{f}".endswith(f"/{below}{f.rsplit('/', 1)[-1]}")), key=_dicom_last
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


def _dicom_last(file: str) -> tuple[bool, str]:
    return file.lower().endswith((".dcm", ".dicom")), file


MIMIC_CXR = PublishedSet(
    name="mimic-cxr",
    expected="mimic-cxr-2.0.0-metadata.csv or .csv.gz",
    group_from="column subject_id",
    group_fallback="get the tables anew",
    holds=_mimic_holds,
    rows=_mimic_cxr,
    kind=None,
)
