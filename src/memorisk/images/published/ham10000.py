"""HAM10000 (Tschandl et al. 2018) as published: dermatoscopic images, 7 classes, several images of one lesion.

``HAM10000_metadata.csv`` (also without suffix, or ``.tab``), ``HAM10000_images_part_1/`` and ``_part_2/`` with
``ISIC_*.jpg``. Label: ``dx``. Group: ``lesion_id``; who the patient is was not published.
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
    leave_out_missing,
    note_count,
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish

CLASSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
N_IMAGES = 10_015
_TABLES = ("HAM10000_metadata.csv", "HAM10000_metadata", "HAM10000_metadata.tab")


def load_ham10000(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of HAM10000.

    Args:
        folder: The folder with the metadata table, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the ISIC id, ``label`` dx, ``group`` lesion_id; the other columns of the table are kept.

    Raises:
        InputError: The table or images are missing, or a label is unknown.
    """
    notes: list[str] = []
    root = find_root(folder, "ham10000", lambda place: _table(place) is not None, "HAM10000_metadata.csv", notes)
    path = _table(root)
    assert path is not None
    table = read_columns(path, ("image_id", "lesion_id", "dx"))
    draft = Draft(table=pd.DataFrame(), root=root, name="ham10000", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "column lesion_id", "get the metadata table anew"
    ids, labels = column_texts(table, "image_id"), column_texts(table, "dx")
    check_labels(labels, CLASSES, path.name)
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(ids, draft.name, prefer="HAM10000_images_part_*")
    files.skip_others(draft, path.name, ids, placed)
    columns = {"image": ids, "path": placed, "label": labels, "group": column_texts(table, "lesion_id")}
    draft_table(
        draft, {**columns, "dataset": [draft.name] * len(ids)}, table.drop(columns=["image_id", "lesion_id", "dx"])
    )
    leave_out_missing(draft, options)
    draft.notes.append(f"Label: dx of {path.name}. Group: lesion_id; the patients are not published.")
    note_count(draft, N_IMAGES)
    note_skipped(draft)
    return finish(draft, options)


def _table(folder: Path) -> Path | None:
    return next((folder / name for name in _TABLES if (folder / name).is_file()), None)
