"""ChestX-ray14 (Wang et al. 2017) as published: chest radiographs, 14 findings, many images of one patient.

``Data_Entry_2017.csv`` or ``Data_Entry_2017_v2020.csv``; ``images_001/images/`` to ``images_012/images/`` (or one
folder) with ``00000001_000.png``; ``train_val_list.txt`` and ``test_list.txt``. METHODS section 1: "No Finding" goes
out, then the first-listed finding (``--head first``), *then* a stratified 50,000 (``--sample 50000``); all findings
are kept here, joined by ``|``, for ``--head multi``.
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
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish
from memorisk.runs.errors import InputError, one_line

NO_FINDING = "No Finding"
FINDINGS = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis", "Hernia"),
    *("Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax"),
)
_TABLES = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")
_LISTS = {"train_val_list.txt": "train", "test_list.txt": "test"}
_USED = ("Image Index", "Finding Labels", "Patient ID")


def load_chestxray14(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of ChestX-ray14 without the images of "No Finding".

    Args:
        folder: The folder with the table of findings, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the Image Index, ``label`` the findings joined by ``|`` as listed, ``group`` the Patient ID,
        ``split`` the official one where both lists are there; the other columns of the table are kept.

    Raises:
        InputError: The table or images are missing, or a finding is unknown.
    """
    notes: list[str] = []
    root = find_root(folder, "chestxray14", lambda place: _table(place) is not None, "Data_Entry_2017.csv", notes)
    path = _table(root)
    assert path is not None
    table = read_columns(path, _USED)
    draft = Draft(table=pd.DataFrame(), root=root, name="chestxray14", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "column Patient ID", "get the table anew"
    ids, labels = column_texts(table, "Image Index"), column_texts(table, "Finding Labels")
    check_labels(labels, (*FINDINGS, NO_FINDING), path.name)
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(ids, draft.name)
    files.skip_others(draft, path.name, ids, placed)
    columns = {"image": ids, "path": placed, "label": labels, "group": column_texts(table, "Patient ID")}
    splits = _splits(root, draft, ids)
    columns |= {"dataset": [draft.name] * len(ids)} | ({"split": splits} if splits else {})
    draft_table(draft, columns, table.drop(columns=list(_USED)))
    leave_out(draft, [label != NO_FINDING for label in labels], NO_FINDING)
    if draft.table.empty:
        raise InputError(f"{draft.name}: every image of {path.name} is labelled {NO_FINDING!r}, which is left out")
    leave_out_missing(draft, options)
    _note_rules(draft, path.name)
    note_skipped(draft)
    return finish(draft, options)


def _table(folder: Path) -> Path | None:
    return next((folder / name for name in _TABLES if (folder / name).is_file()), None)


def _splits(root: Path, draft: Draft, ids: list[str]) -> list[str]:
    """The official split of each image, empty where it is in neither list; [] where a list is absent.

    Raises:
        InputError: An image is in both lists, or a list cannot be read.
    """
    if not all((root / name).is_file() for name in _LISTS):
        draft.notes.append(f"No official split: {' and '.join(_LISTS)} are not both in the folder.")
        return []
    of_image: dict[str, str] = {}
    for name, split in _LISTS.items():
        try:
            lines = (root / name).read_text(encoding="utf-8-sig").split()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}: cannot be read ({one_line(error, 120)})") from None
        for image in lines:
            if of_image.setdefault(image, split) != split:
                raise InputError(f"{draft.name}: {one_line(image)} is in both {' and '.join(_LISTS)}; get them anew")
    draft.notes.append("Split: train_val_list.txt is train, test_list.txt is test; the official split, by patient.")
    return [of_image.get(image, "") for image in ids]


def _note_rules(draft: Draft, table: str) -> None:
    """Say what the labels and groups are, and what "first-listed" means in this table."""
    several = [label.split("|") for label in draft.table["label"].tolist() if "|" in label]
    draft.notes.append(
        f"Label: Finding Labels of {table} without {NO_FINDING!r}, as listed, joined by | ({len(several):,} images "
        "have several): --head first takes the first, --head multi all. Group: Patient ID."
    )
    if several and all(findings == sorted(findings) for findings in several):
        draft.notes.append("Findings are listed in the order of the alphabet: the first-listed is not the main one.")
