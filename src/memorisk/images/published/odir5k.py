"""ODIR-5K (Peking University 2019): colour fundus images of both eyes of a patient, 8 classes.

Two tables are read. Per eye: Kaggle's ``full_df.csv`` with ``preprocessed_images/`` (``ID``, ``labels`` as
``['N']``, ``filename``). Per patient: the official annotation saved as CSV (``ID``, ``Left-Fundus``,
``Right-Fundus``, ``N`` to ``O``) with ``Training Images/``; its labels are the patient's, so both eyes have them. The
official file is an Excel sheet, which is not read: it must be saved as CSV. Group: the patient.
"""

import re
from pathlib import Path

import pandas as pd

from memorisk.images.columns import label_values, read_described
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.paths import plain_stem
from memorisk.images.published.layout import (
    OfficialFiles,
    column_texts,
    draft_table,
    find_root,
    leave_out_missing,
    note_skipped,
)
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line

CLASSES = {
    **{"N": "Normal", "D": "Diabetes", "G": "Glaucoma", "C": "Cataract"},
    **{"A": "AMD", "H": "Hypertension", "M": "Myopia", "O": "Other"},
}
PAPER_IMAGES = 6_720  # what the paper's 1,008 canaries imply (METHODS section 1)
_PER_EYE = ("ID", "filename", "labels")
_PER_PATIENT = ("ID", "Left-Fundus", "Right-Fundus", *CLASSES)
_EXPECTED = "full_df.csv, or the annotation sheet saved as CSV"


def load_odir5k(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of ODIR-5K.

    Args:
        folder: The folder with ``full_df.csv`` or the annotation as CSV, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the file's name without suffix, ``label`` as in ``CLASSES`` (several joined by ``|`` in the order
        N D G C A H M O), ``group`` the patient's ID; the other columns of the table are kept.

    Raises:
        InputError: No such table (an Excel sheet is named with the way out), images are missing, or a label is unknown.
    """
    notes: list[str] = []
    try:
        root = find_root(folder, "odir5k", lambda place: bool(_tables(place)), _EXPECTED, notes)
    except InputError as error:
        raise _about_excel(folder) or error from None
    path = _tables(root)[0]
    if len(_tables(root)) > 1 and path.name != "full_df.csv":
        raise InputError(f"odir5k: several tables of images ({listed([p.name for p in _tables(root)])}); keep one")
    draft = Draft(table=pd.DataFrame(), root=root, name="odir5k", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "column ID", "get the table anew"
    table = read_described(path)
    per_eye = set(_PER_EYE) <= set(table.columns)
    table, labels = _eyes(table, path.name) if per_eye else _patients(table, path.name)
    names = column_texts(table, "filename")
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(names, draft.name, prefer="preprocessed_images" if per_eye else "Training Images")
    files.skip_others(draft, path.name, names, placed)
    columns = {"image": [plain_stem(n) for n in names], "path": placed, "label": labels}
    columns |= {"group": column_texts(table, "ID"), "dataset": [draft.name] * len(names)}
    draft_table(draft, columns, table.drop(columns=["ID", "filename"]))
    leave_out_missing(draft, options)
    rule = "labels, one for each eye" if per_eye else "N to O, the patient's, which both eyes share"
    draft.notes.append(f"Label: {rule} ({path.name}). Group: ID, the patient.")
    if len(draft.table) != PAPER_IMAGES:
        draft.notes.append(
            f"{len(draft.table):,} images are here; the paper's 1,008 canaries imply {PAPER_IMAGES:,}, which is no "
            "release's number (7,000 of 3,500 patients; 6,392 in full_df.csv)."
        )
    note_skipped(draft)
    return finish(draft, options)


def _tables(folder: Path) -> list[Path]:
    """The CSV files of a folder that have the columns of either form, full_df.csv first."""
    try:
        found = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".csv" and p.is_file())
    except OSError:
        return []
    fit = [p for p in found if any(set(form) <= _header(p) for form in (_PER_EYE, _PER_PATIENT))]
    return sorted(fit, key=lambda p: (p.name != "full_df.csv", p.name))


def _header(path: Path) -> set[str]:
    """The columns of a CSV by its first line, none where it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            line = file.readline()
    except OSError:
        return set()
    return {name.strip('"') for name in line.rstrip("\r\n").split(max(",;\t", key=line.count))}


def _about_excel(folder: Path) -> InputError | None:
    """The way out where the annotation is there as an Excel sheet alone."""
    sheets = [p for pattern in ("*.xlsx", "*/*.xlsx", "*/*/*.xlsx") for p in sorted(folder.glob(pattern))]
    if not sheets:
        return None
    return InputError(
        f"odir5k: {one_line(sheets[0])} is an Excel sheet, which is not read; save it as CSV (UTF-8) beside it, with "
        "its columns ID, Left-Fundus, Right-Fundus and N to O"
    )


def _eyes(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows and labels of the table per eye.

    Raises:
        InputError: A label is not a list of the eight letters.
    """
    values = column_texts(table, "labels")
    for row, value in enumerate(values):
        if not re.fullmatch(r"\['[NDGCAHMO]'(, *'[NDGCAHMO]')*\]", value):
            raise InputError(
                f"{one_line(source)}: labels of row {row + 1} is {one_line(value, 60)!r}; official are lists such as "
                f"['N'] of {', '.join(CLASSES)}"
            )
    return table, [_named(re.findall("[A-Z]", value)) for value in values]


def _patients(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """A row an eye and its label from the table per patient.

    Raises:
        InputError: A class column holds something other than 0 and 1, or a patient has no class.
    """
    labels = [_named(value.split("|")) for value in label_values(table, ",".join(CLASSES), source)]
    without = [i for i, label in zip(column_texts(table, "ID"), labels, strict=True) if not label]
    if without:
        raise InputError(
            f"{one_line(source)}: {len(without):,} patients have no class ({listed(without)}); mend the table"
        )
    sides = [table.assign(filename=table[f"{side}-Fundus"], eye=side.lower()) for side in ("Left", "Right")]
    both = pd.concat(sides, keys=range(2)).swaplevel().sort_index(kind="stable")  # left, right of each patient
    return both.reset_index(drop=True), [label for label in labels for _ in sides]


def _named(letters: list[str]) -> str:
    """Class names of letters, in the order N D G C A H M O."""
    return "|".join(name for letter, name in CLASSES.items() if letter in letters)
