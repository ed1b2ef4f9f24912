"""ODIR-5K (Peking University 2019): colour fundus images of both eyes of a patient, 8 classes.

Two tables are read. Per eye: Kaggle's ``full_df.csv`` with ``preprocessed_images/`` (``ID``, ``labels`` as ``['N']``,
``filename``). Per patient: the official annotation saved as CSV (``ID``, ``Left-Fundus``, ``Right-Fundus``, ``N`` to
``O``) with ``Training Images/``; its labels are the patient's, so both eyes have them. The official file is an Excel
sheet, which is not read: it must be saved as CSV. Several labels are joined by ``|`` in the order N D G C A H M O.
Group: the patient.
"""

import re
from pathlib import Path

import pandas as pd

from memorisk.images.columns import label_values, read_described
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.files import plain_stem
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import OfficialFiles, PublishedSet, Rows, column_texts
from memorisk.runs.errors import InputError, listed, one_line

ODIR5K_CLASSES = {
    **{"N": "Normal", "D": "Diabetes", "G": "Glaucoma", "C": "Cataract"},
    **{"A": "AMD", "H": "Hypertension", "M": "Myopia", "O": "Other"},
}
_ODIR5K_PER_EYE = ("ID", "filename", "labels")
_ODIR5K_PER_PATIENT = ("ID", "Left-Fundus", "Right-Fundus", *ODIR5K_CLASSES)


def _odir5k(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the rows of either table, one per eye.

    Raises:
        InputError: The folder has several tables, or a label is unknown.
    """
    tables = _odir5k_tables(root)
    path = tables[0]
    if len(tables) > 1 and path.name != "full_df.csv":
        raise InputError(f"odir5k: several tables of images ({listed([p.name for p in tables])}); keep one")
    table = read_described(path)
    per_eye = set(_ODIR5K_PER_EYE) <= set(table.columns)
    table, labels = _odir5k_rows_of_eyes(table, path.name) if per_eye else _odir5k_rows_of_patients(table, path.name)
    names = column_texts(table, "filename")
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(names, draft.name, prefer="preprocessed_images" if per_eye else "Training Images")
    files.skip_others(draft, path.name, names, placed)
    rows = Rows([plain_stem(n) for n in names], path.name, labels, column_texts(table, "ID"), placed=placed)
    rows.extra = table.drop(columns=["ID", "filename"])
    rule = "labels, one for each eye" if per_eye else "N to O, the patient's, which both eyes share"
    rows.notes = [f"Label: {rule} ({path.name}). Group: ID, the patient."]
    return rows


def _odir5k_tables(folder: Path) -> list[Path]:
    """Return the CSV files of a folder that have the columns of either form, full_df.csv first."""
    try:
        tables = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".csv" and p.is_file())
    except OSError:
        return []
    fit = [p for p in tables if any(set(form) <= _csv_header(p) for form in (_ODIR5K_PER_EYE, _ODIR5K_PER_PATIENT))]
    return sorted(fit, key=lambda p: (p.name != "full_df.csv", p.name))


def _csv_header(path: Path) -> set[str]:
    """Return the columns of a CSV by its first line; empty where it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            line = file.readline()
    except OSError:
        return set()
    return {name.strip('"') for name in line.rstrip("\r\n").split(max(",;\t", key=line.count))}


def _refuse_excel(folder: Path) -> None:
    """Refuse an annotation that exists only as an Excel sheet, and name the remedy.

    Raises:
        InputError: The folder has only an Excel sheet.
    """
    sheets = [p for pattern in ("*.xlsx", "*/*.xlsx", "*/*/*.xlsx") for p in sorted(folder.glob(pattern))]
    if sheets:
        raise InputError(
            f"odir5k: {one_line(sheets[0])} is an Excel sheet, which is not read; save it as CSV (UTF-8) next to it, "
            "with its columns ID, Left-Fundus, Right-Fundus and N to O"
        ) from None


def _odir5k_rows_of_eyes(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows and labels of the table per eye.

    Raises:
        InputError: A label is not a list of the eight letters.
    """
    values = column_texts(table, "labels")
    for row, value in enumerate(values):
        if not re.fullmatch(r"\['[NDGCAHMO]'(, *'[NDGCAHMO]')*\]", value):
            raise InputError(
                f"{one_line(source)}: labels of row {row + 1} is {one_line(value, 60)!r}; official are lists such as "
                f"['N'] of {', '.join(ODIR5K_CLASSES)}"
            )
    return table, [_odir5k_label(re.findall("[A-Z]", value)) for value in values]


def _odir5k_rows_of_patients(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per eye, with its label, from the table per patient.

    Raises:
        InputError: A class column holds something other than 0 and 1, or a patient has no class.
    """
    labels = [_odir5k_label(value.split("|")) for value in label_values(table, ",".join(ODIR5K_CLASSES), source)]
    without = [i for i, label in zip(column_texts(table, "ID"), labels, strict=True) if not label]
    if without:
        raise InputError(
            f"{one_line(source)}: {len(without):,} patients have no class ({listed(without)}); mend the table"
        )
    sides = [table.assign(filename=table[f"{side}-Fundus"], eye=side.lower()) for side in ("Left", "Right")]
    both = pd.concat(sides, keys=range(2)).swaplevel().sort_index(kind="stable")  # left, right of each patient
    return both.reset_index(drop=True), [label for label in labels for _ in sides]


def _odir5k_label(letters: list[str]) -> str:
    """Return the class names of letters, in the order N D G C A H M O."""
    return "|".join(name for letter, name in ODIR5K_CLASSES.items() if letter in letters)


ODIR5K = PublishedSet(
    name="odir5k",
    expected="full_df.csv, or the annotation sheet saved as CSV",
    group_from="column ID",
    group_fallback="get the table anew",
    holds=lambda folder: bool(_odir5k_tables(folder)),
    refuse=_refuse_excel,
    rows=_odir5k,
    n_images=6_720,  # number implied by the paper's 1,008 canaries (METHODS section 1)
    count_note="the paper's 1,008 canaries imply {n:,}, which is not the number of any release (7,000 of 3,500 "
    "patients; 6,392 in full_df.csv)",
)
