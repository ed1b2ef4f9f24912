"""NIH-CXR-LT (Holste et al. 2022): ChestX-ray14's images with 20 single labels, long-tailed, and its own split.

``nih-cxr-lt_single-label_train.csv``, ``_balanced-val.csv``, ``_balanced-test.csv`` and ``_test.csv`` (also in
``LongTailCXR/``) beside ChestX-ray14's images (``images/`` or ``images_001/images/`` to ``images_012/images/``). Paper
004, table 1. Group: the patient, the first part of the file's name (``00000001_000.png``).
"""

import re
from pathlib import Path

import pandas as pd

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
)
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError

CLASSES = (
    *("No Finding", "Infiltration", "Atelectasis", "Effusion", "Nodule", "Mass", "Pneumothorax", "Consolidation"),
    *("Pleural_Thickening", "Cardiomegaly", "Fibrosis", "Edema", "Tortuous Aorta", "Emphysema", "Pneumonia"),
    *("Calcification of the Aorta", "Pneumoperitoneum", "Hernia", "Subcutaneous Emphysema", "Pneumomediastinum"),
)
PAPER_IMAGES = 84_158  # paper 004, table 1
_NAME = re.compile(r"([0-9]{8})_[0-9]{3,}(\.[A-Za-z]+)?")
_FIRST = "nih-cxr-lt_single-label_train.csv"


def load_nih_cxr_lt(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of NIH-CXR-LT.

    Args:
        folder: The folder with the tables (or with ``LongTailCXR``) and the images, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the table's id, ``label`` the one class, ``group`` the patient's number, ``split`` the
        benchmark's; ``part`` names the tables that list the image.

    Raises:
        InputError: A table or images are missing, a row has not one class, or a name has no patient.
    """
    notes: list[str] = []
    root = find_root(folder, "nih-cxr-lt", lambda place: "train" in lt_tables(place, "nih-cxr-lt"), _FIRST, notes)
    draft = Draft(table=pd.DataFrame(), root=root, name="nih-cxr-lt", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "patient in the file names", "get the tables anew"
    table, said = read_lt(lt_tables(root, "nih-cxr-lt"), "id", CLASSES)
    ids = column_texts(table, "id")
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(ids, draft.name)
    files.skip_others(draft, "the tables", ids, placed)
    columns = {"image": ids, "path": placed, "label": table["label"].tolist(), "group": _patients(ids)}
    columns |= {"split": table["split"].tolist(), "dataset": [draft.name] * len(ids)}
    draft_table(draft, columns, table.drop(columns=["id", "label", "split"]))
    leave_out_missing(draft, options)
    draft.notes.append("Label: the one class of the tables. Group: the patient, the first part of the file's name.")
    draft.notes += said
    if len(draft.table) != PAPER_IMAGES:
        draft.notes.append(f"{len(draft.table):,} images are here; paper 004 says {PAPER_IMAGES:,}.")
    note_skipped(draft)
    return finish(draft, options)


def _patients(ids: list[str]) -> list[str]:
    """The patient's number of each image, without the zeros before it, as ChestX-ray14's own table has it.

    Raises:
        InputError: A name is not PATIENT_NUMBER.
    """
    found = [_NAME.fullmatch(image) for image in ids]
    strange = [image for image, m in zip(ids, found, strict=True) if m is None]
    if strange:
        raise InputError(
            f"nih-cxr-lt: {len(strange):,} ids have no patient in them ({listed(strange, 3)}); official ones are such "
            "as 00000001_000.png"
        )
    return [str(int(m.group(1))) for m in found if m is not None]
